"""JoinGroup, key 11."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Request, Response, Struct, field, since


class JoinGroupRequest(Request, key=11, versions="0-9", flexible="6+"):
    group_id: str = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Int32 = since(1, default=-1, ignorable=True)
    member_id: str = ""
    group_instance_id: str | None = since(5, default=None)
    protocol_type: str = ""
    protocols: list[JoinGroupRequestProtocol] = field(default_factory=list)
    reason: str | None = since(8, default=None, ignorable=True)


class JoinGroupRequestProtocol(Struct):
    name: str = ""
    metadata: bytes = b""


class JoinGroupResponse(Response, key=11, versions="0-9", flexible="6+"):
    throttle_time_ms: Int32 = since(2, default=0, ignorable=True)
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: str | None = since(7, default=None, ignorable=True)
    protocol_name: str | None = field(default="", nullable="7+")
    leader: str = ""
    skip_assignment: bool = since(9, default=False)
    member_id: str = ""
    members: list[JoinGroupResponseMember] = field(default_factory=list)


class JoinGroupResponseMember(Struct):
    member_id: str = ""
    group_instance_id: str | None = since(5, default=None, ignorable=True)
    metadata: bytes = b""
