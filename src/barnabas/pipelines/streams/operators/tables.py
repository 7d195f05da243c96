"""Tables and what is joined with them by key.

A table's rows carry what was and what is. A join reads the other side's store as it stood at the rank of the row at
hand: the store is at the end of the batch already, and the changes of the batch tell what was there before.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass

from barnabas.pipelines.streams.objects import Key, Value
from barnabas.pipelines.streams.operators.aggregates import hashable, in_order
from barnabas.pipelines.streams.operators.operator import Joiner, Operator, Task
from barnabas.pipelines.streams.rows import Rows, made
from barnabas.pipelines.streams.state.shapes import KEYS
from barnabas.pipelines.streams.state.stores import Store


@dataclass
class TableSource(Operator):
    """Records as the changes of a table: the last one of a key is its row, None removes it. Null keys are left out."""

    store_name: str
    quiet: bool = False  # says nothing of a row that is not there and was not
    kind = "table"

    def __post_init__(self) -> None:
        self.stores = (self.store_name,)
        self.sees_changes = not self.quiet  # behind a join by foreign key rows are a table's already

    def shapes(self) -> dict[str, str]:
        return dict.fromkeys(self.stores, KEYS)

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        (rows,) = inputs
        store = task.store(self.store_name)
        keys, values = rows.keys, rows.values
        olds: list[Value] = []
        for key, value in zip(keys, values, strict=True):
            if key is None:
                olds.append(None)
                continue
            olds.append(store.get(hashable(key)))
            store.put(key, value)
        rows = Rows(keys, values, rows.times, rows.ranks, olds=olds)
        if not self.quiet and None not in keys:
            return rows
        told = [not self.quiet or new is not None or old is not None for new, old in zip(values, olds, strict=True)]
        return rows.take([at for at, key in enumerate(keys) if key is not None and told[at]])


@dataclass
class Materialize(Operator):
    """A table that is looked up: its rows in a store."""

    store_name: str
    kind = "materialize"

    def __post_init__(self) -> None:
        self.stores = (self.store_name,)

    def shapes(self) -> dict[str, str]:
        return dict.fromkeys(self.stores, KEYS)

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        (rows,) = inputs
        store = task.store(self.store_name)
        for key, value in zip(rows.keys, rows.values, strict=True):
            store.put(hashable(key), value)
        return rows


class View:
    """A table as it stood at a rank of this batch. A change is there for all who are behind the table as soon as it is
    in its store, also for those who get it before the join does."""

    def __init__(self, store: Store, changes: Rows) -> None:
        self._store = store
        self._ranks: dict[Key, list[int]] = {}
        self._values: dict[Key, list[Value]] = {}
        columns = zip(changes.keys, changes.values, changes.olds or (), changes.stored.tolist(), strict=True)
        for key, new, old, rank in columns:
            if key not in self._ranks:
                self._ranks[key], self._values[key] = [], [old]
            self._ranks[key].append(rank)
            self._values[key].append(new)

    def at(self, key: Key, rank: int) -> Value:
        ranks = self._ranks.get(key)
        if ranks is None:
            return self._store.get(key)
        return self._values[key][bisect.bisect_right(ranks, rank)]


@dataclass
class JoinStreamTable(Operator):
    """Inputs: the stream and the table, which is in `store_name`. Records without a value are left out, and those
    without a key too unless the join is a left one: no row is theirs."""

    store_name: str
    joiner: Joiner
    left: bool
    kind = "join-stream-table"
    sees_changes = True

    def __post_init__(self) -> None:
        self.kind = "left-join-stream-table" if self.left else "join-stream-table"

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        rows, changes = inputs
        view = View(task.store(self.store_name), changes)
        if not len(changes):
            store = task.store(self.store_name).data
            try:
                found = list(map(store.get, rows.keys))
            except TypeError:  # below it is told which key can't be looked up
                pass
            else:
                return with_found(task, rows, found, self.joiner, self.left)
        return joined(
            task, rows, lambda key, value, rank: view.at(hashable(key), rank), self.joiner, self.left, self.left
        )


@dataclass
class JoinStreamGlobal(Operator):
    """The key to look up is a function of the record."""

    store_name: str
    key_of: Callable[[Key, Value], Key]
    joiner: Joiner
    left: bool
    kind = "join-stream-global-table"

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        table = task.global_store(self.store_name)

        def look_up(key: Key, value: Value, rank: int) -> Value:
            wanted = self.key_of(key, value)
            return None if wanted is None else table.get(hashable(wanted))

        return joined(task, inputs[0], look_up, self.joiner, self.left, keyless=True)


def with_found(task: Task, rows: Rows, found: list[Value], joiner: Joiner, left: bool) -> Rows:
    """Rows beside what was found for their keys."""
    positions = [
        at
        for at, (value, other) in enumerate(zip(rows.values, found, strict=True))
        if value is not None and (left or other is not None)
    ]
    rows = rows.take(positions)
    others = found if len(positions) == len(found) else [found[at] for at in positions]
    values: list[Value] = []
    failed: list[int] = []
    calls = map(joiner, rows.values, others)
    while True:
        try:
            values.extend(calls)
            if len(values) + len(failed) < len(rows):
                raise StopIteration  # by the joiner, which to `extend` looks like the end
            break
        except Exception as error:
            at = len(values) + len(failed)
            task.fail(int(rows.ranks[at]), error)
            failed.append(at)
    return rows.without(failed).with_values(values)


def joined(
    task: Task,
    rows: Rows,
    look_up: Callable[[Key, Value, int], Value],
    joiner: Joiner,
    left: bool,
    keyless: bool = False,
) -> Rows:
    positions, values = [], []
    columns = enumerate(zip(rows.keys, rows.values, rows.ranks.tolist(), strict=True))
    while True:
        try:
            for at, (key, value, rank) in columns:
                if value is None or (key is None and not keyless):
                    continue
                found = look_up(key, value, rank)
                if found is not None or left:
                    values.append(joiner(value, found))
                    positions.append(at)
            break
        except Exception as error:
            task.fail(rank, error)
    return rows.take(positions).with_values(values)


@dataclass
class JoinTables(Operator):
    """Inputs: two tables, both in stores. A row is there where both are, or with `left` the first, or with `right` the
    second. Its time is the later one of both sides: the times of either are kept in a store of the join's own."""

    name: str
    left_store: str
    right_store: str
    joiner: Joiner
    left: bool
    right: bool
    kind = "join-tables"

    def __post_init__(self) -> None:
        self.kind = {(False, False): "join-tables", (True, False): "left-join-tables"}.get(
            (self.left, self.right), "outer-join-tables"
        )
        self.times = (f"{self.name}-left-latest", f"{self.name}-right-latest")

    def shapes(self) -> dict[str, str]:
        return dict.fromkeys(self.times, KEYS)

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        lefts, rights = inputs
        left, right = View(task.store(self.left_store), lefts), View(task.store(self.right_store), rights)
        olds_of = (lefts.olds or [], rights.olds or [])
        times_of = task.store(self.times[0]), task.store(self.times[1])
        at = [0, 0]
        keys, news, olds, times, ranks = [], [], [], [], []
        for side, key, value, time, rank in in_order(inputs):
            old = olds_of[side][at[side]]
            at[side] += 1
            other = right.at(key, rank) if side == 0 else left.at(key, rank)
            times_of[side].put(key, None if value is None else time)
            try:
                new = self.of(value, other) if side == 0 else self.of(other, value)
                was = self.of(old, other) if side == 0 else self.of(other, old)
            except Exception as error:
                task.fail(rank, error)
                continue
            if new is None and was is None:
                continue
            keys.append(key)
            news.append(new)
            olds.append(was)
            times.append(time if other is None else max(time, times_of[1 - side].get(key, -1)))
            ranks.append(rank)
        return made(keys, news, times, ranks, olds)

    def of(self, one: Value, other: Value) -> Value:
        there = (one is not None or self.right) and (other is not None or self.left)
        return self.joiner(one, other) if there and not (one is None and other is None) else None
