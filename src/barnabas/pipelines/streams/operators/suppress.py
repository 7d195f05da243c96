"""Results of a window once, when it closes: the last value of each window is held back until stream time has passed its
end and the grace. Tombstones of sessions that grew take back what is held.

A window is shown at the rank of the row that closes it. Where the aggregate of the windows shows each of them once a
batch, it tells at which ranks stream time came to what: no window changes after it has closed, so its last value is its
result.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from barnabas.pipelines.streams.operators.operator import Operator, Task
from barnabas.pipelines.streams.operators.windowed import TIME, advanced, times_of
from barnabas.pipelines.streams.rows import Rows, made
from barnabas.pipelines.streams.state.shapes import CLOCK, KEYS
from barnabas.pipelines.streams.state.stores import Store


@dataclass
class Suppress(Operator):
    store_name: str
    grace_ms: int
    kind = "suppress"
    sees_changes = True
    several_rows = True

    def __post_init__(self) -> None:
        self.stores = (self.store_name, times_of(self.store_name))

    def shapes(self) -> dict[str, str]:
        return dict(zip(self.stores, (KEYS, CLOCK), strict=True))

    def detail(self) -> str:
        return f"until windows close, grace {self.grace_ms} ms"

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        (rows,) = inputs
        held, clock = task.store(self.store_name), task.store(times_of(self.store_name))
        shown: list[tuple[Any, Any, int, int]] = []  # window, value, time, rank
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

    def hold(self, held: Store, key: Any, value: Any, time: int) -> None:
        if value is not None and key not in held.data:
            heapq.heappush(by_end(held), place_of(key))
        held.put(key, None if value is None else (value, time))

    def closed(self, held: Store, stream_time: int) -> Iterator[tuple[Any, Any, int]]:
        """(window, value, time) of those that close now, by end and start; they are held no more."""
        waiting = by_end(held)
        while waiting and waiting[0][0] + self.grace_ms <= stream_time:
            key = heapq.heappop(waiting)[-1]
            found = held.get(key)
            if found is not None:
                held.remove(key)
                yield key, *found


def place_of(key: Any) -> tuple[int, int, str, Any]:
    return key.end_ms, key.start_ms, repr(key.key), key


def by_end(held: Store) -> list[Any]:
    if held.index is None:
        held.index = [place_of(key) for key in held.data]
        heapq.heapify(held.index)
    index: list[Any] = held.index
    return index
