"""LeaveGroup, key 13."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Request, Response, Struct, field, since


class LeaveGroupRequest(Request, key=13, versions="0-5", flexible="4+"):
    group_id: str = ""
    member_id: str = field("0-2", default="")
    members: list[MemberIdentity] = since(3, default_factory=list)


class MemberIdentity(Struct):
    member_id: str = since(3, default="")
    group_instance_id: str | None = since(3, default=None)
    reason: str | None = since(5, default=None, ignorable=True)


class LeaveGroupResponse(Response, key=13, versions="0-5", flexible="4+"):
    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    error_code: Int16 = 0
    members: list[MemberResponse] = since(3, default_factory=list)


class MemberResponse(Struct):
    member_id: str = since(3, default="")
    group_instance_id: str | None = since(3, default="")
    error_code: Int16 = since(3, default=0)
