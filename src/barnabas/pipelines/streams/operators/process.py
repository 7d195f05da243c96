"""A processor of the user's (see `processors`) as an operator.

Stream time is that of the sub-topology, as in Kafka Streams: the greatest time of all records that came to it, also of
those that do not come to the processor. A punctuator by stream time runs after the record that moves it on: what it
forwards stands behind everything else that comes of this record. Punctuators by wall clock run at the end of a batch;
the time is that at which the batch was begun, the same if it is done again. When each is due next is in a store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from barnabas.pipelines.streams.errors import StreamsError
from barnabas.pipelines.streams.objects import Key, Value
from barnabas.pipelines.streams.operators.operator import Operator, Task
from barnabas.pipelines.streams.operators.windowed import TIME, advanced, times_of
from barnabas.pipelines.streams.order import BITS, last_turn, records_of
from barnabas.pipelines.streams.processors import KeyValueStore, Processor, PunctuationType, Record
from barnabas.pipelines.streams.rows import Rows, made
from barnabas.pipelines.streams.state.shapes import CLOCK
from barnabas.pipelines.streams.state.stores import Store
from barnabas.pipelines.streams.windows import Duration, milliseconds

NEVER = 1 << 62
BY_STREAM_TIME, BY_WALL_CLOCK = PunctuationType.STREAM_TIME, PunctuationType.WALL_CLOCK_TIME


@dataclass
class Process(Operator):
    """`sources` are the numbers of all that comes to the sub-topology: the plan knows them."""

    supplier: Callable[[], Processor]
    given_stores: tuple[str, ...]
    name: str
    values_only: bool = False
    sources: tuple[int, ...] = ()
    kind = "process"
    sees_changes = True
    several_rows = True

    def __post_init__(self) -> None:
        self.kind = "process-values" if self.values_only else "process"
        self.stores = (*self.given_stores, times_of(self.name))

    def shapes(self) -> dict[str, str]:
        """Keys of its own stores are the user's, whatever they have to do with those of records."""
        return {times_of(self.name): CLOCK}

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        (rows,) = inputs
        context = _Context(self, task)
        ranks, times = task.arrived(self.sources)
        seen = advanced(context.clock, times)
        records, reached = records_of(ranks).tolist(), seen.tolist()
        try:
            processor = self.supplier()
            processor.init(context)
        except Exception as error:
            task.fail_at(context.stream_time_ms, error)
            raise
        context.begun = True
        at = 0
        columns = zip(rows.keys, rows.values, rows.times.tolist(), rows.ranks.tolist(), strict=True)
        for key, value, time, rank in columns:
            record = rank >> BITS
            while at < len(records) and records[at] < record:
                context.reach(records[at], reached[at])
                at += 1
            context.stream_time_ms = reached[at] if at < len(records) else context.stream_time_ms
            context.process(processor, Record(key, value, time, task.headers(rank)), rank)
        while at < len(records):
            context.reach(records[at], reached[at])
            at += 1
        if records:
            context.end(records[-1])
        processor.close()
        return made(context.keys, context.values, context.times, context.ranks)


class _Schedule:
    """When it is due next is in the clock, under its number."""

    def __init__(self, clock: Store, number: int, interval_ms: int, punctuator: Any, kind: PunctuationType) -> None:
        self.clock, self.number = clock, number
        self.interval_ms, self.punctuator, self.kind = interval_ms, punctuator, kind

    def cancel(self) -> None:
        """For good: the next batch finds it so."""
        self.clock.put(self.number, NEVER)


class _Context:
    """One batch of a processor."""

    def __init__(self, operator: Process, task: Task) -> None:
        self.operator, self.task = operator, task
        self.clock = task.store(times_of(operator.name))
        self.wall_clock_ms = task.wall_clock_ms
        self.stream_time_ms: int = self.clock.get(TIME, -1)
        self.begun = False
        self._schedules: list[_Schedule] = []
        self._rank: int | None = None
        self._key: Any = None
        self.keys: list[Key] = []
        self.values: list[Value] = []
        self.times: list[int] = []
        self.ranks: list[int] = []

    def store(self, name: str) -> KeyValueStore:
        if name not in self.operator.given_stores:
            known = ", ".join(self.operator.given_stores) or "it has none"
            called = self.operator.kind.replace("-", "_")
            raise StreamsError(f"{called}() was not given a store named {name}: {known}")
        return KeyValueStore(self.task.store(name))

    def schedule(
        self, interval: Duration, punctuator: Callable[[int], Any], kind: PunctuationType = BY_STREAM_TIME
    ) -> _Schedule:
        if self.begun:
            raise StreamsError("schedule() is called in init(), where every batch finds its schedules again")
        interval_ms = milliseconds(interval, "the interval of a punctuator", 1)
        made = _Schedule(self.clock, len(self._schedules), interval_ms, punctuator, PunctuationType(kind))
        self._schedules.append(made)
        if self.clock.get(made.number) is None:
            first = 0 if made.kind is BY_STREAM_TIME else self.wall_clock_ms + interval_ms
            self.clock.put(made.number, first)
        return made

    def forward(self, record: Record[Any, Any]) -> None:
        if self._rank is None:
            raise StreamsError("forward() is called in process() and by punctuators")
        if not isinstance(record, Record):
            raise StreamsError(f"forward() needs a Record, not {record!r}")
        if self.operator.values_only and self._key is not None and record.key != self._key[0]:
            raise StreamsError("process_values() keeps keys: process() is for records that get another one")
        self.keys.append(record.key)
        self.values.append(record.value)
        self.times.append(record.timestamp_ms)
        self.ranks.append(self._rank)

    def process(self, processor: Processor, record: Record[Any, Any], rank: int) -> None:
        before = len(self.keys)
        self._rank, self._key = rank, (record.key,)
        try:
            processor.process(record)
        except Exception as error:
            self.task.fail(rank, error)
            for column in (self.keys, self.values, self.times, self.ranks):
                del column[before:]
        finally:
            self._rank = self._key = None

    def reach(self, record: int, stream_time_ms: int) -> None:
        """What is due at a stream time, after all else that comes of the record."""
        self.stream_time_ms = stream_time_ms
        self._punctuate(BY_STREAM_TIME, record, stream_time_ms)

    def end(self, record: int) -> None:
        self._punctuate(BY_WALL_CLOCK, record, self.wall_clock_ms)

    def _punctuate(self, kind: PunctuationType, record: int, now_ms: int) -> None:
        for one in self._schedules:
            due: int = self.clock.get(one.number, 0)
            if one.kind is not kind or due > now_ms:
                continue
            missed = (now_ms - due) // one.interval_ms
            self.clock.put(one.number, due + (missed + 1) * one.interval_ms)
            self._rank = last_turn(record)
            try:
                one.punctuator(now_ms)
            except Exception as error:
                self.task.fail_at(now_ms, error)
            finally:
                self._rank = None
