"""`barnabas top`: what moves in the cluster, live: topics, partitions and groups, the busiest first."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.cli.connect import CONNECTION, OUTPUT, bootstrap, connect, wants_json
from barnabas.cli.options import Parsed, Parser, option
from barnabas.cli.terminal import Screen, cut, is_colourful, paint, wait_for_quit

if TYPE_CHECKING:
    from barnabas.client.admin.rates import Look
    from barnabas.client.cluster import Cluster

PARSER = Parser(
    name="top",
    summary="Live rates of topics, partitions and groups, the busiest first; q ends.",
    beyond_kafka=True,
    help_exit=0,
    helps_without_arguments=False,
    options=(
        *CONNECTION,
        OUTPUT,
        option("--interval", "-d", takes="seconds", kind=float, default=2.0, help="Between two looks."),
        option("--rounds", "-n", takes="count", kind=int, help="End after so many looks."),
        option("--partitions", help="Partitions as well as topics."),
        option("--internal", help="Topics of Kafka's own, too."),
    ),
)


def run(parsed: Parsed) -> int:
    with connect(parsed, missing=None) as cluster:
        try:
            _watch(cluster, parsed)
        except KeyboardInterrupt:
            pass
    return 0


def _watch(cluster: Cluster, parsed: Parsed) -> None:
    from barnabas.client.admin.rates import look

    interval_s = float(parsed.text("interval") or 2)
    rounds = parsed.number("rounds")
    before: Look | None = None
    with Screen() as screen:
        while True:
            now = look(cluster, internal="internal" in parsed)
            if wants_json(parsed):
                _print_json(now, before)
            else:
                screen.draw(page(now, before, parsed, screen.size, bootstrap(parsed, missing=None)))
            before = now
            rounds = None if rounds is None else rounds - 1
            if rounds == 0 or wait_for_quit(interval_s):
                return


def page(now: Look, before: Look | None, parsed: Parsed, size: tuple[int, int], address: str) -> list[str]:
    from barnabas.client.admin.rates import group_rates, partition_rates, topic_rates

    width, height = size
    colourful = is_colourful(sys.stdout)
    partitions = partition_rates(now, before)
    topics = topic_rates(partitions)
    groups = group_rates(now, before)
    records = sum(rate.records or 0 for rate in topics)
    written = sum(rate.bytes or 0 for rate in topics)
    head = f"barnabas top   {address}   {len(topics)} topics, {len(partitions)} partitions, {len(groups)} groups"
    rates = "measuring ..." if before is None else f"{_count(records)} records/s, {_bytes(written)}/s written"
    sections: list[tuple[list[str], list[list[str]]]] = [
        (
            ["TOPIC", "PARTITIONS", "RECORDS/S", "BYTES/S", "RECORDS", "SIZE"],
            [[each.topic, str(each.partitions), _count(each.records), _bytes(each.bytes), f"{each.end}",
              _bytes(each.size)] for each in topics],
        ),
        (
            ["GROUP", "STATE", "RECORDS/S", "LAG"],
            [[each.group, each.state, _count(each.records), str(each.lag)] for each in groups],
        ),
    ]  # fmt: skip
    if "partitions" in parsed:
        rows = [[f"{each.topic}-{each.partition}", _count(each.records), _bytes(each.bytes), str(each.end),
                 _bytes(each.size)] for each in partitions]  # fmt: skip
        sections.insert(1, (["PARTITION", "RECORDS/S", "BYTES/S", "END", "SIZE"], rows))
    lines = [paint(cut(head, width), "bold", colourful), cut(rates, width)]
    room = max((height - 3) // len(sections) - 2, 1)
    for header, rows in sections:
        lines += ["", *_table(header, rows[:room], width, colourful)]
        if len(rows) > room:
            lines.append(paint(f"... {len(rows) - room} more", "dim", colourful))
    return lines


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], width: int, colourful: bool) -> list[str]:
    widths = [max([len(header[at]), *(len(row[at]) for row in rows)]) for at in range(len(header))]
    widths[0] = min(max(widths[0], 24), max(width - sum(widths[1:]) - 2 * len(widths), 8))
    lines = []
    for number, row in enumerate([header, *rows]):
        cells = [
            f"{cut(cell, widths[0]):<{widths[0]}}" if at == 0 else f"{cell:>{widths[at]}}"
            for at, cell in enumerate(row)
        ]
        line = cut("  ".join(cells), width)
        lines.append(paint(f"{line:<{width}}" if colourful else line, "reverse", colourful) if number == 0 else line)
    return lines


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.1f}"


def _bytes(value: float | None) -> str:
    if value is None:
        return "-"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def _print_json(now: Look, before: Look | None) -> None:
    import json

    from barnabas.client.admin.rates import group_rates, partition_rates, topic_rates

    partitions = partition_rates(now, before)
    told = {
        "topics": [each._asdict() for each in topic_rates(partitions)],
        "partitions": [each._asdict() for each in partitions],
        "groups": [each._asdict() for each in group_rates(now, before)],
    }
    print(json.dumps(told), flush=True)
