"""Figures of pipelines for people and for Prometheus: queries, and of topologies their operators and state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.pipelines.running.status import QueryStatus, Status

OPERATOR_HEADER = ("OPERATOR", "IN", "OUT", "LATE", "SKIPPED", "DEAD LETTERS", "SECONDS")
COUNTS = ("rows_in", "rows_out", "late", "skipped", "dead_letters")
LIVE = "running"
# By name: kind, help, and the field of an operator or of a partition's state.
OF_OPERATORS = {
    "barnabas_streams_records_in_total": ("counter", "Rows that came to an operator.", "rows_in"),
    "barnabas_streams_records_out_total": ("counter", "Rows that an operator gave.", "rows_out"),
    "barnabas_streams_late_records_total": ("counter", "Rows left out because their windows are closed.", "late"),
    "barnabas_streams_skipped_records_total": ("counter", "Records skipped after an error.", "skipped"),
    "barnabas_streams_dead_letters_total": ("counter", "Records written to the dead letter topic.", "dead_letters"),
    "barnabas_streams_processing_seconds_total": ("counter", "Time spent in an operator.", "seconds"),
}
OF_STATE = {
    "barnabas_streams_state_rows": ("gauge", "Rows in the state of a partition.", "rows"),
    "barnabas_streams_state_bytes": ("gauge", "Estimated bytes of the state of a partition.", "bytes"),
    "barnabas_streams_state_cache_hits_total": ("counter", "Rows of state on disk found in the cache.", "hits"),
    "barnabas_streams_state_cache_misses_total": ("counter", "Rows of state read from disk.", "misses"),
}
OF_QUERIES = {
    "barnabas_pipeline_rows_total": ("counter", "Rows read since the driver started.", "rows"),
    "barnabas_pipeline_batch_milliseconds": ("gauge", "Duration of the last batch.", "batch_ms"),
    "barnabas_pipeline_lag": ("gauge", "Records that are not processed yet.", "lag"),
}


def operator_rows(query: QueryStatus) -> list[list[str]]:
    """Cells of a table, in the order in which the operators were written; empty for a query that is no topology."""
    operators = (query.figures or {}).get("operators", {})
    return [
        [name, *(f"{operators[name][what]:,}" for what in COUNTS), f"{operators[name]['seconds']:.2f}"]
        for name in sorted(operators, key=_number)
    ]


def _number(operator: str) -> int:
    """Operators are named by what they do and when they were written."""
    number = operator.rpartition("-")[2]
    return int(number) if number.isdigit() else 0


def state_sentence(query: QueryStatus) -> str | None:
    state = list((query.figures or {}).get("state", {}).values())
    if not state:
        return None
    rows, size, hits, misses = (sum(one[what] for one in state) for what in ("rows", "bytes", "hits", "misses"))
    told = f"{rows:,} rows, {size:,} bytes in {len(state)} partitions"
    on_disk = sum(one["on_disk"] for one in state)
    if on_disk:
        share = 100 * hits / max(hits + misses, 1)
        told += f", {on_disk} of them on disk; the cache had {share:.0f} % of what was asked for"
    return told


def exposition(statuses: list[Status]) -> str:
    """In Prometheus' text format."""
    lines: list[str] = []
    up = [(_labels(pipeline=one.name), int(one.state == LIVE)) for one in statuses]
    lines += _metric("barnabas_pipeline_running", "gauge", "Whether a pipeline runs.", up)
    restarts = [(_labels(pipeline=one.name), one.restarts) for one in statuses]
    lines += _metric("barnabas_pipeline_restarts_total", "counter", "Starts after a failure.", restarts)
    for name, (kind, said, what) in OF_QUERIES.items():
        found = [(labels, getattr(query, what)) for labels, query in _queries(statuses)]
        lines += _metric(name, kind, said, [(_labels(**one), value) for one, value in found if value is not None])
    for part, label, metrics in (("operators", "operator", OF_OPERATORS), ("state", "partition", OF_STATE)):
        for name, (kind, said, what) in metrics.items():
            values = [
                (_labels(**labels, **{label: key}), one[what])
                for labels, query in _queries(statuses)
                for key, one in (query.figures or {}).get(part, {}).items()
            ]
            lines += _metric(name, kind, said, values)
    return "".join(f"{line}\n" for line in lines)


def _queries(statuses: list[Status]) -> Iterator[tuple[dict[str, str], QueryStatus]]:
    for status in statuses:
        for query in status.queries:
            yield {"pipeline": status.name, "query": query.name}, query


def _metric(name: str, kind: str, said: str, values: list[tuple[str, Any]]) -> list[str]:
    if not values:
        return []
    return [f"# HELP {name} {said}", f"# TYPE {name} {kind}", *(f"{name}{labels} {value}" for labels, value in values)]


def _labels(**labels: str) -> str:
    told = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{told}}}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
