"""What is told of streams groups: the tables of Kafka's tool, and the same as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from barnabas.cli.groups.tables import MISSING, WIDTH_MIN
from barnabas.client.admin.streams_groups import (
    StreamsAssignment,
    StreamsGroupDescription,
    StreamsOffset,
    Tasks,
)


def print_state(description: StreamsGroupDescription, *, verbose: bool) -> None:
    tell_empty(description)
    at = description.coordinator
    coordinator = f"{at.host}:{at.port} ({at.id})"
    header = ["GROUP", "COORDINATOR (ID)", "STATE"]
    row = [description.group, coordinator, description.state]
    widths = [max(WIDTH_MIN, len(description.group)), max(25, len(coordinator)), 25]
    if verbose:
        header += ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
        row += [str(description.epoch), str(description.assignment_epoch)]
        widths += [15, 25]
    _print([*header, "#MEMBERS"], [[*row, str(len(description.members))]], widths)


def print_members(description: StreamsGroupDescription, *, verbose: bool) -> None:
    members = description.members
    if not members:
        return
    tell_empty(description)
    ids = [max([WIDTH_MIN, *(len(member[at]) for member in members)]) for at in range(3)]  # type: ignore[arg-type]
    group_width = max(WIDTH_MIN, len(description.group))
    if not verbose:
        rows = [[description.group, *member[:3], _roles(member.assignment)] for member in members]
        _print(["GROUP", "MEMBER", "PROCESS", "CLIENT-ID", "ASSIGNMENTS"], rows, [group_width, *ids])
        return
    # Kafka leaves out the space behind the topology's epoch.
    line = f"{{:<{group_width}}} {{:<25}} {{:<15}}{{:<{ids[0]}}} {{:<15}} {{:<15}} {{:<{ids[1]}}} {{:<{ids[2]}}} {{}}"
    header = ["GROUP", "TARGET-ASSIGNMENT-EPOCH", "TOPOLOGY-EPOCH", "MEMBER", "MEMBER-PROTOCOL", "MEMBER-EPOCH"]
    print(line.format(*header, "PROCESS", "CLIENT-ID", "ASSIGNMENTS"))
    for member in members:
        protocol = "classic" if member.is_classic else "streams"
        epochs = (description.assignment_epoch, description.topology_epoch)
        tasks = _roles(member.assignment) + _roles(member.target, "TARGET-")
        cells = (member.member_id, protocol, member.epoch, member.process_id, member.client_id, tasks)
        print(line.format(description.group, *epochs, *cells))


def print_offsets(description: StreamsGroupDescription, offsets: Sequence[StreamsOffset], *, verbose: bool) -> None:
    if not description.members:
        return
    tell_empty(description)
    topic_width = max([WIDTH_MIN, *(len(each.topic) for each in offsets)])
    widths = [max(WIDTH_MIN, len(description.group)), topic_width, 10]
    if not verbose:
        rows = [[description.group, each.topic, str(each.partition), str(each.lag)] for each in offsets]
        _print(["GROUP", "TOPIC", "PARTITION", "OFFSET-LAG"], rows, widths)
        return
    header = ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LEADER-EPOCH", "LOG-END-OFFSET", "OFFSET-LAG"]
    rows = [
        [description.group, each.topic, str(each.partition), *(MISSING if it is None else str(it) for it in each[2:])]
        for each in offsets
    ]
    _print(header, rows, [*widths, 15, 15, 15, 15])


def tell_empty(description: StreamsGroupDescription) -> None:
    if description.state == "Empty":
        print(f"\nError: Streams group '{description.group}' has no active members.")


def _roles(assignment: StreamsAssignment, prefix: str = "") -> str:
    named = zip(("ACTIVE", "STANDBY", "WARMUP"), assignment, strict=True)
    return "".join(_tasks(tasks, f"{prefix}{role}") for role, tasks in named)


def _tasks(tasks: Tasks, role: str) -> str:
    listed = "".join(f"{each}:[{','.join(map(str, partitions))}]; " for each, partitions in tasks.items())
    return f"{role}: {listed}" if tasks else ""


def _print(header: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int]) -> None:
    """The last column is as long as it is, unless it has a width."""
    padded = [*widths, *[0] * (len(header) - len(widths))]
    for cells in [header, *rows]:
        print(" ".join(f"{cell:<{width}}" for cell, width in zip(cells, padded, strict=True)))


def as_json(description: StreamsGroupDescription, offsets: Sequence[StreamsOffset] | None) -> dict[str, Any]:
    told: dict[str, Any] = {
        "group": description.group,
        "state": description.state,
        "epoch": description.epoch,
        "assignment_epoch": description.assignment_epoch,
        "topology_epoch": description.topology_epoch,
        "coordinator": description.coordinator._asdict(),
        "subtopologies": [each._asdict() for each in description.subtopologies],
        "members": [
            {**each._asdict(), "assignment": each.assignment._asdict(), "target": each.target._asdict()}
            for each in description.members
        ],
    }
    if offsets is not None:
        told["offsets"] = [each._asdict() for each in offsets]
    return told
