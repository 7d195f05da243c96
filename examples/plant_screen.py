"""The demo on the terminal: a table that lives, or a line now and then where there is no terminal."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from typing import Any

from plant import ALERTS, AVERAGES, MEASUREMENTS, Plant
from plant_results import Results

LINE_EVERY_S = 5.0


class Screen:
    """Call `show` often; it knows when there is something new to say."""

    def __init__(self, plant: Plant, results: Results) -> None:
        self.history: list[tuple[float, int, int, int]] = []  # seconds, readings, measurements, alerts
        self._plant, self._results = plant, results
        self._began = time.monotonic()
        self._lined = self._began
        self._live: Any = None

    def __enter__(self) -> Screen:
        if sys.stdout.isatty():
            from rich.live import Live

            self._live = Live(auto_refresh=False)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self) -> None:
        now = time.monotonic()
        readings, counts = self._plant.expected.readings, self._results.counts
        self.history.append((now - self._began, readings, counts[MEASUREMENTS], counts[ALERTS]))
        if self._live is not None:
            self._live.update(self._table(), refresh=True)
        elif now - self._lined >= LINE_EVERY_S:
            self._lined = now
            print(
                f"{now - self._began:5.0f} s  {readings:,} readings ({self._rate(1):,.0f}/s), "
                f"{counts[MEASUREMENTS]:,} measurements and {counts[ALERTS]:,} alerts out, lag {self._lag():,}, "
                f"latency p50 {self._results.latency_ms(0.5):.0f} ms",
                flush=True,
            )

    def _rate(self, column: int) -> float:
        """Over the last two seconds."""
        last = self.history[-1]
        first = next((each for each in reversed(self.history) if last[0] - each[0] >= 2), self.history[0])
        return (last[column] - first[column]) / max(last[0] - first[0], 0.001)

    def _lag(self) -> int:
        return max(sum(list(self._plant.expected.measurements.values())) - self._results.counts[MEASUREMENTS], 0)

    def _table(self) -> Any:
        from rich.columns import Columns
        from rich.console import Group
        from rich.table import Table

        flow = Table(title="myPlant", title_justify="left")
        for name in ("", "in all", "per second"):
            flow.add_column(name, justify="left" if not name else "right")
        for name, column in (("readings in", 1), ("measurements out", 2), ("alerts out", 3)):
            flow.add_row(name, f"{self.history[-1][column]:,}", f"{self._rate(column):,.0f}")
        flow.add_row("averages out", f"{self._results.counts[AVERAGES]:,}", "")
        flow.add_row("lag", f"{self._lag():,}", "")
        p50, p99 = self._results.latency_ms(0.5), self._results.latency_ms(0.99)
        flow.add_row("latency p50 / p99", f"{p50:.0f} / {p99:.0f} ms", "")

        alerts = Table(title="latest alerts", title_justify="left")
        for name in ("id", "what", "where"):
            alerts.add_column(name)
        for row in list(self._results.latest_alerts)[::-1]:
            what = row.get("state") or f"{row['value']:.1f} {row['unit']}"
            alerts.add_row(row["id"], what, row.get("location", ""))

        averages = Table(title="averages of the latest minute", title_justify="left")
        averages.add_column("sensor")
        averages.add_column("average", justify="right")
        averages.add_column("count", justify="right")
        latest: dict[str, tuple[int, float]] = defaultdict(lambda: (0, 0.0))
        for (sensor, _), known in sorted(self._results.averages.items()):
            latest[sensor] = known
        for sensor, (count, average) in sorted(latest.items()):
            averages.add_row(sensor, f"{average:.2f}", f"{count:,}")
        return Columns([Group(flow, alerts), averages])
