"""Pauses that grow from failure to failure."""

from __future__ import annotations

import time


class Backoff:
    """The first pause is `first_ms`, each next one twice as long, up to `max_ms`; all of them a little by chance."""

    def __init__(self, first_ms: float, max_ms: float) -> None:
        self._first_ms = first_ms
        self._max_ms = max(max_ms, first_ms)
        self.failures = 0

    def fail(self) -> float:
        """Counts a failure; the seconds to pause before the next try."""
        pause_ms = min(self._first_ms * 2.0 ** min(self.failures, 30), self._max_ms)
        self.failures += 1
        return pause_ms * jitter() / 1000

    def reset(self) -> None:
        self.failures = 0


def jitter() -> float:
    """0.8 to 1.2, so that many clients do not come back at once; `random` is slow to import."""
    return 0.8 + time.monotonic_ns() % 401 / 1000
