"""A Java `PriorityQueue`: which of several equal items comes first depends on the heap, so the heap is the same.

See `java_order`: assignments are to come out as Kafka's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class JavaPriorityQueue(Generic[T]):
    def __init__(self, items: Iterable[T], rank: Callable[[T], float]) -> None:
        """`rank` of an item may change only while the item is not in the queue."""
        self._rank = rank
        self._heap: list[T] = []
        for item in items:
            self.add(item)

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, item: T) -> None:
        heap, rank = self._heap, self._rank(item)
        heap.append(item)
        at = len(heap) - 1
        while at > 0:
            parent = (at - 1) >> 1
            if rank >= self._rank(heap[parent]):
                break
            heap[at] = heap[parent]
            at = parent
        heap[at] = item

    def poll(self) -> T | None:
        heap = self._heap
        if not heap:
            return None
        first, last = heap[0], heap.pop()
        if heap:
            self._sift_down(last)
        return first

    def _sift_down(self, item: T) -> None:
        heap, rank = self._heap, self._rank(item)
        at, half = 0, len(heap) >> 1
        while at < half:
            child = 2 * at + 1
            if child + 1 < len(heap) and self._rank(heap[child]) > self._rank(heap[child + 1]):
                child += 1
            if rank <= self._rank(heap[child]):
                break
            heap[at] = heap[child]
            at = child
        heap[at] = item
