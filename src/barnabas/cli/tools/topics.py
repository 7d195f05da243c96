"""`kafka-topics`: creates, lists, describes, alters and deletes topics.

What the cluster refuses is told on stdout, as Kafka's tool does.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from barnabas.cli.connect import CONNECTION, OUTPUT, connect, nearest, wants_json
from barnabas.cli.errors import ToolFailed, UsageError
from barnabas.cli.options import Parsed, Parser, option
from barnabas.cli.output import print_json
from barnabas.client.admin.configs import TOPIC, Config, describe_configs
from barnabas.client.admin.topics import (
    PartitionDescription,
    TopicDescription,
    create_partitions,
    create_topic,
    delete_topics,
    describe_topics,
)
from barnabas.client.errors import Refused, UnsupportedByBroker
from barnabas.wire.errors import ErrorCode
from barnabas.wire.uuids import ZERO_UUID, Uuid

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster
    from barnabas.wire.messages.list_partition_reassignments import OngoingPartitionReassignment

ACTIONS = ("create", "list", "alter", "describe", "delete")
REPORTS = (
    "under-replicated-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
    "unavailable-partitions",
)
TIMEOUT_MS = 30_000
REPLICATION_FACTOR_MAX = 32767

PARSER = Parser(
    name="topics",
    summary="Creates, lists, describes, alters and deletes topics.",
    options=(
        *CONNECTION,
        OUTPUT,
        option("--create", help="Create a topic."),
        option("--list", help="List the names of topics."),
        option("--describe", help="Describe topics and their partitions."),
        option("--alter", help="Give a topic more partitions. Configuration is altered with kafka-configs."),
        option("--delete", help="Delete a topic."),
        option(
            "--topic",
            takes="topic",
            help="The topic; a regular expression except with --create.",
            completes="topic",
        ),
        option("--topic-id", takes="id", help="The id of the topic to describe."),
        option(
            "--partitions", takes="number", kind=int, help="How many partitions it has; the cluster's default else."
        ),
        option("--replication-factor", takes="number", kind=int, help="How many replicas each partition has."),
        option(
            "--replica-assignment",
            takes="1:2,2:3,...",
            help="The brokers of each partition's replicas: colons between brokers, commas between partitions.",
        ),
        option("--config", takes="key=value", repeated=True, help="Configuration of the new topic; may be repeated."),
        option("--delete-config", takes="key", repeated=True, help="Of older versions, without effect.", hidden=True),
        option("--if-exists", help="A topic that is not there is no error."),
        option("--if-not-exists", help="A topic that is there already is no error."),
        option("--exclude-internal", help="Without the topics of the cluster itself."),
        option("--topics-with-overrides", help="Only topics with configuration of their own."),
        option("--under-replicated-partitions", help="Only partitions with replicas that are not in sync."),
        option("--unavailable-partitions", help="Only partitions without a leader."),
        option("--under-min-isr-partitions", help="Only partitions with fewer in-sync replicas than configured."),
        option("--at-min-isr-partitions", help="Only partitions with just as many in-sync replicas as configured."),
        option(
            "--partition-size-limit-per-response",
            takes="number",
            kind=int,
            default=2000,
            help="How many partitions the broker describes in one answer.",
        ),
        option("--force", help="Of older versions, without effect.", hidden=True),
        option("--disable-rack-aware", help="Of older versions, without effect.", hidden=True),
    ),
)


def run(parsed: Parsed) -> int:
    _check(parsed)
    try:
        with connect(parsed, missing="--bootstrap-server must be specified") as cluster:
            action = next(name for name in ACTIONS if name in parsed)
            _DO[action](cluster, parsed)
    except Refused as refusal:
        raise _failed(refusal.message) from None
    return 0


def _failed(sentence: object) -> ToolFailed:
    return ToolFailed(f"Error while executing topic command : {sentence}", on_stdout=True)


def _check(parsed: Parsed) -> None:
    if sum(action in parsed for action in ACTIONS) != 1:
        raise UsageError("Command must include exactly one action: --list, --describe, --create, --alter or --delete")
    if "delete-config" in parsed:
        print("--delete-config has no effect: kafka-configs deletes configuration.", file=sys.stderr)
    if "list" not in parsed and "describe" not in parsed:
        parsed.require("topic")
    if "alter" in parsed:
        if "config" in parsed:
            raise UsageError("--config can't be used with --alter: kafka-configs alters the configuration of topics.")
        parsed.require("partitions")
    _only_with(parsed, "config", "create")
    _only_with(parsed, "partitions", "alter", "create")
    _only_with(parsed, "replication-factor", "create")
    _only_with(parsed, "replica-assignment", "alter", "create")
    if "create" in parsed:
        parsed.refuse("replica-assignment", "partitions", "replication-factor")
    for report in REPORTS:
        _only_with(parsed, report, "describe", besides=("topics-with-overrides",))
    _only_with(parsed, "topics-with-overrides", "describe")
    _only_with(parsed, "if-exists", "alter", "delete", "describe")
    _only_with(parsed, "if-not-exists", "create")
    _only_with(parsed, "exclude-internal", "list", "describe")


def _only_with(parsed: Parsed, name: str, *actions: str, besides: tuple[str, ...] = ()) -> None:
    parsed.refuse(name, *besides, *(action for action in ACTIONS if action not in actions))


def _number(parsed: Parsed, name: str) -> int | None:
    try:
        return parsed.number(name)
    except UsageError as error:
        raise _failed(error) from None


def _topic(parsed: Parsed) -> str | None:
    try:
        return parsed.text("topic")
    except UsageError as error:
        raise _failed(error) from None


def _create(cluster: Cluster, parsed: Parsed) -> None:
    name = _topic(parsed) or ""
    partitions, replication_factor = _number(parsed, "partitions"), _number(parsed, "replication-factor")
    assignments = _brokers_of_partitions(parsed.text("replica-assignment"))
    configs = _configs(parsed.texts("config"))
    if "." in name or "_" in name:
        print(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could "
            "collide. To avoid issues it is best to use either, but not both."
        )
    if replication_factor is not None and not 1 <= replication_factor <= REPLICATION_FACTOR_MAX:
        raise _failed(f"The replication factor must be between 1 and {REPLICATION_FACTOR_MAX} inclusive")
    if partitions is not None and partitions < 1:
        raise _failed("The partitions must be greater than 0")
    try:
        create_topic(
            cluster,
            name,
            partitions=partitions,
            replication_factor=replication_factor,
            assignments=assignments,
            configs=configs,
        )
    except Refused as refusal:
        if refusal.code is ErrorCode.TOPIC_ALREADY_EXISTS and "if-not-exists" in parsed:
            return
        raise
    print(f"Created topic {name}.")


def _brokers_of_partitions(text: str | None) -> list[list[int]]:
    partitions: list[list[int]] = []
    for part in text.split(",") if text else []:
        try:
            brokers = [int(broker) for broker in part.split(":")]
        except ValueError:
            raise _failed(f'For input string: "{part}"') from None
        twice = sorted({broker for broker in brokers if brokers.count(broker) > 1})
        if twice:
            listed = ",".join(map(str, twice))
            raise _failed(f"Partition replica lists may not contain duplicate entries: {listed}")
        if partitions and len(partitions[0]) != len(brokers):
            raise _failed(f"Partition {len(partitions)} has different replication factor: {brokers}")
        partitions.append(brokers)
    return partitions


def _configs(pairs: list[str]) -> dict[str, str]:
    configs = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not value.strip():
            raise _failed(
                'requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".'
            )
        configs[key.strip()] = value.strip()
    return configs


def _alter(cluster: Cluster, parsed: Parsed) -> None:
    count = _number(parsed, "partitions") or 0
    names = _found(cluster, parsed, require="if-exists" not in parsed)
    brokers = _brokers_of_partitions(parsed.text("replica-assignment"))
    described = describe_topics(cluster, names)
    fresh = {topic.name: brokers[len(topic.partitions) :] if brokers else None for topic in described}
    create_partitions(cluster, count, fresh)


def _delete(cluster: Cluster, parsed: Parsed) -> None:
    delete_topics(cluster, _found(cluster, parsed, require="if-exists" not in parsed))


def _list(cluster: Cluster, parsed: Parsed) -> None:
    names = _found(cluster, parsed, require=False)
    if wants_json(parsed):
        print_json(names)
    elif names:
        print("\n".join(names))


def _found(cluster: Cluster, parsed: Parsed, *, require: bool) -> list[str]:
    """The names that match --topic, or all."""
    wanted = _topic(parsed)
    metadata = cluster.metadata()
    topics = list(metadata.topics.values())
    if "exclude-internal" in parsed:
        topics = [topic for topic in topics if not topic.is_internal]
    names = sorted(topic.name for topic in topics)
    if wanted is None:
        return names
    pattern = _pattern(wanted)
    matching = [name for name in names if pattern.fullmatch(name)]
    if not matching and require and wanted:
        raise _failed(f"Topic '{wanted}' does not exist as expected{nearest(wanted, names)}")
    return matching


def _pattern(text: str) -> re.Pattern[str]:
    """As Kafka reads lists of topics: commas are alternatives, quotes and spaces are nothing."""
    try:
        return re.compile(text.strip().replace(",", "|").replace(" ", "").strip("\"'"))
    except re.error as error:
        raise _failed(f"{text} is not a regular expression: {error}.") from None


def _describe(cluster: Cluster, parsed: Parsed) -> None:
    page = _number(parsed, "partition-size-limit-per-response") or 1
    topics = describe_topics(cluster, _wanted(cluster, parsed), page)
    configs = describe_configs(cluster, TOPIC, [topic.name for topic in topics])
    moving = _reassignments(cluster, [topic.name for topic in topics])
    reports = [report for report in REPORTS if report in parsed]
    if wants_json(parsed):
        print_json([_as_json(topic, configs[topic.name]) for topic in topics])
        return
    live = set(cluster.metadata([]).brokers) if reports else set()
    for topic in topics:
        own = _own(configs[topic.name])
        if not reports and ("topics-with-overrides" not in parsed or own):
            _print_topic(topic, own, moving)
        if "topics-with-overrides" in parsed:
            continue
        least = next((int(each.value or 1) for each in configs[topic.name] if each.name == "min.insync.replicas"), 1)
        for partition in topic.partitions:
            move = moving.get((topic.name, partition.number))
            if not reports or any(_reported(report, partition, least, live, move) for report in reports):
                _print_partition(topic.name, partition, move)


def _wanted(cluster: Cluster, parsed: Parsed) -> list[str]:
    text = parsed.text("topic-id")
    if text is None:
        return _found(cluster, parsed, require="if-exists" not in parsed)
    try:
        topic_id = Uuid.parse(text)
    except ValueError:
        raise _failed(f"{text} is not the id of a topic: 22 characters of base64 are.") from None
    names = [topic.name for topic in cluster.metadata().topics.values() if topic.topic_id == topic_id]
    if not names and "if-exists" not in parsed and topic_id != ZERO_UUID:
        raise _failed(f"TopicId '{text}' does not exist as expected")
    return names


def _reassignments(cluster: Cluster, names: list[str]) -> dict[tuple[str, int], OngoingPartitionReassignment]:
    """What is being moved; nothing where the cluster does not tell."""
    from barnabas.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest

    try:
        answer = cluster.ask_controller(ListPartitionReassignmentsRequest(topics=None, timeout_ms=TIMEOUT_MS))
    except UnsupportedByBroker:
        return {}
    return {
        (topic.name, partition.partition_index): partition
        for topic in answer.topics
        if topic.name in names
        for partition in topic.partitions
    }


def _replication_factor(partition: PartitionDescription, move: OngoingPartitionReassignment | None) -> int:
    if move is None or not set(partition.replicas) & {*move.adding_replicas, *move.removing_replicas}:
        return len(partition.replicas)
    return len(move.replicas) - len(move.adding_replicas)


def _reported(
    report: str, partition: PartitionDescription, least: int, live: set[int], move: OngoingPartitionReassignment | None
) -> bool:
    if report == "under-replicated-partitions":
        return _replication_factor(partition, move) > len(partition.isr)
    if report == "unavailable-partitions":
        return partition.leader not in live
    if report == "under-min-isr-partitions":
        return partition.leader < 0 or len(partition.isr) < least
    return len(partition.isr) == least


def _own(configs: list[Config]) -> list[Config]:
    """What is not the default, in the order of Kafka's tool: that of a Java hash map of all."""
    from barnabas.core.groups.java_order import java_ordered

    by_name = {config.name: config for config in configs}
    return [by_name[name] for name in java_ordered(by_name) if not by_name[name].is_default]


