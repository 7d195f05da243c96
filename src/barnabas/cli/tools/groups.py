"""`kafka-groups`: lists groups of every type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.cli.connect import CONNECTION, OUTPUT, connect, wants_json
from barnabas.cli.errors import UsageError
from barnabas.cli.options import Parsed, Parser, option
from barnabas.cli.output import print_json
from barnabas.client.admin.refusals import check

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

TYPES = ("classic", "consumer", "share", "streams")
COLUMN = 20

PARSER = Parser(
    name="groups",
    summary="Lists groups of every type.",
    options=(
        *CONNECTION,
        OUTPUT,
        option("--list", help="List the groups."),
        option("--group-type", takes="type", help=f"Only groups of a type: {', '.join(TYPES)}."),
        option("--protocol", takes="protocol", help="Only groups of a protocol."),
        option("--consumer", help="Only groups of consumers, whatever their type."),
        option("--share", help="Only share groups."),
        option("--streams", help="Only streams groups."),
    ),
)


def run(parsed: Parsed) -> int:
    if "bootstrap-server" not in parsed and "zookeeper" not in parsed:
        raise UsageError("Missing required option(s) [bootstrap-server]")
    if "list" not in parsed:
        raise UsageError("Command must include exactly one action: --list.")
    parsed.refuse("consumer", "group-type", "protocol", "share", "streams")
    parsed.refuse("share", "group-type", "protocol", "streams")
    parsed.refuse("streams", "group-type", "protocol")
    kind = parsed.text("group-type")
    if kind is not None and kind.lower() not in TYPES:
        raise UsageError("--group-type must be a valid group type.")
    with connect(parsed) as cluster:
        groups = [group for group in _groups(cluster) if _wanted(parsed, group)]
    if wants_json(parsed):
        print_json([dict(zip(("group", "type", "protocol"), group, strict=True)) for group in groups])
        return 0
    width = max([COLUMN, *(len(name) for name, _, _ in groups)])
    print(f"{'GROUP':<{width}} {'TYPE':<{COLUMN}} {'PROTOCOL':<{COLUMN}}")
    for name, type_name, protocol in groups:
        print(f"{name:<{width}} {type_name:<{COLUMN}} {protocol:<{COLUMN}} ")
    return 0


def _groups(cluster: Cluster) -> list[tuple[str, str, str]]:
    from barnabas.wire.messages.list_groups import ListGroupsRequest

    found = {}
    for node_id in sorted(cluster.metadata([]).brokers):
        answer = cluster.ask_node(node_id, ListGroupsRequest())
        check(answer.error_code)
        for group in answer.groups:
            found[group.group_id] = (group.group_type or "classic").capitalize(), group.protocol_type
    return [(name, *rest) for name, rest in sorted(found.items())]


def _wanted(parsed: Parsed, group: tuple[str, str, str]) -> bool:
    _, kind, protocol = group
    if "consumer" in parsed:
        return kind == "Consumer" or (kind == "Classic" and protocol in ("", "consumer"))
    if "share" in parsed or "streams" in parsed:
        return kind == ("Share" if "share" in parsed else "Streams")
    type_wanted, protocol_wanted = parsed.text("group-type"), parsed.text("protocol")
    return (type_wanted is None or kind.lower() == type_wanted.lower()) and protocol_wanted in (None, protocol)
