"""A stage as the function that Spark runs over Arrow batches in its Python workers.

The first stage gets records of topics, later ones parcels: all rows that one task has for one partition, pickled. What
the last stage gives, and what earlier ones have for topics, are rows for the sink. State before the batch is read and
state after it written here, both by the number of the batch, which Spark gives to its tasks.
"""

from __future__ import annotations

import gc
import json
import pickle
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from barnabas.pipelines.spark.reading_on import ReadingOn
from barnabas.pipelines.spark.schema import arrow_schema
from barnabas.pipelines.streams.checks import grown
from barnabas.pipelines.streams.errors import TopicGrown
from barnabas.pipelines.streams.event_time import NEVER, TimeTaker
from barnabas.pipelines.streams.figures import sums_here
from barnabas.pipelines.streams.objects import Key, Value
from barnabas.pipelines.streams.operators.operator import Function
from barnabas.pipelines.streams.order import BITS, Numbers, ranks_of, records_of
from barnabas.pipelines.streams.origins import Origins, ranked, reached_by
from barnabas.pipelines.streams.plan import GlobalStep, Plan, SourceStep, StagePlan
from barnabas.pipelines.streams.rows import Rows, in_ranks
from barnabas.pipelines.streams.sink import TopicSink
from barnabas.pipelines.streams.state.storage import LocalDirectory, settle
from barnabas.pipelines.streams.state.versions import PartitionState
from barnabas.pipelines.streams.task import GlobalView, Letter, PartitionTask

PARCELS = "part int, parcel binary"
PARCEL_SCHEMA = pa.schema([pa.field("part", pa.int32()), pa.field("parcel", pa.binary())])
SEEN = "seen boolean"  # of a batch that is written already
SEEN_SCHEMA = pa.schema([pa.field("seen", pa.bool_())])
TIMESTAMP = "timestamp"  # the column of the sink's rows
TIMESTAMP_TYPE = pa.timestamp("us", tz="UTC")
TOGETHER_ROWS = 4096
OUTPUT = -1  # instead of a port: rows for the sink that only pass by
BATCH_PROPERTY = "streaming.sql.batchId"
RUN_PROPERTY = "spark.jobGroup.id"

# Records in the order of processing, and the rows that they are for each source.
Given = tuple[Origins, Callable[[PartitionTask], dict[int, Rows]]]
# What goes to another stage: keys, values, values before, times, headers, and where rows stand (`Origins.at`).
Sent = tuple[list[Key], list[Value], list[Value] | None, Numbers, pa.Array | None, tuple[Numbers, ...]]
Parcel = tuple[int, int, Sent | pa.RecordBatch]  # stage, port, and rows or output that only passes by
Arrived = tuple[int, list[Key], list[Value], list[Value] | None, Numbers, pa.Array | None, tuple[Numbers, ...]]


def output_schema(plan: Plan) -> str:
    columns = ["topic string", "key binary", "value binary", f"{TIMESTAMP} timestamp"]
    if plan.places_windows:
        columns.append("partition int")
    columns.append("headers array<struct<key: string, value: binary>>")
    return ", ".join(columns)


