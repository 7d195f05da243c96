"""Timers of a coordinator: what is to be decided when a time has come, unless it is cancelled or put off before.

Most timers are put off again and again by heartbeats. So putting one off changes its deadline and leaves its place in
the heap; it is moved there when its old time comes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from typing import Any

from barnabas.core.coordinator.decision import Decision

Due = Callable[[], Decision[Any] | None]


class Timers:
    def __init__(self, clock: Callable[[], int]) -> None:
        """`clock` gives milliseconds that never go back."""
        self._clock = clock
        self._waiting: dict[Hashable, tuple[int, Due]] = {}
        self._placed: dict[Hashable, int] = {}
        self._heap: list[tuple[int, int, Hashable]] = []
        self._count = 0
        # Told when the next deadline may have come nearer.
        self.on_earlier: Callable[[], None] | None = None

    def schedule(self, key: Hashable, delay_ms: int, due: Due) -> None:
        """Replaces a timer of the same key."""
        at_ms = self._clock() + delay_ms
        self._waiting[key] = (at_ms, due)
        placed = self._placed.get(key)
        if placed is not None and placed <= at_ms:
            return
        is_next = not self._heap or at_ms < self._heap[0][0]
        self._place(key, at_ms)
        if is_next and self.on_earlier is not None:
            self.on_earlier()

    def cancel(self, key: Hashable) -> None:
        self._waiting.pop(key, None)

    def cancel_all(self) -> None:
        self._waiting.clear()
        self._placed.clear()
        self._heap.clear()

    def is_scheduled(self, key: Hashable) -> bool:
        return key in self._waiting

    def remaining_ms(self, key: Hashable) -> int | None:
        found = self._waiting.get(key)
        return None if found is None else found[0] - self._clock()

    @property
    def next_delay_ms(self) -> int | None:
        """How long from now until `take_due` should be asked again."""
        return max(0, self._heap[0][0] - self._clock()) if self._heap else None

    def take_due(self) -> Due | None:
        """One whose time has come; ask until there is none."""
        now_ms = self._clock()
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            at_ms, _, key = heapq.heappop(heap)
            if self._placed.get(key) != at_ms:
                continue
            del self._placed[key]
            waiting = self._waiting.get(key)
            if waiting is None:
                continue
            if waiting[0] > now_ms:
                self._place(key, waiting[0])
                continue
            del self._waiting[key]
            return waiting[1]
        return None

    def _place(self, key: Hashable, at_ms: int) -> None:
        self._count += 1
        self._placed[key] = at_ms
        heapq.heappush(self._heap, (at_ms, self._count, key))
