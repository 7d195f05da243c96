"""`kafka-consumer-groups`: lists, describes and deletes groups, resets and deletes their offsets.

As Kafka's, it tells of a group that is not there on stdout and still exits with 0. A cluster that cannot be reached
is told on stderr, with 1.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.cli.connect import CONNECTION, OUTPUT, bootstrap, properties_of, wants_json
from barnabas.cli.errors import ToolFailed, UsageError
from barnabas.cli.groups import offset_changes, offset_plans, tables
from barnabas.cli.options import Parsed, Parser, option
from barnabas.cli.output import print_json
from barnabas.client.admin.groups import (
    DEAD,
    STATES,
    GroupDescription,
    delete_group,
    describe_group,
    list_groups,
    offset_rows,
)
from barnabas.client.errors import AuthenticationFailed, BrokerUnreachable, ClientError
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
        except (BrokerUnreachable, AuthenticationFailed):
            raise
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
        offset_changes.reset(cluster, parsed, _groups(cluster, parsed))
    else:
        offset_changes.delete(cluster, parsed)


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
    from barnabas.core.patterns import Pattern, PatternError

    try:
        Pattern(text)
    except PatternError as problem:
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
        tables.print_listings(listings, with_type="type" in parsed, with_state="state" in parsed)
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
            [tables.group_json(each, offset_rows(cluster, each) if with_offsets else None) for each in descriptions]
        )
        return
    for description in descriptions:
        tables.tell_state(description)
        if "members" in parsed:
            tables.print_members(description, verbose=verbose)
        elif "state" in parsed:
            tables.print_state(description, verbose=verbose)
        elif rows := offset_rows(cluster, description):
            tables.print_offsets(rows, verbose=verbose)


def _described(cluster: Cluster, group: str) -> GroupDescription:
    found = describe_group(cluster, group)
    if found.state == DEAD and "is not a" in found.why_dead:
        raise ToolFailed(found.why_dead)
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
