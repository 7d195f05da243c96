"""SyncGroup, key 14."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Request, Response, Struct, field, since


class SyncGroupRequest(Request, key=14, versions="0-5", flexible="4+"):
    group_id: str = ""
    generation_id: Int32 = 0
    member_id: str = ""
    group_instance_id: str | None = since(3, default=None)
    protocol_type: str | None = since(5, default=None, ignorable=True)
    protocol_name: str | None = since(5, default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = field(default_factory=list)


class SyncGroupRequestAssignment(Struct):
    member_id: str = ""
    assignment: bytes = b""


class SyncGroupResponse(Response, key=14, versions="0-5", flexible="4+"):
    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    error_code: Int16 = 0
    protocol_type: str | None = since(5, default=None, ignorable=True)
    protocol_name: str | None = since(5, default=None, ignorable=True)
    assignment: bytes = b""
