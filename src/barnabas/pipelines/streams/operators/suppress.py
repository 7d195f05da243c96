"""Results of a window once, when it closes: the last value of each window is held back until stream time has passed its
end and the grace. Tombstones of sessions that grew take back what is held.

A window is shown at the rank of the row that closes it. Where the aggregate of the windows shows each of them once a
batch, it tells at which ranks stream time came to what: no window changes after it has closed, so its last value is its
result.

With a time limit rows of any table are held back so long, counted in stream time from the first change that is held,
and then the last value is shown, as the change of what was shown before.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from barnabas.pipelines.streams.objects import Key, Value
from barnabas.pipelines.streams.operators.operator import Operator, Task
from barnabas.pipelines.streams.operators.windowed import TIME, advanced, times_of
from barnabas.pipelines.streams.rows import Rows, made
from barnabas.pipelines.streams.state.shapes import CLOCK, KEYS
from barnabas.pipelines.streams.state.stores import Store
from barnabas.pipelines.streams.windows import Windowed

Closing = tuple[int, int, str, Windowed[Key]]  # a window by its end and its start
Beginning = tuple[int, str, Key]  # a row by the time since which it is held


@dataclass
class Held(Operator):
    """Rows that are held back, in a store, and stream time beside it."""

    store_name: str
    kind = "suppress"
    sees_changes = True
    several_rows = True

    def __post_init__(self) -> None:
        self.stores = (self.store_name, times_of(self.store_name))

    def shapes(self) -> dict[str, str]:
        return dict(zip(self.stores, (KEYS, CLOCK), strict=True))


@dataclass
class Suppress(Held):
    grace_ms: int

    def detail(self) -> str:
        return f"until windows close, grace {self.grace_ms} ms"

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        (rows,) = inputs
        held, clock = task.store(self.store_name), task.store(times_of(self.store_name))
        shown: list[tuple[Key, Value, int, int]] = []  # window, value, time, rank
        columns = zip(rows.keys, rows.values, rows.times.tolist(), rows.ranks.tolist(), strict=True)
        if rows.clock is None:
            now = clock.get(TIME, -1)
            for key, value, time, rank in columns:
                self.hold(held, key, value, time)
                now = max(now, time)
                shown += [(*one, rank) for one in self.closed(held, now)]
            advanced(clock, rows.times)
        else:
            for key, value, time, _ in columns:
                self.hold(held, key, value, time)
            ranks, reached = rows.clock[0].tolist(), advanced(clock, rows.clock[1])
            for key, value, time in self.closed(held, clock.get(TIME, -1)):
                closes = int(np.searchsorted(reached, key.end_ms + self.grace_ms))
                shown.append((key, value, time, ranks[closes]))
        keys, values, times, at = map(list, zip(*shown, strict=True)) if shown else ([], [], [], [])
        return made(keys, values, times, at, [None] * len(shown))

    def hold(self, held: Store, key: Key, value: Value, time: int) -> None:
        if value is not None and key not in held.data:
            heapq.heappush(by_end(held), place_of(key))
        held.put(key, None if value is None else (value, time))

    def closed(self, held: Store, stream_time: int) -> Iterator[tuple[Key, Value, int]]:
        """(window, value, time) of those that close now, by end and start; they are held no more."""
        waiting = by_end(held)
        while waiting and waiting[0][0] + self.grace_ms <= stream_time:
            key = heapq.heappop(waiting)[-1]
            found = held.get(key)
            if found is not None:
                held.remove(key)
                yield key, *found


@dataclass
class SuppressForTime(Held):
    """`max_records` are held at most: with one more, the oldest is shown."""

    limit_ms: int
    max_records: int | None

    def detail(self) -> str:
        most = "" if self.max_records is None else f", at most {self.max_records} rows"
        return f"for {self.limit_ms} ms{most}"

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        (rows,) = inputs
        held, clock = task.store(self.store_name), task.store(times_of(self.store_name))
        waiting = by_beginning(held)
        shown: list[tuple[Key, Value, int, int, Value]] = []  # key, value, time, rank, old
        assert rows.olds is not None
        reached = advanced(clock, rows.times).tolist()
        columns = zip(rows.keys, rows.values, rows.olds, rows.times.tolist(), rows.ranks.tolist(), reached, strict=True)
        for key, value, old, time, rank, now in columns:
            found = held.get(key)
            since, shown_before = (time, old) if found is None else found[:2]
            held.put(key, (since, shown_before, value, time))
            if found is None:
                heapq.heappush(waiting, (since, repr(key), key))
            while waiting and (waiting[0][0] + self.limit_ms <= now or len(waiting) > (self.max_records or math.inf)):
                key = heapq.heappop(waiting)[-1]
                _, old, value, time = held.get(key)
                held.remove(key)
                if value is not None or old is not None:
                    shown.append((key, value, time, rank, old))
        keys, values, times, ranks, olds = map(list, zip(*shown, strict=True)) if shown else ([], [], [], [], [])
        return made(keys, values, times, ranks, olds)


def by_beginning(held: Store) -> list[Beginning]:
    if held.index is None:
        held.index = [(since, repr(key), key) for key, (since, *_) in held.entries()]
        heapq.heapify(held.index)
    index: list[Beginning] = held.index
    return index


def place_of(key: Windowed[Key]) -> Closing:
    return key.end_ms, key.start_ms, repr(key.key), key


def by_end(held: Store) -> list[Closing]:
    if held.index is None:
        held.index = [place_of(key) for key in held.data]
        heapq.heapify(held.index)
    index: list[Closing] = held.index
    return index
