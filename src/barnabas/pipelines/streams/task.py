"""One partition of one stage in one batch: operators run in their order, and what leaves is collected."""

from __future__ import annotations

import contextlib
import functools
import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from barnabas.pipelines.spark.sink.murmur2 import partitions_of
from barnabas.pipelines.streams.context import Headers, RecordContext
from barnabas.pipelines.streams.errors import RecordError, StreamsError
from barnabas.pipelines.streams.event_time import Negative
from barnabas.pipelines.streams.figures import OperatorFigures
from barnabas.pipelines.streams.objects import Key, Value
from barnabas.pipelines.streams.order import BITS, Numbers, records_of, spread
from barnabas.pipelines.streams.origins import Origins, Place
from barnabas.pipelines.streams.plan import ALL_TOPICS, Plan, Send, SinkStep, StagePlan, Step
from barnabas.pipelines.streams.rows import NO_NUMBERS, Raw, Rows, in_ranks, nothing
from barnabas.pipelines.streams.serdes import Serde, SerdeError, write_json
from barnabas.pipelines.streams.state.stores import Store
from barnabas.pipelines.streams.state.versions import PartitionState
from barnabas.pipelines.streams.windows import Windowed

log = logging.getLogger("barnabas.streams")
SKIPS_TOLD = 10  # of a partition in a batch
ERROR_HEADERS = "__barnabas.errors."
Letter = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes]]]  # rank, key, value, headers


class GlobalView:
    """A global table, which lies in as many stores as its topic has partitions."""

    def __init__(self, stores: Sequence[Store]) -> None:
        self._tables = [store.data for store in stores]

    def get(self, key: Key, default: Any = None) -> Any:
        for table in self._tables:
            if key in table:
                return table[key]
        return default


def rows_in(found: Rows | list[Rows]) -> int:
    return sum(map(len, found)) if isinstance(found, list) else len(found)


