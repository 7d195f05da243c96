"""Brokers and controllers register, send heartbeats, and leave."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.core.controller.brokers import heartbeat, lead_partitions, register_broker, register_controller
from barnabas.core.controller.liveness import TopicRules
from barnabas.core.metadata.state import Endpoint, MetadataImage
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages import broker_registration, controller_registration
from barnabas.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.wire.messages.broker_registration import BrokerRegistrationRequest
from barnabas.wire.messages.controller_registration import ControllerRegistrationRequest
from barnabas.wire.records import metadata as wire
from barnabas.wire.uuids import Uuid

TOPIC = Uuid(b"t" * 16)
RULES = TopicRules(min_insync_replicas=lambda topic: 1, unclean_election=lambda topic: False)
LEVEL = wire.FeatureLevelRecord(name="metadata.version", feature_level=25)


def image_with(**partition: object) -> MetadataImage:
    image = MetadataImage()
    image.replay(LEVEL)
    image.replay(wire.TopicRecord(name="t", topic_id=TOPIC))
    image.replay(wire.PartitionRecord(topic_id=TOPIC, partition_id=0, **partition))  # type: ignore[arg-type]
    return image


def registration(**fields: Any) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(**{"broker_id": 1, "incarnation_id": TOPIC, "rack": None, **fields})


def register(image: MetadataImage, at_offset: int, **fields: Any) -> int:
    image.offset = at_offset - 1
    decision = register_broker(image, registration(**fields))
    image.replay_all(decision.records)
    return decision.response.broker_epoch


def test_a_registration_is_unfenced_and_its_epoch_is_its_offset() -> None:
    image, directory = MetadataImage(), Uuid(b"d" * 16)
    listener = broker_registration.Listener(name="PLAINTEXT", host="localhost", port=9092)
    feature = broker_registration.Feature(name="group.version", min_supported_version=0, max_supported_version=1)
    epoch = register(image, 42, listeners=[listener], features=[feature], log_dirs=[directory], rack="rack-a")
    broker = image.brokers[1]
    assert (epoch, broker.epoch, broker.fenced, broker.rack, broker.log_dirs) == (42, 42, False, "rack-a", [directory])
    assert broker.endpoints == {"PLAINTEXT": Endpoint("PLAINTEXT", "localhost", 9092, 0)}
    assert broker.features == {"group.version": (0, 1)}


def test_a_controller_is_known_by_its_endpoints() -> None:
    image = MetadataImage()
    listener = controller_registration.Listener(name="CONTROLLER", host="localhost", port=9093)
    request = ControllerRegistrationRequest(controller_id=1, incarnation_id=TOPIC, listeners=[listener])
    image.replay_all(register_controller(request).records)
    assert image.controllers[1].endpoints["CONTROLLER"].port == 9093


def test_who_registers_leads_its_partitions_with_the_same_decision_which_may_be_split() -> None:
    image = image_with(replicas=[1], isr=[1], leader=1, leader_epoch=3, partition_epoch=5)
    decision = register_broker(image, registration())
    assert not decision.is_atomic
    assert decision.records[1:] == [wire.PartitionChangeRecord(topic_id=TOPIC, partition_id=0, leader=1)]


def test_a_heartbeat_of_another_epoch_is_stale() -> None:
    image = MetadataImage()
    register(image, 42)
    for request in (BrokerHeartbeatRequest(broker_id=1, broker_epoch=41), BrokerHeartbeatRequest(broker_id=2)):
        with pytest.raises(KafkaError) as caught:
            heartbeat(image, request, RULES)
        assert caught.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_a_heartbeat_tells_of_a_lost_directory() -> None:
    image, directories = MetadataImage(), [Uuid(b"1" * 16), Uuid(b"2" * 16)]
    register(image, 42, log_dirs=directories)
    lost = BrokerHeartbeatRequest(broker_id=1, broker_epoch=42, offline_log_dirs=directories[1:])
    decision = heartbeat(image, lost, RULES)
    assert decision.records == [
        wire.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=42, log_dirs=directories[:1])
    ]
    assert (decision.response.is_fenced, decision.response.should_shut_down) == (False, False)


@pytest.mark.parametrize("leader", [1, -1])
def test_a_partition_that_it_led_gets_a_new_leader_epoch(leader: int) -> None:
    image = image_with(replicas=[1], isr=[1], leader=leader, leader_epoch=3, partition_epoch=5)
    changes = list(lead_partitions(image, 1))
    assert changes == [wire.PartitionChangeRecord(topic_id=TOPIC, partition_id=0, leader=1)]
    image.replay_all(changes)
    partition = image.topics["t"].partitions[0]
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (1, 4, 6)


def test_an_eligible_leader_takes_a_partition_without_in_sync_replicas() -> None:
    image = image_with(replicas=[1, 2], isr=[], leader=-1, eligible_leader_replicas=[1, 2], last_known_elr=[1])
    assert list(lead_partitions(image, 1)) == [
        wire.PartitionChangeRecord(
            topic_id=TOPIC, partition_id=0, leader=1, isr=[1], eligible_leader_replicas=[2], last_known_elr=[]
        )
    ]


@pytest.mark.parametrize("fields", [{"last_known_elr": [1]}, {}])
def test_the_last_known_or_only_replica_takes_its_partition_back(fields: dict[str, list[int]]) -> None:
    image = image_with(replicas=[1], isr=[], leader=-1, **fields)
    image.replay_all(list(lead_partitions(image, 1)))
    partition = image.topics["t"].partitions[0]
    assert (partition.leader, partition.isr, partition.last_known_elr) == (1, [1], [])


@pytest.mark.parametrize(
    ("leader", "isr"),
    [(2, [1, 2]), (-1, [2])],
)
def test_a_partition_that_another_leads_or_alone_may_lead_is_left_alone(leader: int, isr: list[int]) -> None:
    image = image_with(replicas=[1, 2], isr=isr, leader=leader)
    assert list(lead_partitions(image, 1)) == []


def test_leaving_gives_up_the_lead_and_fences_and_the_next_start_takes_both_back() -> None:
    image = image_with(replicas=[1], isr=[1], leader=1, leader_epoch=3, partition_epoch=5)
    image.replay_all(register_broker(image, registration()).records[:1])
    epoch = image.brokers[1].epoch
    leaving = BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch, want_shut_down=True)
    decision = heartbeat(image, leaving, RULES)
    assert decision.records == [
        wire.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch, in_controlled_shutdown=1),
        wire.PartitionChangeRecord(topic_id=TOPIC, partition_id=0, leader=-1),
        wire.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch, fenced=1),
    ]
    assert decision.response.should_shut_down
    image.replay_all(decision.records)
    assert (image.brokers[1].fenced, image.topics["t"].partitions[0].leader) == (True, -1)
    assert heartbeat(image, leaving, RULES).records == []
    register(image, 50)
    assert (image.brokers[1].fenced, image.topics["t"].partitions[0].leader_epoch) == (False, 5)


def test_who_leaves_alone_is_the_eligible_leader_and_takes_its_partition_back() -> None:
    image = image_with(replicas=[1], isr=[1], leader=1, leader_epoch=3, partition_epoch=5)
    image.replay(wire.FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1))
    image.replay_all(register_broker(image, registration()).records[:1])
    leaving = BrokerHeartbeatRequest(broker_id=1, broker_epoch=image.brokers[1].epoch, want_shut_down=True)
    decision = heartbeat(image, leaving, RULES)
    assert decision.records[1] == wire.PartitionChangeRecord(
        topic_id=TOPIC, partition_id=0, leader=-1, isr=[], eligible_leader_replicas=[1], last_known_elr=[1]
    )
    image.replay_all(decision.records)
    register(image, 50)
    partition = image.topics["t"].partitions[0]
    assert (partition.leader, partition.isr) == (1, [1])
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([], [])
