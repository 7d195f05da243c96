"""Which replicas are copied slowly, and how slowly: the throttles of replication.

A topic names its throttled replicas as `partition:broker` pairs, one list for leaders and one for followers; `*` is all
of them. A broker has one rate for what it hands out as a leader and one for what it copies as a follower. Every byte of
a throttled replica counts, but only a replica that is not in sync is held back: a partition does not lose its in-sync
replicas by a throttle.

The rate is the sum of the samples by the time since the first of them began, which counts as one window at least. So a
broker is never far above its rate, also when it has just begun to copy. Clients get a burst at first instead
(`core/security/rates.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import lru_cache

NO_LIMIT = 2**63 - 1
ALL_REPLICAS = "*"
FOREVER_MS = float("inf")


class Throttle:
    __slots__ = ("_count", "_samples", "_window_ms", "bytes_per_s")

    def __init__(self, samples: int = 11, window_ms: float = 1000.0, bytes_per_s: int = NO_LIMIT) -> None:
        self._count = samples
        self._window_ms = window_ms
        self._samples: deque[tuple[float, int]] = deque()  # when each began, and its bytes
        self.bytes_per_s = bytes_per_s

    def record(self, size_bytes: int, now_ms: float) -> None:
        self._forget(now_ms)
        samples = self._samples
        if samples and now_ms - samples[-1][0] < self._window_ms:
            start_ms, before_bytes = samples.pop()
            samples.append((start_ms, before_bytes + size_bytes))
        else:
            samples.append((now_ms, size_bytes))

    def rest_ms(self, now_ms: float) -> float:
        """How long no more may be copied, 0 if the rate is kept. Samples that are forgotten may end it earlier."""
        self._forget(now_ms)
        if self.bytes_per_s >= NO_LIMIT or not self._samples:
            return 0.0
        if self.bytes_per_s <= 0:
            return FOREVER_MS
        total_bytes = sum(size_bytes for _, size_bytes in self._samples)
        covered_ms = max(now_ms - self._samples[0][0], self._window_ms)
        return max(total_bytes / self.bytes_per_s * 1000 - covered_ms, 0.0)

    def _forget(self, now_ms: float) -> None:
        samples, oldest_ms = self._samples, now_ms - self._count * self._window_ms
        while samples and samples[0][0] <= oldest_ms:
            samples.popleft()


def is_throttled(entries: Sequence[str], index: int, broker_id: int) -> bool:
    """Whether a topic's list names this broker's replica of the partition."""
    return bool(entries) and (entries[0] == ALL_REPLICAS or index in _partitions_of(tuple(entries), broker_id))


@lru_cache(maxsize=256)
def _partitions_of(entries: tuple[str, ...], broker_id: int) -> frozenset[int]:
    pairs = (entry.split(":") for entry in entries)
    return frozenset(int(index) for index, broker in pairs if int(broker) == broker_id)
