"""UpdateFeatures, versions 0 to 2: which level of each feature the cluster has finalized.

0 asks for a downgrade by a flag, 1 by the type of the upgrade, and brought validating only; 2 answers without results
per feature. Deviations from Kafka: features whose APIs do not exist here cannot be raised, and metadata.version begins
at 25.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.controller.features import update_features
from barnabas.core.raft import UpgradeRefused
from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from barnabas.wire.records.raft import KRaftVersionRecord

if TYPE_CHECKING:
    from barnabas.node.controller.cluster import Cluster


def decide(
    context: RequestContext, request: UpdateFeaturesRequest, cluster: Cluster
) -> ControllerDecision[UpdateFeaturesResponse]:
    context.authorize(Operation.ALTER, Resource.cluster())

    def upgrade_quorum(level: int, *, validate_only: bool) -> None:
        try:
            cluster.raft.upgrade(cluster.raft.epoch, level, validate_only=validate_only)
        except UpgradeRefused as refusal:
            raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"{refusal}.") from refusal
        if not validate_only:
            cluster.image.replay(KRaftVersionRecord(k_raft_version=level))

    return update_features(
        cluster.image,
        request,
        context.api_version,
        upgrade_quorum=upgrade_quorum,
        min_insync_replicas=cluster.config.min_insync_replicas,
    )