class StageFunction:
    """What is pickled to the workers and called there for each task. With a `sink` the last stage writes its rows, else
    it gives them back."""

    def __init__(
        self,
        plan: Plan,
        number: int,
        batch: int | None = None,
        run: str = "",
        sink: TopicSink | None = None,
        wall_clock_ms: int | None = None,
    ) -> None:
        self.plan, self.number = plan, number
        self.batch, self.run, self.wall_clock_ms = batch, run, wall_clock_ms  # where no streaming query gives them
        self.sink = sink

    def __call__(
        self, batches: Iterable[pa.RecordBatch], part: str = "", onward: ReadingOn | None = None, run_on_ms: int = 0
    ) -> Iterator[pa.RecordBatch]:
        """`part` names the offsets that were read, in the first stage. With `onward` the task may go on behind them."""
        stage = self.plan.stages[self.number]
        if stage.number or self.batch is not None:
            return self.done(stage, batches, part)
        seen: list[int] = []
        batches = noted(batches, seen)
        if onward is None:
            rows = self.done(stage, batches, part)
        else:
            from barnabas.pipelines.streams.running_on import run_on

            assert self.sink is not None
            run_on(self.begun(stage), self.sink, batches, part, onward, run_on_ms / 1000, seen)
            rows = iter(())
        return filled_up(rows, seen, self.schema(stage))

    def begun(self, stage: StagePlan) -> StageWork:
        """The work of a task that writes state at its end."""
        work = StageWork(self.plan, stage, *of_query(), in_query=True, saves=False)
        work.noted = noted_offsets(self.plan, work.batch)
        return work

    @property
    def can_run_on(self) -> bool:
        return self.plan.can_run_on and self.sink is not None and self.sink.exactly_once

    def schema(self, stage: StagePlan) -> pa.Schema:
        if not stage.last:
            return PARCEL_SCHEMA
        return sink_schema(self.plan) if self.sink is None else SEEN_SCHEMA

    def done(self, stage: StagePlan, batches: Iterable[pa.RecordBatch], part: str) -> Iterator[pa.RecordBatch]:
        rows = self.given(stage, batches)
        if not stage.last or self.sink is None:
            return rows
        self.sink.write(rows, part)
        return iter(())

    def given(self, stage: StagePlan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        batch, run = (self.batch, self.run) if self.batch is not None else of_query()
        work = StageWork(self.plan, stage, batch, run, in_query=self.batch is None)
        if self.batch is None and not stage.number and (self.plan.stateful or (self.sink and self.sink.exactly_once)):
            work.noted = noted_offsets(self.plan, batch)
        if stage.tells_wall_clock:
            given = self.wall_clock_ms
            work.wall_clock_ms = begin_of(self.plan, batch) if given is None else given
        return work.rows(batches)


def noted(batches: Iterable[pa.RecordBatch], seen: list[int]) -> Iterator[pa.RecordBatch]:
    for one in batches:
        seen.append(one.num_rows)
        yield one


def filled_up(rows: Iterator[pa.RecordBatch], seen: list[int], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """With empty rows, as many as records were read: Spark reports what a source gives."""
    given = 0
    for one in rows:
        given += one.num_rows
        yield one
    if sum(seen) > given:
        empty = [pa.nulls(sum(seen) - given, kind) for kind in schema.types]
        yield pa.RecordBatch.from_arrays(empty, schema=schema)


def of_query() -> tuple[int, str]:
    from pyspark.taskcontext import TaskContext

    context = TaskContext.get()
    assert context is not None, "stages run in Spark's tasks"
    return int(context.getLocalProperty(BATCH_PROPERTY) or 0), context.getLocalProperty(RUN_PROPERTY) or ""


def begin_of(plan: Plan, batch: int) -> int:
    """When Spark began a batch, as it has noted beside the offsets: the same time if the batch is done again."""
    noted = plan.checkpoint.under("offsets").read(str(batch)).decode()
    return int(json.loads(noted.splitlines()[1])["batchTimestampMs"])


def noted_offsets(plan: Plan, batch: int) -> list[Path]:
    """What Spark has noted of a batch in files of this machine, to be fsynced with the state: Spark does not. If a
    machine is lost, a batch of which something was written must be the same batch when it is done again."""
    checkpoint = plan.checkpoint
    if not isinstance(checkpoint, LocalDirectory):
        return []
    offsets = checkpoint.path / "offsets"
    found = [offsets / str(batch), offsets]
    if checkpoint.path not in _noted_once:
        _noted_once.add(checkpoint.path)
        found += [checkpoint.path / "metadata", checkpoint.path, checkpoint.path.parent]
    return found


class StageWork:
    """Of one task. If it does not save, state stays in memory until `save` is called."""

    def __init__(
        self, plan: Plan, stage: StagePlan, batch: int, run: str, *, in_query: bool, saves: bool = True
    ) -> None:
        self.plan, self.stage, self.batch, self.run, self.in_query = plan, stage, batch, run, in_query
        self.saves = saves
        self._states: dict[tuple[str, str], PartitionState] = {}
        self.wall_clock_ms = 0  # for those who ask
        self.passing: list[pa.RecordBatch] = []
        self.parcels: dict[int, list[Parcel]] = {}  # by partition
        self.noted: list[Path] = []  # files of Spark's that tell what this batch is

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What the stage gives of records or parcels."""
        if not self.stage.whole_batches:
            settle(*self.noted)
            self.noted = []
            return (out for held in worthwhile(batches) for out in self.process_records(held))
        held = [one for one in batches if one.num_rows]
        if not held:
            settle(*self.noted)
            return iter(())
        whole = pa.Table.from_batches(held)
        return self.process_parcels(whole) if self.stage.number else self.process_topics(whole)

    def process_records(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """Records as they come: no state, nobody to wait for."""
        records = Records(table, self.plan)
        self.run_task(records.all_in_order(), None)
        yield from self.result()

    def process_topics(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        partitions = np.asarray(table["partition"].to_numpy())
        for partition in np.unique(partitions).tolist():
            here = np.flatnonzero(partitions == partition)
            part = table if len(here) == len(partitions) else table.take(pa.array(here))
            records = Records(part, self.plan)
            if self.plan.stateful:
                records.check(partition)
            for step in self.stage.global_tables:
                self.keep_global(step, partition, records)
            self.run_task(records.by_time(), partition)
        settle(*self.noted)
        self.noted = []
        yield from self.result()

    def process_parcels(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """Parcels are sorted by where their rows come from, so that a batch that is done again is the same."""
        arrived: dict[int, list[Arrived]] = {}
        for part, parcel in zip(table["part"].to_pylist(), table["parcel"].to_pylist(), strict=True):
            for stage, port, content in pickle.loads(parcel):
                if port == OUTPUT and self.stage.last:
                    self.passing.append(content)
                elif port == OUTPUT or stage != self.stage.number:
                    self.parcels.setdefault(part, []).append((stage, port, content))
                else:
                    arrived.setdefault(part, []).append((port, *content))
        for part in sorted(arrived):
            self.run_arrived(part, arrived[part])
        settle()
        yield from self.result()

    def run_arrived(self, part: int, parcels: list[Arrived]) -> None:
        origins, ranks = ranked([parcel[-1] for parcel in parcels])
        rows: dict[int, Rows] = {}
        by_port: dict[int, list[Rows]] = {}
        headers: dict[int, list[dict[str, Any]] | None] = {}
        for (port, keys, values, olds, times, theirs, _), own in zip(parcels, ranks, strict=True):
            by_port.setdefault(port, []).append(Rows(keys, values, times, own, olds=olds))
            if theirs is not None:
                headers |= zip(records_of(own).tolist(), theirs.to_pylist(), strict=True)
        if headers:
            origins.headers = pa.array([headers.get(one) for one in range(len(origins.offsets))], schema_headers())
        for port, pieces in by_port.items():
            rows[port] = joined(pieces)
        self.run_task((origins, lambda task: rows), part)

    def run_task(self, given: Given, partition: int | None) -> None:
        origins, rows_for = given
        state = self.state(f"{self.stage.number}/{partition}") if self.stage.stateful else None
        tables = {step.store_name: self.global_view(step) for step in self.plan.stages[0].global_tables}
        task = PartitionTask(self.plan, self.stage, origins, state, tables, self.wall_clock_ms)
        gc.disable()  # a batch is many objects that all live to its end: looking for garbage among them finds none
        try:
            task.run(rows_for(task))
            if state is not None and self.saves:
                state.save(self.batch + 1)
            elif state is not None:
                state.flush()
            self.collect(task)
            task.forget_rows()
        except BaseException:
            forget_states()
            raise
        finally:
            gc.enable()
        sums = sums_here(self.plan, self.run)
        sums.add(task.figures)
        if state is not None:
            sums.look_at(f"{self.stage.number}/{partition}", state, self.batch, seldom=self.in_query)
        if self.in_query:
            sums.write_soon(self.plan)

    def state(self, name: str, role: str = "write") -> PartitionState:
        found = self._states.get((name, role))
        if found is None:
            found = self._states[name, role] = held_state(self.run, self.plan, name, role)
            found.load(self.batch)
        return found

    def save(self) -> None:
        """What all of the task's records have left."""
        for state in self._states.values():
            state.save(self.batch + 1)
        settle()

    def keep_global(self, step: GlobalStep, partition: int, records: Records) -> None:
        """Seen by joins from the next batch on, in all partitions alike."""
        here = records.of_topics((step.topic,))
        if not len(here):
            return
        state = self.state(f"{step.store_name}/{partition}")
        table = state.store("table")
        for key, value in zip(records.keys.take(pa.array(here)), records.values.take(pa.array(here)), strict=True):
            if key.is_valid:
                table.put(step.key_serde.decode(key.as_py()), step.value_serde.from_bytes(value.as_py()))
        state.save(self.batch + 1)

    def global_view(self, step: GlobalStep) -> GlobalView:
        names = [f"{step.store_name}/{partition}" for partition in range(step.partitions)]
        return GlobalView([self.state(name, "read").store("table") for name in names])

    def collect(self, task: PartitionTask) -> None:
        out = self.output_batch(task)
        if out is not None:
            self.passing.append(out)
        for send, targets, rows in task.sent:
            for target in np.unique(targets).tolist():
                part = rows.take(np.flatnonzero(targets == target))
                values = [None if one is None else True for one in part.values] if send.counts_only else part.values
                headers = task._origins.headers_at(part.ranks)
                content = (part.keys, values, part.olds, part.times, headers, task._origins.at(part.ranks))
                self.parcels.setdefault(target, []).append((send.stage, send.port, content))

    def output_batch(self, task: PartitionTask) -> pa.RecordBatch | None:
        """Several sinks may write to one topic: what they write stands there in the order of ranks."""
        columns: list[list[pa.Array]] = []
        ranks: list[Numbers] = []
        topics: list[str] = []
        for sink, keys, values, rows, placed in task.outputs:
            headers = task._origins.headers_at(rows.ranks)
            columns.append(self.columns(sink.topic, keys, values, timestamps(rows.times), placed, headers))
            ranks.append(rows.ranks)
            topics.append(sink.topic)
        if task.letters:
            assert self.plan.dead_letter is not None
            task.letters.sort(key=lambda letter: letter[0])
            columns.append(self.letters(task.letters, self.plan.dead_letter))
            ranks.append(np.array([rank for rank, *_ in task.letters], np.int64))
            topics.append(self.plan.dead_letter)
        if not columns:
            return None
        whole = [pa.concat_arrays(pieces) for pieces in zip(*columns, strict=True)]
        out = pa.RecordBatch.from_arrays(whole, schema=sink_schema(self.plan))
        if len(set(topics)) == len(topics):
            return out
        return out.take(pa.array(np.argsort(np.concatenate(ranks), kind="stable")))

    def letters(self, letters: list[Letter], topic: str) -> list[pa.Array]:
        _, keys, values, headers = zip(*letters, strict=True)
        entries = [[{"key": key, "value": value} for key, value in one] for one in headers]
        found = pa.array(keys, pa.binary()), pa.array(values, pa.binary()), pa.nulls(len(keys), TIMESTAMP_TYPE)
        return self.columns(topic, *found, None, pa.array(entries, schema_headers()))

    def columns(
        self,
        topic: str,
        keys: pa.Array,
        values: pa.Array,
        stamps: pa.Array,
        placed: Numbers | None,
        headers: pa.Array | None,
    ) -> list[pa.Array]:
        count = len(values)
        found = [pa.repeat(topic, count), plain(keys), plain(values), stamps]
        if self.plan.places_windows:
            found.append(pa.nulls(count, pa.int32()) if placed is None else pa.array(placed, pa.int32()))
        return [*found, pa.nulls(count, schema_headers()) if headers is None else headers]

    def result(self) -> Iterator[pa.RecordBatch]:
        if self.stage.last:
            yield from self.passing
        else:
            if self.passing:  # anywhere: the sink knows where they go
                packed = [(OUTPUT, OUTPUT, out) for out in self.passing]
                self.parcels.setdefault(next(iter(self.parcels), 0), []).extend(packed)
            parts = list(self.parcels)
            data = [pickle.dumps(self.parcels[part], pickle.HIGHEST_PROTOCOL) for part in parts]
            if parts:
                packed = [pa.array(parts, pa.int32()), pa.array(data, pa.binary())]
                yield pa.RecordBatch.from_arrays(packed, schema=PARCEL_SCHEMA)
        self.passing, self.parcels = [], {}


class Records:
    """Records of topics as they come from the source."""

    def __init__(self, table: pa.Table, plan: Plan) -> None:
        self.plan = plan
        self.keys, self.values = one_chunk(table["key"]), one_chunk(table["value"])
        self.times: Numbers = one_chunk(table["timestamp"]).cast(pa.int64()).to_numpy(zero_copy_only=False) // 1000
        self.partitions: Numbers = one_chunk(table["partition"]).to_numpy().astype(np.int64)
        self.offsets: Numbers = one_chunk(table["offset"]).to_numpy()
        headers = one_chunk(table["headers"])
        self.headers = headers if headers.null_count < len(headers) else None
        if len(plan.topics) == 1:
            self.topics: Numbers = np.zeros(len(self.offsets), np.int64)
        else:
            numbers = pc.index_in(one_chunk(table["topic"]), pa.array(plan.topics, pa.string()))
            self.topics = numbers.to_numpy(zero_copy_only=False).astype(np.int64)
        self.untimed: list[tuple[str, dict[int, Exception]]] = []  # by source: records whose time can't be had
        for source in plan.stages[0].sources:
            if source.timestamp is not None:
                self.take_times(source, source.timestamp)

    def take_times(self, source: SourceStep, function: Function) -> None:
        taker = TimeTaker(source, function, self)
        self.times = self.times.copy()
        timed, times = taker.take(self.of_topics(source.topics))
        self.times[timed] = times
        self.times[list(taker.failed)] = NEVER
        self.untimed.append((source.name, taker.failed))

    def check(self, partition: int) -> None:
        for topic in np.unique(self.topics).tolist():
            name = self.plan.topics[topic]
            if partition >= self.plan.topic_partitions[name]:
                before = self.plan.topic_partitions[name]
                raise TopicGrown(grown(name, before, partition + 1, self.plan.checkpoint_address))

    def of_topics(self, names: tuple[str, ...]) -> Numbers:
        numbers = [self.plan.topics.index(name) for name in names]
        return np.flatnonzero(np.isin(self.topics, numbers))

    def all_in_order(self) -> Given:
        """One after the other, as they lie in the batch."""
        return self._given(np.arange(len(self.offsets)), self.times)

    def by_time(self) -> Given:
        reached = reached_by(self.times, self.topics)
        if len(self.plan.topics) == 1:
            return self._given(np.arange(len(self.offsets)), reached)
        return self._given(np.lexsort((self.offsets, self.topics, reached)), reached)

    def _given(self, order: Numbers, reached: Numbers) -> Given:
        sorted_already = bool((order[:-1] < order[1:]).all())
        keys, values = self.keys, self.values
        if not sorted_already:
            keys, values = keys.take(pa.array(order)), values.take(pa.array(order))
        origins = Origins(reached[order], self.topics[order], self.partitions[order], self.offsets[order])
        origins.keys, origins.values = keys, values
        if self.headers is not None:
            origins.headers = self.headers if sorted_already else self.headers.take(pa.array(order))
        times = self.times[order]
        placed = np.argsort(order) if self.untimed else order
        untimed = [(name, int(placed[at]), error) for name, failed in self.untimed for at, error in failed.items()]
        timed = np.ones(len(order), bool)
        timed[[at for _, at, _ in untimed]] = False

        def rows_for(task: PartitionTask) -> dict[int, Rows]:
            found = {}
            for name, at, error in untimed:
                task.unreadable(name, at << BITS, error)
            for source in self.plan.stages[0].sources:
                numbers = [self.plan.topics.index(name) for name in source.topics]
                here = np.flatnonzero(np.isin(origins.topics, numbers) & timed)
                all_here = len(here) == len(times)
                picked = (keys, values) if all_here else (keys.take(pa.array(here)), values.take(pa.array(here)))
                serdes = (source.key_serde, source.value_serde)
                found[source.number] = task.source_rows(source.name, *picked, times[here], ranks_of(here), serdes)
            return found

        return origins, rows_for


def joined(pieces: list[Rows]) -> Rows:
    """Rows of several parcels in the order of their ranks."""
    if len(pieces) == 1:
        whole = pieces[0]
    else:
        tabular = pieces[0].olds is not None
        whole = Rows(
            [key for piece in pieces for key in piece.keys],
            [value for piece in pieces for value in piece.values],
            np.concatenate([piece.times for piece in pieces]),
            np.concatenate([piece.ranks for piece in pieces]),
            olds=[old for piece in pieces for old in piece.olds or ()] if tabular else None,
        )
    return in_ranks(whole)


_held: dict[tuple[str, str, str], PartitionState] = {}
_runs: dict[str, str] = {}
_noted_once: set[Path] = set()


def held_state(run: str, plan: Plan, name: str, role: str) -> PartitionState:
    """What this worker has in memory, of this run: one that began anew may have other files under the same names."""
    assert plan.state is not None
    if _runs.get(plan.state) != run:
        for key in [key for key in _held if key[1].startswith(plan.state + "/")]:
            _held.pop(key).close()
        _runs[plan.state] = run
    key = (run, f"{plan.state}/{name}", role)
    if key not in _held:
        _held[key] = PartitionState(plan.state_of(name))
        for one in _held.values():  # what is for the worker is shared by its partitions
            one.cache_bytes = plan.state_cache_bytes // len(_held)
    return _held[key]


def forget_states() -> None:
    for one in _held.values():
        one.close()
    _held.clear()


def worthwhile(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """What is read of partitions one after the other, together as long as it is little."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            rows += batch.num_rows
        if rows >= TOGETHER_ROWS:
            yield pa.Table.from_batches(held)
            held, rows = [], 0
    if held:
        yield pa.Table.from_batches(held)


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def plain(column: pa.Array) -> pa.Array:
    return column if column.type == pa.binary() else column.cast(pa.binary())


def timestamps(times: Numbers) -> pa.Array:
    """Of records without a time the sink's is taken."""
    return pa.array(times * 1000, TIMESTAMP_TYPE, mask=times < 0)


def schema_headers() -> pa.DataType:
    return arrow_schema(["headers"]).field("headers").type


def sink_schema(plan: Plan) -> pa.Schema:
    fields = [pa.field("topic", pa.string()), pa.field("key", pa.binary()), pa.field("value", pa.binary())]
    fields.append(pa.field(TIMESTAMP, TIMESTAMP_TYPE))
    if plan.places_windows:
        fields.append(pa.field("partition", pa.int32()))
    fields.append(pa.field("headers", schema_headers()))
    return pa.schema(fields)
