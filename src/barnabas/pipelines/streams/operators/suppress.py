"""Results of a window once, when it closes: the last value of each window is held back until stream time has passed its
end and the grace. Tombstones of sessions that grew take back what is held."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from barnabas.pipelines.streams.operators.operator import Operator, Task
from barnabas.pipelines.streams.operators.windowed import TIME, advanced, times_of
from barnabas.pipelines.streams.rows import Rows, made


@dataclass
class Suppress(Operator):
    store_name: str
    grace_ms: int
    kind = "suppress"

    def __post_init__(self) -> None:
        self.stores = (self.store_name, times_of(self.store_name))

    def detail(self) -> str:
        return f"until windows close, grace {self.grace_ms} ms"

    def run(self, task: Task, inputs: list[Rows]) -> Rows:
        (rows,) = inputs
        held, clock = task.store(self.store_name), task.store(times_of(self.store_name))
        for key, value, time in zip(rows.keys, rows.values, rows.times.tolist(), strict=True):
            held.put(key, None if value is None else (value, time))
        advanced(clock, rows.times)
        stream_time = clock.get(TIME, -1)
        due = [key for key in held.data if key.end_ms + self.grace_ms <= stream_time]
        due.sort(key=lambda window: (window.end_ms, window.start_ms))
        found: list[Any] = [held.get(key) for key in due]
        for key in due:
            held.remove(key)
        rank = int(rows.ranks.max()) if len(rows) else 0
        count = len(due)
        return made(due, [value for value, _ in found], [time for _, time in found], [rank] * count, [None] * count)
