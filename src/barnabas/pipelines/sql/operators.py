"""Operators of SQL's topologies beside those of `streams`: records to rows, and functions on rows.

They are pickled to Spark's workers. A row is a tuple of values, in the order of its relation.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa

from barnabas.pipelines.sql.compute import dates
from barnabas.pipelines.sql.compute.compiler import Compiled
from barnabas.pipelines.sql.compute.java import EvaluationError, frozen
from barnabas.pipelines.sql.formats.codecs import Codec
from barnabas.pipelines.sql.formats.kafka import KafkaCodec
from barnabas.pipelines.sql.types import SqlType
from barnabas.pipelines.streams.expressions import OfRows
from barnabas.pipelines.streams.operators.folding import Folding
from barnabas.pipelines.streams.operators.operator import Operator, Task
from barnabas.pipelines.streams.operators.stateless import Branch
from barnabas.pipelines.streams.rows import Raw, Rows, made
from barnabas.pipelines.streams.serdes import Serde, SerdeError
from barnabas.pipelines.streams.windows import Windowed

SIMPLE_KEYS = (["STRING"], ["INTEGER"], ["BIGINT"])
RECORD_BYTES_MAX = 10_000  # of a record that can't be read, in the processing log


def thawed(value: Any, kind: SqlType) -> Any:
    """A part of a key as a column has it."""
    if not isinstance(value, tuple):
        return value
    if kind.base == "ARRAY" and kind.element is not None:
        return [thawed(one, kind.element) for one in value]
    kinds = dict(kind.fields)
    return {name: thawed(one, kinds[name]) if name in kinds else one for name, one in value}


def key_of(values: Sequence[Any]) -> Any:
    """The key of a record, by which can be grouped: one value, or several. None if there is none."""
    if not values:
        return None
    if len(values) == 1:
        return frozen(values[0])
    return tuple(map(frozen, values))


@dataclass
class KeyCoding:
    """Keys to bytes and back, for a serde of the topology."""

    codec: Codec

    def __post_init__(self) -> None:
        kinds = self.codec.columns
        self._text = len(kinds) == 1 and kinds[0][1].base == "STRING" and isinstance(self.codec, KafkaCodec)

    def encode(self, key: Any) -> bytes:
        if self._text:
            return str(key).encode()
        kinds = self.codec.columns
        values = (key,) if len(kinds) == 1 else key
        return self.codec.encode([thawed(one, kind) for one, (_, kind) in zip(values, kinds, strict=True)]) or b""

    def encode_all(self, keys: list[Any]) -> pa.Array:
        if self._text:
            return pa.array(keys, pa.string()).cast(pa.binary())
        return pa.array([None if one is None else self.encode(one) for one in keys], pa.binary())

    def decode(self, data: bytes) -> Any:
        return key_of(self.codec.decode(data))


def key_serde(codec: Codec) -> Serde[Any]:
    """Bytes of a key pass from a source to a sink as they are if the serdes of both have the same name."""
    coding = KeyCoding(codec)
    kind = type(codec).__name__
    return Serde(f"sql key {kind} {codec.columns}", coding.encode, coding.decode, encode_all=coding.encode_all)


@dataclass
class ValueCoding:
    codec: Codec

    def encode(self, values: Any) -> bytes:
        return cast("bytes", self.codec.encode(values))  # or None: one column that is null, and nothing around it

    def encode_all(self, rows: list[Any]) -> pa.Array:
        return pa.array(self.codec.encode_all(rows), pa.binary())

    def decode(self, data: bytes) -> Any:
        return self.codec.decode(data)


def value_serde(codec: Codec) -> Serde[Any]:
    coding = ValueCoding(codec)
    return Serde(f"sql value {codec.columns}", coding.encode, coding.decode, encode_all=coding.encode_all)


def missing(raw: Raw | None, objects: list[Any]) -> bool:
    return None in objects if raw is None else raw.bytes.null_count > 0


@dataclass
class ReadSource(Branch):
    """Records of a topic as rows, and the records that can't be read as lines of the processing log: two outputs."""

    functions: tuple[Any, ...] = ()
    key_codec: Codec | None = None
    value_codec: Codec | None = None
    headers: tuple[str | None, ...] = ()  # one column of all headers (None), or of one header
    window: str | None = None
    window_size_ms: int | None = None
    time_at: int | None = None  # which value column is the time
    time_format: str | None = None
    table: bool = False
    wants_place: bool = True
    query_id: str = ""
    kind = "sql-source"

    def run(self, task: Task, inputs: list[Rows]) -> list[Rows]:
        (rows,) = inputs
        if (whole := self.read_all(rows)) is not None:
            return [whole, made([], [], [], [])]
        good: tuple[list[Any], list[Any], list[int], list[int]] = ([], [], [], [])
        bad: tuple[list[Any], list[Any], list[int], list[int]] = ([], [], [], [])
        plain = self.plain_reader()
        for key, value, time, rank in zip(
            rows.keys, rows.values, rows.times.tolist(), rows.ranks.tolist(), strict=True
        ):
            if plain is not None and value is not None and key is not None:
                try:
                    object_key, row = plain(key, value, time)
                except (SerdeError, EvaluationError):
                    pass  # below it is told what is wrong
                else:
                    good[0].append(object_key)
                    good[1].append(row)
                    good[2].append(time)
                    good[3].append(rank)
                    continue
            try:
                found = self.row(task, key, value, time, rank)
            except (SerdeError, EvaluationError) as error:
                line = self.log_line(task, key, value, time, rank, str(error))
                for column, one in zip(bad, (None, line, time, rank), strict=True):
                    column.append(one)
                continue
            if found is not None:
                for column, one in zip(good, (*found, rank), strict=True):
                    column.append(one)
        return [made(*good), made(*bad)]

    def read_all(self, rows: Rows) -> Rows | None:
        """The whole batch, if it goes the way of most records and all of it can be read."""
        if self.window is not None or self.headers or self.time_at is not None or self.wants_place:
            return None
        assert self.key_codec is not None
        assert self.value_codec is not None
        kinds = [kind.base for _, kind in self.key_codec.columns]
        if missing(rows.raw_values, rows.values) or (kinds and missing(rows.raw_keys, rows.keys)):
            return None
        times = rows.times.tolist()
        try:
            if single := kinds in SIMPLE_KEYS:
                parts = keys = self.key_codec.decode_singles(rows.keys)
            else:
                parts = self.key_codec.decode_all(rows.keys) if kinds else [()] * len(rows)
                keys = list(map(key_of, parts))
            read = self.value_codec.decode_rows(parts, rows.values, times, single=single)
        except (SerdeError, EvaluationError):
            return None
        raw = rows.raw_keys
        if raw is not None and isinstance(self.key_codec, KafkaCodec):  # others hold what is the source's own
            raw = Raw(raw.bytes, key_serde(self.key_codec), raw.failed)
        else:
            raw = None
        return Rows(keys, read, rows.times, rows.ranks, raw_keys=raw)

    def plain_reader(self) -> Callable[[bytes, bytes, int], tuple[Any, tuple[Any, ...]]] | None:
        """The way of most records: no window, no headers, no time of their own, nobody asks for their place."""
        if self.window is not None or self.headers or self.time_at is not None or self.wants_place:
            return None
        assert self.key_codec is not None
        assert self.value_codec is not None
        read_key, read_value, width = self.key_codec.decode, self.value_codec.decode, len(self.key_codec.columns)

        def read(key: bytes, value: bytes, time: int) -> tuple[Any, tuple[Any, ...]]:
            keys = read_key(key)
            object_key = frozen(keys[0]) if width == 1 else key_of(keys)
            return object_key, (*keys, *read_value(value), time, None, None)

        return read

    def row(self, task: Task, key: bytes | None, value: bytes | None, time: int, rank: int) -> Any:
        """(key, row, time), or None for a record that is left out."""
        bounds: tuple[int, ...] = ()
        if self.window is not None and key is not None:
            key, bounds = self.unwindowed(key)
        assert self.key_codec is not None
        assert self.value_codec is not None
        keys = (None,) * len(self.key_codec.columns) if key is None else self.key_codec.decode(key)
        object_key = None if key is None else key_of(keys)
        if bounds:
            object_key = Windowed(object_key, *bounds)
        if self.table and key is None:
            return None
        if value is None and (self.table or self.value_codec.columns):
            return object_key, None, time  # of a stream too: a record without a value goes on as one
        values = () if value is None else self.value_codec.decode(value)
        if self.time_at is not None:
            time = self.own_time((*keys, *values)[self.time_at])
        found = [*keys, *bounds, *values]
        if self.headers:
            found += self.header_values(task.headers(rank))
        place = task.place(rank) if self.wants_place else (None, None, None)
        return object_key, (*found, time, place[1], place[2]), time

    def unwindowed(self, key: bytes) -> tuple[bytes, tuple[int, ...]]:
        if self.window == "SESSION":
            if len(key) < 16:
                raise SerdeError("the key has no session window")
            end, start = (int.from_bytes(key[at : at + 8 or None], "big", signed=True) for at in (-16, -8))
            return key[:-16], (start, end)
        if len(key) < 8:
            raise SerdeError("the key has no window")
        start = int.from_bytes(key[-8:], "big", signed=True)
        return key[:-8], (start, start + (self.window_size_ms or 0))

    def own_time(self, value: Any) -> int:
        if value is None:
            raise SerdeError("the column of the TIMESTAMP property is null")
        if isinstance(value, str):
            found = dates.ms_of(dates.parse_moment(value, self.time_format or "yyyy-MM-dd'T'HH:mm:ss.SSS"))
        else:
            found = int(value)
        if found < 0:
            raise SerdeError(f"the time of a record can't be negative: {found}")
        return found

    def header_values(self, given: tuple[tuple[str, bytes | None], ...]) -> list[Any]:
        found: list[Any] = []
        for name in self.headers:
            if name is None:
                found.append([{"KEY": key, "VALUE": value} for key, value in given])
            else:
                found.append(next((value for key, value in reversed(given) if key == name), None))
        return found

    def log_line(self, task: Task, key: bytes | None, value: bytes | None, time: int, rank: int, reason: str) -> bytes:
        """Its time is the record's: a batch that is done again gives the same line."""
        place = task.place(rank)
        target = "key" if reason.startswith("the key") else "value"
        record = None if value is None else value.decode("utf-8", "replace")
        message = {
            "type": 0,
            "deserializationError": {
                "target": target,
                "errorMessage": reason,
                "recordB64": None if value is None else base64.b64encode(value[:RECORD_BYTES_MAX]).decode(),
                "cause": [f"{place.topic}-{place.partition}@{place.offset}: {record}"[:500]],
                "topic": place.topic,
            },
        }
        line = {"level": "ERROR", "logger": f"processing.{self.query_id}.source.deserializer", "time": time}
        return json.dumps(line | {"message": message}).encode()


