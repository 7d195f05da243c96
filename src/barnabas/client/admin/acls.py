"""Access control lists as an administrator sees and changes them, with the names of Kafka's protocol."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.client.admin.refusals import check

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

RESOURCES = {1: "ANY", 2: "TOPIC", 3: "GROUP", 4: "CLUSTER", 5: "TRANSACTIONAL_ID", 6: "DELEGATION_TOKEN", 7: "USER"}
PATTERNS = {1: "ANY", 2: "MATCH", 3: "LITERAL", 4: "PREFIXED"}
PERMISSIONS = {1: "ANY", 2: "DENY", 3: "ALLOW"}
OPERATIONS = {
    1: "ANY", 2: "ALL", 3: "READ", 4: "WRITE", 5: "CREATE", 6: "DELETE", 7: "ALTER", 8: "DESCRIBE",
    9: "CLUSTER_ACTION", 10: "DESCRIBE_CONFIGS", 11: "ALTER_CONFIGS", 12: "IDEMPOTENT_WRITE", 13: "CREATE_TOKENS",
    14: "DESCRIBE_TOKENS", 15: "TWO_PHASE_COMMIT",
}  # fmt: skip
UNKNOWN = "UNKNOWN"


class Acl(NamedTuple):
    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str


class AclFilter(NamedTuple):
    """None is any."""

    resource_type: str = "ANY"
    resource_name: str | None = None
    pattern_type: str = "ANY"
    principal: str | None = None
    host: str | None = None
    operation: str = "ANY"
    permission: str = "ANY"


def number_of(names: dict[int, str], name: str) -> int:
    """Raises KeyError for a name that there is not."""
    return {each: number for number, each in names.items()}[name.upper()]


def describe_acls(cluster: Cluster, wanted: AclFilter) -> list[Acl]:
    from barnabas.wire.messages.describe_acls import DescribeAclsRequest

    answer = cluster.ask(DescribeAclsRequest(**_filter(wanted)))
    check(answer.error_code, answer.error_message)
    return sorted(_acl(resource, each) for resource in answer.resources for each in resource.acls)


def create_acls(cluster: Cluster, acls: Iterable[Acl]) -> None:
    from barnabas.wire.messages.create_acls import AclCreation, CreateAclsRequest

    creations = [
        AclCreation(
            resource_type=number_of(RESOURCES, each.resource_type),
            resource_name=each.resource_name,
            resource_pattern_type=number_of(PATTERNS, each.pattern_type),
            principal=each.principal,
            host=each.host,
            operation=number_of(OPERATIONS, each.operation),
            permission_type=number_of(PERMISSIONS, each.permission),
        )
        for each in acls
    ]
    for result in cluster.ask_controller(CreateAclsRequest(creations=creations)).results:
        check(result.error_code, result.error_message)


def delete_acls(cluster: Cluster, wanted: AclFilter) -> list[Acl]:
    """Those that were deleted."""
    from barnabas.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest

    found = []
    answer = cluster.ask_controller(DeleteAclsRequest(filters=[DeleteAclsFilter(**_filter(wanted))]))
    for result in answer.filter_results:
        check(result.error_code, result.error_message)
        found += [_acl(each, each) for each in result.matching_acls]
    return sorted(found)


def _filter(wanted: AclFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": number_of(RESOURCES, wanted.resource_type),
        "resource_name_filter": wanted.resource_name,
        "pattern_type_filter": number_of(PATTERNS, wanted.pattern_type),
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": number_of(OPERATIONS, wanted.operation),
        "permission_type": number_of(PERMISSIONS, wanted.permission),
    }


def _acl(resource: Any, entry: Any) -> Acl:
    return Acl(
        RESOURCES.get(resource.resource_type, UNKNOWN),
        resource.resource_name,
        PATTERNS.get(resource.pattern_type, UNKNOWN),
        entry.principal,
        entry.host,
        OPERATIONS.get(entry.operation, UNKNOWN),
        PERMISSIONS.get(entry.permission_type, UNKNOWN),
    )
