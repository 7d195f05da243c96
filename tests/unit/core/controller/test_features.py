from collections.abc import Callable

import pytest

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.controller.features import update_features
from barnabas.core.metadata.state import MetadataImage
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from barnabas.wire.records.metadata import BrokerFeature, ConfigRecord, FeatureLevelRecord, RegisterBrokerRecord
from barnabas.wire.records.raft import KRaftVersionRecord

Cluster = Callable[..., MetadataImage]
UPGRADE, SAFE, UNSAFE = 1, 2, 3


def to(level: int, kind: int = UPGRADE, feature: str = "metadata.version") -> FeatureUpdateKey:
    return FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind)


def update(
    image: MetadataImage, *updates: FeatureUpdateKey, version: int = 1, validate_only: bool = False
) -> ControllerDecision[UpdateFeaturesResponse]:
    request = UpdateFeaturesRequest(feature_updates=list(updates), validate_only=validate_only)
    return update_features(image, request, version)


def test_a_level_is_raised(cluster: Cluster) -> None:
    decision = update(cluster(level=25), to(30))
    assert decision.records == [FeatureLevelRecord(name="metadata.version", feature_level=30)]
    assert decision.response == UpdateFeaturesResponse(
        error_message=None, results=[UpdatableFeatureResult(feature="metadata.version", error_message="NONE")]
    )


def test_version_2_says_nothing_per_feature(cluster: Cluster) -> None:
    assert update(cluster(), to(26), version=2).response.results == []


def test_only_validating_writes_nothing(cluster: Cluster) -> None:
    decision = update(cluster(), to(26), validate_only=True)
    assert (decision.records, decision.response.error_code) == ([], 0)


@pytest.mark.parametrize("kind", [UPGRADE, SAFE, UNSAFE])
def test_the_same_level_again_is_no_change(cluster: Cluster, kind: int) -> None:
    decision = update(cluster(level=27), to(27, kind))
    assert (decision.records, decision.response.error_code) == ([], 0)


@pytest.mark.parametrize("kind", [SAFE, UNSAFE])
def test_levels_that_look_alike_may_be_left_downwards(cluster: Cluster, kind: int) -> None:
    decision = update(cluster(level=29), to(25, kind))
    assert decision.records == [FeatureLevelRecord(name="metadata.version", feature_level=25)]


def test_version_0_asks_for_a_downgrade_by_a_flag(cluster: Cluster) -> None:
    asked = FeatureUpdateKey(feature="metadata.version", max_version_level=26, allow_downgrade=True)
    decision = update(cluster(level=28), asked, version=0)
    assert decision.records == [FeatureLevelRecord(name="metadata.version", feature_level=26)]


@pytest.mark.parametrize(
    ("level", "asked"),
    [
        (25, to(31)),
        (25, to(24, SAFE)),
        (25, to(7, UNSAFE)),
        (25, to(0, SAFE)),
        (25, to(-1, SAFE)),
        (28, to(27)),
        (25, to(26, SAFE)),
        (30, to(29, SAFE)),
        (30, to(29, UNSAFE)),
        (25, to(26, 0)),
        (25, to(26, 9)),
        (25, to(1, feature="nope")),
        (25, to(0, feature="nope")),
        (25, to(1, feature="group.version")),
        (25, to(1, feature="")),
    ],
)
def test_what_cannot_be_is_refused(cluster: Cluster, level: int, asked: FeatureUpdateKey) -> None:
    decision = update(cluster(level=level), to(level), asked)
    assert decision.records == []
    assert decision.response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert decision.response.results == []
    assert decision.response.error_message


def test_one_bad_update_refuses_all(cluster: Cluster) -> None:
    decision = update(cluster(), to(30), to(1, feature="nope"))
    assert decision.records == []
    assert decision.response.error_code == ErrorCode.INVALID_UPDATE_VERSION


def test_the_quorum_version_is_confirmed_but_not_changed(cluster: Cluster) -> None:
    image = cluster()
    image.replay(KRaftVersionRecord(k_raft_version=1))
    assert update(image, to(1, feature="kraft.version")).response.error_code == ErrorCode.NONE
    for asked in (to(0, SAFE, "kraft.version"), to(2, feature="kraft.version")):
        assert update(image, asked).response.error_code == ErrorCode.INVALID_UPDATE_VERSION


def test_a_level_that_one_broker_does_not_know_is_refused(cluster: Cluster) -> None:
    image = cluster()
    old = BrokerFeature(name="metadata.version", min_supported_version=7, max_supported_version=27)
    image.replay(RegisterBrokerRecord(broker_id=2, features=[old]))
    assert update(image, to(27)).response.error_code == ErrorCode.NONE
    decision = update(image, to(28))
    assert decision.response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "Broker 2" in (decision.response.error_message or "")


def test_eligible_leaders_need_one_minimum_of_in_sync_replicas_for_the_cluster() -> None:
    image = MetadataImage()
    image.replay(FeatureLevelRecord(name="metadata.version", feature_level=30))
    image.configs[4, "7"] = {"min.insync.replicas": "3", "other": "1"}
    asked = UpdateFeaturesRequest(feature_updates=[to(1, feature="eligible.leader.replicas.version")])
    raised = FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1)
    removed = ConfigRecord(resource_type=4, resource_name="7", name="min.insync.replicas", value=None)
    agreed = ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="2")
    assert update_features(image, asked, 1, min_insync_replicas=2).records == [agreed, removed, raised]
    image.configs[4, ""] = {"min.insync.replicas": "1"}
    assert update_features(image, asked, 1, min_insync_replicas=2).records == [removed, raised]
    asked.validate_only = True
    assert update_features(image, asked, 1).records == []
