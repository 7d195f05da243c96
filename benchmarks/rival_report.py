"""What streams_rivals.py has found so far, as JSON and as tables."""

from __future__ import annotations

import json
import statistics
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import report, rival_sides

Known = dict[str, dict[str, dict[str, list[float]]]]  # by case, side and figure, the rounds
OURS, EXACTLY_ONCE, QUIX = "barnabas", "streams-eos", "quix"
STATELESS = ("filter",)
MEMORY_MB = 1_000
FIRST_S = 8.0


def remember(path: Path, case: str, found: dict[str, dict[str, list[float]]]) -> None:
    """A case that was measured again takes the place of what was known of it, side by side."""
    everything = known(path)
    everything.setdefault(case, {}).update(found)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(everything, indent=1, sort_keys=True) + "\n")


def known(path: Path) -> Known:
    return json.loads(path.read_text()) if path.exists() else {}


def number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"


def table(everything: Known) -> list[list[str]]:
    sides = rival_sides.sides()
    lines = [["case", "unit", *(side.name for side in sides), "to Kafka Streams exactly once", "to Quix Streams"]]
    for case, found in sorted(everything.items(), key=lambda one: (one[0].startswith("latency-"), order(one[0]))):
        lines += latency_lines(case, found, sides) if case.startswith("latency-") else rate_lines(case, found, sides)
    return lines


def order(case: str) -> int:
    return ("filter", "count", "average", "join", "count-large").index(case.removeprefix("latency-"))


def median(found: dict[str, dict[str, list[float]]], side: str, figure: str) -> float | None:
    rounds = found.get(side, {}).get(figure)
    return statistics.median(rounds) if rounds else None


def rate_lines(case: str, found: dict[str, dict[str, list[float]]], sides: list[Any]) -> list[list[str]]:
    stateless = case in STATELESS
    goals = {EXACTLY_ONCE: 1.0 if stateless else 1.2, QUIX: 5.0}
    verdicts = []
    ours = median(found, OURS, "rate")
    for other, goal in goals.items():
        theirs = median(found, other, "rate")
        verdicts.append(verdict(ours, theirs, goal, at_least=True))
    return [
        [case, "records/s", *(number(median(found, side.key, "rate")) for side in sides), *verdicts],
        ["", "CPU us a record", *(number(median(found, side.key, "cpu")) for side in sides), "", ""],
        ["", "MB at most", *(number(median(found, side.key, "memory")) for side in sides), "", ""],
    ]


def latency_lines(case: str, found: dict[str, dict[str, list[float]]], sides: list[Any]) -> list[list[str]]:
    workload = case.removeprefix("latency-")
    goal = 1.5 if workload in STATELESS else 2.5
    rows = []
    for figure, unit in (("p50", "p50 ms"), ("p99", "p99 ms"), ("memory", "MB"), ("cores", "cores"), ("first", "s")):
        titles = {"p50": f"{workload} at 1,000 records/s", "first": "start to first result"}
        cells = [number(median(found, side.key, figure)) for side in sides]
        told = ""
        ours = median(found, OURS, figure)
        if figure == "p50":
            told = verdict(ours, median(found, EXACTLY_ONCE, figure), goal, at_least=False)
        elif figure in ("memory", "first") and ours is not None:
            limit = MEMORY_MB if figure == "memory" else FIRST_S
            told = f"goal at most {limit:g}: {'met' if ours <= limit else '**missed**'}"
        rows.append([titles.get(figure, ""), unit, *cells, told, ""])
    return rows


def verdict(ours: float | None, theirs: float | None, goal: float, *, at_least: bool) -> str:
    if ours is None or not theirs:
        return ""
    ratio = ours / theirs
    met = ratio >= goal if at_least else ratio <= goal
    return f"{ratio:.2f}, goal {'at least' if at_least else 'at most'} {goal:g}: {'met' if met else '**missed**'}"


def text(everything: Known) -> str:
    lines = table(everything)
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join("  ".join(cell.ljust(widths[at]) for at, cell in enumerate(line)).rstrip() for line in lines)


def write_document(path: Path, everything: Known, options: Any) -> None:
    """Rewrites what stands between the marks."""
    begin, end = "<!-- rivals begin -->", "<!-- rivals end -->"
    before, found, rest = path.read_text().partition(begin)
    if not found:
        raise ValueError(f"{path} has no place for the table of rivals")
    at = datetime.now(UTC).date().isoformat()
    told = f"`python -m benchmarks.streams_rivals`, {at}; medians of {options.rounds} rounds after one of warm-up."
    content = f"{begin}\n{told}\n\n{report.as_markdown(table(everything))}\n{end}"
    path.write_text(before + content + rest.partition(end)[2])
