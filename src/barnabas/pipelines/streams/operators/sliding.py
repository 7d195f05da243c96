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

from barnabas.pipelines.streams.operators.aggregates import hashable, in_order, kept
from barnabas.pipelines.streams.operators.folding import Folding
from barnabas.pipelines.streams.operators.operator import Operator, Task
from barnabas.pipelines.streams.operators.sessions import SWEPT
from barnabas.pipelines.streams.operators.windowed import TIME, advanced, starts_in, times_of
from barnabas.pipelines.streams.rows import Rows, made
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

    def __post_init__(self) -> None:
        self.kind = "sliding-" + (self.foldings[0].kind if len(self.foldings) == 1 else "cogroup")
        self.stores = (self.store_name, self.records_name, times_of(self.store_name))

    @property
    def records_name(self) -> str:
        return f"{self.store_name}-records"

    def detail(self) -> str:
        return str(self.windows)

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        store, records = task.store(self.store_name), task.store(self.records_name)
        clock = task.store(times_of(self.store_name))
        rows = [row for row in in_order(inputs) if row[1] is not None and row[2] is not None]
        seen = advanced(clock, np.array([row[3] for row in rows], np.int64)).tolist()
        before: dict[Any, Any] = {}
        last: dict[Any, tuple[int, int]] = {}
        difference = self.windows.difference_ms
        for (number, key, value, time, rank), stream_time in zip(rows, seen, strict=True):
            closed = stream_time - self.windows.grace_ms
            if time + 1 + difference < closed:
                continue
            folding = self.foldings[number]
            there: list[Record] = records.get(hashable(key), [])
            arrived = clock.get(ARRIVED, 0)
            clock.put(ARRIVED, arrived + 1)
            bisect.insort(there, (time, number, value, arrived), key=lambda one: one[0])
            records.put(key, [one for one in there if one[0] >= closed - difference])
            for start in self.starts_around(there, time):
                if start + difference < closed:  # its end belongs to it
                    continue
                place = (start, key)
                if place not in before:
                    before[place] = kept(store.get(place))
                try:
                    self.put(
                        store, start, key, self.folded(store.get(place), folding, there, start, (key, value, time))
                    )
                except Exception as error:
                    task.fail(rank, error)
                    break
                last[place] = (time, rank)
        places = list(last)
        result = self.foldings[0].result
        found = made(
            [Windowed(key, start, start + difference) for start, key in places],
            [None if (new := store.get(place)) is None else result(new) for place in places],
            [last[place][0] for place in places],
            [last[place][1] for place in places],
            [None if before[place] is None else result(before[place]) for place in places],
        )
        self.sweep(store, records, clock)
        return found

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
        key, value, time = new
        times = [one[0] for one in records]
        held = records[
            bisect.bisect_left(times, start) : bisect.bisect_right(times, start + self.windows.difference_ms)
        ]
        if old is not None:
            return folding.add(key, value, old) if start <= time else old
        aggregate = None
        for _, number, one, _ in sorted(held, key=lambda one: one[3]):
            own = self.foldings[number]
            aggregate = own.add(key, one, own.first() if aggregate is None else aggregate)
        return aggregate

    def put(self, store: Store, start: int, key: Any, value: Any) -> None:
        store.put((start, key), value)
        starts_in(store).setdefault(start, set()).add(key)

    def sweep(self, store: Store, records: Store, clock: Store) -> None:
        difference = self.windows.difference_ms
        keeps_ms = max(difference + self.windows.grace_ms, self.retention_ms)
        time = clock.get(TIME, -1)
        index = starts_in(store)
        for start in [start for start in index if start + keeps_ms < time]:
            for key in index.pop(start):
                store.remove((start, key))
        if time - clock.get(SWEPT, -1) < keeps_ms:
            return
        clock.put(SWEPT, time)
        for key, there in list(records.data.items()):
            open_ones = [one for one in there if one[0] >= time - self.windows.grace_ms - difference]
            if len(open_ones) < len(there):
                records.put(key, open_ones or None)
