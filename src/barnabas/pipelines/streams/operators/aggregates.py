"""Aggregates by key: records without key or value are left out, as in Kafka Streams.

A batch shows each key once, with its value after the batch and before it, or every change where an operator that
remembers is behind it. Where keys are shown once, foldings that take columns are computed for the whole batch in Arrow
and then combined with the store; all others go record by record in the order of ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from barnabas.pipelines.streams.errors import StreamsError
from barnabas.pipelines.streams.objects import Folded, Key, Value
from barnabas.pipelines.streams.operators.changes import Changes, latest_of
from barnabas.pipelines.streams.operators.folding import Folding
from barnabas.pipelines.streams.operators.operator import Operator, Task
from barnabas.pipelines.streams.order import Numbers
from barnabas.pipelines.streams.rows import Rows, in_ranks, made
from barnabas.pipelines.streams.state.shapes import KEYS
from barnabas.pipelines.streams.state.stores import Store


@dataclass
class AggregateByKey(Operator):
    """One folding per input: several in a cogroup."""

    store_name: str
    foldings: list[Folding]
    every_change: bool = False
    sees_changes = True

    def __post_init__(self) -> None:
        self.kind = self.foldings[0].kind if len(self.foldings) == 1 else "cogroup"
        self.stores = (self.store_name, latest_of(self.store_name))

    def shapes(self) -> dict[str, str]:
        return dict.fromkeys(self.stores, KEYS)

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        store = task.store(self.store_name)
        if len(inputs) == 1 and self.foldings[0].by_column and not self.every_change:
            grouped = by_column(inputs[0], self.foldings[0])
            if grouped is not None:
                return self.combined(store, task.store(latest_of(self.store_name)), grouped)
        changes = Changes(
            task,
            self.store_name,
            self.foldings[0].result,
            every_change=self.every_change,
            leaves_old=all(one.leaves_old for one in self.foldings),
        )
        for number, key, value, time, rank in in_order(inputs):
            if key is None or value is None:
                continue
            folding = self.foldings[number]
            try:
                old = store.get(hashable(key))
                changes.before(key, old)
                new = folding.add(key, value, folding.first() if old is None else old)
            except Exception as error:
                task.fail(rank, error)
                continue
            store.put(key, new)
            changes.after(key, new, time, rank)
        return changes.rows()

    def combined(self, store: Store, latest: Store, grouped: Grouped) -> Rows:
        folding = self.foldings[0]
        olds, news = [], []
        times = grouped.times.tolist()
        for at, (key, part) in enumerate(zip(grouped.keys, grouped.parts, strict=True)):
            old = store.get(key)
            new = folding.combine(key, old, part)
            store.put(key, new)
            olds.append(folding.result(old))
            news.append(folding.result(new))
            held = latest.get(key, -1)
            if times[at] > held:
                latest.put(key, times[at])
            else:
                times[at] = held
        return in_ranks(Rows(grouped.keys, news, np.array(times, np.int64), grouped.ranks, olds=olds))


@dataclass
class AggregateTable(Operator):
    """Of a table that was grouped: what a row was is subtracted, what it is is added. Values come as (old, new), either
    of which may be None."""

    store_name: str
    initial: Callable[[], Folded]
    adder: Callable[[Key, Value, Folded], Folded]
    subtractor: Callable[[Key, Value, Folded], Folded]
    any_order: bool = False  # whether changes give the same in any order, and those of a row that come to nothing too
    every_change: bool = False
    kind = "aggregate-table"

    def __post_init__(self) -> None:
        self.stores = (self.store_name, latest_of(self.store_name))
        self.sees_changes = not self.any_order

    def shapes(self) -> dict[str, str]:
        return dict.fromkeys(self.stores, KEYS)

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        store = task.store(self.store_name)
        changes = Changes(task, self.store_name, lambda aggregate: aggregate, every_change=self.every_change)
        for _, key, (gone, added), time, rank in in_order(inputs):
            if key is None:
                continue
            try:
                new = old = store.get(hashable(key))
                changes.before(key, old)
                if gone is not None:
                    new = self.subtractor(key, gone, self.initial() if new is None else new)
                if added is not None:
                    new = self.adder(key, added, self.initial() if new is None else new)
            except Exception as error:
                task.fail(rank, error)
                continue
            store.put(key, new)
            changes.after(key, new, time, rank)
        return changes.rows()


@dataclass
class GroupTable(Operator):
    """Both sides of a table's change under their new keys, as (old, new): together where the keys are the same."""

    function: Callable[[Key, Value], Key]
    kind = "group-table"
    several_rows = True

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        (rows,) = inputs
        keys, values, times, ranks = [], [], [], []
        columns = zip(rows.keys, rows.values, rows.olds or (), rows.times.tolist(), rows.ranks.tolist(), strict=True)
        for key, new, old, time, rank in columns:
            try:
                before = None if old is None else self.function(key, old)
                after = None if new is None else self.function(key, new)
            except Exception as error:
                task.fail(rank, error)
                continue
            if old is not None and new is not None and before == after:
                changed = [(after, (old, new))]
            else:
                changed = [(before, (old, None))] if old is not None else []
                changed += [(after, (None, new))] if new is not None else []
            for place, value in changed:
                keys.append(place)
                values.append(value)
                times.append(time)
                ranks.append(rank)
        return made(keys, values, times, ranks)


class Grouped:
    """The keys of a batch with what was folded of each, and the greatest time and rank."""

    def __init__(self, keys: list[Key], parts: list[Folded], times: Numbers, ranks: Numbers) -> None:
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


def hashable(key: Key) -> Key:
    try:
        hash(key)
    except TypeError:
        raise StreamsError(
            f"a key of type {type(key).__name__} can't be grouped or joined by: select another one"
        ) from None
    return key
