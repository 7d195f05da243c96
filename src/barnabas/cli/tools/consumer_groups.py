"""`kafka-consumer-groups`: lists, describes and deletes groups, resets and deletes their offsets.

As Kafka's, it tells of a group that is not there on stdout and still exits with 0.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.cli import group_tables, offset_plans
from barnabas.cli.connect import CONNECTION, OUTPUT, bootstrap, properties_of, wants_json
from barnabas.cli.errors import ToolFailed, UsageError
from barnabas.cli.groups import (
    DEAD,
    EMPTY,
    STATES,
    GroupDescription,
    commit_offsets,
    committed_offsets,
    delete_group,
    delete_offsets,
    describe_group,
    list_groups,
)
from barnabas.cli.options import Parsed, Parser, option
from barnabas.cli.output import print_json
from barnabas.client.errors import ClientError
from barnabas.client.metadata import TopicPartition
from barnabas.wire.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
SELECTION = "[all-groups], [group]"
TYPES = ("Classic", "Consumer")

PARSER = Parser(
    name="consumer-groups",
    summary="Lists and describes consumer groups, deletes them, and resets or deletes their offsets.",
    options=(
        *CONNECTION,
        OUTPUT,
        option("--list", help="List the groups."),
        option("--describe", help="Describe groups: offsets and lag, members or state."),
        option("--delete", help="Delete groups with all their offsets."),
        option("--reset-offsets", help="Set the offsets of groups without members."),
        option("--delete-offsets", help="Delete a group's offsets of topics."),
        option("--validate-regex", takes="regex", help="Say whether a regular expression is one."),
        option(
            "--group", takes="group", repeated=True, help="The group to act on; may be repeated.", completes="group"
        ),
        option("--all-groups", help="Act on every group."),
        option(
            "--topic",
            takes="topic[:0,1]",
            repeated=True,
            help="The topic, or some partitions of it, whose offsets are meant; may be repeated.",
            completes="topic",
        ),
        option("--all-topics", help="Every topic the group has offsets of."),
        option("--offsets", help="With --describe: offsets and lag, which is what is described anyway."),
        option("--members", help="With --describe: the members."),
        option(
            "--state",
            takes="state,...",
            optional=True,
            help="With --describe: the group's state. With --list: show it, or only groups in one of these states.",
        ),
        option(
            "--type",
            takes="type,...",
            optional=True,
            help="With --list: show the groups' type, or only groups of one of these types.",
        ),
        option("--verbose", help="With --describe: more columns."),
        option("--dry-run", help="Show the new offsets only; that is also done without --execute."),
        option("--execute", help="Set the new offsets."),
        option("--export", help="Print the new offsets as CSV, which --from-file reads."),
        option("--timeout", takes="ms", kind=int, default=5000, help="How long the cluster is waited for."),
        *offset_plans.SCENARIOS,
    ),
)


def run(parsed: Parsed) -> int:
    _check(parsed)
    address = bootstrap(parsed)
    if "validate-regex" in parsed:
        return _validate_regex(parsed.text("validate-regex") or "")
    from barnabas.client.cluster import Cluster
    from barnabas.client.settings import ClientSettings

    timeout_ms = str(parsed.number("timeout"))
    properties = properties_of(parsed) | {"default.api.timeout.ms": timeout_ms, "request.timeout.ms": timeout_ms}
    settings = ClientSettings.from_properties(properties, bootstrap_servers=address, client_id="consumer-groups-tool")
    with Cluster(settings) as cluster:
        try:
            _act(cluster, parsed)
        except (ClientError, ToolFailed) as error:
            # On stdout and with 0, as Kafka's tool does: scripts have learnt to look there.
            print(f"\nError: Executing consumer group command failed due to {error}")
            print(error, file=sys.stderr)
    return 0


def _act(cluster: Cluster, parsed: Parsed) -> None:
    if "list" in parsed:
        _list(cluster, parsed)
    elif "describe" in parsed:
        _describe(cluster, parsed)
    elif "delete" in parsed:
        _delete(cluster, parsed)
    elif "reset-offsets" in parsed:
        _reset(cluster, parsed)
    else:
        _delete_offsets(cluster, parsed)


def _check(parsed: Parsed) -> None:
    chosen = [action for action in ACTIONS if action in parsed]
    if len(chosen) != 1:
        actions = ", ".join(f"--{action}" for action in ACTIONS)
        raise UsageError(f"Command must include exactly one action: {actions}.")
    action = chosen[0]
    selected = "group" in parsed or "all-groups" in parsed
    if action in ("describe", "delete", "reset-offsets") and not selected:
        raise UsageError(f"Option [{action}] takes one of these options: {SELECTION}")
    parsed.refuse("group", "all-groups")
    if action == "describe":
        _check_describe(parsed)
    elif action == "delete" and "topic" in parsed:
        raise UsageError("The consumer does not support topic-specific offset deletion from a consumer group.")
    elif action == "delete-offsets" and not ("group" in parsed and "topic" in parsed):
        raise UsageError("Option [delete-offsets] takes the following options: [topic], [group]")
    elif action == "reset-offsets":
        _check_reset(parsed)


def _check_describe(parsed: Parsed) -> None:
    if sum(name in parsed for name in ("members", "offsets", "state")) > 1:
        raise UsageError("Option [describe] takes at most one of these options: [members], [offsets], [state]")
    if parsed.text("state"):
        raise UsageError("Option [describe] does not take a value for [state]")


def _check_reset(parsed: Parsed) -> None:
    if "dry-run" in parsed and "execute" in parsed:
        raise UsageError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    offset_plans.refuse_several(parsed)
    if not any(name in parsed for name in offset_plans.SCENARIO_NAMES):
        scenarios = ", ".join(f"[{name}]" for name in offset_plans.SCENARIO_NAMES)
        raise UsageError(f"Option [reset-offsets] requires one of the following scenarios: {scenarios}")
    if not ("topic" in parsed or "all-topics" in parsed or "from-file" in parsed):
        raise UsageError("One of the reset scopes should be defined: --all-topics, --topic.")
    parsed.refuse("topic", "all-topics")


def _validate_regex(text: str) -> int:
    import re

    try:
        re.compile(text)
    except re.error as problem:
        raise ToolFailed(f"The regular expression `{text}` is invalid: {problem}.") from None
    print(f"The regular expression `{text}` is valid.")
    return 0


def _groups(cluster: Cluster, parsed: Parsed) -> list[str]:
    if "all-groups" in parsed:
        return [listing.group for listing in list_groups(cluster)]
    return list(dict.fromkeys(parsed.texts("group")))


def _list(cluster: Cluster, parsed: Parsed) -> None:
    states = _among(parsed.text("state"), STATES, "state")
    types = _among(parsed.text("type"), TYPES, "types")
    listings = list_groups(cluster, states=states, types=types)
    if wants_json(parsed):
        print_json([listing._asdict() for listing in listings])
    elif "state" in parsed or "type" in parsed:
        group_tables.print_listings(listings, with_type="type" in parsed, with_state="state" in parsed)
    else:
        for listing in listings:
            print(listing.group)


def _among(text: str | None, known: Iterable[str], what: str) -> list[str]:
    spelled = {each.lower(): each for each in known}
    asked = [each.strip().lower() for each in text.split(",")] if text else []
    if any(each not in spelled for each in asked):
        raise UsageError(f"Invalid {what} list '{text}'. Valid {what.rstrip('s')}s are: {', '.join(spelled.values())}")
    return [spelled[each] for each in asked]


def _describe(cluster: Cluster, parsed: Parsed) -> None:
    verbose = "verbose" in parsed
    descriptions = [_described(cluster, group) for group in sorted(_groups(cluster, parsed))]
    if wants_json(parsed):
        with_offsets = "members" not in parsed and "state" not in parsed
        print_json(
            [
                group_tables.group_json(each, group_tables.offset_rows(cluster, each) if with_offsets else None)
                for each in descriptions
            ]
        )
        return
    for description in descriptions:
        group_tables.tell_state(description)
        if "members" in parsed:
            group_tables.print_members(description, verbose=verbose)
        elif "state" in parsed:
            group_tables.print_state(description, verbose=verbose)
        elif rows := group_tables.offset_rows(cluster, description):
            group_tables.print_offsets(rows, verbose=verbose)


def _described(cluster: Cluster, group: str) -> GroupDescription:
    found = describe_group(cluster, group)
    if found.state == DEAD:
        from difflib import get_close_matches

        near = get_close_matches(group, [listing.group for listing in list_groups(cluster)], n=3)
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        raise ToolFailed(f"Group {group} not found.{hint}")
    return found


def _delete(cluster: Cluster, parsed: Parsed) -> None:
    results = {group: delete_group(cluster, group) for group in _groups(cluster, parsed)}
    deleted = [group for group, code in results.items() if not code]
    failed = {group: code for group, code in results.items() if code}
    if wants_json(parsed):
        print_json([{"group": group, "error": code.name if code else None} for group, code in results.items()])
    elif not failed:
        names = ", ".join(deleted)
        print(f"Deletion of requested consumer groups ('{names}') was successful.")
    else:
        print("\nError: Deletion of some consumer groups failed:")
        for group, code in failed.items():
            print(f"* Group '{group}' could not be deleted due to: {_why(code)}")
        if deleted:
            names = ", ".join(f"'{group}'" for group in deleted)
            print(f"\nThese consumer groups were deleted successfully: {names}")


def _why(code: ErrorCode) -> str:
    return {
        ErrorCode.GROUP_ID_NOT_FOUND: "The group id does not exist.",
        ErrorCode.NON_EMPTY_GROUP: "The group is not empty.",
    }.get(code, code.name)


def _reset(cluster: Cluster, parsed: Parsed) -> None:
    if "execute" not in parsed and "dry-run" not in parsed:
        print("WARN: No action will be performed as the --execute option is missing.", file=sys.stderr)
    groups = _groups(cluster, parsed)
    file = parsed.text("from-file")
    plan = offset_plans.plan_of_file(file, groups) if file else None
    chosen: dict[str, dict[TopicPartition, int]] = {}
    for group in groups:
        state = describe_group(cluster, group).state
        if state not in (EMPTY, DEAD):
            print(
                f"\nError: Assignments can only be reset if the group '{group}' is inactive, "
                f"but the current state is {state}."
            )
            chosen[group] = {}
        elif plan is not None and group not in plan:
            print(f"\nError: No reset plan for group {group} found")
            chosen[group] = {}
        else:
            chosen[group] = _new_offsets(cluster, parsed, group, None if plan is None else plan[group])
            if "execute" in parsed:
                commit_offsets(cluster, group, chosen[group])
    _tell_reset(parsed, chosen)


def _new_offsets(
    cluster: Cluster, parsed: Parsed, group: str, plan: dict[TopicPartition, int] | None
) -> dict[TopicPartition, int]:
    if plan is not None:
        return offset_plans.in_range(cluster, plan)

    def committed() -> dict[TopicPartition, int]:
        return {partition: at.offset for partition, at in committed_offsets(cluster, group).items()}

    if "all-topics" in parsed:
        partitions = list(committed())
    else:
        partitions = offset_plans.topic_partitions(cluster, parsed.texts("topic"))
    return offset_plans.planned_offsets(cluster, parsed, partitions, committed)


def _tell_reset(parsed: Parsed, chosen: dict[str, dict[TopicPartition, int]]) -> None:
    rows = [(group, *partition, offset) for group, plan in chosen.items() for partition, offset in sorted(plan.items())]
    if wants_json(parsed):
        names = ("group", "topic", "partition", "new_offset")
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    elif "export" in parsed:
        single = len(parsed.texts("group")) == 1
        for group, topic, index, offset in rows:
            print(f"{topic},{index},{offset}" if single else f"{group},{topic},{index},{offset}")
        print()
    else:
        group_tables.print_reset(chosen)


def _delete_offsets(cluster: Cluster, parsed: Parsed) -> None:
    group = parsed.text("group") or ""
    topics = parsed.texts("topic")
    known = cluster.metadata({topic.partition(":")[0] for topic in topics}).topics
    missing = [topic for topic in topics if ":" not in topic and (topic not in known or known[topic].error)]
    partitions = [
        (name, int(index))
        for name, _, indexes in (topic.partition(":") for topic in topics if topic not in missing)
        for index in (indexes.split(",") if indexes else known[name].partitions)
    ]
    code, results = delete_offsets(cluster, group, partitions)
    results |= {(topic, -1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for topic in missing}
    worst = code or next((each for each in results.values() if each), ErrorCode.NONE)
    if wants_json(parsed):
        print_json(
            {
                "group": group,
                "error": code.name if code else None,
                "partitions": [
                    {"topic": topic, "partition": index, "error": each.name if each else None}
                    for (topic, index), each in sorted(results.items())
                ],
            }
        )
        return
    _tell_deleted(group, worst)
    _print_deleted(results, partitions, code)


def _tell_deleted(group: str, code: ErrorCode) -> None:
    told = {
        ErrorCode.INVALID_GROUP_ID: f"'{group}' is not valid.",
        ErrorCode.GROUP_ID_NOT_FOUND: f"'{group}' does not exist.",
        ErrorCode.GROUP_AUTHORIZATION_FAILED: f"Access to '{group}' is not authorized.",
        ErrorCode.NON_EMPTY_GROUP: (
            f"Deleting offsets of a consumer group '{group}' is forbidden if the group is not empty."
        ),
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "Encounter some partition level error, see the follow-up details:",
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Encounter some partition level error, see the follow-up details:",
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "Encounter some partition level error, see the follow-up details:",
    }
    if not code:
        print(f"Request succeeded for deleting offsets from group {group}.")
    else:
        print(f"\nError: {told.get(code, f'Encounter some unknown error: {code.name}')}")


def _print_deleted(results: dict[TopicPartition, ErrorCode], partitions: list[TopicPartition], code: ErrorCode) -> None:
    everything = {partition: results.get(partition, code) for partition in partitions} | results
    width = max([15, *(len(topic) for topic, _ in everything)])
    print(f"\n{'TOPIC':<{width}} {'PARTITION':<10} STATUS")
    for (topic, index), each in sorted(everything.items()):
        status = f"Error: {each.name}" if each else "Successful"
        print(f"{topic:<{width}} {'-' if index < 0 else str(index):<10} {status}")
