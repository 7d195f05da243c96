"""What the pipelines wrote: read back as any consumer would, committed records only, and compared with what is due."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter, deque
from typing import Any

from plant import ALERTS, AVERAGES, MEASUREMENTS, Expected

from barnabas.client.cluster import Cluster
from barnabas.client.fetcher import Fetcher, FetchSettings
from barnabas.client.records import iterate_records
from barnabas.client.settings import ClientSettings

WARM_UP_S = 3.0  # after the first result; the first batches start Spark's Python processes


class Results(threading.Thread):
    def __init__(self, settings: ClientSettings, starting: dict[tuple[str, int], int]) -> None:
        super().__init__(name="results", daemon=True)
        self.counts: Counter[str] = Counter()
        self.measurements: Counter[int] = Counter()  # by sequence
        self.alerts: Counter[int] = Counter()
        self.averages: dict[tuple[str, int], tuple[int, float]] = {}
        self.latest_alerts: deque[dict[str, Any]] = deque(maxlen=6)
        self.latencies_ms: list[tuple[float, str, float]] = []  # when, topic, how long after the reading
        self.warm_since_s: float | None = None  # when the first result came
        self.error: BaseException | None = None
        self._settings = settings
        self._starting = starting
        self._stop_asked = threading.Event()

    def run(self) -> None:
        try:
            with (
                Cluster(self._settings) as cluster,
                Fetcher(cluster, FetchSettings(isolation="read_committed", max_wait_ms=200)) as fetcher,
            ):
                fetcher.assign(self._starting)
                while not self._stop_asked.is_set():
                    for fetched in fetcher.poll(200):
                        for record in iterate_records(fetched):
                            self._take(record.topic, json.loads(record.value or b"{}"))
        except BaseException as error:
            self.error = error

    def stop(self) -> None:
        self._stop_asked.set()
        if self.ident is not None:
            self.join()

    def _take(self, topic: str, row: dict[str, Any]) -> None:
        now = time.time()
        self.counts[topic] += 1
        if topic == AVERAGES:
            self.averages[row["id"], row["minute"]] = row["count"], row["average"]
            return
        self.warm_since_s = self.warm_since_s or now
        if row["at"] / 1000 > self.warm_since_s + WARM_UP_S:
            self.latencies_ms.append((now, topic, now * 1000 - row["at"]))
        if topic == ALERTS:
            self.alerts[row["sequence"]] += 1
            self.latest_alerts.append(row)
        else:
            self.measurements[row["sequence"]] += 1

    def complete(self, expected: Expected) -> bool:
        averaged = {key: count for key, (count, _) in list(self.averages.items())}
        return (
            self.counts[MEASUREMENTS] >= expected.measurements.total()
            and self.counts[ALERTS] >= expected.alerts.total()
            and averaged == {key: count for key, (count, _) in expected.sums.items()}
        )

    def latency_ms(self, share: float) -> float:
        ordered = sorted(latency for _, topic, latency in self.latencies_ms if topic == ALERTS)
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0.0

    def checks(self, expected: Expected, parquet_rows: int) -> list[tuple[str, int, int, bool]]:
        """What, how many there are, how many are due, and whether every single one is right."""
        once = set(self.measurements.values()) <= {1} and set(self.alerts.values()) <= {1}
        due = {key: (count, total / count) for key, (count, total) in expected.sums.items()}
        averages_right = self.averages.keys() == due.keys() and all(
            self.averages[key][0] == count and abs(self.averages[key][1] - average) < 1e-6
            for key, (count, average) in due.items()
        )
        measured, alerted = expected.measurements.total(), expected.alerts.total()
        return [
            ("measurements", self.counts[MEASUREMENTS], measured, once and len(self.measurements) == measured),
            ("alerts", self.counts[ALERTS], alerted, once and len(self.alerts) == alerted),
            ("averages", len(self.averages), len(due), averages_right),
            ("Parquet rows", parquet_rows, measured, True),
        ]
