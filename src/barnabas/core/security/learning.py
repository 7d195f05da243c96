"""The least set of entries that allows what principals have done: `barnabas acl learn`.

What one right implies needs no entry: who reads, writes, deletes or alters also describes, and who alters configs also
describes them. Rights are given on the very names that were used, so the set allows nothing that was not done.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.core.security.authorizer import IMPLIED_BY
from barnabas.core.security.model import Operation, PatternType, PermissionType, Resource
from barnabas.wire.records.metadata import AccessControlEntryRecord


class Used(NamedTuple):
    """A right that a principal has used."""

    principal: str
    operation: Operation
    resource: Resource


def least_entries(used: Iterable[Used]) -> list[AccessControlEntryRecord]:
    """In the order of principals, resources and operations."""
    rights = set(used)
    return [
        AccessControlEntryRecord(
            resource_type=resource.type,
            resource_name=resource.name,
            pattern_type=PatternType.LITERAL,
            principal=principal,
            host="*",
            operation=operation,
            permission_type=PermissionType.ALLOW,
        )
        for principal, operation, resource in sorted(
            rights, key=lambda right: (right.principal, right.resource, right.operation)
        )
        if not any(
            Used(principal, stronger, resource) in rights
            for stronger in IMPLIED_BY.get(operation, frozenset())
            if stronger is not operation
        )
    ]
