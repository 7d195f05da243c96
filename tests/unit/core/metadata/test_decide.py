"""What a node decides about itself at its start and its stop."""

from __future__ import annotations

import pytest

from barnabas.core.metadata import decide
from barnabas.core.metadata.records import SUPPORTED_FEATURES
from barnabas.core.metadata.state import Endpoint, MetadataImage
from barnabas.wire.records import metadata as wire
from barnabas.wire.uuids import Uuid

TOPIC = Uuid(b"t" * 16)
LEVEL = wire.FeatureLevelRecord(name="metadata.version", feature_level=25)


def image_with(**partition: object) -> MetadataImage:
    image = MetadataImage()
    image.replay(LEVEL)
    image.replay(wire.TopicRecord(name="t", topic_id=TOPIC))
    image.replay(wire.PartitionRecord(topic_id=TOPIC, partition_id=0, **partition))  # type: ignore[arg-type]
    return image


def test_an_empty_log_begins_with_the_bootstrap_records_in_a_transaction() -> None:
    assert decide.bootstrap(MetadataImage(), [LEVEL]) == [
        wire.BeginTransactionRecord(name="Bootstrap records"),
        LEVEL,
        wire.EndTransactionRecord(),
    ]


def test_a_log_with_a_level_is_left_as_it_is() -> None:
    image = MetadataImage()
    image.replay(LEVEL)
    assert decide.bootstrap(image, [LEVEL]) == []


def test_a_transaction_that_a_crash_left_open_is_aborted_first() -> None:
    image = MetadataImage()
    image.replay(wire.BeginTransactionRecord())
    image.replay(LEVEL)
    records = decide.bootstrap(image, [LEVEL])
    assert [type(record) for record in records] == [
        wire.AbortTransactionRecord,
        wire.BeginTransactionRecord,
        wire.FeatureLevelRecord,
        wire.EndTransactionRecord,
    ]
    image.replay_all(records)
    assert image.features == {"metadata.version": 25}


def test_a_registration_is_unfenced_and_its_epoch_is_its_offset() -> None:
    image, directory = MetadataImage(), Uuid(b"d" * 16)
    endpoint = Endpoint("PLAINTEXT", "localhost", 9092, 0)
    image.replay(decide.register_broker(1, TOPIC, 42, [endpoint], SUPPORTED_FEATURES, [directory], "rack-a"))
    image.replay(decide.register_controller(1, TOPIC, [Endpoint("CONTROLLER", "localhost", 9093)], SUPPORTED_FEATURES))
    broker = image.brokers[1]
    assert (broker.epoch, broker.fenced, broker.rack, broker.log_dirs) == (42, False, "rack-a", [directory])
    assert broker.endpoints == {"PLAINTEXT": endpoint}
    assert broker.features == dict(SUPPORTED_FEATURES)
    assert image.controllers[1].endpoints["CONTROLLER"].port == 9093


@pytest.mark.parametrize("leader", [1, -1])
def test_a_partition_that_it_led_gets_a_new_leader_epoch(leader: int) -> None:
    image = image_with(replicas=[1], isr=[1], leader=leader, leader_epoch=3, partition_epoch=5)
    changes = list(decide.lead_partitions(image, 1))
    assert changes == [wire.PartitionChangeRecord(topic_id=TOPIC, partition_id=0, leader=1)]
    image.replay_all(changes)
    partition = image.topics["t"].partitions[0]
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (1, 4, 6)


def test_an_eligible_leader_takes_a_partition_without_in_sync_replicas() -> None:
    image = image_with(replicas=[1, 2], isr=[], leader=-1, eligible_leader_replicas=[1, 2], last_known_elr=[1])
    assert list(decide.lead_partitions(image, 1)) == [
        wire.PartitionChangeRecord(
            topic_id=TOPIC, partition_id=0, leader=1, isr=[1], eligible_leader_replicas=[2], last_known_elr=[]
        )
    ]


@pytest.mark.parametrize("fields", [{"last_known_elr": [1]}, {}])
def test_the_last_known_or_only_replica_takes_its_partition_back(fields: dict[str, list[int]]) -> None:
    image = image_with(replicas=[1], isr=[], leader=-1, **fields)
    image.replay_all(list(decide.lead_partitions(image, 1)))
    partition = image.topics["t"].partitions[0]
    assert (partition.leader, partition.isr, partition.last_known_elr) == (1, [1], [])


@pytest.mark.parametrize(
    ("leader", "isr"),
    [(2, [1, 2]), (-1, [2])],
)
def test_a_partition_that_another_leads_or_alone_may_lead_is_left_alone(leader: int, isr: list[int]) -> None:
    image = image_with(replicas=[1, 2], isr=isr, leader=leader)
    assert list(decide.lead_partitions(image, 1)) == []


def test_leaving_gives_up_the_lead_and_fences_and_the_next_start_takes_both_back() -> None:
    image = image_with(replicas=[1], isr=[1], leader=1, leader_epoch=3, partition_epoch=5)
    image.replay(decide.register_broker(1, TOPIC, 42, [], {}, [], None))
    records = decide.leave(image, 1)
    assert records == [
        wire.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=42, in_controlled_shutdown=1),
        wire.PartitionChangeRecord(topic_id=TOPIC, partition_id=0, leader=-1),
        wire.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=42, fenced=1),
    ]
    image.replay_all(records)
    assert (image.brokers[1].fenced, image.topics["t"].partitions[0].leader) == (True, -1)
    assert decide.leave(image, 1) == []
    image.replay(decide.register_broker(1, TOPIC, 50, [], {}, [], None))
    image.replay_all(list(decide.lead_partitions(image, 1)))
    assert (image.brokers[1].fenced, image.topics["t"].partitions[0].leader_epoch) == (False, 5)


def test_producer_ids_come_in_blocks_of_a_thousand_from_zero() -> None:
    image = MetadataImage()
    for expected in (range(0, 1000), range(1000, 2000)):
        decision = decide.allocate_producer_ids(image, broker_id=1, broker_epoch=7)
        assert decision.response == expected
        assert decision.records == [wire.ProducerIdsRecord(broker_id=1, broker_epoch=7, next_producer_id=expected.stop)]
        image.replay_all(decision.records)
