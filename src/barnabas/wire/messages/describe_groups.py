"""DescribeGroups, key 15."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Request, Response, Struct, field, since


class DescribeGroupsRequest(Request, key=15, versions="0-6", flexible="5+"):
    groups: list[str] = field(default_factory=list)
    include_authorized_operations: bool = since(3, default=False)


class DescribeGroupsResponse(Response, key=15, versions="0-6", flexible="5+"):
    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    groups: list[DescribedGroup] = field(default_factory=list)


class DescribedGroup(Struct):
    error_code: Int16 = 0
    error_message: str | None = since(6, default=None)
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: list[DescribedGroupMember] = field(default_factory=list)
    authorized_operations: Int32 = since(3, default=-2147483648)


class DescribedGroupMember(Struct):
    member_id: str = ""
    group_instance_id: str | None = since(4, default=None, ignorable=True)
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""
