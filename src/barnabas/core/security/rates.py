"""How fast a client goes, and for how long it has to keep still: the two measures of Kafka's quotas.

`WindowedRate` is for bytes, request time and connections. Amounts are kept in samples of one window each. The rate is
the sum of the samples by the time they cover, which counts as at least all samples but one: a client that has just come
is not throttled for its first requests. Who exceeds its limit keeps still until the rate is the limit.

`TokenBucket` is for changes of topics. It fills at the limit's rate up to a burst of all samples. A change is refused
while there are less than no tokens, and one that is begun is never cut short: tokens become negative then.

Times are milliseconds and come in.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(slots=True)
class Sample:
    start_ms: float
    amount: float = 0.0


class WindowedRate:
    __slots__ = ("_count", "_samples", "_window_ms")

    def __init__(self, samples: int = 11, window_ms: float = 1000.0) -> None:
        self._count = samples
        self._window_ms = window_ms
        self._samples: deque[Sample] = deque()

    def record(self, amount: float, now_ms: float) -> None:
        samples = self._samples
        if not samples or now_ms - samples[-1].start_ms >= self._window_ms:
            samples.append(Sample(now_ms))
        samples[-1].amount += amount
        self._forget(now_ms)

    def throttle_ms(self, limit_per_s: float, now_ms: float) -> float:
        """How long nothing may follow, 0 if the limit is kept."""
        self._forget(now_ms)
        total = sum(sample.amount for sample in self._samples)
        return max(total / limit_per_s * 1000 - self._covered_ms(now_ms), 0.0)

    def is_idle(self, now_ms: float) -> bool:
        self._forget(now_ms)
        return not self._samples

    def _covered_ms(self, now_ms: float) -> float:
        least = (self._count - 1) * self._window_ms
        if not self._samples:
            return least
        elapsed = now_ms - self._samples[0].start_ms
        full = elapsed // self._window_ms
        return elapsed + max(self._count - 1 - full, 0) * self._window_ms

    def _forget(self, now_ms: float) -> None:
        samples, oldest = self._samples, now_ms - self._count * self._window_ms
        while samples and samples[0].start_ms <= oldest:
            samples.popleft()


class TokenBucket:
    __slots__ = ("_burst_s", "_filled_ms", "_tokens")

    def __init__(self, samples: int = 11, window_ms: float = 1000.0) -> None:
        self._burst_s = samples * window_ms / 1000
        self._tokens: float | None = None  # full
        self._filled_ms = 0.0

    def tokens(self, limit_per_s: float, now_ms: float) -> float:
        burst = limit_per_s * self._burst_s
        if self._tokens is None:
            self._tokens = burst
        else:
            self._tokens = min(burst, self._tokens + limit_per_s * (now_ms - self._filled_ms) / 1000)
        self._filled_ms = now_ms
        return self._tokens

    def take(self, amount: float, limit_per_s: float, now_ms: float) -> None:
        self._tokens = self.tokens(limit_per_s, now_ms) - amount

    def throttle_ms(self, limit_per_s: float, now_ms: float) -> float:
        return max(-self.tokens(limit_per_s, now_ms) / limit_per_s * 1000, 0.0)

    def is_idle(self, now_ms: float) -> bool:
        """Nobody has taken anything for so long that it is full, whatever the limit."""
        return self._tokens is None or now_ms - self._filled_ms > 2 * self._burst_s * 1000
