"""Aggregates by sliding window: for each record the window that ends with it, and the one that begins after it.

As in Kafka Streams a window [start, start + difference] exists where a record ends it, or where one lies just before it
and others in it. The records of the open windows are kept, so a window that a late record calls into being is complete.
Two stores: records by key as (time, stream, value, how many came before), and aggregates by (start, key). Values are
added in the order in which they came, as in Kafka Streams.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import Any

import numpy as np

from barnabas.pipelines.streams.objects import Key, Value
from barnabas.pipelines.streams.operators.aggregates import hashable, in_order
from barnabas.pipelines.streams.operators.changes import Changes, latest_of
from barnabas.pipelines.streams.operators.folding import Folding
from barnabas.pipelines.streams.operators.operator import Operator, Task
from barnabas.pipelines.streams.operators.sessions import SWEPT
from barnabas.pipelines.streams.operators.windowed import TIME, advanced, note_start, take_closed, times_of
from barnabas.pipelines.streams.rows import Rows
from barnabas.pipelines.streams.state.shapes import CLOCK, KEYS, WINDOWS
from barnabas.pipelines.streams.state.stores import Store
from barnabas.pipelines.streams.windows import SlidingWindows, Windowed

Record = tuple[int, int, Any, int]
ARRIVED = "arrived"


@dataclass
class AggregateBySlidingWindow(Operator):
    store_name: str
    foldings: list[Folding]
    windows: SlidingWindows
    retention_ms: int
    every_change: bool = False
    sees_changes = True
    several_rows = True

    def __post_init__(self) -> None:
        self.kind = "sliding-" + (self.foldings[0].kind if len(self.foldings) == 1 else "cogroup")
        self.stores = (self.store_name, latest_of(self.store_name), self.records_name, times_of(self.store_name))

    @property
    def records_name(self) -> str:
        return f"{self.store_name}-records"

    def shapes(self) -> dict[str, str]:
        return dict(zip(self.stores, (WINDOWS, WINDOWS, KEYS, CLOCK), strict=True))

    def detail(self) -> str:
        return str(self.windows)

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        store, records = task.store(self.store_name), task.store(self.records_name)
        clock = task.store(times_of(self.store_name))
        rows = [row for row in in_order(inputs) if row[1] is not None and row[2] is not None]
        seen = advanced(clock, np.array([row[3] for row in rows], np.int64)).tolist()
        changes = Changes(
            task,
            self.store_name,
            self.foldings[0].result,
            every_change=self.every_change,
            leaves_old=all(one.leaves_old for one in self.foldings),
        )
        difference = self.windows.difference_ms
        for (number, key, value, time, rank), stream_time in zip(rows, seen, strict=True):
            closed = stream_time - self.windows.grace_ms
            if time + difference < closed:  # the window that it ends is over, and with it all that it may be in
                task.late(1)
                continue
            folding = self.foldings[number]
            there = self.reachable(records.get(hashable(key), []), closed)
            arrived = clock.get(ARRIVED, 0)
            clock.put(ARRIVED, arrived + 1)
            bisect.insort(there, (time, number, value, arrived), key=lambda one: one[0])
            records.put(key, there)
            for start in self.starts_around(there, time):
                if start + difference < closed:  # its end belongs to it
                    continue
                place = (start, key)
                old = store.get(place)
                if old is not None and start > time:  # the one behind it is there, and is not changed by it
                    continue
                changes.before(place, old)
                try:
                    new = self.folded(old, folding, there, start, (key, value))
                except Exception as error:
                    task.fail(rank, error)
                    break
                self.put(store, start, key, new)
                held = (
                    time if old is not None else max(one[0] for one in there if start <= one[0] <= start + difference)
                )
                changes.after(place, new, held, rank)
        self.sweep(store, task.store(latest_of(self.store_name)), records, clock)
        return changes.rows(lambda place: Windowed(place[1], place[0], place[0] + difference))

    def reachable(self, records: list[Record], closed: int) -> list[Record]:
        """Those in open windows, and those behind which an open one begins."""
        return [one for one in records if one[0] >= closed - self.windows.difference_ms - 1]

    def starts_around(self, records: list[Any], time: int) -> list[int]:
        """The windows that hold a record of this time, and the one behind it if it holds others."""
        difference = self.windows.difference_ms
        times = [one[0] for one in records]
        starts = {max(0, time - difference)}
        for other in times:
            if time - difference <= other + 1 <= time:
                starts.add(other + 1)
            left = max(0, other - difference)
            if left <= time <= left + difference:
                starts.add(left)
        if any(time + 1 <= later <= time + 1 + difference for later in times):
            starts.add(time + 1)
        return sorted(starts)

    def folded(self, old: Any, folding: Folding, records: list[Any], start: int, new: Any) -> Any:
        key, value = new
        times = [one[0] for one in records]
        held = records[
            bisect.bisect_left(times, start) : bisect.bisect_right(times, start + self.windows.difference_ms)
        ]
        if old is not None:
            return folding.add(key, value, old)
        aggregate = None
        for _, number, one, _ in sorted(held, key=lambda one: one[3]):
            own = self.foldings[number]
            aggregate = own.add(key, one, own.first() if aggregate is None else aggregate)
        return aggregate

    def put(self, store: Store, start: int, key: Key, value: Value) -> None:
        store.put((start, key), value)
        note_start(store, start, key)

    def sweep(self, store: Store, latest: Store, records: Store, clock: Store) -> None:
        difference = self.windows.difference_ms
        keeps_ms = max(difference + self.windows.grace_ms, self.retention_ms)
        time = clock.get(TIME, -1)
        for place in take_closed(store, time - keeps_ms):
            store.remove(place)
            latest.remove(place)
        if time - clock.get(SWEPT, -1) < keeps_ms:
            return
        clock.put(SWEPT, time)
        for key, there in records.entries():
            open_ones = self.reachable(there, time - self.windows.grace_ms)
            if len(open_ones) < len(there):
                records.put(key, open_ones or None)
