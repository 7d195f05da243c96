"""ACLs without an authorizer, as both servers are here: nothing is listed, made or deleted, and the answers say so."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.wire.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from barnabas.wire.messages.describe_acls import DescribeAclsRequest

ANY, TOPIC, LITERAL, READ, ALLOW = 1, 2, 3, 3, 3


@pytest.mark.parametrize("version", range(1, 4))
@pytest.mark.parametrize("name", [None, "t"])
def test_acls_are_described(both: Any, version: int, name: str | None) -> None:
    anything = {"resource_type_filter": ANY, "pattern_type_filter": ANY, "operation": ANY, "permission_type": ANY}
    both.same(
        DescribeAclsRequest(resource_name_filter=name, principal_filter=None, host_filter=None, **anything), version
    )


@pytest.mark.parametrize("version", range(1, 4))
@pytest.mark.parametrize("count", [0, 1, 3])
def test_acls_are_created(both: Any, version: int, count: int) -> None:
    creations = [
        AclCreation(
            resource_type=TOPIC,
            resource_name=f"t{number}",
            resource_pattern_type=LITERAL,
            principal="User:anna",
            host="*",
            operation=READ,
            permission_type=ALLOW,
        )
        for number in range(count)
    ]
    both.same(CreateAclsRequest(creations=creations), version)


@pytest.mark.parametrize("version", range(1, 4))
@pytest.mark.parametrize("count", [0, 1, 3])
def test_acls_are_deleted(both: Any, version: int, count: int) -> None:
    filters = [
        DeleteAclsFilter(
            resource_type_filter=TOPIC,
            resource_name_filter=f"t{number}",
            pattern_type_filter=ANY,
            principal_filter=None,
            host_filter=None,
            operation=ANY,
            permission_type=ANY,
        )
        for number in range(count)
    ]
    both.same(DeleteAclsRequest(filters=filters), version)