def _print_topic(
    topic: TopicDescription, own: list[Config], moving: dict[tuple[str, int], OngoingPartitionReassignment]
) -> None:
    parts = [f"Topic: {topic.name}"]
    if topic.topic_id != ZERO_UUID:
        parts.append(f"TopicId: {topic.topic_id}")
    first = topic.partitions[0]
    parts += [
        f"PartitionCount: {len(topic.partitions)}",
        f"ReplicationFactor: {_replication_factor(first, moving.get((topic.name, first.number)))}",
        f"Configs: {','.join(f'{config.name}={config.value}' for config in own)}",
    ]
    print("\t".join(parts))


def _print_partition(topic: str, partition: PartitionDescription, move: OngoingPartitionReassignment | None) -> None:
    def listed(brokers: list[int] | None) -> str:
        return "N/A" if brokers is None else ",".join(map(str, brokers))

    parts = [
        f"\tTopic: {topic}",
        f"Partition: {partition.number}",
        f"Leader: {'none' if partition.leader < 0 else partition.leader}",
        f"Replicas: {listed(partition.replicas)}",
        f"Isr: {listed(partition.isr)}",
    ]
    if move is not None:
        parts.append(f"Adding Replicas: {listed(move.adding_replicas)}")
        parts.append(f"Removing Replicas: {listed(move.removing_replicas)}")
    parts += [f"Elr: {listed(partition.elr)}", f"LastKnownElr: {listed(partition.last_known_elr)}"]
    print("\t".join(parts))


def _as_json(topic: TopicDescription, configs: list[Config]) -> dict[str, object]:
    return {
        "topic": topic.name,
        "topicId": str(topic.topic_id),
        "isInternal": topic.is_internal,
        "configs": {config.name: config.value for config in configs if not config.is_default},
        "partitions": [
            {
                "partition": partition.number,
                "leader": partition.leader if partition.leader >= 0 else None,
                "replicas": partition.replicas,
                "isr": partition.isr,
                "elr": partition.elr,
                "lastKnownElr": partition.last_known_elr,
            }
            for partition in topic.partitions
        ],
    }


_DO = {"create": _create, "list": _list, "alter": _alter, "describe": _describe, "delete": _delete}
