"""Aggregates by key: records without key or value are left out, as in Kafka Streams.

A batch shows each key once, with its value after the batch and before it, or every change where a stream looks it up.
Foldings that take columns are computed for the whole batch in Arrow and then combined with the store, the others record
by record in the order of ranks.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from barnabas.pipelines.streams.errors import StreamsError
from barnabas.pipelines.streams.operators.folding import Folding
from barnabas.pipelines.streams.operators.operator import Operator, Task
from barnabas.pipelines.streams.rows import Numbers, Rows, made

IMMUTABLE = (int, float, str, bytes, bool, type(None))


@dataclass
class AggregateByKey(Operator):
    """One folding per input: several in a cogroup."""

    store_name: str
    foldings: list[Folding]
    every_change: bool = False

    def __post_init__(self) -> None:
        self.kind = self.foldings[0].kind if len(self.foldings) == 1 else "cogroup"
        self.stores = (self.store_name,)

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        store = task.store(self.store_name)
        if self.every_change:
            return each_change(task, store, inputs, self.with_value, self.foldings[0].result)
        if len(inputs) == 1 and self.foldings[0].by_column:
            grouped = by_column(inputs[0], self.foldings[0])
            if grouped is not None:
                return self.combined(store, grouped)
        return self.one_by_one(task, store, inputs)

    def with_value(self, number: int, key: Any, value: Any, old: Any) -> Any:
        folding = self.foldings[number]
        return folding.add(key, value, folding.first() if old is None else old)

    def combined(self, store: Any, grouped: Grouped) -> Rows:
        folding = self.foldings[0]
        olds, news = [], []
        for key, part in zip(grouped.keys, grouped.parts, strict=True):
            old = store.get(key)
            new = folding.combine(key, old, part)
            store.put(key, new)
            olds.append(folding.result(old))
            news.append(folding.result(new))
        return Rows(grouped.keys, news, grouped.times, grouped.ranks, olds=olds)

    def one_by_one(self, task: Task, store: Any, inputs: list[Rows]) -> Rows:
        last: dict[Any, tuple[int, int]] = {}
        before: dict[Any, Any] = {}
        for number, key, value, time, rank in in_order(inputs):
            if key is None or value is None:
                continue
            folding = self.foldings[number]
            try:
                old = store.get(hashable(key))
                if key not in before:
                    before[key] = kept(old)
                store.put(key, folding.add(key, value, folding.first() if old is None else old))
            except Exception as error:
                task.fail(rank, error)
                continue
            last[key] = (max(time, last[key][0]), rank) if key in last else (time, rank)
        keys = list(last)
        result = self.foldings[0].result
        news = [None if (found := store.get(key)) is None else result(found) for key in keys]
        olds = [None if before[key] is None else result(before[key]) for key in keys]
        return made(keys, news, [last[key][0] for key in keys], [last[key][1] for key in keys], olds)


@dataclass
class AggregateTable(Operator):
    """Of a table that was grouped: what a row was is subtracted, what it is is added. Values come as (added, value)."""

    store_name: str
    initial: Callable[[], Any]
    adder: Callable[[Any, Any, Any], Any]
    subtractor: Callable[[Any, Any, Any], Any]
    every_change: bool = False
    kind = "aggregate-table"

    def __post_init__(self) -> None:
        self.stores = (self.store_name,)

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        store = task.store(self.store_name)
        if self.every_change:
            return each_change(task, store, inputs, self.with_value)
        before: dict[Any, Any] = {}
        last: dict[Any, tuple[int, int]] = {}
        for _, key, change, time, rank in in_order(inputs):
            if key is None or change[1] is None:
                continue
            try:
                old = store.get(hashable(key))
                if key not in before:
                    before[key] = kept(old)
                store.put(key, self.with_value(0, key, change, old))
            except Exception as error:
                task.fail(rank, error)
                continue
            last[key] = (time, rank)
        keys = list(last)
        times, ranks = [last[key][0] for key in keys], [last[key][1] for key in keys]
        return made(keys, [store.get(key) for key in keys], times, ranks, [before[key] for key in keys])

    def with_value(self, number: int, key: Any, change: Any, old: Any) -> Any:
        added, value = change
        if value is None:
            return old
        change_by = self.adder if added else self.subtractor
        return change_by(key, value, self.initial() if old is None else old)


def each_change(
    task: Task,
    store: Any,
    inputs: list[Rows],
    with_value: Callable[[int, Any, Any, Any], Any],
    result: Callable[[Any], Any] = lambda aggregate: aggregate,
) -> Rows:
    """A row for every record, so that a stream that looks it up finds what was there when its record came."""
    keys, news, olds, times, ranks = [], [], [], [], []
    for number, key, value, time, rank in in_order(inputs):
        if key is None or value is None:
            continue
        try:
            old = store.get(hashable(key))
            was = None if old is None else kept(result(old))
            new = with_value(number, key, value, old)
            store.put(key, new)
        except Exception as error:
            task.fail(rank, error)
            continue
        keys.append(key)
        news.append(None if new is None else kept(result(new)))
        olds.append(was)
        times.append(time)
        ranks.append(rank)
    return made(keys, news, times, ranks, olds)


@dataclass
class GroupTable(Operator):
    """Both sides of a table's change under their new keys."""

    function: Callable[[Any, Any], Any]
    kind = "group-table"

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        (rows,) = inputs
        keys, values, times, ranks = [], [], [], []
        columns = zip(rows.keys, rows.values, rows.olds or (), rows.times.tolist(), rows.ranks.tolist(), strict=True)
        for key, new, old, time, rank in columns:
            for added, value in ((False, old), (True, new)):
                if value is None:
                    continue
                try:
                    keys.append(self.function(key, value))
                except Exception as error:
                    task.fail(rank, error)
                    continue
                values.append((added, value))
                times.append(time)
                ranks.append(rank)
        return made(keys, values, times, ranks)


