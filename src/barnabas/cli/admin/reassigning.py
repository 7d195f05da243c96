"""Moves of replicas between brokers and log directories: files, questions and orders of kafka-reassign-partitions."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.cli.admin.descriptions import BROKER, TOPIC, require_broker
from barnabas.cli.admin.partition_files import entries, field, read_json
from barnabas.cli.errors import ToolFailed
from barnabas.cli.refusals import check, words
from barnabas.wire.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

ANY_DIRECTORY = "any"
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


def read_assignment(path: str) -> tuple[list[tuple[Partition, list[int]]], Directories]:
    content: Any = _checked(read_json(path))
    listed: list[tuple[Partition, list[int]]] = []
    directories: Directories = {}
    for entry in entries(content, "partitions", path):
        partition = field(entry, "topic", str, path), field(entry, "partition", int, path)
        replicas = field(entry, "replicas", list, path)
        if not all(type(broker) is int for broker in replicas):
            raise ToolFailed(f"The replicas of {named(partition)} in {path} are not brokers' ids: {replicas}")
        log_dirs = entry.get("log_dirs") or [ANY_DIRECTORY] * len(replicas)
        if not isinstance(log_dirs, list) or not all(isinstance(each, str) for each in log_dirs):
            raise ToolFailed(f"The log_dirs of {named(partition)} in {path} are not names of directories: {log_dirs}")
        if len(log_dirs) != len(replicas):
            raise ToolFailed(
                f"Size of replicas list {replicas} is different from size of log dirs list {log_dirs} for partition "
                f"{named(partition)}"
            )
        listed.append((partition, replicas))
        for broker, directory in zip(replicas, log_dirs, strict=True):
            if directory != ANY_DIRECTORY:
                directories[(*partition, broker)] = directory
    return listed, directories


def read_topics(path: str) -> list[str]:
    content: Any = _checked(read_json(path))
    topics = [field(entry, "topic", str, path) for entry in entries(content, "topics", path)]
    if twice := sorted({topic for topic in topics if topics.count(topic) > 1}):
        raise ToolFailed(f"List of topics to reassign contains duplicate entries: [{', '.join(twice)}]")
    return topics


def _checked(content: Any) -> Any:
    if not isinstance(content, dict):
        raise ToolFailed("The input string is not a valid JSON")
    if content.get("version", 1) != 1:
        raise ToolFailed(f"Not supported version field value {content['version']}")
    return content


def check_assignment(listed: list[tuple[Partition, list[int]]]) -> Assignment:
    if not listed:
        raise ToolFailed("Partition reassignment list cannot be empty")
    if any(not replicas for _, replicas in listed):
        raise ToolFailed("Partition replica list cannot be empty")
    partitions = [partition for partition, _ in listed]
    if twice := sorted({partition for partition in partitions if partitions.count(partition) > 1}):
        raise ToolFailed(f"Partition reassignment contains duplicate topic partitions: {','.join(map(named, twice))}")
    repeated = {
        partition: sorted({broker for broker in replicas if replicas.count(broker) > 1})
        for partition, replicas in listed
    }
    if wrong := {partition: brokers for partition, brokers in repeated.items() if brokers}:
        told = ". ".join(
            f"{named(partition)} contains multiple entries for {','.join(map(str, brokers))}"
            for partition, brokers in wrong.items()
        )
        raise ToolFailed(f"Partition replica lists may not contain duplicate entries: {told}")
    return dict(listed)


def as_json(assignment: Assignment, directories: Mapping[Replica, str | None]) -> str:
    partitions = [
        {
            "topic": partition[0],
            "partition": partition[1],
            "replicas": replicas,
            "log_dirs": [directories.get((*partition, broker)) or ANY_DIRECTORY for broker in replicas],
        }
        for partition, replicas in sorted(assignment.items())
    ]
    return json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":"))


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


def alter_configs(cluster: Cluster, kind: int, changes: Mapping[str, Mapping[str, str | None]]) -> None:
    """None deletes."""
    from barnabas.wire.messages.incremental_alter_configs import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )

    for name, configs in changes.items():
        if kind == BROKER:
            require_broker(cluster, int(name))
        operations = [
            AlterableConfig(name=key, config_operation=1 if value is None else 0, value=value)
            for key, value in configs.items()
        ]
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=operations)
        request = IncrementalAlterConfigsRequest(resources=[resource])
        answer = cluster.ask_node(int(name), request) if kind == BROKER else cluster.ask_controller(request)
        for response in answer.responses:
            check(response.error_code, response.error_message)


def clear_throttles(cluster: Cluster, listed: list[tuple[Partition, list[int]]]) -> None:
    brokers = sorted({*cluster.metadata([]).brokers, *(broker for _, replicas in listed for broker in replicas)})
    print(f"Clearing broker-level throttles on broker{'' if len(brokers) == 1 else 's'} {','.join(map(str, brokers))}")
    alter_configs(cluster, BROKER, {str(broker): dict.fromkeys(BROKER_THROTTLES) for broker in brokers})
    topics = sorted({topic for (topic, _), _ in listed})
    print(f"Clearing topic-level throttles on topic{'' if len(topics) == 1 else 's'} {','.join(topics)}")
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
