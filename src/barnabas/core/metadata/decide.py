"""What a node decides about itself: its first records, its registration, which partitions it leads, its leaving.

A controller normally learns of a broker by heartbeats. A node that holds the lock of its data directory needs none:
no other process can be the broker that is registered there, so it replaces that registration at once, unfenced, and
takes the lead of its partitions in the same batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from barnabas.core.decision import Decision
from barnabas.core.metadata.records import FINALIZED_FEATURES, LEVEL_WRITTEN, METADATA_VERSION
from barnabas.core.metadata.state import NO_LEADER, Endpoint, MetadataImage, PartitionState
from barnabas.wire.records import metadata as wire
from barnabas.wire.schema import Record
from barnabas.wire.uuids import Uuid

PRODUCER_ID_BLOCK_SIZE = 1000
FENCE = 1


def bootstrap_records() -> list[Record]:
    """What a directory that we format begins with: the level, and the features whose APIs exist."""
    levels = {METADATA_VERSION: LEVEL_WRITTEN, **FINALIZED_FEATURES}
    return [wire.FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items()]


def raise_features(image: MetadataImage) -> list[Record]:
    """Features that came to exist after this cluster was made; one that was lowered to a level of its own stays."""
    return [
        wire.FeatureLevelRecord(name=name, feature_level=level)
        for name, level in FINALIZED_FEATURES.items()
        if name not in image.features
    ]


def bootstrap(image: MetadataImage, records: Sequence[Record]) -> list[Record]:
    """The records that an empty log begins with, and the end of a transaction that a crash left open."""
    open_ended = [wire.AbortTransactionRecord(reason="Controller failover")] if image.transaction is not None else []
    if METADATA_VERSION in image.features:
        return [*open_ended]
    begin = wire.BeginTransactionRecord(name="Bootstrap records")
    return [*open_ended, begin, *records, wire.EndTransactionRecord()]


def register_controller(
    node_id: int, incarnation_id: Uuid, endpoints: Sequence[Endpoint], features: Mapping[str, tuple[int, int]]
) -> Record:
    return wire.RegisterControllerRecord(
        controller_id=node_id,
        incarnation_id=incarnation_id,
        end_points=[
            wire.ControllerEndpoint(
                name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol
            )
            for each in endpoints
        ],
        features=[
            wire.ControllerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in sorted(features.items())
        ],
    )


def register_broker(
    node_id: int,
    incarnation_id: Uuid,
    epoch: int,
    endpoints: Sequence[Endpoint],
    features: Mapping[str, tuple[int, int]],
    log_dirs: Sequence[Uuid],
    rack: str | None,
) -> Record:
    """`epoch` is the offset that this very record will have."""
    return wire.RegisterBrokerRecord(
        broker_id=node_id,
        incarnation_id=incarnation_id,
        broker_epoch=epoch,
        end_points=[
            wire.BrokerEndpoint(
                name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol
            )
            for each in endpoints
        ],
        features=[
            wire.BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in sorted(features.items())
        ],
        rack=rack,
        fenced=False,
        log_dirs=list(log_dirs),
    )


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


def leave(image: MetadataImage, node_id: int) -> list[Record]:
    """A clean stop: its partitions have no leader, it is fenced. Whoever starts on the directory need not wait for
    the registration to time out."""
    broker = image.brokers.get(node_id)
    if broker is None or broker.fenced:
        return []
    led = [each for topic in image.topics.values() for each in topic.partitions.values() if each.leader == node_id]
    return [
        wire.BrokerRegistrationChangeRecord(broker_id=node_id, broker_epoch=broker.epoch, in_controlled_shutdown=1),
        *(
            wire.PartitionChangeRecord(topic_id=each.topic_id, partition_id=each.index, leader=NO_LEADER)
            for each in led
        ),
        wire.BrokerRegistrationChangeRecord(broker_id=node_id, broker_epoch=broker.epoch, fenced=FENCE),
    ]


def allocate_producer_ids(image: MetadataImage, broker_id: int, broker_epoch: int) -> Decision[range]:
    first = max(image.next_producer_id, 0)
    block = range(first, first + PRODUCER_ID_BLOCK_SIZE)
    record = wire.ProducerIdsRecord(broker_id=broker_id, broker_epoch=broker_epoch, next_producer_id=block.stop)
    return Decision([record], block)
