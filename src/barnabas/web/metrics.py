"""Requests of a service as Prometheus reads them.

Labels are patterns of paths, never paths: their number is bounded, whatever strangers ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

EXPOSITION = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

Sample = tuple[str, str, float]  # name, help, value
Gauges = Callable[[], Iterable[Sample]]


class HttpMetrics:
    """`gauges` is asked for what the service itself counts, whenever somebody looks."""

    def __init__(self, service: str, gauges: Gauges = tuple) -> None:
        self.in_flight = 0
        self._service = service
        self._gauges = gauges
        self._counts: dict[tuple[str, str, int], int] = {}
        self._buckets: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}

    def count(self, method: str, route: str, status: int, took_s: float) -> None:
        key = method if method in METHODS else "other", route, status
        self._counts[key] = self._counts.get(key, 0) + 1
        buckets = self._buckets.setdefault(route, [0] * (len(BUCKETS_S) + 1))
        buckets[next((at for at, most in enumerate(BUCKETS_S) if took_s <= most), len(BUCKETS_S))] += 1
        self._seconds[route] = self._seconds.get(route, 0.0) + took_s

    def exposition(self) -> str:
        service = f'service="{self._service}"'
        lines = [
            "# HELP barnabas_http_requests_total Requests that were answered.",
            "# TYPE barnabas_http_requests_total counter",
        ]
        for (method, route, status), count in sorted(self._counts.items()):
            labels = f'{service},method="{method}",route="{_escaped(route)}",status="{status}"'
            lines.append(f"barnabas_http_requests_total{{{labels}}} {count}")
        lines += [
            "# HELP barnabas_http_request_duration_seconds How long requests took.",
            "# TYPE barnabas_http_request_duration_seconds histogram",
        ]
        for route, buckets in sorted(self._buckets.items()):
            lines += self._histogram(f'{service},route="{_escaped(route)}"', buckets, self._seconds[route])
        lines += [
            "# HELP barnabas_http_requests_in_flight Requests that are being answered.",
            "# TYPE barnabas_http_requests_in_flight gauge",
            f"barnabas_http_requests_in_flight{{{service}}} {self.in_flight}",
        ]
        for name, help_text, value in self._gauges():
            lines += [f"# HELP {name} {help_text}", f"# TYPE {name} gauge", f"{name} {value:g}"]
        return "\n".join(lines) + "\n"

    def _histogram(self, labels: str, buckets: list[int], seconds: float) -> Iterable[str]:
        name, total = "barnabas_http_request_duration_seconds", 0
        for most, count in zip((*map(str, BUCKETS_S), "+Inf"), buckets, strict=True):
            total += count
            yield f'{name}_bucket{{{labels},le="{most}"}} {total}'
        yield f"{name}_sum{{{labels}}} {seconds:.6f}"
        yield f"{name}_count{{{labels}}} {total}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
