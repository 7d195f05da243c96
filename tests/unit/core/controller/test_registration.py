"""Which broker may register, which takes another's place, and what is believed of the one that was there before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.core.controller.liveness import Sessions, TopicRules
from barnabas.core.controller.registration import register
from barnabas.core.metadata.state import MetadataImage
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.broker_registration import BrokerRegistrationRequest, Feature
from barnabas.wire.records.metadata import FeatureLevelRecord, PartitionChangeRecord, RegisterBrokerRecord
from barnabas.wire.schema import Record
from barnabas.wire.uuids import Uuid

Cluster = Callable[..., MetadataImage]
SESSION_MS, NOW_MS = 9_000, 100_000
RULES = TopicRules(min_insync_replicas=lambda topic: 2, unclean_election=lambda topic: False)
TOPIC = Uuid((1).to_bytes(16, "big"))


def directory(broker: int, number: int = 1) -> Uuid:
    return Uuid((broker * 1000 + number).to_bytes(16, "big"))


def sessions_of(image: MetadataImage, heard_at_ms: int = NOW_MS) -> Sessions:
    return Sessions.begin(image, SESSION_MS, heard_at_ms)


def registered(image: MetadataImage, broker: int, sessions: Sessions, **fields: Any) -> tuple[list[Record], int]:
    given: dict[str, Any] = {
        "cluster_id": "ours",
        "incarnation_id": Uuid.random(),
        "log_dirs": [Uuid.random()],
        "features": [Feature(name="metadata.version", min_supported_version=25, max_supported_version=30)],
    }
    request = BrokerRegistrationRequest(broker_id=broker, **given | fields)
    decision = register(image, request, sessions, RULES, cluster_id="ours", now_ms=NOW_MS)
    image.replay_all(list(decision.records))
    return list(decision.records), decision.response.broker_epoch


def test_a_new_broker_is_fenced_and_its_epoch_is_the_offset_of_its_registration(cluster: Cluster) -> None:
    image = cluster([1])
    records, epoch = registered(image, 2, sessions_of(image))
    (record,) = records
    assert isinstance(record, RegisterBrokerRecord)
    assert (record.broker_id, record.broker_epoch, record.fenced) == (2, epoch, True)


@pytest.mark.parametrize(
    ("fields", "error", "why"),
    [
        ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID, "Broker 3 is of cluster another."),
        ({"log_dirs": [directory(1)]}, ErrorCode.INVALID_REGISTRATION, "is registered for broker 1"),
        ({"log_dirs": []}, ErrorCode.INVALID_REGISTRATION, "names each of its log directories once"),
        ({"log_dirs": [directory(3), directory(3)]}, ErrorCode.INVALID_REGISTRATION, "each of its log directories"),
        ({"log_dirs": [Uuid((99).to_bytes(16, "big"))]}, ErrorCode.INVALID_REGISTRATION, "each of its log directories"),
        ({"features": []}, ErrorCode.INVALID_REGISTRATION, "does not name its metadata.version"),
        (
            {"features": [Feature(name="metadata.version", min_supported_version=26, max_supported_version=30)]},
            ErrorCode.UNSUPPORTED_VERSION,
            "supports metadata.version from 26 to 30, and the cluster has 25",
        ),
        ({"is_migrating_zk_broker": True}, ErrorCode.INVALID_REGISTRATION, "ZooKeeper"),
    ],
)
def test_who_is_refused_and_why(cluster: Cluster, fields: dict[str, Any], error: ErrorCode, why: str) -> None:
    image = cluster([1, 2])
    before = image.offset
    with pytest.raises(KafkaError, match=why) as refused:
        registered(image, 3, sessions_of(image), **fields)
    assert refused.value.code == error
    assert image.offset == before


def test_the_id_of_a_broker_that_is_heard_of_is_not_given_to_another(cluster: Cluster) -> None:
    image = cluster([1])
    with pytest.raises(KafkaError, match="Another process is broker 1") as refused:
        registered(image, 1, sessions_of(image))
    assert refused.value.code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    registered(image, 1, sessions_of(image, heard_at_ms=NOW_MS - SESSION_MS))
    assert image.brokers[1].fenced, "it is another process, and the session of the former is over"


def test_who_has_a_directory_of_the_former_process_does_not_wait_for_its_session(cluster: Cluster) -> None:
    image = cluster([1], log_dirs=2)
    registered(image, 1, sessions_of(image), log_dirs=[directory(1, 2)])
    assert image.brokers[1].log_dirs == [directory(1, 2)]


def test_the_same_request_twice_gives_the_same_epoch_and_changes_nothing_else(cluster: Cluster) -> None:
    image = cluster([1, 2], topics={"t": [[1, 2]]})
    sessions = sessions_of(image)
    again = {"incarnation_id": Uuid((1).to_bytes(16, "big")), "log_dirs": [directory(1)]}
    records, epoch = registered(image, 1, sessions, **again)
    assert epoch == 1
    assert [type(each) for each in records] == [RegisterBrokerRecord]
    assert (image.brokers[1].fenced, image.brokers[1].epoch) == (False, 1), "it stays in service"


@pytest.mark.parametrize(("previous", "eligible"), [(1, [1]), (-1, []), (0, [])])
def test_only_who_stopped_in_order_in_its_last_registration_stays_eligible(
    cluster: Cluster, previous: int, eligible: list[int]
) -> None:
    """The others may have lost the end of their logs, whatever a late copy of an older request says."""
    image = cluster([1, 2], topics={"t": [[1, 2]]})
    image.replay(FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1))
    image.replay(PartitionChangeRecord(topic_id=TOPIC, partition_id=0, isr=[1]))
    names = ("metadata.version", "eligible.leader.replicas.version")
    features = [Feature(name=name, min_supported_version=1, max_supported_version=30) for name in names]
    registered(
        image,
        1,
        sessions_of(image),
        log_dirs=[directory(1)],
        features=features,
        previous_broker_epoch=previous,
    )
    partition = image.topics["t"].partitions[0]
    assert (partition.isr, partition.eligible_leader_replicas, partition.leader) == ([], eligible, -1)


def test_without_eligible_leaders_the_last_in_sync_keeps_its_place(cluster: Cluster) -> None:
    image = cluster([1, 2], topics={"t": [[1, 2]]})
    image.replay(PartitionChangeRecord(topic_id=TOPIC, partition_id=0, isr=[1]))
    registered(image, 1, sessions_of(image), log_dirs=[directory(1)])
    partition = image.topics["t"].partitions[0]
    assert (partition.isr, partition.leader) == ([1], -1)
