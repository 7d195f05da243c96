"""A stream joined with a stream: records of a key whose times lie near each other.

Both sides keep their records as (time, value) for as long as a partner may come, by the time of their own side: those
of a side that lags behind are still there. Stream time is that of both sides together. In a left or outer join a record
without a partner is shown when its time is over, and one without a key at once, as in Kafka Streams: it looks for such
records only when the oldest it knows of would be over by the reach of the side that a record comes to, and may show one
of the other side some records after its time (`_Run.show_lonely`). What is shown depends on it, because a late partner
may come in between. With `at_once` it is shown when it comes, and joined besides when a partner comes: as Kafka
Streams before 3.1 and joins without grace in SQL have it.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import Any

from barnabas.pipelines.streams.objects import Key, Value
from barnabas.pipelines.streams.operators.aggregates import hashable, in_order
from barnabas.pipelines.streams.operators.operator import Joiner, Operator, Task
from barnabas.pipelines.streams.operators.sessions import SWEPT
from barnabas.pipelines.streams.operators.windowed import TIME, times_of
from barnabas.pipelines.streams.rows import Rows, made
from barnabas.pipelines.streams.state.shapes import CLOCK, LONELY, NUMBER, WAITING
from barnabas.pipelines.streams.state.stores import Store
from barnabas.pipelines.streams.windows import JoinWindows

SIDE_TIMES = ("left", "right")
OLDEST = "oldest"  # the time from which lonely records are looked for
Waiting = tuple[int, int]  # time and number of a record


@dataclass
class JoinStreams(Operator):
    """`outer` says of each side whether its lonely records are shown. They wait in a store of their own, as
    (time, side, number): (key, value)."""

    store_name: str
    joiner: Joiner
    windows: JoinWindows
    outer: tuple[bool, bool]
    kind = "join-streams"
    sees_changes = True
    several_rows = True

    def __post_init__(self) -> None:
        self.kind = {(False, False): "join-streams", (True, False): "left-join-streams"}.get(
            self.outer, "outer-join-streams"
        )
        self.sides = (f"{self.store_name}-left", f"{self.store_name}-right")
        self.lonely = f"{self.store_name}-lonely"
        self.stores = (*self.sides, self.lonely, times_of(self.store_name))

    def shapes(self) -> dict[str, str]:
        return dict(zip(self.stores, (WAITING, WAITING, LONELY, CLOCK), strict=True))

    def detail(self) -> str:
        return str(self.windows)

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        run = _Run(self, task)
        for side, key, value, time, rank in in_order(inputs):
            run.advance(time)
            if value is None or (key is None and not self.outer[side]):
                continue
            try:
                if key is None:
                    run.show_alone(None, side, value, time, rank)
                    continue
                run.take(side, hashable(key), value, time, rank)
            except Exception as error:
                task.fail(rank, error)
        run.sweep()
        return made(run.keys, run.values, run.times, run.ranks)


class _Run:
    """One batch of a join."""

    def __init__(self, join: JoinStreams, task: Task) -> None:
        self.join = join
        windows = join.windows
        self.reach = ((windows.before_ms, windows.after_ms), (windows.after_ms, windows.before_ms))  # by side
        self.retention_ms = windows.before_ms + windows.after_ms + windows.grace_ms
        self.buffers = [task.store(name) for name in join.sides]
        self.lonely, self.clock = task.store(join.lonely), task.store(times_of(join.store_name))
        self.stream_time = self.clock.get(TIME, -1)
        self.keys: list[Key] = []
        self.values: list[Value] = []
        self.times: list[int] = []
        self.ranks: list[int] = []

    def advance(self, time: int) -> None:
        """Records that are left out do so too, but only one that is taken shows who is lonely."""
        if time > self.stream_time:
            self.stream_time = time
            self.clock.put(TIME, time)

    def take(self, side: int, key: Key, value: Value, time: int, rank: int) -> None:
        if time == self.stream_time:
            self.show_lonely(side, rank)
        before, after = self.reach[side]
        oldest, others_oldest = self.oldest(side, time), self.oldest(1 - side)
        found = False
        for other_time, number, other in self.buffers[1 - side].get(key, ()):
            if other_time <= others_oldest or not time - before <= other_time <= time + after:
                continue
            found = True
            pair = (value, other) if side == 0 else (other, value)
            self.show(key, self.join.joiner(*pair), max(time, other_time), rank)
            self.forget_lonely((other_time, 1 - side, number))
        number = self.clock.get(NUMBER, 0)
        self.clock.put(NUMBER, number + 1)
        if not found and self.join.outer[side]:
            if time + after < self.stream_time or self.join.windows.at_once:
                self.show_alone(key, side, value, time, rank)
            else:
                bisect.insort(self.waiting()[side], (time, number))
                self.lonely.put((time, side, number), (key, value))
                self.look_from(min(time, self.clock.get(OLDEST, time)))
        if time > oldest:
            kept = [one for one in self.buffers[side].get(key, ()) if one[0] > oldest]
            bisect.insort(kept, (time, number, value), key=lambda one: one[0])  # partners are met in the order of time
            self.buffers[side].put(key, kept)

    def oldest(self, side: int, now: int = -1) -> int:
        """Records of a side are gone that are not later. `now` is the time of one that comes."""
        latest: int = self.clock.get(SIDE_TIMES[side], -1)
        if now > latest:
            latest = now
            self.clock.put(SIDE_TIMES[side], now)
        return latest - self.retention_ms

    def forget_lonely(self, place: Any) -> None:
        time, side, number = place
        if place in self.lonely.data:
            waiting = self.waiting()[side]
            del waiting[bisect.bisect_left(waiting, (time, number))]
            self.lonely.remove(place)

    def waiting(self) -> tuple[list[Waiting], list[Waiting]]:
        """Who is lonely, by side and in the order of time."""
        if self.lonely.index is None:
            sides: tuple[list[Waiting], list[Waiting]] = [], []
            for time, side, number in self.lonely.data:
                sides[side].append((time, number))
            for one in sides:
                one.sort()
            self.lonely.index = sides
        found: tuple[list[Waiting], list[Waiting]] = self.lonely.index
        return found

    def show_lonely(self, comes_to: int, rank: int) -> None:
        grace_ms = self.join.windows.grace_ms
        oldest = self.clock.get(OLDEST)
        if oldest is not None and oldest + self.reach[comes_to][1] + grace_ms >= self.stream_time:
            return
        sides = self.waiting()
        over = []
        for side, waiting in enumerate(sides):
            ends = bisect.bisect_left(waiting, (self.stream_time - self.reach[side][1] - grace_ms, -1))
            over += [(time, side, number) for time, number in waiting[:ends]]
            del waiting[:ends]
        over.sort(key=lambda place: (place[0], -place[1], place[2]))
        for place in over:
            key, value = self.lonely.get(place)
            self.lonely.remove(place)
            self.show_alone(key, place[1], value, place[0], rank)
        self.look_from(self.last_seen(sides, [place[0] for place in over]))

    @staticmethod
    def last_seen(sides: tuple[list[Waiting], list[Waiting]], over: list[int]) -> int | None:
        """The time of the last record that Kafka Streams has looked at: they are in the order of time, and it stops at
        the first one behind those with which both sides are open."""
        left, right = sides
        if not left or not right:
            seen = over[-1:] + [one[-1][0] for one in sides if one]
            return max(seen, default=None)
        first, second = (left, right) if left[0][0] < right[0][0] else (right, left)
        last = second[0][0]
        cut = bisect.bisect_left if second is right else bisect.bisect_right  # of one time, those of the right first
        behind = cut(first, last, key=lambda one: one[0])
        later = [one[0] for one in (*second[1:2], *first[behind : behind + 1])]
        return min(later, default=last)

    def look_from(self, time: int | None) -> None:
        if time != self.clock.get(OLDEST):
            self.clock.put(OLDEST, time)

    def show_alone(self, key: Key, side: int, value: Value, time: int, rank: int) -> None:
        self.show(key, self.join.joiner(*((value, None) if side == 0 else (None, value))), time, rank)

    def show(self, key: Key, value: Value, time: int, rank: int) -> None:
        self.keys.append(key)
        self.values.append(value)
        self.times.append(time)
        self.ranks.append(rank)

    def sweep(self) -> None:
        """Keys that came no more are dropped now and then."""
        if self.stream_time - self.clock.get(SWEPT, -1) < self.retention_ms:
            return
        self.clock.put(SWEPT, self.stream_time)
        for side, buffer in enumerate(self.buffers):
            _drop_old(buffer, self.oldest(side))


def _drop_old(buffer: Store, oldest: int) -> None:
    for key, records in buffer.entries():
        kept = [one for one in records if one[0] > oldest]
        if len(kept) < len(records):
            buffer.put(key, kept or None)
