"""`barnabas acl`: why somebody may do something or not, and the least set of entries for what was done.

`explain` asks the cluster for its entries and decides as a node does. Super users are a setting of the nodes that no
client is told, so they are given here. `learn` reads the lines of the audit (docs/security.md).
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from barnabas.cli.connect import CONNECTION, OUTPUT, connect, settings, wants_json
from barnabas.cli.errors import ToolFailed, UsageError
from barnabas.cli.options import Parsed, Parser, option
from barnabas.cli.output import print_json
from barnabas.client.errors import Refused
from barnabas.core.security.model import OPERATIONS_OF, Operation, PatternType, PermissionType, Resource, ResourceType

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster
    from barnabas.core.security.authorizer import Verdict
    from barnabas.wire.records.metadata import AccessControlEntryRecord

RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
}
# With what the cluster was asked is what a command for it needs.
CONNECTING = ("bootstrap-server", "command-config")
RULES = {
    "SuperUser": "it is a super user",
    "DefaultAllow": "no entry is about the resource, and allow.everyone.if.no.acl.found is true",
    "DefaultDeny": "no entry allows it",
}

PARSER = Parser(
    name="acl",
    summary="Explains access control, and learns the least set of entries from what principals have done.",
    beyond_kafka=True,
    help_exit=0,
    options=(*CONNECTION, OUTPUT),
    commands=(
        Parser(
            name="explain",
            summary="Tell whether a principal may do something, and why.",
            options=(
                option("--principal", takes="principal", help="Who, for instance User:bob."),
                option("--operation", takes="operation", help="What, for instance Read."),
                option("--topic", takes="topic", help="On which topic.", completes="topic"),
                option("--group", takes="group", help="On which group.", completes="group"),
                option("--transactional-id", takes="id", help="On which transactional id."),
                option("--cluster", help="On the cluster."),
                option("--host", takes="address", default="127.0.0.1", help="From which address."),
                option("--super-users", takes="principals", help="The super.users of the nodes, with semicolons."),
                option("--allow-if-no-acl", help="The nodes have allow.everyone.if.no.acl.found=true."),
            ),
        ),
        Parser(
            name="learn",
            summary="Print the least set of entries that allows what a principal has done.",
            options=(
                option("--principal", takes="principal", help="Whose, for instance User:bob; without: everybody's."),
                option("--audit-topic", takes="topic", help="The nodes' barnabas.audit.topic.", completes="topic"),
                option("--audit-file", takes="file", help="A file with lines of the audit, such as a node's log."),
                option("--with-denied", help="Also allow what was denied."),
            ),
        ),
    ),
)


def run(parsed: Parsed) -> int:
    return _learn(parsed) if parsed.command == "learn" else _explain(parsed)


def _learn(parsed: Parsed) -> int:
    from barnabas.cli.acl_learning import lines_of_file, lines_of_topic, used_rights
    from barnabas.core.security.learning import least_entries

    topic, path = parsed.text("audit-topic"), parsed.text("audit-file")
    if (topic is None) == (path is None):
        raise UsageError("Exactly one of --audit-topic and --audit-file must be given.")
    if topic is not None:
        lines = lines_of_topic(settings(parsed, client_id="acl-tool", missing=None), topic)
    else:
        lines = lines_of_file(path or "")
    principal = _principal(parsed) if "principal" in parsed else None
    entries = least_entries(used_rights(lines, principal, with_denied="with-denied" in parsed))
    if not entries:
        whose = f" of {principal}" if principal else ""
        raise ToolFailed(f"There is no used right{whose} in the audit: do the nodes have barnabas.audit.allowed=true?")
    if wants_json(parsed):
        print_json([_as_json(entry) for entry in entries])
        return 0
    for entry in entries:
        where = _named(ResourceType(entry.resource_type), entry.resource_name)
        operation = _title(Operation(entry.operation))
        print(f"kafka-acls --add --allow-principal {shlex.quote(entry.principal)} --operation {operation} {where}")
    return 0


def _as_json(entry: AccessControlEntryRecord) -> dict[str, str]:
    return {
        "principal": entry.principal,
        "operation": Operation(entry.operation).name,
        "type": ResourceType(entry.resource_type).name,
        "name": entry.resource_name,
    }


def _explain(parsed: Parsed) -> int:
    from barnabas.core.security.authorizer import Authorizer

    principal, operation, resource = _principal(parsed), _operation(parsed), _resource(parsed)
    if operation not in OPERATIONS_OF[resource.type]:
        known = ", ".join(each.name for each in OPERATIONS_OF[resource.type])
        raise UsageError(f"{operation.name} is no operation on a {resource.type.name.lower()}: {known} are.")
    with connect(parsed, missing=None) as cluster:
        try:
            entries = _entries(cluster)
        except Refused as refusal:
            raise ToolFailed(f"The cluster did not tell its entries: {refusal.code.name}: {refusal.message}") from None
    users = [user.strip() for user in (parsed.text("super-users") or "").split(";")]
    authorizer = Authorizer(entries, super_users=filter(None, users), allow_if_no_acl="allow-if-no-acl" in parsed)
    verdict = authorizer.decide(principal, parsed.text("host") or "", operation, resource)
    _tell(parsed, principal, operation, resource, verdict)
    return 0


def _tell(parsed: Parsed, principal: str, operation: Operation, resource: Resource, verdict: Verdict) -> None:
    because = RULES.get(verdict.rule, verdict.rule) if verdict.entry is None else f"the entry {show(verdict.entry)}"
    advice = None if verdict.allowed else _advice(parsed, principal, operation, resource, verdict.entry)
    if wants_json(parsed):
        print_json({"allowed": verdict.allowed, "because": because, "advice": advice})
        return
    what = f"{principal} may {'' if verdict.allowed else 'not '}{operation.name} {resource.type.name} {resource.name}"
    print(f"{what}: {because}.")
    if advice is not None:
        print(advice)


def _advice(
    parsed: Parsed,
    principal: str,
    operation: Operation,
    resource: Resource,
    denying: AccessControlEntryRecord | None,
) -> str:
    """A command that can be typed as it is: names may be strange, and are quoted."""
    given = [f"--{each} {shlex.quote(text)}" for each in CONNECTING if (text := parsed.text(each))]
    command = " ".join(["kafka-acls", *given])
    if denying is None:
        allowed = f"--add --allow-principal {shlex.quote(principal)} --operation {_title(operation)}"
        return f"To allow it: {command} {allowed} {_named(resource.type, resource.name)}"
    kind = "" if denying.pattern_type == PatternType.LITERAL else " --resource-pattern-type PREFIXED"
    where = _named(ResourceType(denying.resource_type), denying.resource_name)
    return (
        f"To allow it, remove that entry: {command} --remove --deny-principal {shlex.quote(denying.principal)} "
        f"--deny-host {shlex.quote(denying.host)} --operation {_title(Operation(denying.operation))} {where}{kind}"
    )


def _named(kind: ResourceType, name: str) -> str:
    option_of = {each: f"--{given} {shlex.quote(name)}" for given, each in RESOURCES.items()}
    return option_of.get(kind, "--cluster")


def _title(operation: Operation) -> str:
    return operation.name.title().replace("_", "")


def show(entry: AccessControlEntryRecord) -> str:
    verb = "allows" if entry.permission_type == PermissionType.ALLOW else "denies"
    kind = PatternType(entry.pattern_type).name.lower()
    resource = f"{ResourceType(entry.resource_type).name} {entry.resource_name} ({kind})"
    return f"that {verb} {entry.principal} from {entry.host} {Operation(entry.operation).name} on {resource}"


def _entries(cluster: Cluster) -> list[AccessControlEntryRecord]:
    from barnabas.client.admin.refusals import check
    from barnabas.wire.messages.describe_acls import DescribeAclsRequest
    from barnabas.wire.records.metadata import AccessControlEntryRecord

    answer = cluster.ask(
        DescribeAclsRequest(
            resource_type_filter=ResourceType.ANY,
            resource_name_filter=None,
            pattern_type_filter=PatternType.ANY,
            principal_filter=None,
            host_filter=None,
            operation=Operation.ANY,
            permission_type=PermissionType.ANY,
        )
    )
    check(answer.error_code, answer.error_message)
    return [
        AccessControlEntryRecord(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            pattern_type=resource.pattern_type,
            principal=entry.principal,
            host=entry.host,
            operation=entry.operation,
            permission_type=entry.permission_type,
        )
        for resource in answer.resources
        for entry in resource.acls
    ]


def _principal(parsed: Parsed) -> str:
    text = (parsed.text("principal") or "").strip()
    if ":" not in text:
        raise UsageError("--principal must be given, for instance User:bob.")
    return text


def _operation(parsed: Parsed) -> Operation:
    text = (parsed.text("operation") or "").strip()
    name = text.replace("_", "").lower()
    for operation in Operation:
        if operation > Operation.ALL and operation.name.replace("_", "").lower() == name:
            return operation
    raise UsageError("--operation must be given, for instance Read." if not text else f"There is no operation {text}.")


def _resource(parsed: Parsed) -> Resource:
    named = [(kind, parsed.text(given) or "") for given, kind in RESOURCES.items() if given in parsed]
    if len(named) + ("cluster" in parsed) != 1:
        raise UsageError("Exactly one of --topic, --group, --transactional-id and --cluster must be given.")
    return Resource(*named[0]) if named else Resource.cluster()
