"""Times that a function takes from records (`timestamp=` of streams and tables), in place of those they were sent with.

They are taken before anything else is done: records of several topics are merged by them, and stream time is theirs. A
record of which the function gives no time is told, or left out, as one that an operator fails on; one of a negative
time is left out and counted as skipped, as in Kafka Streams. A record without a value keeps its own time if the
function fails on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from barnabas.pipelines.streams.context import Headers, RecordContext
from barnabas.pipelines.streams.errors import TopologyError
from barnabas.pipelines.streams.graph import Graph
from barnabas.pipelines.streams.operators.operator import Function, called, wants_context
from barnabas.pipelines.streams.order import Numbers
from barnabas.pipelines.streams.rows import Raw, Rows

if TYPE_CHECKING:
    from barnabas.pipelines.streams.plan import SourceStep

NEVER = -1  # the time of a record that is left out


class Negative(ValueError):
    """A time before 1970."""


def check_one_for_a_topic(graph: Graph, operator: str, topics: Sequence[str]) -> None:
    for node, source in graph.sources():
        shared = [topic for topic in topics if topic in source.topics and source.timestamp is not None]
        if shared:
            raise TopologyError(f"{operator}() gives {shared[0]} a second timestamp=: {node.where} has given it one")


class TimeTaker:
    """Asks the function of a source about records of its topics, and keeps the errors."""

    def __init__(self, source: SourceStep, function: Function, records: Any) -> None:
        self.source, self.function, self.records = source, function, records
        self.failed: dict[int, Exception] = {}  # by the record's number

    def take(self, here: Numbers) -> tuple[Numbers, Numbers]:
        """The numbers of records that have got a time, and the times."""
        records, index = self.records, pa.array(here)
        keys = Raw(records.keys.take(index), self.source.key_serde, self.fail)
        values = Raw(records.values.take(index), self.source.value_serde, self.fail)
        rows = Rows(None, None, records.times[here], here, raw_keys=keys, raw_values=values)
        rows, given = called(self, rows, self.function, wants_context(self.function))
        times = np.full(len(given), NEVER, np.int64)
        for at, (one, record) in enumerate(zip(given, rows.ranks.tolist(), strict=True)):
            try:
                times[at] = milliseconds_of(one)
            except ValueError as error:
                self.fail(record, error)
        told = times != NEVER
        return rows.ranks[told], times[told]

    def fail(self, record: int, error: Exception) -> None:
        if isinstance(error, Negative) or self.records.values[record].is_valid:
            self.failed[record] = error

    def context(self, record: int, time_ms: int) -> RecordContext:
        records = self.records
        topic = records.plan.topics[int(records.topics[record])]
        return RecordContext(
            topic, int(records.partitions[record]), int(records.offsets[record]), time_ms, self.headers(record)
        )

    def headers(self, record: int) -> Headers:
        found = None if self.records.headers is None else self.records.headers[record].as_py()
        return tuple((one["key"], one["value"]) for one in found or ())


def milliseconds_of(given: Any) -> int:
    if isinstance(given, datetime):
        if given.tzinfo is None:
            raise ValueError(f"timestamp= gave {given}, which has no time zone")
        given = round(given.timestamp() * 1000)
    if not isinstance(given, int) or isinstance(given, bool):
        raise ValueError(f"timestamp= gave {given!r}: it needs a whole number of milliseconds, or a datetime")
    if given < 0:
        raise Negative(f"timestamp= gave {given}, a time before 1970")
    return given
