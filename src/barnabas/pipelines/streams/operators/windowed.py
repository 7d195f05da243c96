"""Aggregates by key and window of time, tumbling or hopping.

Stream time is the greatest time seen in the partition, and advances record by record: a window takes a record as long
as its end lies after stream time less the grace, whatever batch the record comes in. Closed windows are dropped, or
kept for `retention_ms` of stream time where somebody may ask for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from barnabas.pipelines.streams.operators.aggregates import by_column, hashable, in_order, kept, present
from barnabas.pipelines.streams.operators.folding import Folding
from barnabas.pipelines.streams.operators.operator import Operator, Task
from barnabas.pipelines.streams.rows import Numbers, Rows, made
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

    def __post_init__(self) -> None:
        self.kind = "windowed-" + (self.foldings[0].kind if len(self.foldings) == 1 else "cogroup")
        self.stores = (self.store_name, times_of(self.store_name))

    def detail(self) -> str:
        return str(self.windows)

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        store, clock = task.store(self.store_name), task.store(times_of(self.store_name))
        if len(inputs) == 1 and self.foldings[0].by_column:
            found = self.by_column(store, clock, inputs[0])
        else:
            found = None
        if found is None:
            found = self.one_by_one(task, store, clock, inputs)
        self.drop_closed(store, clock.get(TIME, -1))
        return found

    def by_column(self, store: Store, clock: Store, rows: Rows) -> Rows | None:
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
        advanced(clock, times)
        keys, news, olds = [], [], []
        size_ms = self.windows.size_ms
        for key, start, part in zip(grouped.keys, grouped.starts, grouped.parts, strict=True):
            old = store.get((start, key))
            new = folding.combine(key, old, part)
            self.put(store, start, key, new)
            keys.append(Windowed(key, start, start + size_ms))
            news.append(folding.result(new))
            olds.append(folding.result(old))
        return Rows(keys, news, grouped.times, grouped.ranks, olds=olds)

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
        seen = advanced(clock, times).tolist()
        before: dict[Any, Any] = {}
        last: dict[Any, tuple[int, int]] = {}
        size_ms, grace_ms = self.windows.size_ms, self.windows.grace_ms
        position, starts = self.windows_at(times)
        for at, start in zip(position.tolist(), starts.tolist(), strict=True):
            if start + size_ms <= seen[at] - grace_ms:
                continue
            number, key, value, time, rank = rows[at]
            folding = self.foldings[number]
            place = (start, hashable(key))
            try:
                old = store.get(place)
                if place not in before:
                    before[place] = kept(old)
                self.put(store, start, key, folding.add(key, value, folding.first() if old is None else old))
            except Exception as error:
                task.fail(rank, error)
                continue
            last[place] = (max(time, last[place][0]), rank) if place in last else (time, rank)
        places = list(last)
        result = self.foldings[0].result
        return made(
            [Windowed(key, start, start + size_ms) for start, key in places],
            [None if (new := store.get(place)) is None else result(new) for place in places],
            [last[place][0] for place in places],
            [last[place][1] for place in places],
            [None if before[place] is None else result(before[place]) for place in places],
        )

    def put(self, store: Store, start: int, key: Any, value: Any) -> None:
        store.put((start, key), value)
        index = starts_in(store)
        index.setdefault(start, set()).add(key)

    def drop_closed(self, store: Store, time: int) -> None:
        keeps_ms = max(self.windows.size_ms + self.windows.grace_ms, self.retention_ms)
        index = starts_in(store)
        for start in [start for start in index if start + keeps_ms <= time]:
            for key in index.pop(start):
                store.remove((start, key))


def starts_in(store: Store) -> dict[int, set[Any]]:
    """The keys of each window, by the window's start."""
    if store.index is None:
        store.index = {}
        for start, key in store.data:
            store.index.setdefault(start, set()).add(key)
    index: dict[int, set[Any]] = store.index
    return index
