"""`kafka-share-groups`: lists, describes and deletes share groups, resets and deletes their offsets."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.cli.connect import CONNECTION, OUTPUT, connect, wants_json
from barnabas.cli.errors import ToolFailed, UsageError
from barnabas.cli.groups.offset_plans import refuse_several
from barnabas.cli.options import Parsed, Parser, option
from barnabas.cli.output import print_json
from barnabas.client.errors import AuthenticationFailed, BrokerUnreachable, ClientError, Refused
from barnabas.client.metadata import TopicPartition
from barnabas.wire.errors import ErrorCode, sentence_of

if TYPE_CHECKING:
    from barnabas.client.admin.share_groups import ShareGroupDescription
    from barnabas.client.cluster import Cluster

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
SCENARIOS = ("to-datetime", "to-earliest", "to-latest")
WIDTH_MIN = 15
EARLIEST, LATEST = -2, -1

PARSER = Parser(
    name="share-groups",
    summary="Lists and describes share groups, deletes them, and resets or deletes their offsets.",
    options=(
        *CONNECTION,
        OUTPUT,
        option("--list", help="List the share groups."),
        option("--describe", help="Describe share groups: where they begin, members or state."),
        option("--delete", help="Delete share groups."),
        option("--reset-offsets", help="Set where a share group without members begins."),
        option("--delete-offsets", help="Forget topics of a share group without members."),
        option("--group", takes="group", repeated=True, help="The group to act on; may be repeated."),
        option("--all-groups", help="Act on every share group."),
        option("--topic", takes="topic", repeated=True, help="The topic that is meant; may be repeated."),
        option("--all-topics", help="Every topic that the group knows."),
        option("--offsets", help="With --describe: where the group begins, which is what is described anyway."),
        option("--members", help="With --describe: the members."),
        option(
            "--state",
            takes="state,...",
            optional=True,
            help="With --describe: the group's state. With --list: show it, or only groups in one of these states.",
        ),
        option("--verbose", help="With --describe: more columns."),
        option("--dry-run", help="Show the new offsets only; that is also done without --execute."),
        option("--execute", help="Set the new offsets."),
        option("--to-datetime", takes="date", help="Begin at a date: YYYY-MM-DDThh:mm:ss.sss, UTC without a zone."),
        option("--to-earliest", help="Begin at the start of the log."),
        option("--to-latest", help="Begin at the end of the log."),
        option("--timeout", takes="ms", kind=int, default=5000, help="How long the cluster is waited for."),
    ),
)


def run(parsed: Parsed) -> int:
    action = _check(parsed)
    actions = {"list": _list, "describe": _describe, "delete": _delete, "reset-offsets": _reset}
    with connect(parsed) as cluster:
        try:
            actions.get(action, _delete_offsets)(cluster, parsed)
        except (BrokerUnreachable, AuthenticationFailed):
            raise
        except ClientError as error:
            # On stdout and with 0, as Kafka's tool does: scripts have learnt to look there.
            why = error.message if isinstance(error, Refused) else str(error)
            print(f"\nError: Executing share group command failed due to {why}")
            print(why, file=sys.stderr)
    return 0


def _check(parsed: Parsed) -> str:
    chosen = [action for action in ACTIONS if action in parsed]
    if len(chosen) != 1:
        raise UsageError(f"Command must include exactly one action: {', '.join(f'--{each}' for each in ACTIONS)}.")
    action = chosen[0]
    if action in ("describe", "delete") and not ("group" in parsed or "all-groups" in parsed):
        raise UsageError(f"Option [{action}] takes one of these options: [all-groups], [group]")
    if action in ("reset-offsets", "delete-offsets") and "group" not in parsed:
        raise UsageError(f"Option [{action}] takes the option [group]")
    if action == "delete-offsets" and "topic" not in parsed:
        raise UsageError("Option [delete-offsets] takes the option [topic]")
    if action == "describe" and sum(name in parsed for name in ("members", "offsets", "state")) > 1:
        raise UsageError("Option [describe] takes at most one of these options: [members], [offsets], [state]")
    if action == "reset-offsets":
        if "dry-run" in parsed and "execute" in parsed:
            raise UsageError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
        refuse_several(parsed, SCENARIOS)
        if not any(name in parsed for name in SCENARIOS):
            named = ", ".join(f"[{name}]" for name in SCENARIOS)
            raise UsageError(f"Option [reset-offsets] requires one of the following scenarios: {named}")
        if ("topic" in parsed) == ("all-topics" in parsed):
            raise UsageError("Option [reset-offsets] takes one of these options: [all-topics], [topic]")
    parsed.refuse("group", "all-groups")
    return action


def _groups(cluster: Cluster, parsed: Parsed) -> list[str]:
    from barnabas.client.admin.share_groups import list_share_groups

    if "all-groups" in parsed:
        return [each.group for each in list_share_groups(cluster)]
    return sorted(dict.fromkeys(parsed.texts("group")))


def _list(cluster: Cluster, parsed: Parsed) -> None:
    from barnabas.client.admin.share_groups import list_share_groups

    states = [each.strip() for each in (parsed.text("state") or "").split(",") if each.strip()]
    listings = list_share_groups(cluster, states)
    if wants_json(parsed):
        print_json([{"group": each.group, "state": each.state} for each in listings])
    elif "state" in parsed:
        width = max([WIDTH_MIN, *(len(each.group) for each in listings)])
        for name, state in [("GROUP", "STATE"), *((each.group, each.state) for each in listings)]:
            print(f"{name:<{width}} {state}")
    else:
        for each in listings:
            print(each.group)


def _describe(cluster: Cluster, parsed: Parsed) -> None:
    from barnabas.client.admin.share_groups import describe_share_group

    verbose = "verbose" in parsed
    descriptions = [describe_share_group(cluster, group) for group in _groups(cluster, parsed)]
    if wants_json(parsed):
        print_json([_as_json(cluster, each) for each in descriptions])
        return
    for each in descriptions:
        if "state" in parsed:
            _print_state(each, verbose=verbose)
        elif "members" in parsed:
            _print_members(each, verbose=verbose)
        else:
            _print_offsets(cluster, each, verbose=verbose)


def _tell_empty(description: ShareGroupDescription) -> None:
    if not description.members:
        print(f"\nShare group '{description.group}' has no active members.", file=sys.stderr)


def _print_offsets(cluster: Cluster, description: ShareGroupDescription, *, verbose: bool) -> None:
    from barnabas.client.admin.share_groups import share_offsets

    _tell_empty(description)
    offsets = share_offsets(cluster, description.group)
    if not offsets:
        print(f"\nShare group '{description.group}' has no offset information.")
        return
    header = ["GROUP", "TOPIC", "PARTITION", *(["LEADER-EPOCH"] if verbose else []), "START-OFFSET", "LAG"]
    rows = [
        [
            description.group,
            each.topic,
            str(each.partition),
            *([_shown(each.leader_epoch)] if verbose else []),
            _shown(each.start_offset),
            _shown(each.lag),
        ]
        for each in offsets
    ]
    topic_width = max([WIDTH_MIN, *(len(each.topic) for each in offsets)])
    widths = [max(WIDTH_MIN, len(description.group)), topic_width, 10, *([13] if verbose else []), 13, 0]
    _print_table(header, rows, widths)


def _print_members(description: ShareGroupDescription, *, verbose: bool) -> None:
    _tell_empty(description)
    if not description.members:
        return
    header = ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    header += [*(["MEMBER-EPOCH"] if verbose else []), "ASSIGNMENT"]
    rows = [
        [
            description.group,
            each.member_id,
            each.host,
            each.client_id,
            str(len(each.partitions)),
            *([str(each.epoch)] if verbose else []),
            _assignment(each.partitions),
        ]
        for each in sorted(description.members)
    ]
    widths = [max([WIDTH_MIN, *(len(row[at]) for row in rows)]) for at in range(4)]
    _print_table(header, rows, [*widths, 12, *([13] if verbose else []), 0])


def _print_state(description: ShareGroupDescription, *, verbose: bool) -> None:
    _tell_empty(description)
    at = description.coordinator
    coordinator = f"{at.host}:{at.port}  ({at.id})"
    header = ["GROUP", "COORDINATOR (ID)", "STATE", *(["GROUP-EPOCH", "ASSIGNMENT-EPOCH"] if verbose else [])]
    row = [description.group, coordinator, description.state]
    if verbose:
        row += [str(description.epoch), str(description.assignment_epoch)]
    widths = [max(WIDTH_MIN, len(description.group)), max(25, len(coordinator)), 15, *([12, 17] if verbose else []), 0]
    _print_table([*header, "#MEMBERS"], [[*row, str(len(description.members))]], widths)


def _print_table(header: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int]) -> None:
    print()
    for cells in [header, *rows]:
        print(" ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)))


def _shown(value: int | None) -> str:
    return "-" if value is None else str(value)


def _assignment(partitions: Sequence[TopicPartition]) -> str:
    by_topic: dict[str, list[str]] = {}
    for topic, index in sorted(partitions):
        by_topic.setdefault(topic, []).append(str(index))
    return ";".join(f"{topic}:{','.join(indexes)}" for topic, indexes in by_topic.items())


def _as_json(cluster: Cluster, description: ShareGroupDescription) -> dict[str, object]:
    from barnabas.client.admin.share_groups import share_offsets

    return {
        "group": description.group,
        "state": description.state,
        "epoch": description.epoch,
        "assignment_epoch": description.assignment_epoch,
        "members": [each._asdict() for each in description.members],
        "offsets": [each._asdict() for each in share_offsets(cluster, description.group)],
    }


def _delete(cluster: Cluster, parsed: Parsed) -> None:
    from barnabas.client.admin.groups import delete_group
    from barnabas.client.admin.share_groups import list_share_groups

    states = {each.group: each.state for each in list_share_groups(cluster)}
    deleted: list[str] = []
    failed: dict[str, str] = {}
    for group in _groups(cluster, parsed):
        if group not in states:
            failed[group] = f"Group '{group}' is not a share group."
        elif states[group] != "Empty":
            failed[group] = f"Share group '{group}' is not EMPTY."
        elif code := delete_group(cluster, group):
            failed[group] = code.name
        else:
            deleted.append(f"'{group}'")
    if not failed:
        print(f"Deletion of requested share groups ({', '.join(deleted)}) was successful.")
        return
    print("\nError: Deletion of some share groups failed:")
    for group, why in failed.items():
        print(f"* Group '{group}' could not be deleted due to: {why}")
    if deleted:
        print(f"\nThese share groups were deleted successfully: {', '.join(deleted)}")


def _reset(cluster: Cluster, parsed: Parsed) -> None:
    from barnabas.client.admin.share_groups import alter_share_offsets, share_offsets

    (group,) = _groups(cluster, parsed)[:1]
    if _has_members(cluster, group):
        raise ToolFailed(f"Share group '{group}' is not empty.")
    if "all-topics" in parsed:
        partitions = [(each.topic, each.partition) for each in share_offsets(cluster, group)]
    else:
        names = list(dict.fromkeys(parsed.texts("topic")))
        if not all(cluster.topic(name).partitions for name in names):
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, sentence_of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        partitions = [(name, index) for name in names for index in sorted(cluster.topic(name).partitions)]
    timestamp = EARLIEST if "to-earliest" in parsed else LATEST
    if "to-datetime" in parsed:
        from barnabas.cli.arguments.points_in_time import timestamp_ms

        timestamp = timestamp_ms(parsed.text("to-datetime") or "")
    found = cluster.list_offsets(dict.fromkeys(partitions, timestamp))
    missing = [at for at, each in found.items() if each.offset < 0]
    found |= cluster.list_offsets(dict.fromkeys(missing, LATEST)) if missing else {}
    offsets = {at: each.offset for at, each in sorted(found.items())}
    if "execute" in parsed:
        alter_share_offsets(cluster, group, offsets)
    if wants_json(parsed):
        print_json([{"topic": topic, "partition": index, "offset": each} for (topic, index), each in offsets.items()])
        return
    rows = [[group, topic, str(index), str(offset)] for (topic, index), offset in offsets.items()]
    topic_width = max([WIDTH_MIN, *(len(row[1]) for row in rows)])
    _print_table(["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"], rows, [max(WIDTH_MIN, len(group)), topic_width, 10, 0])


def _has_members(cluster: Cluster, group: str) -> bool:
    from barnabas.client.admin.share_groups import describe_share_group

    try:
        return bool(describe_share_group(cluster, group).members)
    except Refused as refused:
        if refused.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise ToolFailed(str(refused)) from None
        return False  # it will be made


def _delete_offsets(cluster: Cluster, parsed: Parsed) -> None:
    from barnabas.client.admin.share_groups import delete_share_offsets

    (group,) = _groups(cluster, parsed)[:1]
    topics = list(dict.fromkeys(parsed.texts("topic")))
    try:
        results = delete_share_offsets(cluster, group, topics)
    except Refused as refused:
        why = refused.message
        print(f"\nError: {why}")
        print(why, file=sys.stderr)
        results = dict.fromkeys(topics, why)
    width = max([WIDTH_MIN, *(len(name) for name in results)])
    print()
    print(f"{'TOPIC':<{width}} STATUS")
    for name, problem in sorted(results.items()):
        print(f"{name:<{width}} {'Successful' if problem is None else f'Error: {problem}'}")
