"""How long to wait before the next start: twice as long after every failure, the first time after a healthy spell."""

from __future__ import annotations

FIRST_S = 1.0
MOST_S = 60.0
HEALTHY_S = 60.0


class Backoff:
    def __init__(self, first_s: float = FIRST_S, most_s: float = MOST_S, healthy_s: float = HEALTHY_S) -> None:
        self._first_s, self._most_s, self._healthy_s = first_s, most_s, healthy_s
        self.failures = 0  # in a row

    def failed(self, ran_s: float) -> float:
        """`ran_s` is how long the pipeline ran, counted from when its queries did."""
        self.failures = 1 if ran_s >= self._healthy_s else self.failures + 1
        return min(self._first_s * 2.0 ** min(self.failures - 1, 30), self._most_s)
