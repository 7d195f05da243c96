"""What the performance tests count: records, bytes and latencies, in windows and in all. Times are in seconds."""

from __future__ import annotations

import threading
import time
from collections import Counter

MEGABYTE = 1024.0 * 1024.0


class SendStats:
    """Latencies of records that were sent. Told from the producer's thread, once for many records of one batch."""

    def __init__(self, report_interval_ms: int, *, label: str = "records sent") -> None:
        self.start = self.window_start = time.monotonic()
        self.count = 0
        self.failed = 0
        self.first_error: Exception | None = None
        self._label = label
        self._interval_s = report_interval_ms / 1000
        self._bytes = 0.0
        self._latencies_ms: Counter[int] = Counter()
        self._window_latencies_ms: Counter[int] = Counter()
        self._window_bytes = 0.0
        self._lock = threading.Lock()

    def record(self, count: int, sent_at: float, size: float, error: Exception | None) -> None:
        now = time.monotonic()
        with self._lock:
            if error is not None:
                self.failed += count
                self.first_error = self.first_error or error
                return
            latency_ms = int((now - sent_at) * 1000)
            self.count += count
            self._bytes += size * count
            self._latencies_ms[latency_ms] += count
            self._window_latencies_ms[latency_ms] += count
            self._window_bytes += size * count
            if now - self.window_start >= self._interval_s:
                print(self._window(now), flush=True)
                self._window_latencies_ms = Counter()
                self._window_bytes = 0.0
                self.window_start = now

    def _window(self, now: float) -> str:
        elapsed_s = max(now - self.window_start, 0.001)
        count = sum(self._window_latencies_ms.values())
        return (
            f"{count} {self._label}, {count / elapsed_s:.1f} records/sec "
            f"({self._window_bytes / elapsed_s / MEGABYTE:.2f} MB/sec), "
            f"{_mean(self._window_latencies_ms):.1f} ms avg latency, {float(max(self._window_latencies_ms)):.1f} ms "
            "max latency."
        )

    def total(self) -> str:
        elapsed_s = max(time.monotonic() - self.start, 0.001)
        latencies = self._latencies_ms
        told = [f"{percentile(latencies, share)} ms {name}" for share, name in PERCENTILES]
        return (
            f"{self.count} {self._label}, {self.count / elapsed_s:f} records/sec "
            f"({self._bytes / elapsed_s / MEGABYTE:.2f} MB/sec), {_mean(latencies):.2f} ms avg latency, "
            f"{float(max(latencies, default=0)):.2f} ms max latency, {', '.join(told)}."
        )


PERCENTILES = ((0.5, "50th"), (0.95, "95th"), (0.99, "99th"), (0.999, "99.9th"))


def percentile(counts: Counter[int], share: float) -> int:
    """The value at that share of all, counted from the smallest."""
    left = int(share * sum(counts.values()))
    for value in sorted(counts):
        left -= counts[value]
        if left < 0:
            return value
    return max(counts, default=0)


def _mean(counts: Counter[int]) -> float:
    total = sum(counts.values())
    return sum(value * count for value, count in counts.items()) / total if total else 0.0


class Throttle:
    """Holds back whoever is ahead of so many records a second."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._start = time.monotonic()

    def wait(self, sent: int) -> None:
        if self._rate <= 0:
            return
        ahead_s = sent / self._rate - (time.monotonic() - self._start)
        if ahead_s > 0.001:
            time.sleep(ahead_s)


# Java's letters of dates, the longest first.
LETTERS = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}


def shown_time(at: float, java_format: str) -> str:
    text = java_format
    for letters, sign in LETTERS.items():
        text = text.replace(letters, sign)
    milliseconds = f"{int(at * 1000) % 1000:03}"
    return time.strftime(text, time.localtime(at)).replace("SSS", milliseconds)
