"""What is told of consumer groups: the tables of Kafka's tool, and the same as JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from barnabas.client.admin.groups import EMPTY, REBALANCING, GroupDescription, GroupListing, OffsetRow
from barnabas.client.metadata import TopicPartition

MISSING = "-"
WIDTH_MIN = 15


def tell_state(description: GroupDescription) -> None:
    """What stands before a description, on stderr."""
    if description.state == EMPTY:
        print(f"\nConsumer group '{description.group}' has no active members.", file=sys.stderr)
    elif description.state in REBALANCING:
        print(f"\nWarning: Consumer group '{description.group}' is rebalancing.", file=sys.stderr)


def print_offsets(rows: Sequence[OffsetRow], *, verbose: bool) -> None:
    header = ["GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    header += ["CONSUMER-ID", "HOST", "CLIENT-ID"]
    widths = [_width(rows, 0), _width(rows, 1), 10, 15, 15, 15, 15, _width(rows, 7), _width(rows, 8), 0]
    shown = [at for at in range(len(header)) if verbose or header[at] != "LEADER-EPOCH"]
    print()
    for cells in [header, *([_cell(value) for value in row] for row in rows)]:
        print(_line([cells[at] for at in shown], [widths[at] for at in shown]))


def print_members(description: GroupDescription, *, verbose: bool) -> None:
    header = ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    rows = [
        [description.group, member.member_id, member.instance_id or "", member.host, member.client_id,
         str(len(member.partitions))]
        for member in description.members
    ]  # fmt: skip
    instances = any(row[2] for row in rows)
    widths = [max([WIDTH_MIN, *(len(row[at]) for row in rows)]) for at in range(len(header))]
    widths[2] = max(widths[2], len("GROUP-INSTANCE-ID"))
    if verbose:
        header += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
        widths += [15, 20, 15, 20]
        for row, member in zip(rows, description.members, strict=True):
            row += [
                _cell(member.epoch),
                _assignment(member.partitions),
                _cell(description.target_epoch),
                _assignment(member.target or []),
            ]
        widths[7] = max([20, *(len(row[7]) for row in rows)])
        widths[9] = max([20, *(len(row[9]) for row in rows)])
    shown = [at for at in range(len(header)) if instances or at != 2]
    print()
    for cells in [header, *rows]:
        line = _line([cells[at] for at in shown], [widths[at] for at in shown])
        print(line if verbose else f"{line} ")


def _assignment(partitions: Iterable[TopicPartition]) -> str:
    by_topic: dict[str, list[str]] = {}
    for topic, index in sorted(partitions):
        by_topic.setdefault(topic, []).append(str(index))
    return ";".join(f"{topic}:{','.join(indexes)}" for topic, indexes in by_topic.items()) or MISSING


def print_state(description: GroupDescription, *, verbose: bool) -> None:
    coordinator = description.coordinator
    header = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
    header += ["#MEMBERS"]
    row = [
        description.group,
        f"{coordinator.host}:{coordinator.port}  ({coordinator.id})",
        description.assignor or MISSING,
        description.state,
        _cell(description.epoch),
        _cell(description.target_epoch),
        str(len(description.members)),
    ]
    widths = [max(WIDTH_MIN, len(row[0])), max(25, len(row[1])), 20, 20, 15, 25, 0]
    shown = [at for at in range(len(header)) if verbose or at not in (4, 5)]
    print()
    for cells in [header, row]:
        print(_line([cells[at] for at in shown], [widths[at] for at in shown]))


def print_listings(listings: Sequence[GroupListing], *, with_type: bool, with_state: bool) -> None:
    header = ["GROUP", *(["TYPE"] if with_type else []), *(["STATE"] if with_state else [])]
    rows = [
        [each.group, *([each.type] if with_type else []), *([each.state] if with_state else [])] for each in listings
    ]
    widths = [max([WIDTH_MIN, *(len(row[0]) for row in rows)]) + 10, 20, 20][: len(header)]
    for cells in [header, *rows]:
        print(_line(cells, widths))


def print_reset(offsets: dict[str, dict[TopicPartition, int]]) -> None:
    rows = [
        [group, topic, str(index), str(offset)]
        for group, plan in offsets.items()
        for (topic, index), offset in sorted(plan.items())
    ]
    widths = [max([WIDTH_MIN, *(len(row[0]) for row in rows)]), max([WIDTH_MIN, *(len(row[1]) for row in rows)]), 10, 0]
    print()
    for cells in [["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"], *rows]:
        print(_line(cells, widths))


def offsets_json(rows: Iterable[OffsetRow]) -> list[dict[str, Any]]:
    return [row._asdict() for row in rows]


def group_json(description: GroupDescription, rows: Iterable[OffsetRow] | None = None) -> dict[str, Any]:
    told: dict[str, Any] = {
        "group": description.group,
        "type": description.type,
        "state": description.state,
        "assignor": description.assignor,
        "coordinator": description.coordinator._asdict(),
        "members": [
            {
                "consumer_id": member.member_id,
                "group_instance_id": member.instance_id,
                "client_id": member.client_id,
                "host": member.host,
                "partitions": [{"topic": topic, "partition": index} for topic, index in sorted(member.partitions)],
            }
            for member in description.members
        ],
    }
    if description.epoch is not None:
        told |= {"epoch": description.epoch, "target_assignment_epoch": description.target_epoch}
    if rows is not None:
        told["offsets"] = offsets_json(rows)
    return told


def _width(rows: Iterable[Sequence[object]], at: int) -> int:
    return max([WIDTH_MIN, *(len(_cell(row[at])) for row in rows)])


def _cell(value: object) -> str:
    return MISSING if value is None else str(value)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return " ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))
