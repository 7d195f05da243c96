"""Aggregates by session: records of a key less than the gap apart are one session, and a record may join two.

A session that grows is another window: the old one gets a tombstone. A store holds the list of a key's sessions as
(start, end, aggregate), by end.

A session is over when stream time is the gap and the grace past its end, and no record joins it from then on, as the
stores of Kafka Streams forget it then. A late record that lies near one joins an open session beside it, or begins
one, which may overlap with the one that is over. Those that are open never overlap.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import Any

import numpy as np

from barnabas.pipelines.streams.objects import Key, Value
from barnabas.pipelines.streams.operators.aggregates import hashable, in_order
from barnabas.pipelines.streams.operators.changes import Changes, kept
from barnabas.pipelines.streams.operators.folding import Folding
from barnabas.pipelines.streams.operators.operator import Operator, Task
from barnabas.pipelines.streams.operators.windowed import TIME, advanced, times_of
from barnabas.pipelines.streams.rows import Rows
from barnabas.pipelines.streams.state.shapes import CLOCK, KEYS
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
    every_change: bool = False
    sees_changes = True
    several_rows = True

    def __post_init__(self) -> None:
        self.kind = "session-" + (self.foldings[0].kind if len(self.foldings) == 1 else "cogroup")
        self.stores = (self.store_name, times_of(self.store_name))
        self.open_ms = self.windows.gap_ms + self.windows.grace_ms

    def shapes(self) -> dict[str, str]:
        return dict(zip(self.stores, (KEYS, CLOCK), strict=True))

    def detail(self) -> str:
        return str(self.windows)

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        store, clock = task.store(self.store_name), task.store(times_of(self.store_name))
        rows = [row for row in in_order(inputs) if row[1] is not None and row[2] is not None]
        before = clock.get(TIME, -1)
        seen = advanced(clock, np.array([row[3] for row in rows], np.int64)).tolist()
        changes = Changes(task, self.store_name, self.foldings[0].result, every_change=self.every_change, sessions=True)
        for (number, key, value, time, rank), stream_time in zip(rows, seen, strict=True):
            sessions: list[Session] = store.get(hashable(key), [])
            opened = bisect.bisect_right(sessions, before - self.open_ms, key=lambda one: one[1])
            before = stream_time
            first, end, window = self.around(sessions, opened, time)
            if window[1] < stream_time - self.open_ms:
                task.late(1)
                continue
            near = sessions[first:end]
            places = [Windowed(key, one[0], one[1]) for one in near]
            new = Windowed(key, *window)
            olds = [kept(one[2]) for one in near]
            try:
                aggregate = self.folded(self.foldings[number], near, key, value)
            except Exception as error:
                task.fail(rank, error)
                continue
            while first > 0 and sessions[first - 1][:2] == window:  # one that is over; its place is taken
                first -= 1
            store.put(key, [*sessions[:first], (*window, aggregate), *sessions[end:]])
            # As in Kafka Streams a session is taken back before it is shown again, unless it has one moment only.
            taken_back = self.every_change and new.start_ms < new.end_ms
            for place, old in zip(places, olds, strict=True):
                changes.before(place, old)
                if place != new or taken_back:
                    changes.after(place, None, place.end_ms, rank)
            if new not in places or taken_back:
                changes.before(new, None)
            changes.after(new, aggregate, new.end_ms, rank)
        self.sweep(store, clock)
        return changes.rows(lambda place: place)

    def around(self, sessions: list[Session], opened: int, time: int) -> tuple[int, int, tuple[int, int]]:
        """From where to where a record of this time joins sessions, and the start and end of what they become. Those
        before `opened` are over."""
        gap = self.windows.gap_ms
        first = bisect.bisect_left(sessions, time - gap, lo=opened, key=lambda one: one[1])
        end = bisect.bisect_right(sessions, time + gap, lo=opened, key=lambda one: one[0])
        if first >= end:
            return first, first, (time, time)
        return first, end, (min(time, sessions[first][0]), max(time, sessions[end - 1][1]))

    def folded(self, folding: Folding, near: list[Session], key: Key, value: Value) -> Any:
        aggregate = folding.first()
        for one in near:
            aggregate = folding.combine(key, aggregate, one[2]) if aggregate is not None else one[2]
        return folding.add(key, value, aggregate)

    def sweep(self, store: Store, clock: Store) -> None:
        """Sessions that are over are dropped now and then: each time costs a look at all keys."""
        keeps_ms = max(self.open_ms, self.retention_ms)
        time = clock.get(TIME, -1)
        if time - clock.get(SWEPT, -1) < keeps_ms:
            return
        clock.put(SWEPT, time)
        for key, sessions in store.entries():
            if sessions[0][1] <= time - keeps_ms:
                store.put(key, [one for one in sessions if one[1] > time - keeps_ms] or None)
