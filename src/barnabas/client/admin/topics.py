"""Topics as an administrator sees and changes them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.admin.refusals import check
from barnabas.client.errors import UnsupportedByBroker
from barnabas.wire.uuids import Uuid

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

TIMEOUT_MS = 30_000


class PartitionDescription(NamedTuple):
    number: int
    leader: int
    replicas: list[int]
    isr: list[int]
    elr: list[int] | None  # None where the broker does not tell
    last_known_elr: list[int] | None


class TopicDescription(NamedTuple):
    name: str
    topic_id: Uuid
    is_internal: bool
    partitions: list[PartitionDescription]


def describe_topics(cluster: Cluster, names: Iterable[str], page: int = 2000) -> list[TopicDescription]:
    """In the order of their names. Raises Refused for one that is not there."""
    wanted = sorted(names)
    try:
        return list(_by_page(cluster, wanted, page)) if wanted else []
    except UnsupportedByBroker:
        return list(_from_metadata(cluster, wanted))


def _by_page(cluster: Cluster, names: list[str], page: int) -> Iterator[TopicDescription]:
    from barnabas.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest

    found: dict[str, TopicDescription] = {}
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names], response_partition_limit=page
    )
    while True:
        answer = cluster.ask(request)
        for topic in answer.topics:
            check(topic.error_code, None if topic.error_code != 3 else f"Topic '{topic.name}' does not exist.")
            entry = found.setdefault(topic.name, TopicDescription(topic.name, topic.topic_id, topic.is_internal, []))
            entry.partitions.extend(
                PartitionDescription(
                    each.partition_index,
                    each.leader_id,
                    each.replica_nodes,
                    each.isr_nodes,
                    each.eligible_leader_replicas or [],
                    each.last_known_elr or [],
                )
                for each in topic.partitions
            )
        if answer.next_cursor is None:
            break
        request.cursor = answer.next_cursor
        request.topics = [topic for topic in request.topics if topic.name >= answer.next_cursor.topic_name]
    for topic in found.values():
        topic.partitions.sort()
        yield topic


def _from_metadata(cluster: Cluster, names: list[str]) -> Iterator[TopicDescription]:
    for topic in cluster.metadata(names).topics.values():
        check(topic.error, None if topic.error != 3 else f"Topic '{topic.name}' does not exist.")
        partitions = [
            PartitionDescription(index, each.leader, list(each.replicas), list(each.isr), None, None)
            for index, each in sorted(topic.partitions.items())
        ]
        yield TopicDescription(topic.name, topic.topic_id, topic.is_internal, partitions)


def create_topic(
    cluster: Cluster,
    name: str,
    *,
    partitions: int | None = None,
    replication_factor: int | None = None,
    assignments: Iterable[Collection[int]] = (),
    configs: Mapping[str, str] | None = None,
    validate_only: bool = False,
) -> None:
    """With the cluster's defaults for what is None. `assignments` has the brokers of each partition's replicas."""
    from barnabas.wire.messages.create_topics import (
        CreatableReplicaAssignment,
        CreatableTopic,
        CreatableTopicConfig,
        CreateTopicsRequest,
    )

    topic = CreatableTopic(
        name=name,
        num_partitions=-1 if partitions is None else partitions,
        replication_factor=-1 if replication_factor is None else replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in enumerate(assignments)
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS, validate_only=validate_only)
    (made,) = cluster.ask_controller(request).topics
    check(made.error_code, made.error_message)


def create_partitions(cluster: Cluster, count: int, assignments: Mapping[str, list[list[int]] | None]) -> None:
    """So many for each of the topics; `assignments` has the brokers of the new ones, or None for any."""
    from barnabas.wire.messages.create_partitions import (
        CreatePartitionsAssignment,
        CreatePartitionsRequest,
        CreatePartitionsTopic,
    )

    topics = [
        CreatePartitionsTopic(
            name=name,
            count=count,
            assignments=None if fresh is None else [CreatePartitionsAssignment(broker_ids=each) for each in fresh],
        )
        for name, fresh in assignments.items()
    ]
    if topics:
        answer = cluster.ask_controller(CreatePartitionsRequest(topics=topics, timeout_ms=TIMEOUT_MS))
        for result in answer.results:
            check(result.error_code, result.error_message)


def delete_topics(cluster: Cluster, names: Iterable[str]) -> None:
    from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

    listed = list(names)
    if not listed:
        return
    # Versions up to 5 take names, later ones names or ids.
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in listed], topic_names=listed, timeout_ms=TIMEOUT_MS
    )
    for result in cluster.ask_controller(request).responses:
        check(result.error_code, result.error_message)


def delete_records(cluster: Cluster, topic: str, partition: int, before: int) -> int:
    """The new start of the log; -1 for `before` is everything that is committed."""
    from barnabas.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic

    partitions = [DeleteRecordsPartition(partition_index=partition, offset=before)]
    topics = [DeleteRecordsTopic(name=topic, partitions=partitions)]
    answer = cluster.ask_leader(topic, partition, DeleteRecordsRequest(topics=topics, timeout_ms=TIMEOUT_MS))
    (result,) = answer.topics[0].partitions
    check(result.error_code)
    return int(result.low_watermark)
