"""`kafka-acls`: adds, removes and lists access control lists."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.cli.connect import BOOTSTRAP_CONTROLLER, CONNECTION, OUTPUT, connect, wants_json
from barnabas.cli.errors import ToolFailed, UsageError
from barnabas.cli.options import Parsed, Parser, option
from barnabas.cli.output import print_json
from barnabas.client.admin.refusals import check
from barnabas.client.errors import Refused
from barnabas.core.security.model import CLUSTER_NAME, OPERATIONS_OF, Operation, PatternType, ResourceType

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

ANY, DENY, ALLOW = 1, 2, 3
PERMISSIONS = {ANY: "ANY", DENY: "DENY", ALLOW: "ALLOW"}
RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
    "delegation-token": ResourceType.DELEGATION_TOKEN,
    "user-principal": ResourceType.USER,
}
OPERATIONS = [operation for operation in Operation if operation > Operation.ANY]
WILDCARD = "*"


class Pattern(NamedTuple):
    resource: ResourceType
    name: str | None
    pattern: PatternType

    def __str__(self) -> str:
        return f"ResourcePattern(resourceType={self.resource.name}, name={self.name}, patternType={self.pattern.name})"


class Entry(NamedTuple):
    principal: str
    host: str
    operation: Operation
    permission: int

    def __str__(self) -> str:
        return (
            f"(principal={self.principal}, host={self.host}, operation={self.operation.name}, "
            f"permissionType={PERMISSIONS[self.permission]})"
        )


PARSER = Parser(
    name="acls",
    summary="Adds, removes and lists access control lists.",
    options=(
        *CONNECTION,
        BOOTSTRAP_CONTROLLER,
        OUTPUT,
        option("--add", help="Add entries."),
        option("--remove", help="Remove entries, or everything of a resource."),
        option("--list", help="List entries."),
        option("--topic", takes="topic", repeated=True, help="The topic; * for every one.", completes="topic"),
        option("--group", takes="group", repeated=True, help="The group; * for every one.", completes="group"),
        option("--cluster", help="The cluster."),
        option("--transactional-id", takes="id", repeated=True, help="The transactional id; * for every one."),
        option("--delegation-token", takes="token", repeated=True, help="The delegation token; * for every one."),
        option("--user-principal", takes="principal", repeated=True, help="The user as a resource, for tokens."),
        option(
            "--resource-pattern-type",
            takes="type",
            default="LITERAL",
            help="LITERAL or PREFIXED; to list and remove also ANY and MATCH.",
        ),
        option(
            "--operation",
            takes="operation",
            repeated=True,
            default="All",
            help="What is allowed or denied: Read, Write, Create, Delete, Alter, Describe, ClusterAction, "
            "DescribeConfigs, AlterConfigs, IdempotentWrite, CreateTokens, DescribeTokens, TwoPhaseCommit, All.",
        ),
        option("--allow-principal", takes="principal", repeated=True, help="Who may, for instance User:anna."),
        option("--deny-principal", takes="principal", repeated=True, help="Who may not."),
        option("--allow-host", takes="address", repeated=True, help="From where the allowed may; everywhere else."),
        option("--deny-host", takes="address", repeated=True, help="From where the denied may not; everywhere else."),
        option("--principal", takes="principal", repeated=True, help="With --list: only entries of these."),
        option("--producer", help="What a producer needs: Write, Describe and Create on the topic."),
        option("--consumer", help="What a consumer needs: Read and Describe on the topic, Read on the group."),
        option("--idempotent", help="With --producer: what an idempotent one needs too."),
        option("--force", help="Ask nothing."),
    ),
)


def run(parsed: Parsed) -> int:
    _check(parsed)
    try:
        with connect(
            parsed, missing="One of --bootstrap-server or --bootstrap-controller must be specified"
        ) as cluster:
            if "list" in parsed:
                _list(cluster, parsed, _filters(parsed))
            elif "add" in parsed:
                _add(cluster, parsed)
            else:
                _remove(cluster, parsed)
    except Refused as refusal:
        raise _failed(f"{refusal.code.name}: {refusal.message}") from None
    return 0


def _failed(sentence: str) -> ToolFailed:
    return ToolFailed(f"Error while executing ACL command: {sentence}", on_stdout=True)


def _check(parsed: Parsed) -> None:
    if not {"bootstrap-server", "bootstrap-controller", "zookeeper"} & set(parsed.given()):
        raise UsageError("One of --bootstrap-server or --bootstrap-controller must be specified")
    if sum(action in parsed for action in ("list", "add", "remove")) != 1:
        raise UsageError("Command must include exactly one action: --list, --add, --remove.")
    parsed.refuse("list", "producer", "consumer", "allow-host", "allow-principal", "deny-host", "deny-principal")
    parsed.refuse("producer", "operation", "deny-principal", "deny-host")
    parsed.refuse("consumer", "operation", "deny-principal", "deny-host")
    if "producer" in parsed and "topic" not in parsed:
        raise UsageError("With --producer you must specify a --topic")
    if "idempotent" in parsed and "producer" not in parsed:
        raise UsageError("The --idempotent option is only available if --producer is set")
    if "consumer" in parsed and (
        "topic" not in parsed
        or "group" not in parsed
        or ("producer" not in parsed and ("cluster" in parsed or "transactional-id" in parsed))
    ):
        raise UsageError(
            "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id option "
            "should be specified."
        )


def _pattern_type(parsed: Parsed) -> PatternType:
    text = parsed.text("resource-pattern-type") or ""
    try:
        found = PatternType[text.upper()]
    except KeyError:
        raise _failed(f"Cannot parse argument '{text}' of option resource-pattern-type") from None
    if "add" in parsed and found in (PatternType.ANY, PatternType.MATCH):
        raise UsageError(f"A '--resource-pattern-type' value of '{found.name}' is not valid when adding acls.")
    return found


def _filters(parsed: Parsed, *, required: bool = False) -> list[Pattern]:
    kind = _pattern_type(parsed)
    found = [Pattern(type_, name.strip(), kind) for given, type_ in RESOURCES.items() for name in parsed.texts(given)]
    if "cluster" in parsed or "idempotent" in parsed:
        found.append(Pattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL))
    if not found and required:
        raise UsageError(
            "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or "
            "--delegation-token <Delegation Token ID>"
        )
    return found


def _wanted(parsed: Parsed) -> dict[Pattern, list[Entry]]:
    """What shall be added or removed, by resource."""
    patterns = _filters(parsed, required=True)
    entries: dict[Pattern, list[Entry]] = {}

    def allow(patterns: Iterable[Pattern], *operations: Operation) -> None:
        for pattern in patterns:
            entries.setdefault(pattern, []).extend(_entries(parsed, operations))

    if "producer" not in parsed and "consumer" not in parsed:
        operations = [_operation(text) for text in parsed.texts("operation")]
        for pattern in patterns:
            _check_operations(pattern, operations)
        allow(patterns, *[operation for operation in operations if operation is not None])
    if "producer" in parsed:
        allow(_of(patterns, ResourceType.TOPIC), Operation.WRITE, Operation.DESCRIBE, Operation.CREATE)
        allow(_of(patterns, ResourceType.TRANSACTIONAL_ID), Operation.WRITE, Operation.DESCRIBE)
        allow(_of(patterns, ResourceType.CLUSTER), Operation.IDEMPOTENT_WRITE)
    if "consumer" in parsed:
        allow(_of(patterns, ResourceType.TOPIC), Operation.READ, Operation.DESCRIBE)
        allow(_of(patterns, ResourceType.GROUP), Operation.READ)
    return {pattern: list(dict.fromkeys(each)) for pattern, each in entries.items()}


def _of(patterns: Iterable[Pattern], kind: ResourceType) -> list[Pattern]:
    return [pattern for pattern in patterns if pattern.resource is kind]


def _operation(text: str) -> Operation | None:
    """As Kafka spells operations, in any case: IdempotentWrite."""
    name = text.strip().replace("_", "").lower()
    return next((each for each in OPERATIONS if each.name.replace("_", "").lower() == name), None)


def _check_operations(pattern: Pattern, operations: list[Operation | None]) -> None:
    supported = (*OPERATIONS_OF[pattern.resource], Operation.ALL)
    if any(operation not in supported for operation in operations):
        names = ", ".join(operation.name for operation in sorted(set(supported)))
        raise UsageError(f"ResourceType {pattern.resource.name} only supports operations [{names}]")


def _entries(parsed: Parsed, operations: Iterable[Operation]) -> list[Entry]:
    given = list(operations)
    entries = []
    for verb, permission in (("allow", ALLOW), ("deny", DENY)):
        principals = [_principal(text) for text in parsed.texts(f"{verb}-principal")]
        hosts = parsed.texts(f"{verb}-host") or [WILDCARD]
        entries += [
            Entry(principal, host.strip(), operation, permission)
            for principal in principals
            for host in hosts
            for operation in given
        ]
    return entries


def _principal(text: str) -> str:
    kind, colon, name = text.strip().partition(":")
    if not kind or not colon or not name:
        raise _failed(f"expected a string in format principalType:principalName but got {text}")
    return text.strip()


def _add(cluster: Cluster, parsed: Parsed) -> None:
    from barnabas.wire.messages.create_acls import AclCreation, CreateAclsRequest

    _pattern_type(parsed)
    _filters(parsed, required=True)
    if "allow-principal" not in parsed and "deny-principal" not in parsed:
        raise UsageError("You must specify one of: --allow-principal, --deny-principal when trying to add ACLs.")
    wanted = _wanted(parsed)
    for pattern, entries in wanted.items():
        print(f"Adding ACLs for resource `{pattern}`: \n {_listed(entries)} \n")
    creations = [
        AclCreation(
            resource_type=pattern.resource,
            resource_name=pattern.name or "",
            resource_pattern_type=pattern.pattern,
            principal=entry.principal,
            host=entry.host,
            operation=entry.operation,
            permission_type=entry.permission,
        )
        for pattern, entries in wanted.items()
        for entry in entries
    ]
    for result in cluster.ask_controller(CreateAclsRequest(creations=creations)).results:
        check(result.error_code, result.error_message)


def _listed(entries: Iterable[Entry]) -> str:
    return "\n".join(f"\t{entry}" for entry in entries)


def _remove(cluster: Cluster, parsed: Parsed) -> None:
    from barnabas.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest

    patterns = _filters(parsed, required=True)
    wanted = _wanted(parsed) if "allow-principal" in parsed or "deny-principal" in parsed else {}
    filters = []
    for pattern in patterns:
        entries = wanted.get(pattern, [])
        if not entries:
            question = f"Are you sure you want to delete all ACLs for resource filter `{pattern}`? (y/n)"
            entry = Entry("", "", Operation.ANY, ANY)
            if _confirmed(parsed, question):
                filters.append(_filter(pattern, entry))
            continue
        listed = _listed(entries)
        question = f"Are you sure you want to remove ACLs: \n {listed} \n from resource filter `{pattern}`? (y/n)"
        if _confirmed(parsed, question):
            filters += [_filter(pattern, entry) for entry in entries]
    if filters:
        request = DeleteAclsRequest(filters=[DeleteAclsFilter(**each) for each in filters])
        for result in cluster.ask_controller(request).filter_results:
            check(result.error_code, result.error_message)


def _confirmed(parsed: Parsed, question: str) -> bool:
    if "force" in parsed:
        return True
    print(question, flush=True)
    return sys.stdin.readline().strip().lower() == "y"


def _filter(pattern: Pattern | None, entry: Entry) -> dict[str, Any]:
    return {
        "resource_type_filter": pattern.resource if pattern else ResourceType.ANY,
        "resource_name_filter": pattern.name if pattern else None,
        "pattern_type_filter": pattern.pattern if pattern else PatternType.ANY,
        "principal_filter": entry.principal or None,
        "host_filter": entry.host or None,
        "operation": entry.operation,
        "permission_type": entry.permission,
    }


def _list(cluster: Cluster, parsed: Parsed, patterns: list[Pattern]) -> None:
    from barnabas.wire.messages.describe_acls import DescribeAclsRequest

    anything = Entry("", "", Operation.ANY, ANY)
    if not patterns and (kind := _pattern_type(parsed)):
        asked = [{**_filter(None, anything), "pattern_type_filter": kind if kind != PatternType.LITERAL else ANY}]
    else:
        asked = [_filter(pattern, anything) for pattern in patterns]
    found: dict[Pattern, list[Entry]] = {}
    for question in asked:
        answer = cluster.ask(DescribeAclsRequest(**question))
        check(answer.error_code, answer.error_message)
        for resource in answer.resources:
            pattern = Pattern(
                ResourceType(resource.resource_type), resource.resource_name, PatternType(resource.pattern_type)
            )
            for acl in resource.acls:
                entry = Entry(acl.principal, acl.host, Operation(acl.operation), acl.permission_type)
                found.setdefault(pattern, []).append(entry)
    principals = [_principal(text) for text in parsed.texts("principal")]
    if not principals or wants_json(parsed):
        _print(parsed, found, principals)
        return
    for principal in principals:
        print(f"ACLs for principal `{principal}`")
        _print(parsed, found, [principal])


def _print(parsed: Parsed, listed: dict[Pattern, list[Entry]], principals: list[str]) -> None:
    """Only what concerns the principals, if any are given."""
    found = {
        pattern: [entry for entry in dict.fromkeys(entries) if not principals or entry.principal in principals]
        for pattern, entries in listed.items()
    }
    if wants_json(parsed):
        print_json(
            [
                {
                    "resourceType": pattern.resource.name,
                    "name": pattern.name,
                    "patternType": pattern.pattern.name,
                    "principal": entry.principal,
                    "host": entry.host,
                    "operation": entry.operation.name,
                    "permissionType": PERMISSIONS[entry.permission],
                }
                for pattern, entries in found.items()
                for entry in entries
            ]
        )
        return
    for pattern, entries in found.items():
        if entries:
            print(f"Current ACLs for resource `{pattern}`: \n{_listed(entries)} \n")
