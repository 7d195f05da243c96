"""Brokers and controllers make themselves known, say how they are, and leave.

A controller normally learns by heartbeats that a broker is gone. A node that holds the lock of its data directory needs
none: no other process can be the broker that is registered there, so its own controller replaces that registration at
once, unfenced, and gives it the lead of its partitions with the same decision.
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.controller.directories import lose
from barnabas.core.controller.liveness import TopicRules, leave_isr
from barnabas.core.controller.registration import registration_record
from barnabas.core.metadata.state import NO_LEADER, BrokerState, MetadataImage, PartitionState
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from barnabas.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from barnabas.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from barnabas.wire.records import metadata as wire
from barnabas.wire.schema import Record

FENCE = 1


def registered(image: MetadataImage, broker_id: int, broker_epoch: int) -> BrokerState:
    broker = image.brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"Broker {broker_id} is not registered in epoch {broker_epoch}.")
    return broker


def register_controller(request: ControllerRegistrationRequest) -> ControllerDecision[ControllerRegistrationResponse]:
    record = wire.RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=request.zk_migration_ready,
        end_points=[
            wire.ControllerEndpoint(
                name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol
            )
            for each in request.listeners
        ],
        features=[
            wire.ControllerFeature(
                name=each.name,
                min_supported_version=each.min_supported_version,
                max_supported_version=each.max_supported_version,
            )
            for each in request.features
        ],
    )
    return ControllerDecision([record], ControllerRegistrationResponse(error_message=None))


def register_broker(
    image: MetadataImage, request: BrokerRegistrationRequest
) -> ControllerDecision[BrokerRegistrationResponse]:
    """Of the node that has the controller in it. The epoch is the offset that the registration will have."""
    broker_epoch = image.offset + 1
    record = registration_record(request, broker_epoch, fenced=False)
    records = [record, *lead_partitions(image, request.broker_id)]
    return ControllerDecision(records, BrokerRegistrationResponse(broker_epoch=broker_epoch), is_atomic=False)


def heartbeat(
    image: MetadataImage, request: BrokerHeartbeatRequest, rules: TopicRules
) -> ControllerDecision[BrokerHeartbeatResponse]:
    broker = registered(image, request.broker_id, request.broker_epoch)
    records: list[Record] = []
    for directory in request.offline_log_dirs:
        records += lose(image, broker.id, directory).records
    if request.want_shut_down:
        records += leave(image, broker.id, rules)
    response = BrokerHeartbeatResponse(
        is_caught_up=True, is_fenced=broker.fenced, should_shut_down=request.want_shut_down
    )
    return ControllerDecision(records, response, is_atomic=False)


def lead_partitions(image: MetadataImage, node_id: int) -> Iterator[Record]:
    """A new leader epoch for each partition that this node leads, and the lead of those it may lead that have none."""
    for topic in image.topics.values():
        for partition in topic.partitions.values():
            if partition.leader in (node_id, NO_LEADER) and (change := _lead(partition, node_id)):
                yield change


def _lead(partition: PartitionState, node_id: int) -> Record | None:
    change = wire.PartitionChangeRecord(topic_id=partition.topic_id, partition_id=partition.index, leader=node_id)
    if node_id not in partition.isr:
        only = not partition.isr and partition.replicas == [node_id]
        if not only and node_id not in partition.eligible_leader_replicas + partition.last_known_elr:
            return None
        change.isr = [node_id]
    if partition.eligible_leader_replicas:
        change.eligible_leader_replicas = [each for each in partition.eligible_leader_replicas if each != node_id]
    if partition.last_known_elr:
        change.last_known_elr = []
    return change


def leave(image: MetadataImage, node_id: int, rules: TopicRules) -> list[Record]:
    """A clean stop: its partitions have no leader, it is fenced. Whoever starts on the directory need not wait for
    the registration to time out."""
    broker = image.brokers.get(node_id)
    if broker is None or broker.fenced:
        return []
    return [
        wire.BrokerRegistrationChangeRecord(broker_id=node_id, broker_epoch=broker.epoch, in_controlled_shutdown=1),
        *leave_isr(image, node_id, rules),
        wire.BrokerRegistrationChangeRecord(broker_id=node_id, broker_epoch=broker.epoch, fenced=FENCE),
    ]