class EveryChange(Operator):
    """Aggregates in front of it give a row for every change."""

    kind = "every-change"
    sees_changes = True

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        return inputs[0]


@dataclass
class OwnTime(Operator):
    """The time of a result is that of one of its columns: WITH (TIMESTAMP='column'). One without a time is left out,
    as a record of a source would be. The column is one of the value, or of the key if `of_key` says how many it has."""

    column: int
    pattern: str | None = None
    of_key: int = 0
    kind = "own-time"

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        (rows,) = inputs
        reader = ReadSource(time_format=self.pattern)
        times: list[int] = []
        left: list[int] = []
        for at, (key, value, time) in enumerate(zip(rows.keys, rows.values, rows.times.tolist(), strict=True)):
            try:
                own = time if value is None else reader.own_time(self._given(key, value))
            except (SerdeError, EvaluationError):
                continue
            times.append(own)
            left.append(at)
        if len(left) < len(rows):
            rows = rows.take(left)
        return Rows(rows.keys, rows.values, np.array(times, np.int64), rows.ranks, olds=rows.olds)

    def _given(self, key: Any, value: Any) -> Any:
        if not self.of_key:
            return value[self.column]
        inner = key.key if isinstance(key, Windowed) else key
        return inner if self.of_key == 1 or inner is None else inner[self.column]


