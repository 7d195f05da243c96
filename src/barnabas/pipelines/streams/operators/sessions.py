"""Aggregates by session: records of a key less than the gap apart are one session, and a record may join two.

A session that grows is another window: the old one gets a tombstone. A store holds the list of a key's sessions as
(start, end, aggregate), by start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from barnabas.pipelines.streams.operators.aggregates import hashable, in_order, kept
from barnabas.pipelines.streams.operators.folding import Folding
from barnabas.pipelines.streams.operators.operator import Operator, Task
from barnabas.pipelines.streams.operators.windowed import TIME, advanced, times_of
from barnabas.pipelines.streams.rows import Rows, made
from barnabas.pipelines.streams.state.stores import Store
from barnabas.pipelines.streams.windows import SessionWindows, Windowed

Session = tuple[int, int, Any]
SWEPT = "swept"


@dataclass
class AggregateBySession(Operator):
    store_name: str
    foldings: list[Folding]
    windows: SessionWindows
    retention_ms: int

    def __post_init__(self) -> None:
        self.kind = "session-" + (self.foldings[0].kind if len(self.foldings) == 1 else "cogroup")
        self.stores = (self.store_name, times_of(self.store_name))

    def detail(self) -> str:
        return str(self.windows)

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        store, clock = task.store(self.store_name), task.store(times_of(self.store_name))
        rows = [row for row in in_order(inputs) if row[1] is not None and row[2] is not None]
        seen = advanced(clock, np.array([row[3] for row in rows], np.int64)).tolist()
        before: dict[Any, list[Session]] = {}
        last: dict[Any, tuple[int, int]] = {}
        for (number, key, value, time, rank), stream_time in zip(rows, seen, strict=True):
            sessions = store.get(hashable(key), [])
            if key not in before:
                before[key] = kept(sessions)
            try:
                changed = self.with_record(self.foldings[number], sessions, key, value, time, stream_time)
            except Exception as error:
                task.fail(rank, error)
                continue
            if changed is not None:
                store.put(key, changed)
                last[key] = (max(time, last[key][0]), rank) if key in last else (time, rank)
        found = self.changes(store, before, last)
        self.sweep(store, clock)
        return found

    def with_record(
        self, folding: Folding, sessions: list[Session], key: Any, value: Any, time: int, stream_time: int
    ) -> list[Session] | None:
        """None for a record whose session is over."""
        gap = self.windows.gap_ms
        near = [one for one in sessions if one[1] >= time - gap and one[0] <= time + gap]
        start = min([time, *(one[0] for one in near)])
        end = max([time, *(one[1] for one in near)])
        if end < stream_time - self.windows.grace_ms - gap:
            return None
        aggregate = folding.first()
        for one in near:
            aggregate = folding.combine(key, aggregate, one[2]) if aggregate is not None else one[2]
        aggregate = folding.add(key, value, aggregate)
        others = [one for one in sessions if one not in near]
        return sorted([*others, (start, end, aggregate)], key=lambda one: one[0])

    def changes(self, store: Store, before: dict[Any, list[Session]], last: dict[Any, tuple[int, int]]) -> Rows:
        keys, news, olds, times, ranks = [], [], [], [], []
        result = self.foldings[0].result
        for key, (_, rank) in last.items():
            was = {(start, end): aggregate for start, end, aggregate in before[key]}
            now = {(start, end): aggregate for start, end, aggregate in store.get(key, [])}
            for place in [*(place for place in was if place not in now), *now]:
                if place in was and place in now and was[place] == now[place]:
                    continue
                keys.append(Windowed(key, *place))
                news.append(result(now[place]) if place in now else None)
                olds.append(result(was[place]) if place in was else None)
                times.append(place[1])
                ranks.append(rank)
        return made(keys, news, times, ranks, olds)

    def sweep(self, store: Store, clock: Store) -> None:
        """Sessions that are over are dropped now and then: each time costs a look at all keys."""
        keeps_ms = max(2 * self.windows.gap_ms + self.windows.grace_ms, self.retention_ms)
        time = clock.get(TIME, -1)
        if time - clock.get(SWEPT, -1) < keeps_ms:
            return
        clock.put(SWEPT, time)
        for key, sessions in list(store.data.items()):
            kept_ones = self.reachable(sessions, time - keeps_ms)
            if len(kept_ones) < len(sessions):
                store.put(key, kept_ones or None)

    def reachable(self, sessions: list[Session], oldest: int) -> list[Session]:
        """Those that are not over, and those that a record may yet join to one that is kept."""
        found: list[Session] = []
        for one in reversed(sessions):
            if one[1] >= oldest:
                found.insert(0, one)
                oldest = min(oldest, one[0] - 2 * self.windows.gap_ms)
        return found
