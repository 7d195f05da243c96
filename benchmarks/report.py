"""The result as a table on the terminal, as JSON and as docs/benchmarks.md."""

import json
import os
import platform
import re
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import confluent_kafka

from benchmarks.rows import ROWS, Goal, Row
from benchmarks.sides import BarnabasSide, MockSide
from tests.support import reference_libs

Medians = Mapping[str, Mapping[str, float]]  # by server, then by row


def medians(measured: Mapping[str, Mapping[str, list[float]]]) -> dict[str, dict[str, float]]:
    return {side: {key: statistics.median(rounds) for key, rounds in rows.items()} for side, rows in measured.items()}


def read_rounds(path: Path, measured: Mapping[str, dict[str, list[float]]]) -> None:
    """Adds what an earlier run has written, so that a table can be made of several."""
    for side, rows in json.loads(path.read_text())["rounds"].items():
        for key, rounds in rows.items():
            measured[side][key].extend(rounds)


def table(figures: Medians, yardstick: str, rows: Sequence[Row] = ROWS) -> list[list[str]]:
    ours, theirs = figures.get(BarnabasSide.name, {}), figures.get(yardstick, {})
    ceiling = figures.get(MockSide.name, {}) if yardstick != MockSide.name else {}
    lines = [["case", "unit", yardstick, "Barnabas", "ratio", "goal", "", "client's ceiling"]]
    for row in rows:
        if row.key in ours or row.key in theirs:
            goal = row.goal if yardstick != MockSide.name else row.goal_beside_the_mock
            lines.append(_line(row, goal, ours.get(row.key), theirs.get(row.key), ceiling.get(row.key)))
    return lines


def _line(row: Row, goal: Goal | None, ours: float | None, theirs: float | None, ceiling: float | None) -> list[str]:
    ratio = "" if ours is None or not theirs or row.unit == "x" else f"{ours / theirs:.2f}"
    met = goal.met(ours, theirs) if goal is not None and ours is not None else None
    verdict = "" if met is None else "met" if met else "**missed**"
    wanted = "" if goal is None else f"{goal}{f' {row.unit}' if goal.of == 'value' and row.unit != 'x' else ''}"
    shown = "" if ceiling is None or row.key.endswith(".cpu") else number(ceiling)
    return [row.title, row.unit, number(theirs), number(ours), ratio, wanted, verdict, shown]


def number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def as_text(lines: list[list[str]]) -> str:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    rendered = []
    for line in lines:
        cells = [cell.ljust(widths[i]) if i in (0, 1, 5, 6) else cell.rjust(widths[i]) for i, cell in enumerate(line)]
        rendered.append("  ".join(cells).rstrip().replace("**", ""))
    return "\n".join(rendered)


def as_markdown(lines: list[list[str]]) -> str:
    head, *body = lines
    rows = ["| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *body)]
    return "\n".join(rows)


def machine() -> dict[str, str]:
    model = re.search(r"model name\s*: (.*)", _read("/proc/cpuinfo"))
    memory = re.search(r"MemTotal:\s*(\d+)", _read("/proc/meminfo"))
    return {
        "processor": f"{os.cpu_count()} cores, {model[1] if model else platform.machine()}",
        "memory": f"{int(memory[1]) / 1e6:.0f} GB" if memory else "unknown",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "java": _java_version(),
        "client": f"confluent-kafka {confluent_kafka.__version__}, librdkafka {confluent_kafka.libversion()[0]}",
    }


def write_json(path: Path, figures: Medians, measured: Mapping[str, Any], settings: Any, command: str) -> None:
    content = {
        "command": command,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "settings": {name: value for name, value in vars(settings).items() if isinstance(value, int | float)},
        "medians": figures,
        "rounds": measured,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n")


def write_document(path: Path, section: str, lines: list[list[str]], settings: Any, command: str) -> None:
    """Rewrites what stands between the section's marks; what people wrote around them stays."""
    begin, end = f"<!-- {section} begins -->", f"<!-- {section} ends -->"
    facts = "\n".join(f"- {name}: {value}" for name, value in machine().items())
    result = f"""{begin}
`{command}`, {datetime.now(UTC).date().isoformat()}; {settings.rounds} rounds after {settings.warmups} of warm-up,
medians; {settings.records_100:,} records of 100 B and {settings.records_1000:,} of 1 KB per round; large partition
{settings.large_mb:,} MB, small one {settings.small_mb} MB.

{facts}

{as_markdown(lines)}
{end}"""
    before, found, rest = path.read_text().partition(begin)
    if not found:
        raise ValueError(f"{path} has no section {section!r}")
    path.write_text(before + result + rest.partition(end)[2])


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _java_version() -> str:
    try:
        answer = subprocess.run([reference_libs.java(), "-version"], capture_output=True, text=True, check=False)
    except reference_libs.ReferenceUnavailable:
        return "none"
    version = re.search(r'version "([^"]*)"', answer.stderr)
    return version[1] if version else "unknown"
