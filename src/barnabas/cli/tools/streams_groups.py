"""`kafka-streams-groups`: lists, describes and deletes streams groups, resets and deletes their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.cli.connect import CONNECTION, OUTPUT, connect, wants_json
from barnabas.cli.errors import ToolFailed, UsageError
from barnabas.cli.groups import offset_plans
from barnabas.cli.options import Parsed, Parser, option
from barnabas.cli.output import print_json
from barnabas.client.errors import AuthenticationFailed, BrokerUnreachable, ClientError

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
STATES = ("Assigning", "Dead", "Empty", "NotReady", "Reconciling", "Stable")
SELECTION = "[all-groups], [group]"
WIDTH_MIN = 15

PARSER = Parser(
    name="streams-groups",
    summary="Lists and describes streams groups, deletes them, and resets or deletes their offsets.",
    options=(
        *CONNECTION,
        OUTPUT,
        option("--list", help="List the streams groups."),
        option("--describe", help="Describe streams groups: offsets and lag, members or state."),
        option("--delete", help="Delete streams groups without members, with all their offsets."),
        option("--reset-offsets", help="Set the offsets of streams groups without members."),
        option("--delete-offsets", help="Delete a streams group's offsets of input topics."),
        option("--group", takes="group", repeated=True, help="The group to act on; may be repeated."),
        option("--all-groups", help="Act on every streams group."),
        option(
            "--input-topic",
            takes="topic[:0,1]",
            repeated=True,
            help="The input topic, or some partitions of it, whose offsets are meant; may be repeated.",
            completes="topic",
        ),
        option("--all-input-topics", help="All source topics of the group's topology."),
        option("--offsets", help="With --describe: offsets and lag, which is what is described anyway."),
        option("--members", help="With --describe: the members and their tasks."),
        option(
            "--state",
            takes="state,...",
            optional=True,
            help="With --describe: the group's state. With --list: show it, or only groups in one of these states.",
        ),
        option("--verbose", help="With --describe: more columns."),
        option("--dry-run", help="Show the new offsets only."),
        option("--execute", help="Set the new offsets."),
        option("--export", help="Print the new offsets as CSV, which --from-file reads."),
        option(
            "--delete-internal-topic",
            takes="topic",
            repeated=True,
            help="With --reset-offsets --execute: delete this internal topic; may be repeated.",
        ),
        option(
            "--delete-all-internal-topics",
            help="With --delete, or --reset-offsets --execute: delete the internal topics of the group.",
        ),
        option("--timeout", takes="ms", kind=int, default=30000, help="How long the cluster is waited for."),
        *offset_plans.SCENARIOS,
    ),
)


def run(parsed: Parsed) -> int:
    action = _check(parsed)
    with connect(parsed) as cluster:
        try:
            return _act(cluster, parsed, action)
        except (BrokerUnreachable, AuthenticationFailed):
            raise
        except (ClientError, ToolFailed) as error:
            print(f"\nError: Executing streams group command failed due to {error}")
            raise


def _act(cluster: Cluster, parsed: Parsed, action: str) -> int:
    from barnabas.cli.groups import streams_changes

    if action == "list":
        _list(cluster, parsed)
    elif action == "describe":
        _describe(cluster, parsed)
    elif action == "delete":
        return streams_changes.delete_groups(cluster, parsed, _groups(cluster, parsed))
    elif action == "reset-offsets":
        streams_changes.reset(cluster, parsed, _groups(cluster, parsed))
    else:
        streams_changes.delete_group_offsets(cluster, parsed)
    return 0


def _check(parsed: Parsed) -> str:
    chosen = [action for action in ACTIONS if action in parsed]
    if len(chosen) != 1:
        raise UsageError(
            "Command must include exactly one action: --list, --describe, --delete, --reset-offsets, or"
            " --delete-offsets."
        )
    action = chosen[0]
    is_selected = "group" in parsed or "all-groups" in parsed
    if action in ("describe", "delete", "reset-offsets") and not is_selected:
        raise UsageError(f"Option [{action}] takes one of these options: {SELECTION}")
    parsed.refuse("group", "all-groups")
    topics = "input-topic" in parsed or "all-input-topics" in parsed
    if action == "describe":
        _check_describe(parsed)
    elif action == "delete" and topics:
        raise UsageError("Kafka Streams does not support topic-specific offset deletion from a streams group.")
    elif action == "delete-offsets":
        if not ("group" in parsed and topics):
            raise UsageError(
                "Option [delete-offsets] takes the [group] and one of these options: [all-input-topics], [input-topic]"
            )
        if len(parsed.texts("group")) > 1:
            named = ", ".join(parsed.texts("group"))
            raise UsageError(f"Option [delete-offsets] supports only one [group] at a time, but found: [{named}]")
    elif action == "reset-offsets":
        _check_reset(parsed, topics=topics)
    _check_internal_topics(parsed, action)
    if action != "reset-offsets" and ("dry-run" in parsed or "execute" in parsed):
        raise UsageError("Only Option [reset-offsets] accepts [execute] or [dry-run]")
    return action


def _check_describe(parsed: Parsed) -> None:
    if sum(name in parsed for name in ("members", "offsets", "state")) > 1:
        raise UsageError("Option [describe] takes at most one of these options: [members], [offsets], [state]")
    if parsed.text("state"):
        raise UsageError("Option [describe] does not take a value for [state]")


def _check_reset(parsed: Parsed, *, topics: bool) -> None:
    if "dry-run" in parsed and "execute" in parsed:
        raise UsageError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if "dry-run" not in parsed and "execute" not in parsed:
        raise UsageError("Option [reset-offsets] takes the option: [execute] or [dry-run]")
    offset_plans.refuse_several(parsed)
    if not any(name in parsed for name in offset_plans.SCENARIO_NAMES):
        scenarios = ", ".join(f"[{name}]" for name in offset_plans.SCENARIO_NAMES)
        raise UsageError(f"Option [reset-offsets] requires one of the following scenarios: {scenarios}")
    if not topics and "from-file" not in parsed:
        raise UsageError("One of the reset scopes should be defined: --all-input-topics, --input-topic.")


def _check_internal_topics(parsed: Parsed, action: str) -> None:
    resets = action == "reset-offsets" and "execute" in parsed
    if "delete-all-internal-topics" in parsed and not (resets or action == "delete"):
        raise UsageError("Option [delete-all-internal-topics] goes with [delete], or with [reset-offsets] [execute].")
    if "delete-internal-topic" in parsed and not resets:
        raise UsageError("Option [delete-internal-topic] takes [reset-offsets] when [execute] is used.")


def _groups(cluster: Cluster, parsed: Parsed) -> list[str]:
    from barnabas.client.admin.streams_groups import list_streams_groups

    if "all-groups" in parsed:
        return [each.group for each in list_streams_groups(cluster)]
    return list(dict.fromkeys(parsed.texts("group")))


def _list(cluster: Cluster, parsed: Parsed) -> None:
    from barnabas.client.admin.streams_groups import list_streams_groups

    listings = list_streams_groups(cluster, _states(parsed.text("state")))
    if wants_json(parsed):
        print_json([{"group": each.group, "state": each.state} for each in listings])
    elif "state" in parsed:
        width = max([WIDTH_MIN, *(len(each.group) for each in listings)])
        for name, state in [("GROUP", "STATE"), *((each.group, each.state) for each in listings)]:
            print(f"{name:<{width}} {state}")
    else:
        for each in listings:
            print(each.group)


def _states(text: str | None) -> list[str]:
    spelled = {each.lower(): each for each in STATES}
    asked = [each.strip().lower() for each in text.split(",")] if text else []
    if any(each not in spelled for each in asked):
        raise UsageError(f"Invalid state list '{text}'. Valid states are: {', '.join(STATES)}")
    return [spelled[each] for each in asked]


def _describe(cluster: Cluster, parsed: Parsed) -> None:
    from barnabas.cli.groups import streams_tables
    from barnabas.client.admin.streams_groups import describe_streams_group, streams_offsets

    verbose = "verbose" in parsed
    with_offsets = "members" not in parsed and "state" not in parsed
    as_json = []
    for group in _groups(cluster, parsed):
        description = describe_streams_group(cluster, group)
        offsets = streams_offsets(cluster, description) if with_offsets else None
        if wants_json(parsed):
            as_json.append(streams_tables.as_json(description, offsets))
        elif "members" in parsed:
            streams_tables.print_members(description, verbose=verbose)
        elif "state" in parsed:
            streams_tables.print_state(description, verbose=verbose)
        else:
            streams_tables.print_offsets(description, offsets or [], verbose=verbose)
    if wants_json(parsed):
        print_json(as_json)
