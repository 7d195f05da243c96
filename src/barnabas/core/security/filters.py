"""Which access control entries a filter of DescribeAcls and DeleteAcls means."""

from __future__ import annotations

from typing import TypeAlias

from barnabas.core.security.model import Operation, PatternType, PermissionType, ResourceType
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.delete_acls import DeleteAclsFilter
from barnabas.wire.messages.describe_acls import DescribeAclsRequest
from barnabas.wire.records.metadata import AccessControlEntryRecord

EntryFilter: TypeAlias = DescribeAclsRequest | DeleteAclsFilter

WILDCARD = "*"


def require_known(wanted: EntryFilter) -> None:
    """A code that a newer client knows and we do not matches nothing we could name: the filter is refused."""
    if not _known(ResourceType, wanted.resource_type_filter) or not _known(PatternType, wanted.pattern_type_filter):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The filter names an unknown resource type or pattern type.")
    if not _known(Operation, wanted.operation) or not _known(PermissionType, wanted.permission_type):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The filter names an unknown operation or permission type.")


def _known(codes: type[ResourceType | PatternType | Operation | PermissionType], code: int) -> bool:
    return code != 0 and code in codes._value2member_map_


def matches(wanted: EntryFilter, entry: AccessControlEntryRecord) -> bool:
    return (
        _matches_pattern(wanted, entry)
        and wanted.principal_filter in (None, entry.principal)
        and wanted.host_filter in (None, entry.host)
        and wanted.operation in (Operation.ANY, entry.operation)
        and wanted.permission_type in (PermissionType.ANY, entry.permission_type)
    )


def _matches_pattern(wanted: EntryFilter, entry: AccessControlEntryRecord) -> bool:
    if wanted.resource_type_filter not in (ResourceType.ANY, entry.resource_type):
        return False
    pattern_type, name = wanted.pattern_type_filter, wanted.resource_name_filter
    if pattern_type not in (PatternType.ANY, PatternType.MATCH, entry.pattern_type):
        return False
    if name is None:
        return True
    if pattern_type != PatternType.MATCH:
        return name == entry.resource_name
    if entry.pattern_type == PatternType.PREFIXED:
        return name.startswith(entry.resource_name)
    return entry.resource_name in (name, WILDCARD)
