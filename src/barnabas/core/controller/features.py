"""UpdateFeatures: raising and lowering the levels that a cluster has finalized.

We know the levels 25 to 30 of metadata.version and write the records of each (`core/metadata/records.py`), so all of
them may be set. Levels that do not change how records look may be left again downwards; 30 does (brokers tell which
directories are cordoned off), so there is no way back from it. A feature exists here when its APIs do: until then a
request to raise it is refused, whatever a Kafka of the same release would say. kraft.version is the quorum's own
matter: the quorum raises it if all voters are ready for it, and it never goes down.

Eligible leader replicas need one `min.insync.replicas` that holds on all nodes. So with the feature the cluster gets
one of its own, if it has none, and single brokers lose theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Protocol

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.metadata.decide import min_insync_record
from barnabas.core.metadata.records import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
)
from barnabas.core.metadata.state import BROKER_RESOURCE, MetadataImage
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from barnabas.wire.records.metadata import ConfigRecord, FeatureLevelRecord, NoOpRecord
from barnabas.wire.schema import Record

LEVELS_OF_NEW_METADATA = (30,)
PER_FEATURE_VERSION_MAX = 1
NOT_SUPPORTED = (0, 0)


class UpgradeQuorum(Protocol):
    def __call__(self, level: int, *, validate_only: bool) -> None:
        """Raises the kraft.version; a KafkaError INVALID_UPDATE_VERSION says why it cannot be raised."""
        ...


class UpgradeType(IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def update_features(
    image: MetadataImage,
    request: UpdateFeaturesRequest,
    version: int,
    *,
    supported: Mapping[str, tuple[int, int]] = SUPPORTED_FEATURES,
    upgrade_quorum: UpgradeQuorum | None = None,
    min_insync_replicas: int = 1,
) -> ControllerDecision[UpdateFeaturesResponse]:
    """All updates or none: the first that cannot be made refuses the whole request.

    `min_insync_replicas` is what the controller's node is configured with.
    """
    updates = {update.feature: update for update in request.feature_updates}
    records: list[Record] = []
    for update in updates.values():
        try:
            records += _update(image, update, supported, upgrade_quorum)
        except KafkaError as error:
            message = f"No feature was updated: {update.feature} cannot be {update.max_version_level}. {error.message}"
            return ControllerDecision([], UpdateFeaturesResponse(error_code=error.code, error_message=message))
    raised = updates.get(KRAFT_VERSION)
    if upgrade_quorum is not None and raised is not None and not request.validate_only:
        upgrade_quorum(raised.max_version_level, validate_only=False)
    tracked = updates.get(ELIGIBLE_LEADER_REPLICAS_VERSION)
    if tracked is not None and tracked.max_version_level > 0:
        records = [*_agree_on_min_insync(image, min_insync_replicas), *records]
    response = UpdateFeaturesResponse(error_message=None)
    if version <= PER_FEATURE_VERSION_MAX:
        response.results = [UpdatableFeatureResult(feature=name, error_message="NONE") for name in updates]
    return ControllerDecision([] if request.validate_only else records, response)


def _update(
    image: MetadataImage,
    update: FeatureUpdateKey,
    supported: Mapping[str, tuple[int, int]],
    upgrade_quorum: UpgradeQuorum | None,
) -> list[Record]:
    kind = _upgrade_type(update)
    name, level, current = update.feature, update.max_version_level, image.features.get(update.feature, 0)
    _check_supported(image, name, level, supported)
    if level < current and kind is UpgradeType.UPGRADE:
        raise _invalid(f"It is {current}, and lowering it must be asked for as a downgrade.")
    if level > current and kind is not UpgradeType.UPGRADE:
        raise _invalid(f"It is {current}, which a downgrade cannot raise.")
    if level == current:
        return []
    if name == KRAFT_VERSION:
        if upgrade_quorum is None or level < current:
            raise _invalid(f"It is {current} and cannot be changed.")
        upgrade_quorum(level, validate_only=True)
        return [NoOpRecord()]  # Who waits for it waits for the quorum's own record before it.
    if name == METADATA_VERSION and any(level < changed <= current for changed in LEVELS_OF_NEW_METADATA):
        raise _invalid(f"It is {current}, and what was written since could not be read at {level}.")
    return [FeatureLevelRecord(name=name, feature_level=level)]


def _agree_on_min_insync(image: MetadataImage, replicas: int) -> list[Record]:
    record = min_insync_record(replicas)
    agreed: list[Record] = []
    if record.name not in image.configs.get((BROKER_RESOURCE, ""), {}):
        agreed.append(record)
    for (kind, name), configs in image.configs.items():
        if kind == BROKER_RESOURCE and name and record.name in configs:
            agreed.append(ConfigRecord(resource_type=kind, resource_name=name, name=record.name, value=None))
    return agreed


def _upgrade_type(update: FeatureUpdateKey) -> UpgradeType:
    if update.allow_downgrade:
        return UpgradeType.SAFE_DOWNGRADE
    try:
        return UpgradeType(update.upgrade_type)
    except ValueError:
        raise _invalid(f"The upgrade type {update.upgrade_type} is unknown.") from None


def _check_supported(image: MetadataImage, name: str, level: int, supported: Mapping[str, tuple[int, int]]) -> None:
    if level < 0:
        raise _invalid("A level is not negative.")
    if name not in supported:
        raise _invalid("This node does not know the feature.")
    low, high = supported[name]
    if not low <= level <= high:
        raise _invalid(f"This node supports {low} to {high}.")
    if name == KRAFT_VERSION:
        return
    for kind, nodes in (("Broker", image.brokers), ("Controller", image.controllers)):
        for node in nodes.values():
            low, high = node.features.get(name, NOT_SUPPORTED)
            if not low <= level <= high:
                raise _invalid(f"{kind} {node.id} supports {low} to {high}.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, message)