@dataclass
class Condition(OfRows):
    """WHERE and HAVING: what is null or can't be computed does not hold, nor does anything of a record without a
    value."""

    test: Compiled

    def all(self, keys: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        return list(map(self, keys, values)) if None in values else self.test.all(values)

    def __call__(self, key: Any, row: Any) -> bool:
        if row is None:
            return False
        try:
            test = self.test
            return bool((test._call or test.call)(row))
        except (ArithmeticError, ValueError, TypeError, LookupError, AttributeError):
            return False


@dataclass
class Columns(OfRows):
    """A tuple of expressions. One that can't be computed is null."""

    whole: Compiled
    each: list[Compiled]

    def all(self, keys: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        return self.whole.all(values)

    def __call__(self, key: Any, row: Any) -> tuple[Any, ...]:
        try:
            whole = self.whole
            return (whole._call or whole.call)(row)  # type: ignore[no-any-return]
        except (ArithmeticError, ValueError, TypeError, LookupError, AttributeError):
            return tuple(safely(one, row) for one in self.each)


def safely(one: Compiled, row: Any) -> Any:
    try:
        return (one._call or one.call)(row)
    except (ArithmeticError, ValueError, TypeError, LookupError, AttributeError):
        return None


@dataclass
class NewKey:
    """The key by which rows are grouped, joined or partitioned; None if a part of it is null."""

    columns: Columns
    all_or_none: bool = True

    def __call__(self, key: Any, row: Any) -> Any:
        values = self.columns(key, row)
        if any(one is None for one in values) and (self.all_or_none or len(values) == 1):
            return None
        return key_of(values)


@dataclass
class PartitionKey(NewKey):
    """PARTITION BY: a key of several parts may have nulls, and a record without a value has its old key's columns,
    which stand first in `width`."""

    all_or_none: bool = False
    kinds: tuple[SqlType, ...] = ()
    width: int = 0
    windowed: bool = False
    of_values: tuple[bool, ...] = ()  # parts that look at the value: they are null where there is none

    def __call__(self, key: Any, row: Any) -> Any:
        if row is None:
            parts = () if key is None else WithKey(self.kinds, windowed=self.windowed)(key, ())
            found = self.columns(key, (*parts, *[None] * (self.width - len(parts))))
            values = [None if gone else one for one, gone in zip(found, self.of_values, strict=True)]
            return None if values == [None] else key_of(values)
        return super().__call__(key, row)


@dataclass
class Exploded:
    """Rows of table functions: several side by side, the shorter ones filled with nulls."""

    arguments: list[Compiled]
    functions: list[str]

    def __call__(self, key: Any, row: Any) -> list[tuple[Any, ...]]:
        from barnabas.pipelines.sql.compute.aggregates import TABLE_FUNCTIONS

        if row is None:
            return []
        found: list[list[Any]] = []
        for one, name in zip(self.arguments, self.functions, strict=True):
            values = safely(one, row)
            found.append([] if values is None else TABLE_FUNCTIONS[name].rows(values))
        count = max(map(len, found))
        return [(*row, *(one[at] if at < len(one) else None for one in found)) for at in range(count)]


@dataclass
class Chain(OfRows):
    """Functions of key and row one after the other; a row that is gone stays so."""

    functions: tuple[Callable[[Any, Any], Any], ...]

    def all(self, keys: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        if None in values:
            return list(map(self, keys, values))
        rows = list(values)
        for function in self.functions:
            rows = function.all(keys, rows) if isinstance(function, OfRows) else list(map(function, keys, rows))
        return rows

    def __call__(self, key: Any, row: Any) -> Any:
        if row is None:
            return None
        for function in self.functions:
            row = function(key, row)
        return row


@dataclass
class WithKey(OfRows):
    """The parts of the key in front of the row: for aggregates, whose rows are results alone."""

    kinds: tuple[SqlType, ...]
    windowed: bool = False
    behind: bool = False

    def __post_init__(self) -> None:
        self._plain = len(self.kinds) == 1 and self.kinds[0].base not in ("ARRAY", "MAP", "STRUCT")

    def all(self, keys: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        if not self._plain or self.behind:
            return list(map(self, keys, values))
        if not self.windowed:
            return [(key, *row) for key, row in zip(keys, values, strict=True)]
        return [(key.key, key.start_ms, key.end_ms, *row) for key, row in zip(keys, values, strict=True)]

    def __call__(self, key: Any, row: Any) -> tuple[Any, ...]:
        bounds: tuple[Any, ...] = ()
        if isinstance(key, Windowed):
            bounds = (key.start_ms, key.end_ms) if self.windowed else ()
            key = key.key
        parts = (key,) if len(self.kinds) == 1 else key
        values = tuple(thawed(one, kind) for one, kind in zip(parts, self.kinds, strict=True)) if self.kinds else ()
        return (*row, *values) if self.behind else (*values, *bounds, *row)


@dataclass
class SideBySide:
    """A join: rows of both sides one behind the other, nulls for the side that is missing."""

    left_width: int
    right_width: int
    swapped: bool = False

    def __call__(self, left: Any, right: Any) -> tuple[Any, ...]:
        if self.swapped:
            left, right = right, left
        if left and right:
            return left + right  # type: ignore[no-any-return]
        return (*(left or (None,) * self.left_width), *(right or (None,) * self.right_width))


Step = Callable[[Any, Any], Any]  # state and row to state


@dataclass
class AllAggregates(Folding):
    """All aggregates of a query as one: the state is a tuple of theirs, which are never changed in place."""

    aggregates: list[Any]
    arguments: list[list[Compiled]]
    _adding: list[Step] | None = None
    _undoing: list[Step] | None = None
    leaves_old = True

    def __reduce__(self) -> Any:
        return AllAggregates, (self.aggregates, self.arguments)

    def first(self) -> tuple[Any, ...]:
        return tuple([one.first() for one in self.aggregates])

    def add(self, key: Any, value: Any, aggregate: tuple[Any, ...]) -> tuple[Any, ...]:
        row, states = value, aggregate
        if self._adding is None:
            self._adding = [step_of(*one, one[0].add) for one in zip(self.aggregates, self.arguments, strict=True)]
        if len(states) == 1:
            return (self._adding[0](states[0], row),)
        return tuple([step(state, row) for step, state in zip(self._adding, states, strict=True)])

    def undo(self, key: Any, row: Any, states: tuple[Any, ...]) -> tuple[Any, ...]:
        if self._undoing is None:
            self._undoing = [step_of(*one, one[0].undo) for one in zip(self.aggregates, self.arguments, strict=True)]
        return tuple([step(state, row) for step, state in zip(self._undoing, states, strict=True)])

    def combine(self, key: Any, one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
        if one is None or other is None:
            return other if one is None else one
        return tuple(each.merge(left, right) for each, left, right in zip(self.aggregates, one, other, strict=True))


def step_of(aggregate: Any, arguments: list[Compiled], change: Callable[..., Any]) -> Step:
    """Adds the values of arguments to a state, or takes them from it. A value that can't be computed is null."""
    skips = aggregate.ignores_nulls
    if not arguments:  # COUNT(*)
        return lambda state, row: change(state)
    if len(arguments) == 1:
        (argument,) = arguments
        compute = argument.call

        def by_one(state: Any, row: Any) -> Any:
            try:
                value = compute(row)
            except (ArithmeticError, ValueError, TypeError, LookupError, AttributeError):
                value = None
            return state if skips and value is None else change(state, value)

        return by_one

    def by_several(state: Any, row: Any) -> Any:
        values = [safely(one, row) for one in arguments]
        return state if skips and None in values else change(state, *values)

    return by_several


@dataclass
class Shown(OfRows):
    """States of aggregates as the values that they stand for."""

    aggregates: list[Any]

    def __post_init__(self) -> None:
        self._shows = [one.show for one in self.aggregates]

    def all(self, keys: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        if len(self._shows) == 1:
            (show,) = self._shows
            return [(show(state),) for (state,) in values]
        return list(map(self, keys, values))

    def __call__(self, key: Any, states: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([show(state) for show, state in zip(self._shows, states, strict=True)])
