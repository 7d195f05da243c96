"""Brokers that come, stay silent, and leave: exact records, as Kafka's controller would write them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.core.controller.liveness import Sessions, TopicRules, heartbeat, stop_uncleanly
from barnabas.core.metadata.state import MetadataImage
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from barnabas.wire.records.metadata import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
)
from barnabas.wire.schema import Record
from barnabas.wire.uuids import Uuid

Cluster = Callable[..., MetadataImage]
RULES = TopicRules(min_insync_replicas=lambda topic: 2, unclean_election=lambda topic: False)
UNCLEAN = TopicRules(min_insync_replicas=lambda topic: 2, unclean_election=lambda topic: True)
TOPIC = Uuid((1).to_bytes(16, "big"))


def sessions_of(image: MetadataImage, now_ms: int = 0) -> Sessions:
    return Sessions.begin(image, 9000, now_ms)


def beat(
    image: MetadataImage, broker: int, sessions: Sessions, *, now_ms: int = 1, rules: TopicRules = RULES, **said: object
) -> tuple[list[Record], BrokerHeartbeatResponse]:
    fields = {"broker_id": broker, "broker_epoch": broker, "current_metadata_offset": 100} | said
    decision = heartbeat(image, BrokerHeartbeatRequest(**fields), sessions, rules, now_ms)
    records = list(decision.records)
    image.replay_all(records)
    image.offset += len(records)
    return records, decision.response


def changed(broker: int, **fields: int) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker, broker_epoch=broker, **fields)


def test_a_fenced_broker_that_has_caught_up_is_unfenced_and_leads_what_nobody_leads(cluster: Cluster) -> None:
    image = cluster([1, 2], fenced=[2], topics={"t": [[2], [1, 2]]})
    image.replay(PartitionChangeRecord(topic_id=TOPIC, partition_id=0, leader=-1))
    records, response = beat(image, 2, sessions_of(image))
    assert records == [changed(2, fenced=-1), PartitionChangeRecord(topic_id=TOPIC, partition_id=0, leader=2)]
    assert (response.is_caught_up, response.is_fenced, response.should_shut_down) == (True, False, False)


def test_a_broker_that_has_not_applied_its_registration_stays_fenced(cluster: Cluster) -> None:
    image = cluster([1, 2], fenced=[2])
    sessions = sessions_of(image)
    sessions.register(2, 2, offset=50)
    records, response = beat(image, 2, sessions, current_metadata_offset=49)
    assert (records, response.is_caught_up, response.is_fenced) == ([], False, True)


def test_a_broker_that_is_silent_for_its_session_is_found(cluster: Cluster) -> None:
    image = cluster([1, 2, 3], fenced=[3])
    sessions = sessions_of(image)
    beat(image, 1, sessions, now_ms=5000)
    assert sessions.expired(image, 8999) == []
    assert sessions.expired(image, 9000) == [2]
    assert sessions.expired(image, 14_000) == [1, 2]


def test_a_broker_that_leaves_hands_its_partitions_over_first(cluster: Cluster) -> None:
    image = cluster([1, 2, 3], topics={"t": [[1, 2, 3], [2, 1, 3]]})
    sessions = sessions_of(image)
    for other in (2, 3):
        beat(image, other, sessions)
    records, response = beat(image, 1, sessions, want_shut_down=True)
    assert records == [
        changed(1, in_controlled_shutdown=1),
        PartitionChangeRecord(topic_id=TOPIC, partition_id=0, leader=2, isr=[2, 3]),
        PartitionChangeRecord(topic_id=TOPIC, partition_id=1, isr=[2, 3]),
    ]
    assert (response.is_fenced, response.should_shut_down) == (False, False)
    image.offset = 200
    sessions.by_broker[1].shutdown_offset = 150
    assert beat(image, 1, sessions, want_shut_down=True)[1].should_shut_down is False
    for other in (2, 3):
        beat(image, other, sessions, current_metadata_offset=150)
    records, response = beat(image, 1, sessions, want_shut_down=True)
    assert records == [changed(1, fenced=1)]
    assert (response.is_fenced, response.should_shut_down) == (True, True)


def test_a_broker_that_leads_again_while_it_leaves_hands_over_again(cluster: Cluster) -> None:
    """It is fenced as it leaves; a heartbeat of before, which others have overtaken, then has it back in service."""
    image = cluster([1, 2], topics={"t": [[1]]})
    sessions = sessions_of(image)
    beat(image, 1, sessions, want_shut_down=True)
    beat(image, 2, sessions, current_metadata_offset=image.offset)
    assert beat(image, 1, sessions, want_shut_down=True)[1].should_shut_down
    overtaken, _ = beat(image, 1, sessions)
    assert overtaken == [changed(1, fenced=-1), PartitionChangeRecord(topic_id=TOPIC, partition_id=0, leader=1)]
    assert beat(image, 1, sessions)[0] == []
    records, response = beat(image, 1, sessions, want_shut_down=True)
    assert records == [PartitionChangeRecord(topic_id=TOPIC, partition_id=0, leader=-1)]
    assert response.should_shut_down is False
    beat(image, 2, sessions, current_metadata_offset=image.offset)
    assert beat(image, 1, sessions, want_shut_down=True)[1].should_shut_down


def test_the_last_replica_in_sync_keeps_its_place_without_eligible_leaders(cluster: Cluster) -> None:
    image = cluster([1], topics={"t": [[1]]})
    records, _ = beat(image, 1, sessions_of(image), want_fence=True)
    assert records == [PartitionChangeRecord(topic_id=TOPIC, partition_id=0, leader=-1), changed(1, fenced=1)]
    assert image.topics["t"].partitions[0].isr == [1]


def test_whoever_stopped_uncleanly_is_no_eligible_leader(cluster: Cluster) -> None:
    image = cluster([1, 2], topics={"t": [[1, 2]]})
    image.replay(FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1))
    (record,) = stop_uncleanly(image, 1, RULES)
    assert record == PartitionChangeRecord(topic_id=TOPIC, partition_id=0, leader=2, isr=[2])
    image.replay(record)
    (record,) = stop_uncleanly(image, 2, RULES)
    assert record == PartitionChangeRecord(topic_id=TOPIC, partition_id=0, leader=-1, isr=[], last_known_elr=[2])


def test_who_stops_in_order_stays_eligible_below_the_minimum(cluster: Cluster) -> None:
    image = cluster([1, 2], topics={"t": [[1, 2]]})
    image.replay(FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1))
    records, _ = beat(image, 1, sessions_of(image), want_fence=True)
    assert records[0] == PartitionChangeRecord(
        topic_id=TOPIC, partition_id=0, leader=2, isr=[2], eligible_leader_replicas=[1]
    )


def test_an_unclean_leader_is_chosen_only_where_the_topic_allows_it(cluster: Cluster) -> None:
    image = cluster([1, 2], topics={"t": [[1, 2]]})
    image.replay(PartitionChangeRecord(topic_id=TOPIC, partition_id=0, isr=[1]))
    kept = image.copy()
    assert beat(kept, 1, sessions_of(kept), want_fence=True)[0][0] == PartitionChangeRecord(
        topic_id=TOPIC, partition_id=0, leader=-1
    )
    assert beat(image, 1, sessions_of(image), rules=UNCLEAN, want_fence=True)[0][0] == PartitionChangeRecord(
        topic_id=TOPIC, partition_id=0, leader=2, isr=[2], leader_recovery_state=1
    )


def test_a_lost_directory_takes_its_partitions_from_the_broker(cluster: Cluster) -> None:
    image = cluster([1, 2], topics={"t": [[1, 2]]}, log_dirs=2)
    first, second = image.brokers[1].log_dirs
    records, _ = beat(image, 1, sessions_of(image), offline_log_dirs=[first])
    assert records == [
        PartitionChangeRecord(topic_id=TOPIC, partition_id=0, leader=2, isr=[2]),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, log_dirs=[second]),
    ]
    assert beat(image, 1, sessions_of(image), offline_log_dirs=[first])[0] == []


def test_a_heartbeat_in_another_epoch_is_refused(cluster: Cluster) -> None:
    image = cluster([1])
    for said in ({"broker_epoch": 7}, {"broker_id": 9}):
        with pytest.raises(KafkaError) as refused:
            beat(image, 1, sessions_of(image), **said)
        assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_a_fenced_broker_may_go_at_once(cluster: Cluster) -> None:
    image = cluster([1, 2], fenced=[2])
    records, response = beat(image, 2, sessions_of(image), want_shut_down=True)
    assert records == [changed(2, fenced=1)]  # one more record, as the reference writes it
    assert response.should_shut_down
