"""`kafka-get-offsets`: the offsets of partitions at a point in time."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.cli.connect import CONNECTION, OUTPUT, connect, nearest, wants_json
from barnabas.cli.errors import ToolFailed, UsageError
from barnabas.cli.options import Parsed, Parser, option
from barnabas.cli.output import print_json

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

TIMES = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
    "earliest-pending-upload": -6,
}
Filter = Callable[[str, int], bool]

PARSER = Parser(
    name="get-offsets",
    summary="Prints the offsets of partitions at a point in time.",
    options=(
        *CONNECTION,
        OUTPUT,
        option(
            "--topic", takes="regex", help="The topics, as a regular expression; all of them else.", completes="topic"
        ),
        option("--partitions", takes="0,1,...", help="The partitions; all of them else."),
        option(
            "--topic-partitions",
            takes="a,b:0,c:1-3,...",
            help="Topics, as regular expressions, with partitions: a number, 1-3 (without 3), 1- or -3.",
        ),
        option(
            "--time",
            takes="time",
            default="latest",
            help="A timestamp in milliseconds, for the first record that is not older, or one of "
            f"{', '.join(f'{name} ({number})' for name, number in TIMES.items())}.",
        ),
        option("--exclude-internal-topics", help="Without the topics of the cluster itself."),
        option("--offsets", takes="number", help="Of older versions, without effect.", hidden=True),
        option("--max-wait-ms", takes="ms", help="Of older versions, without effect.", hidden=True),
    ),
)


def run(parsed: Parsed) -> int:
    if "topic-partitions" in parsed and ("topic" in parsed or "partitions" in parsed):
        raise _failed("--topic-partitions cannot be used with --topic or --partitions")
    with connect(parsed) as cluster:
        timestamp = _timestamp(parsed.text("time") or "latest")
        wanted = _wanted(cluster, parsed, _filter(parsed))
        found = cluster.list_offsets(dict.fromkeys(wanted, timestamp))
    shown = [(topic, index, found[topic, index].offset) for topic, index in wanted if found[topic, index].offset >= 0]
    if wants_json(parsed):
        print_json([{"topic": topic, "partition": index, "offset": offset} for topic, index, offset in shown])
        return 0
    for topic, index, offset in shown:
        print(f"{topic}:{index}:{offset}")
    return 0


def _failed(sentence: str) -> ToolFailed:
    return ToolFailed(f"Error occurred: {sentence}")


def _timestamp(text: str) -> int:
    if text in TIMES:
        return TIMES[text]
    try:
        return int(text)
    except ValueError:
        names = " / ".join(f"{number} or {name}" for name, number in TIMES.items())
        raise _failed(
            f"Malformed time argument {text}. Please use {names}, or a specified long format timestamp"
        ) from None


def _wanted(cluster: Cluster, parsed: Parsed, matches: Filter) -> list[tuple[str, int]]:
    topics = cluster.metadata().topics
    internal = "exclude-internal-topics" in parsed
    wanted = [
        (topic.name, index)
        for topic in sorted(topics.values())
        if not (internal and topic.is_internal)
        for index in topic.partitions
        if matches(topic.name, index)
    ]
    if not wanted:
        hint = nearest(parsed.text("topic") or "", topics)
        raise _failed(f"Could not match any topic-partitions with the specified filters{hint}")
    for topic, index in wanted:
        if topics[topic].partitions[index].leader < 0:
            print(f"Skip getting offsets for topic-partition {topic}-{index}: it has no leader.", file=sys.stderr)
    return [(topic, index) for topic, index in wanted if topics[topic].partitions[index].leader >= 0]


def _filter(parsed: Parsed) -> Filter:
    rules = parsed.text("topic-partitions")
    if rules is not None:
        each = [_rule(rule) for rule in rules.split(",")]
        return lambda topic, index: any(matches(topic, index) for matches in each)
    pattern = _pattern(parsed.text("topic") or ".*")
    text = parsed.text("partitions")
    try:
        partitions = None if text is None else {int(part) for part in text.split(",") if part.strip()}
    except ValueError:
        raise _failed(
            f"--partitions expects a comma separated list of numeric partition ids, but received: {text}"
        ) from None
    return lambda topic, index: bool(pattern.fullmatch(topic)) and (not partitions or index in partitions)


def _rule(rule: str) -> Filter:
    found = re.fullmatch(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?", rule)
    if found is None:
        raise _failed(f"Invalid rule specification: {rule}")
    pattern = _pattern(found[1] or ".*")
    if found[2]:
        low, high = int(found[2]), int(found[2]) + 1
    else:
        low, high = int(found[3] or 0), int(found[4] or 2**31)
    return lambda topic, index: bool(pattern.fullmatch(topic)) and low <= index < high


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise UsageError(f"{text} is not a regular expression: {error}.") from None
