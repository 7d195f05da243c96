"""Moves of replicas between brokers and log directories, and their throttles."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.admin.configs import BROKER, TOPIC, alter_configs
from barnabas.client.admin.refusals import check, words
from barnabas.wire.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

TIMEOUT_MS = 60_000
BROKER_THROTTLES = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)
TOPIC_THROTTLES = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")

Partition = tuple[str, int]
Assignment = dict[Partition, list[int]]
Replica = tuple[str, int, int]  # topic, partition, broker
Directories = dict[Replica, str]


class Ongoing(NamedTuple):
    replicas: list[int]
    adding: list[int]
    removing: list[int]


class Location(NamedTuple):
    current: str | None
    future: str | None


def named(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"


def ongoing(cluster: Cluster) -> dict[Partition, Ongoing]:
    from barnabas.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest

    answer = cluster.ask_controller(ListPartitionReassignmentsRequest(topics=None, timeout_ms=TIMEOUT_MS))
    check(answer.error_code, answer.error_message)
    return {
        (topic.name, each.partition_index): Ongoing(each.replicas, each.adding_replicas, each.removing_replicas)
        for topic in answer.topics
        for each in topic.partitions
    }


def order(
    cluster: Cluster, wanted: Mapping[Partition, list[int] | None], *, keep_factor: bool = False
) -> dict[Partition, str]:
    """Begins moves, or cancels those that are None; what cannot be is answered in words."""
    from barnabas.wire.messages.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        ReassignablePartition,
        ReassignableTopic,
    )

    topics: dict[str, ReassignableTopic] = {}
    for (topic, index), replicas in wanted.items():
        entry = topics.setdefault(topic, ReassignableTopic(name=topic))
        entry.partitions.append(ReassignablePartition(partition_index=index, replicas=replicas))
    request = AlterPartitionReassignmentsRequest(
        topics=list(topics.values()), timeout_ms=TIMEOUT_MS, allow_replication_factor_change=not keep_factor
    )
    answer = cluster.ask_controller(request)
    check(answer.error_code, answer.error_message)
    return {
        (topic.name, each.partition_index): words(each.error_code, each.error_message)
        for topic in answer.responses
        for each in topic.partitions
        if each.error_code
    }


def locations(cluster: Cluster, partitions: Collection[Partition], brokers: Iterable[int]) -> dict[Replica, Location]:
    """Where the replicas lie on the brokers that are there."""
    from barnabas.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest

    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    present = cluster.metadata([]).brokers
    found: dict[Replica, Location] = {}
    for broker in sorted(set(brokers) & set(present)):
        asked = [DescribableLogDirTopic(topic=topic, partitions=each) for topic, each in topics.items()]
        answer = cluster.ask_node(broker, DescribeLogDirsRequest(topics=asked))
        for result in answer.results:
            for topic_result in result.topics:
                for each in topic_result.partitions:
                    replica = (topic_result.name, each.partition_index, broker)
                    known = found.get(replica, Location(None, None))
                    found[replica] = (
                        known._replace(future=result.log_dir)
                        if each.is_future_key
                        else known._replace(current=result.log_dir)
                    )
    return found


def move_directories(cluster: Cluster, wanted: Directories) -> set[Replica]:
    """Those whose move has begun; a replica that is still on its way to its broker is not there yet."""
    from barnabas.wire.messages.alter_replica_log_dirs import (
        AlterReplicaLogDir,
        AlterReplicaLogDirsRequest,
        AlterReplicaLogDirTopic,
    )

    begun: set[Replica] = set()
    for broker in sorted({broker for _, _, broker in wanted}):
        dirs = [
            AlterReplicaLogDir(path=directory, topics=[AlterReplicaLogDirTopic(name=topic, partitions=[index])])
            for (topic, index, on), directory in wanted.items()
            if on == broker
        ]
        answer = cluster.ask_node(broker, AlterReplicaLogDirsRequest(dirs=dirs))
        for result in answer.results:
            for each in result.partitions:
                if not each.error_code:
                    begun.add((result.topic_name, each.partition_index, broker))
                elif each.error_code != ErrorCode.REPLICA_NOT_AVAILABLE:
                    check(each.error_code)
    return begun


def clear_broker_throttles(cluster: Cluster, brokers: Iterable[int]) -> None:
    alter_configs(cluster, BROKER, {str(broker): dict.fromkeys(BROKER_THROTTLES) for broker in brokers})


def clear_topic_throttles(cluster: Cluster, topics: Iterable[str]) -> None:
    alter_configs(cluster, TOPIC, {topic: dict.fromkeys(TOPIC_THROTTLES) for topic in topics})


def set_throttles(
    cluster: Cluster, proposed: Assignment, current: Assignment, moving: Mapping[Partition, Ongoing], rate: int
) -> None:
    """Leaders send, and followers that are new fetch, at the rate given."""
    leaders: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    brokers: set[int] = set()
    for partition, replicas in sorted(proposed.items()):
        topic, index = partition
        now = moving.get(partition)
        sources = [each for each in now.replicas if each not in now.adding] if now else current.get(partition, [])
        fresh = [each for each in replicas if each not in sources]
        leaders.setdefault(topic, []).extend(f"{index}:{broker}" for broker in sorted(sources))
        followers.setdefault(topic, []).extend(f"{index}:{broker}" for broker in sorted(fresh))
        brokers |= {*sources, *fresh}
    names = dict(zip(("leaders", "followers"), TOPIC_THROTTLES, strict=True))
    changes = {
        topic: {names["leaders"]: ",".join(leaders[topic]), names["followers"]: ",".join(followers[topic])}
        for topic in leaders
    }
    alter_configs(
        cluster, TOPIC, {topic: {key: value for key, value in each.items() if value} for topic, each in changes.items()}
    )
    rates = dict.fromkeys(BROKER_THROTTLES[:2], str(rate))
    alter_configs(cluster, BROKER, {str(broker): rates for broker in sorted(brokers)})