class PartitionTask:
    """`outputs` are (sink, rows) to be written, `sent` what later stages get: (send, partition, rows)."""

    def __init__(
        self,
        plan: Plan,
        stage: StagePlan,
        origins: Origins,
        state: PartitionState | None,
        tables: dict[str, GlobalView],
        wall_clock_ms: int,
    ) -> None:
        self.wall_clock_ms = wall_clock_ms
        self._plan, self._stage, self._origins = plan, stage, origins
        self._state = state
        self._tables = tables
        self._doing = stage.sources[0].name if stage.sources else ""
        self.letters: list[Letter] = []
        self.skipped: Counter[str] = Counter()  # by operator
        self.figures: dict[str, OperatorFigures] = {}
        self.outputs: list[tuple[SinkStep, pa.Array, pa.Array, Rows, Numbers | None]] = []
        self.sent: list[tuple[Send, Numbers, Rows]] = []

    def store(self, name: str) -> Store:
        assert self._state is not None
        return self._state.store(name)

    def global_store(self, name: str) -> GlobalView:
        return self._tables[name]

    def arrived(self, sources: tuple[int, ...]) -> tuple[Numbers, Numbers]:
        """Ranks and times of all rows of these sources, in their order."""
        found = [self._found[number] for number in sources if self._found.get(number)]
        if not found:
            return NO_NUMBERS, NO_NUMBERS
        ranks, times = (np.concatenate(one) for one in zip(*((rows.ranks, rows.times) for rows in found), strict=True))
        order = np.argsort(ranks, kind="stable")
        return ranks[order], times[order]

    def context(self, rank: int, time_ms: int) -> RecordContext:
        return RecordContext(*self.place(rank), time_ms, self.headers(rank))

    def headers(self, rank: int) -> Headers:
        found = None if self._origins.headers is None else self._origins.headers[rank >> BITS].as_py()
        return tuple((one["key"], one["value"]) for one in found or ())

    def place(self, rank: int) -> Place:
        return self._origins.place(rank >> BITS, self._plan.topics)

    def offsets(self, ranks: Numbers) -> tuple[Numbers, Numbers]:
        """Partitions and offsets of the records that rows come from."""
        records = records_of(ranks)
        return self._origins.partitions[records], self._origins.offsets[records]

    def fail_at(self, time_ms: int, error: Exception) -> None:
        """Of a punctuator: no record is to blame."""
        place = self._plan.where.get(self._doing)
        reason = f"{type(error).__name__}: {error}"
        raise StreamsError(f"{self._doing} ({place}) can't go on at time {time_ms} ms: {reason}") from error

    def fail(self, rank: int, error: Exception) -> None:
        record = rank >> BITS
        place = self._origins.place(record, self._plan.topics)
        reason = str(error) if isinstance(error, SerdeError) else f"{type(error).__name__}: {error}"
        trouble = f"can't go on with the record at {place}: {reason}"
        if self._plan.skips:
            self.skip(trouble)
            return
        self.counted.dead_letters += 1
        if self._plan.dead_letter is None:
            raise RecordError(f"{self._doing} ({self._plan.where.get(self._doing)}) {trouble}") from error
        sentence = f"{self._doing} {trouble}"  # without the line: a batch that is done again has the same letters
        own = None if self._origins.headers is None else self._origins.headers[record].as_py()
        headers = [
            *((one["key"], one["value"]) for one in own or ()),
            (ERROR_HEADERS + "message", sentence.encode()),
            (ERROR_HEADERS + "operator", self._doing.encode()),
            (ERROR_HEADERS + "topic", place.topic.encode()),
            (ERROR_HEADERS + "partition", str(place.partition).encode()),
            (ERROR_HEADERS + "offset", str(place.offset).encode()),
        ]
        keys, values = self._origins.keys, self._origins.values
        if keys is not None and values is not None:
            self.letters.append((rank, keys[record].as_py(), values[record].as_py(), headers))
        else:  # behind a repartition the record is not at hand
            self.letters.append((rank, None, write_json(place._asdict()), headers))

    def skip(self, trouble: str) -> None:
        self.skipped[self._doing] += 1
        self.counted.skipped += 1
        count = self.skipped.total()
        if count <= SKIPS_TOLD:
            log.warning("%s (%s) %s; it is skipped", self._doing, self._plan.where.get(self._doing), trouble)
        if count == SKIPS_TOLD:
            log.warning("more records that are skipped in this batch are counted only")

    def run(self, arrived: dict[int, Rows]) -> None:
        self._found = dict(arrived)
        for source in self._stage.sources:
            if (rows := arrived.get(source.number)) is not None:
                with self.doing(source.name):
                    self.counted.rows_in = self.counted.rows_out = len(rows)
        self._rooms = dict.fromkeys(arrived, self._origins.room)
        for number in self._stage.forks.get(ALL_TOPICS, ()):
            self._found[number], self._rooms[number] = self.in_turn(
                ALL_TOPICS, number, arrived[number], self._origins.room
            )
        for step in self._stage.steps:
            with self.doing(step.name):
                inputs = [self.rows_for(one, step.number) for one in step.inputs]
                found = step.operator.run(self, [rows for rows, _ in inputs])
                self.count(sum(rows_in(rows) for rows, _ in inputs), rows_in(found))
                self.keep(step, found, min(room for _, room in inputs))
        for send in self._stage.sends:
            with self.doing(send.name):
                rows = self.rows_for(send.origin, send.number)[0]
                self.count(len(rows), len(rows))
                self.send(send, rows)
        for sink in self._stage.sinks:
            with self.doing(sink.name):
                rows = self.rows_for(sink.input, sink.number)[0]
                self.count(len(rows), len(rows))
                self.write(sink, rows)

    def forget_rows(self) -> None:
        """When all that leaves was collected."""
        self._found.clear()
        self.outputs.clear()
        self.sent.clear()

    def rows_for(self, origin: int, number: int) -> tuple[Any, int]:
        """What a node has given, for the one of that number behind it; and the room between its ranks."""
        rows, room = self._found.get(origin), self._rooms.get(origin, self._origins.room)
        return self.in_turn(origin, number, rows, room) if rows else (nothing(), room)

    def in_turn(self, origin: int, number: int, rows: Any, room: int) -> tuple[Any, int]:
        behind = self._stage.forks.get(origin)
        if behind is None:
            return rows, room
        room //= len(behind)
        turn = behind.index(number) * room
        return rows.later(turn) if turn else rows, max(room, 1)

    def keep(self, step: Step, rows: Any, room: int) -> None:
        if step.spreads:
            ranks, room = spread(rows.ranks, room)
            rows = rows if ranks is rows.ranks else rows.with_ranks(ranks)
        self._found[step.number], self._rooms[step.number] = rows, room

    @contextlib.contextmanager
    def doing(self, name: str) -> Iterator[None]:
        self._doing = name
        began = time.perf_counter()
        yield
        self.counted.seconds += time.perf_counter() - began

    @property
    def counted(self) -> OperatorFigures:
        """Of the operator at hand."""
        found = self.figures.get(self._doing)
        if found is None:
            found = self.figures[self._doing] = OperatorFigures()
        return found

    def count(self, rows_in: int, rows_out: int) -> None:
        counted = self.counted
        counted.rows_in += rows_in
        counted.rows_out += rows_out

    def late(self, count: int) -> None:
        self.counted.late += count

    def source_rows(
        self,
        name: str,
        keys: pa.Array,
        values: pa.Array,
        times: Numbers,
        ranks: Numbers,
        serdes: tuple[Serde[Key], Serde[Value]],
    ) -> Rows:
        failed = functools.partial(self.unreadable, name)
        raw_keys, raw_values = Raw(keys, serdes[0], failed), Raw(values, serdes[1], failed)
        return Rows(None, None, times, ranks, raw_keys=raw_keys, raw_values=raw_values)

    def unreadable(self, source: str, rank: int, error: Exception) -> None:
        before, self._doing = self._doing, source
        if isinstance(error, Negative):
            self.skip(f"can't go on with the record at {self.place(rank)}: {error}")
        else:
            self.fail(rank, error)
        self._doing = before

    def send(self, send: Send, rows: Rows) -> None:
        if not len(rows):
            return
        count = self._plan.partitions
        rows, keys = self.encoded(rows, send.key_serde, keys=True)
        targets = partitions_of(keys, count)
        if keys.null_count:
            missing = np.asarray(keys.is_null(), bool)
            targets[missing] = self._origins.offsets[records_of(rows.ranks[missing])] % count
        self.sent.append((send, targets, rows))

    def write(self, sink: SinkStep, rows: Rows) -> None:
        if not len(rows):
            return
        rows, values = self.encoded(in_ranks(rows), sink.value_serde, keys=False)
        rows, keys = self.encoded(rows, sink.key_serde, keys=True)
        if len(keys) < len(values):  # a key that could not be written took its value along
            rows, values = self.encoded(rows, sink.value_serde, keys=False)
        self.outputs.append((sink, keys, values, rows, self.placed(sink, rows)))

    def placed(self, sink: SinkStep, rows: Rows) -> Numbers | None:
        """Windows of a key lie together, in the partition of the key."""
        if sink.partitions is None or not any(isinstance(key, Windowed) for key in rows.keys):
            return None
        inner = sink.key_serde
        width = 16 if inner.name.startswith("session windowed") else 8
        keys = [inner.encode(key)[:-width] if isinstance(key, Windowed) else inner.to_bytes(key) for key in rows.keys]
        return partitions_of(pa.array(keys, pa.binary()), sink.partitions)

    def encoded(self, rows: Rows, serde: Serde[Any], *, keys: bool) -> tuple[Rows, pa.Array]:
        """The column's bytes, as they came where nobody has looked at them or changed them."""
        raw = rows.raw_keys if keys else rows.raw_values
        if raw is not None and (raw.serde is serde or (raw.serde.name, raw.serde.schema) == (serde.name, serde.schema)):
            return rows, raw.bytes
        objects = rows.keys if keys else rows.values
        if serde.encode_all is not None:
            with contextlib.suppress(Exception):  # one by one it is told which
                return rows, serde.encode_all(objects)
        encode = serde.encode
        found: list[bytes | None] = []
        failed: list[int] = []
        for position, one in enumerate(objects):
            try:
                found.append(None if one is None else encode(one))
            except Exception as error:
                self.fail(int(rows.ranks[position]), error)
                failed.append(position)
        return rows.without(failed), pa.array(found, pa.binary())
