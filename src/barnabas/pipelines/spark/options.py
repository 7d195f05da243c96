"""The source's options: those of the JVM Kafka connector with its rules, and five of ours.

Ours: `columns` (only these are built), `idleWait` (how long a trigger waits at the broker for the first new record),
`minRecordsPerTask` (partitions of a stream with fewer new ones share a task), `partitionsTogether` (partitions of the
same number, of all topics, are one task: keys that belong together meet), and `kafkaConsumer.pollTimeoutMs` bounds how
long a task waits for records that ought to be there.
Names are case-insensitive. Options nobody knows are ignored, as Spark does everywhere, unless they look like one that
was mistyped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from barnabas.client.metadata import TopicPartition
from barnabas.pipelines.spark.option_values import (
    EARLIEST,
    LATEST,
    OptionError,
    boolean,
    check_names,
    duration_ms,
    kafka_properties,
    partition_lists,
    partition_numbers,
    whole_number,
)
from barnabas.pipelines.spark.schema import COLUMNS, HEADERS

__all__ = ["OptionError", "Position", "SourceOptions", "Subscription"]

REFUSED_PROPERTIES = {
    "auto.offset.reset": "startingOffsets says where a query begins, and the checkpoint where it goes on",
    "enable.auto.commit": "offsets are kept in the checkpoint, and committed for lag tools when kafka.group.id is set",
    "interceptor.classes": "there is no consumer in the JVM to intercept",
    "key.deserializer": "keys come as bytes, deserialize them with DataFrame operations",
    "value.deserializer": "values come as bytes, deserialize them with DataFrame operations",
}

STRATEGIES = ("assign", "subscribe", "subscribePattern")
MIN_RECORDS_PER_TASK = 10_000  # read in less time than Spark needs for a task
# With those of the JVM connector that have no meaning here.
KNOWN = (
    *STRATEGIES, "kafka.bootstrap.servers", "kafka.group.id", "kafka.isolation.level", "startingOffsets",
    "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy", "endingOffsets",
    "endingTimestamp", "endingOffsetsByTimestamp", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay",
    "minPartitions", "maxRecordsPerPartition", "minRecordsPerTask", "failOnDataLoss", "includeHeaders", "columns",
    "partitionsTogether", "idleWait", "kafkaConsumer.pollTimeoutMs", "groupIdPrefix", "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)  # fmt: skip
ISOLATION_LEVELS = ("read_uncommitted", "read_committed")


@dataclass(frozen=True, slots=True)
class Subscription:
    """Which partitions: named ones, all of named topics, or all of topics whose whole name matches a pattern."""

    kind: Literal["assign", "subscribe", "subscribePattern"]
    topics: tuple[str, ...] = ()
    partitions: frozenset[TopicPartition] = frozenset()
    pattern: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.pattern or ', '.join(self.topics)}"


@dataclass(frozen=True, slots=True)
class Position:
    """Where reading begins or ends. `numbers` are offsets (with -1 latest, -2 earliest) or timestamps."""

    kind: Literal["earliest", "latest", "offsets", "timestamp", "timestamps"]
    option: str
    numbers: Mapping[TopicPartition, int] | None = None
    timestamp_ms: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    properties: Mapping[str, str] = field(repr=False)
    subscription: Subscription
    starting: Position | None  # None: the default, which differs between batch and stream
    ending: Position | None
    unmatched_timestamp: Literal["error", "latest"]
    columns: tuple[str, ...]
    fail_on_data_loss: bool
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    min_partitions: int | None
    max_records_per_partition: int | None
    min_records_per_task: int
    poll_timeout_ms: int
    idle_wait_ms: int
    partitions_together: bool = False

    @property
    def isolation_level(self) -> str:
        return self.properties.get("isolation.level", "read_uncommitted")

    @property
    def group_id(self) -> str | None:
        return self.properties.get("group.id")

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> SourceOptions:
        check_names(given, KNOWN)
        options = {name.lower(): value for name, value in given.items()}
        properties = kafka_properties(options, REFUSED_PROPERTIES)
        if properties.get("isolation.level", "read_committed") not in ISOLATION_LEVELS:
            raise OptionError(
                f"kafka.isolation.level is {' or '.join(ISOLATION_LEVELS)}, not '{properties['isolation.level']}'"
            )
        at_most = whole_number(options, "maxOffsetsPerTrigger")
        at_least = whole_number(options, "minOffsetsPerTrigger")
        if at_most is not None and at_least is not None and at_least > at_most:
            raise OptionError(f"minOffsetsPerTrigger ({at_least}) is larger than maxOffsetsPerTrigger ({at_most})")
        return cls(
            properties=properties,
            subscription=_subscription(options),
            starting=_position(options, "starting"),
            ending=_position(options, "ending"),
            unmatched_timestamp=_unmatched_timestamp(options),
            columns=_columns(options),
            fail_on_data_loss=boolean(options, "failOnDataLoss", True),
            max_offsets_per_trigger=at_most,
            min_offsets_per_trigger=at_least,
            max_trigger_delay_ms=duration_ms(options, "maxTriggerDelay", "15m"),
            min_partitions=whole_number(options, "minPartitions"),
            max_records_per_partition=whole_number(options, "maxRecordsPerPartition"),
            min_records_per_task=whole_number(options, "minRecordsPerTask") or MIN_RECORDS_PER_TASK,
            poll_timeout_ms=whole_number(options, "kafkaConsumer.pollTimeoutMs") or 120_000,
            idle_wait_ms=duration_ms(options, "idleWait", "100ms"),
            partitions_together=boolean(options, "partitionsTogether", False),
        )

    def for_batch(self) -> tuple[Position, Position]:
        starting = self.starting or Position("earliest", "startingOffsets")
        ending = self.ending or Position("latest", "endingOffsets")
        if starting.kind == "latest" or _asks_for(starting, LATEST):
            raise OptionError(f"{starting.option} can't be latest (-1) in a batch query: it would read nothing")
        if ending.kind == "earliest" or _asks_for(ending, EARLIEST):
            raise OptionError(f"{ending.option} can't be earliest (-2): it would read nothing")
        return starting, ending

    def for_stream(self) -> Position:
        if self.ending is not None:
            raise OptionError(f"{self.ending.option} is an option of batch queries: a stream has no end")
        return self.starting or Position("latest", "startingOffsets")


def _subscription(options: Mapping[str, str]) -> Subscription:
    given = [name for name in STRATEGIES if name.lower() in options]
    if len(given) != 1:
        what = f"not {' and '.join(given)} together" if given else "and none is given"
        raise OptionError(f"which topics to read is said by one of {', '.join(STRATEGIES)}, {what}")
    text = options[given[0].lower()]
    if given[0] == "assign":
        partitions = partition_lists("assign", text)
        return Subscription("assign", tuple(sorted({topic for topic, _ in partitions})), partitions)
    if given[0] == "subscribePattern":
        try:
            re.compile(text)
        except re.error as error:
            raise OptionError(f"subscribePattern '{text}' is no regular expression: {error}") from None
        if not text.strip():
            raise OptionError("subscribePattern is empty: it is a regular expression for the names of topics")
        return Subscription("subscribePattern", pattern=text)
    topics = tuple(sorted({topic.strip() for topic in text.split(",") if topic.strip()}))
    if not topics:
        raise OptionError(f"subscribe names no topic: '{text}'")
    return Subscription("subscribe", topics)


def _position(options: Mapping[str, str], side: Literal["starting", "ending"]) -> Position | None:
    """One timestamp for all wins over timestamps by partition, and those over offsets, as in the JVM connector."""
    timestamp = whole_number(options, name := f"{side}Timestamp", minimum=0)
    if timestamp is not None:
        return Position("timestamp", name, timestamp_ms=timestamp)
    if (text := options.get((name := f"{side}OffsetsByTimestamp").lower())) is not None:
        numbers = partition_numbers(name, text)
        if min(numbers.values()) < 0:
            raise OptionError(f"{name} has a negative timestamp")
        return Position("timestamps", name, numbers)
    if (text := options.get((name := f"{side}Offsets").lower())) is None:
        return None
    word = text.strip().lower()
    if word == "earliest" or word == "latest":
        return Position("earliest" if word == "earliest" else "latest", name)
    if not word.startswith("{"):
        raise OptionError(f"{name} is earliest, latest or offsets in JSON, not '{text}'")
    numbers = partition_numbers(name, text)
    if min(numbers.values()) < EARLIEST:
        raise OptionError(f"{name} has an offset below -2: -1 is the latest, -2 the earliest")
    return Position("offsets", name, numbers)


def _asks_for(position: Position, number: int) -> bool:
    return position.kind == "offsets" and number in (position.numbers or {}).values()


def _unmatched_timestamp(options: Mapping[str, str]) -> Literal["error", "latest"]:
    name = "startingOffsetsByTimestampStrategy"
    match options.get(name.lower(), "error").strip().lower():
        case "error":
            return "error"
        case "latest":
            return "latest"
        case other:
            raise OptionError(f"{name} is error or latest, not '{other}'")


def _columns(options: Mapping[str, str]) -> tuple[str, ...]:
    with_headers = boolean(options, "includeHeaders", False)
    if (text := options.get("columns")) is None:
        return COLUMNS + ((HEADERS,) if with_headers else ())
    known = {name.lower(): name for name in (*COLUMNS, HEADERS)}
    asked = [name.strip() for name in text.split(",") if name.strip()]
    for name in asked:
        if name.lower() not in known:
            raise OptionError(f"columns names '{name}', which is none of {', '.join(known.values())}")
    if not asked:
        raise OptionError(f"columns names no column: some of {', '.join(known.values())}")
    return tuple(dict.fromkeys(known[name.lower()] for name in asked))
