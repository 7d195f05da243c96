"""What a cluster says of itself: brokers, topics, leaders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.errors import known_code
from barnabas.wire.errors import ErrorCode
from barnabas.wire.uuids import Uuid

if TYPE_CHECKING:
    from barnabas.wire.messages.metadata import MetadataResponse, MetadataResponseTopic

TopicPartition = tuple[str, int]  # topic and index
NO_LEADER = -1


def partition_name(partition: TopicPartition) -> str:
    """orders-3, as Kafka writes it everywhere."""
    return f"{partition[0]}-{partition[1]}"


class BrokerNode(NamedTuple):
    id: int
    host: str
    port: int
    rack: str | None = None


class PartitionMetadata(NamedTuple):
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


class TopicMetadata(NamedTuple):
    name: str
    topic_id: Uuid
    error: ErrorCode
    is_internal: bool
    partitions: Mapping[int, PartitionMetadata]


class ClusterMetadata(NamedTuple):
    cluster_id: str | None
    controller_id: int
    brokers: Mapping[int, BrokerNode]
    topics: Mapping[str, TopicMetadata]


class OffsetAt(NamedTuple):
    """`offset` and `timestamp` are -1 where no record is late enough."""

    offset: int
    timestamp: int
    leader_epoch: int


def metadata_from(answer: MetadataResponse) -> ClusterMetadata:
    return ClusterMetadata(
        cluster_id=answer.cluster_id,
        controller_id=answer.controller_id,
        brokers={
            broker.node_id: BrokerNode(broker.node_id, broker.host, broker.port, broker.rack)
            for broker in answer.brokers
        },
        topics={topic.name: _topic(topic) for topic in answer.topics if topic.name is not None},
    )


def _topic(topic: MetadataResponseTopic) -> TopicMetadata:
    partitions = {
        partition.partition_index: PartitionMetadata(
            leader=partition.leader_id,
            leader_epoch=partition.leader_epoch,
            replicas=tuple(partition.replica_nodes),
            isr=tuple(partition.isr_nodes),
            offline=tuple(partition.offline_replicas),
        )
        for partition in topic.partitions
    }
    return TopicMetadata(
        topic.name or "",
        topic.topic_id,
        known_code(topic.error_code),
        topic.is_internal,
        dict(sorted(partitions.items())),
    )