class Grouped:
    """The keys of a batch with what was folded of each, and the greatest time and rank."""

    def __init__(self, keys: list[Any], parts: list[Any], times: Numbers, ranks: Numbers) -> None:
        self.keys, self.parts, self.times, self.ranks = keys, parts, times, ranks
        self.starts: list[int] = []


def by_column(rows: Rows, folding: Any, starts: Numbers | None = None, index: Numbers | None = None) -> Grouped | None:
    """With `starts`, each of a row given by `index`, groups are windows; None where Arrow can't take the keys."""
    column, decode = key_column(rows)
    if column is None:
        return None
    needed = folding.asked() != [([], "count_all")]
    columns = folding.columns(rows.keys, rows.values) if needed else {}
    columns |= {"_key": column, "_time": pa.array(rows.times), "_rank": pa.array(rows.ranks)}
    table = pa.table(columns)
    if starts is None:
        table = table.filter(present(rows))
        by = ["_key"]
    else:
        assert index is not None
        table = table.take(pa.array(index)).append_column("_start", pa.array(starts))
        by = ["_key", "_start"]
    if not table.num_rows:
        return Grouped([], [], np.zeros(0, np.int64), np.zeros(0, np.int64))
    asked = [*folding.asked(), ("_time", "max"), ("_rank", "max")]
    found = table.group_by(by, use_threads=False).aggregate(asked)
    keys = found["_key"].to_pylist()
    grouped = Grouped(
        keys if decode is None else list(map(decode, keys)),
        folding.parts(found),
        found["_time_max"].to_numpy(),
        found["_rank_max"].to_numpy(),
    )
    if starts is not None:
        grouped.starts = found["_start"].to_pylist()
    return grouped


def key_column(rows: Rows) -> tuple[pa.Array | None, Callable[[bytes], Any] | None]:
    """Keys in Arrow: as they came, or of one simple type."""
    if rows.raw_keys is not None and rows._keys is None:
        return rows.raw_keys.bytes, rows.raw_keys.serde.decode
    kinds = {type(key) for key in rows.keys} - {type(None)}
    if kinds <= {str} or kinds <= {bytes} or kinds <= {int}:
        return pa.array(
            rows.keys, pa.int64() if kinds == {int} else pa.binary() if kinds == {bytes} else pa.string()
        ), None
    return None, None


def present(rows: Rows) -> pa.Array:
    """Which rows have a key and a value."""
    keys = rows.raw_keys.bytes.is_valid() if rows._keys is None and rows.raw_keys else valid(rows.keys)
    values = rows.raw_values.bytes.is_valid() if rows._values is None and rows.raw_values else valid(rows.values)
    return pc.and_(keys, values)


def valid(objects: list[Any]) -> pa.Array:
    return pa.array([one is not None for one in objects], pa.bool_())


def in_order(inputs: list[Rows]) -> Any:
    """(number of the input, key, value, time, rank) of all rows, by rank."""
    if len(inputs) == 1:
        (rows,) = inputs
        keys, values = rows.keys, rows.values
        return zip([0] * len(keys), keys, values, rows.times.tolist(), rows.ranks.tolist(), strict=True)
    found: list[tuple[int, Any, Any, int, int]] = []
    for number, rows in enumerate(inputs):
        keys, values = rows.keys, rows.values
        found += zip([number] * len(keys), keys, values, rows.times.tolist(), rows.ranks.tolist(), strict=True)
    return sorted(found, key=lambda row: (row[4], row[0]))


def hashable(key: Any) -> Any:
    try:
        hash(key)
    except TypeError:
        raise StreamsError(
            f"a key of type {type(key).__name__} can't be grouped or joined by: select another one"
        ) from None
    return key


def kept(value: Any) -> Any:
    """What stays as it is when the function changes the original."""
    return value if isinstance(value, IMMUTABLE) else pickle.loads(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
