"""Aggregates by key and window of time, tumbling or hopping.

Stream time is the greatest time seen in the partition, and advances record by record: a window takes a record as long
as its end lies after stream time less the grace, whatever batch the record comes in. Closed windows are dropped, or
kept for `retention_ms` of stream time where somebody may ask for them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from barnabas.pipelines.streams.objects import Key, Value
from barnabas.pipelines.streams.operators.aggregates import by_column, hashable, in_order, present
from barnabas.pipelines.streams.operators.changes import Changes, latest_of
from barnabas.pipelines.streams.operators.folding import Folding
from barnabas.pipelines.streams.operators.operator import Operator, Task
from barnabas.pipelines.streams.order import Numbers
from barnabas.pipelines.streams.rows import Rows, reordered
from barnabas.pipelines.streams.state.disk import DiskTable
from barnabas.pipelines.streams.state.shapes import CLOCK, WINDOWS
from barnabas.pipelines.streams.state.stores import Store
from barnabas.pipelines.streams.windows import TimeWindows, Windowed

TIME = "time"  # the key of stream time in the store beside a store


def times_of(store_name: str) -> str:
    return f"{store_name}-time"


def advanced(store: Store, times: Numbers) -> Numbers:
    """Stream time at each row; what it is after the last one is remembered."""
    before = store.get(TIME, -1)
    seen: Numbers = np.maximum(np.maximum.accumulate(times), before) if len(times) else times
    if len(seen) and int(seen[-1]) > before:
        store.put(TIME, int(seen[-1]))
    return seen


@dataclass
class AggregateByWindow(Operator):
    store_name: str
    foldings: list[Folding]
    windows: TimeWindows
    retention_ms: int
    every_change: bool = False
    sees_changes = True
    several_rows = True

    def __post_init__(self) -> None:
        self.kind = "windowed-" + (self.foldings[0].kind if len(self.foldings) == 1 else "cogroup")
        self.stores = (self.store_name, latest_of(self.store_name), times_of(self.store_name))

    def shapes(self) -> dict[str, str]:
        return dict(zip(self.stores, (WINDOWS, WINDOWS, CLOCK), strict=True))

    def detail(self) -> str:
        return str(self.windows)

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        store, clock = task.store(self.store_name), task.store(times_of(self.store_name))
        latest = task.store(latest_of(self.store_name))
        found = None
        if len(inputs) == 1 and self.foldings[0].by_column and not self.every_change:
            found = self.by_column(task, store, latest, clock, inputs[0])
        if found is None:
            found = self.one_by_one(task, store, clock, inputs)
        self.drop_closed(store, latest, clock.get(TIME, -1))
        return found

    def by_column(self, task: Task, store: Store, latest: Store, clock: Store, rows: Rows) -> Rows | None:
        here = np.flatnonzero(np.asarray(present(rows)))
        folding = self.foldings[0]
        times = rows.times[here]
        position, starts = self.windows_at(times)
        before = clock.get(TIME, -1)
        seen = np.maximum(np.maximum.accumulate(times), before) if len(times) else times
        taken = np.flatnonzero(starts + self.windows.size_ms > seen[position] - self.windows.grace_ms)
        grouped = by_column(rows, folding, starts[taken], here[position[taken]])
        if grouped is None:
            return None
        task.late(len(position) - len(taken))
        advanced(clock, times)
        keys, news, olds, latest_times = [], [], [], grouped.times.tolist()
        size_ms = self.windows.size_ms
        for at, (key, start, part) in enumerate(zip(grouped.keys, grouped.starts, grouped.parts, strict=True)):
            place = (start, key)
            old = store.get(place)
            new = folding.combine(key, old, part)
            self.put(store, start, key, new)
            keys.append(Windowed(key, start, start + size_ms))
            news.append(folding.result(new))
            olds.append(folding.result(old))
            held = latest.get(place, -1)
            if latest_times[at] > held:
                latest.put(place, latest_times[at])
            else:
                latest_times[at] = held
        found = Rows(keys, news, np.array(latest_times, np.int64), grouped.ranks, olds=olds)
        found.clock = rows.ranks[here], seen
        return reordered(found, np.lexsort((np.array(grouped.starts, np.int64), grouped.ranks)))

    def windows_at(self, times: Numbers) -> tuple[Numbers, Numbers]:
        """(position of a time, start of a window that holds it) for all of them, by position and start."""
        size, advance = self.windows.size_ms, self.windows.advance_ms
        last = times - times % advance
        if size == advance:
            return np.arange(len(times)), last
        steps = np.arange(-(-size // advance) - 1, -1, -1, dtype=np.int64) * advance
        starts = (last[:, None] - steps[None, :]).ravel()
        position = np.repeat(np.arange(len(times)), len(steps))
        fits = (starts >= 0) & (starts + size > times[position])
        return position[fits], starts[fits]

    def one_by_one(self, task: Task, store: Store, clock: Store, inputs: list[Rows]) -> Rows:
        rows = [row for row in in_order(inputs) if row[1] is not None and row[2] is not None]
        times = np.array([row[3] for row in rows], np.int64)
        reached = advanced(clock, times)
        seen = reached.tolist()
        changes = Changes(
            task,
            self.store_name,
            self.foldings[0].result,
            every_change=self.every_change,
            leaves_old=all(one.leaves_old for one in self.foldings),
        )
        size_ms, grace_ms = self.windows.size_ms, self.windows.grace_ms
        position, starts = self.windows_at(times)
        for at, start in zip(position.tolist(), starts.tolist(), strict=True):
            if start + size_ms <= seen[at] - grace_ms:
                task.late(1)
                continue
            number, key, value, time, rank = rows[at]
            folding = self.foldings[number]
            place = (start, hashable(key))
            try:
                old = store.get(place)
                changes.before(place, old)
                new = folding.add(key, value, folding.first() if old is None else old)
            except Exception as error:
                task.fail(rank, error)
                continue
            self.put(store, start, key, new)
            changes.after(place, new, time, rank)
        found = changes.rows(lambda place: Windowed(place[1], place[0], place[0] + size_ms))
        if not self.every_change:
            found.clock = np.array([row[4] for row in rows], np.int64), reached
        return found

    def put(self, store: Store, start: int, key: Key, value: Value) -> None:
        store.put((start, key), value)
        note_start(store, start, key)

    def drop_closed(self, store: Store, latest: Store, time: int) -> None:
        keeps_ms = max(self.windows.size_ms + self.windows.grace_ms, self.retention_ms)
        for place in take_closed(store, time - keeps_ms + 1):
            store.remove(place)
            latest.remove(place)


def note_start(store: Store, start: int, key: Key) -> None:
    if not store.on_disk:
        starts_in(store).setdefault(start, set()).add(key)


def take_closed(store: Store, before: int) -> list[tuple[int, Key]]:
    """The windows, as start and key, that begin before this time. On disk windows stand by their starts."""
    if isinstance(store.data, DiskTable):
        return list(store.data.windows_before(before))
    index = starts_in(store)
    return [(start, key) for start in [one for one in index if one < before] for key in index.pop(start)]


def starts_in(store: Store) -> dict[int, set[Key]]:
    """The keys of each window, by the window's start."""
    if store.index is None:
        store.index = {}
        for start, key in store.data:
            store.index.setdefault(start, set()).add(key)
    index: dict[int, set[Key]] = store.index
    return index
