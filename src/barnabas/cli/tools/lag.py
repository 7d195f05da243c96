"""`barnabas lag`: how far groups are behind, the worst first; with --watch again and again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.cli.connect import CONNECTION, OUTPUT, connect, wants_json
from barnabas.cli.options import Parsed, Parser, Positional, option
from barnabas.cli.output import print_json
from barnabas.cli.terminal import Screen, is_colourful, paint, wait_for_quit

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

PARSER = Parser(
    name="lag",
    summary="How many records consumer groups have yet to read, per topic, the worst first.",
    beyond_kafka=True,
    help_exit=0,
    helps_without_arguments=False,
    positionals=(Positional(name="group", help="Only these groups.", many=True, required=False, completes="group"),),
    options=(
        *CONNECTION,
        OUTPUT,
        option("--partitions", help="A row per partition instead of one per topic."),
        option("--topic", takes="topic", repeated=True, help="Only these topics.", completes="topic"),
        option(
            "--watch", "-w", takes="seconds", kind=float, optional=True, without_value="2", help="Look again and again."
        ),
        option("--rounds", takes="count", kind=int, help="With --watch: end after so many looks."),
    ),
)


class LagRow(NamedTuple):
    group: str
    state: str
    members: int
    topic: str
    partition: int | None
    current_offset: int | None
    log_end_offset: int | None
    lag: int | None


def run(parsed: Parsed) -> int:
    with connect(parsed, missing=None) as cluster:
        if "watch" not in parsed:
            _tell(lag_rows(cluster, parsed), parsed)
            return 0
        try:
            _watch(cluster, parsed)
        except KeyboardInterrupt:
            pass
    return 0


def _tell(rows: list[LagRow], parsed: Parsed) -> None:
    if wants_json(parsed):
        print_json([_json(row, parsed) for row in rows])
        return
    if not rows:
        print("No group has committed anything.", file=sys.stderr)
    for line in table(rows, per_partition="partitions" in parsed, colourful=is_colourful(sys.stdout)):
        print(line)


def _json(row: LagRow, parsed: Parsed) -> dict[str, Any]:
    told = row._asdict()
    if "partitions" not in parsed:
        del told["partition"]
    return told


def _watch(cluster: Cluster, parsed: Parsed) -> None:
    pause_s = float(parsed.text("watch") or 2)
    rounds = parsed.number("rounds")
    with Screen() as screen:
        while True:
            rows = lag_rows(cluster, parsed)
            if wants_json(parsed):
                _tell(rows, parsed)
            else:
                lines = table(rows, per_partition="partitions" in parsed, colourful=is_colourful(sys.stdout))
                screen.draw([*(lines or ["No group has committed anything."]), "", "q ends"])
            rounds = None if rounds is None else rounds - 1
            if rounds == 0 or wait_for_quit(pause_s):
                return


def lag_rows(cluster: Cluster, parsed: Parsed) -> list[LagRow]:
    from barnabas.client.admin.groups import describe_group, list_groups, offset_rows

    names = parsed.rest or [listing.group for listing in list_groups(cluster)]
    topics = set(parsed.texts("topic"))
    rows: list[LagRow] = []
    for name in names:
        group = describe_group(cluster, name)
        head = (group.group, group.state, len(group.members))
        found = [
            LagRow(*head, row.topic, row.partition, row.current_offset, row.log_end_offset, row.lag)
            for row in offset_rows(cluster, group)
            if row.topic is not None and (not topics or row.topic in topics)
        ]
        rows += found if "partitions" in parsed else _summed(found)
    return sorted(rows, key=lambda row: (-(row.lag or 0), row.group, row.topic, row.partition or 0))


def _summed(rows: list[LagRow]) -> list[LagRow]:
    by_topic: dict[str, list[LagRow]] = {}
    for row in rows:
        by_topic.setdefault(row.topic, []).append(row)
    return [
        LagRow(
            each[0].group,
            each[0].state,
            each[0].members,
            topic,
            None,
            sum(row.current_offset or 0 for row in each),
            sum(row.log_end_offset or 0 for row in each),
            sum(row.lag for row in each if row.lag is not None) if any(row.lag is not None for row in each) else None,
        )
        for topic, each in by_topic.items()
    ]


def table(rows: list[LagRow], *, per_partition: bool, colourful: bool) -> list[str]:
    if not rows:
        return []
    header = ["GROUP", "STATE", "MEMBERS", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    cells = [header, *(["-" if value is None else str(value) for value in row] for row in rows)]
    shown = [at for at in range(len(header)) if per_partition or header[at] != "PARTITION"]
    widths = [max(len(row[at]) for row in cells) for at in range(len(header))]
    lines: list[str] = []
    for number, row in enumerate(cells):
        texts = [f"{row[at]:>{widths[at]}}" if at in (2, 4, 5, 6, 7) else f"{row[at]:<{widths[at]}}" for at in shown]
        if number:
            texts[-1] = paint(texts[-1], _colour(rows[number - 1]), colourful)
        lines.append("  ".join(texts) if number else paint("  ".join(texts), "bold", colourful))
    return lines


def _colour(row: LagRow) -> str:
    if not row.lag:
        return "green"
    return "red" if row.members == 0 else "yellow"
