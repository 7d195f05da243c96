"""Heartbeat, key 12."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Request, Response, since


class HeartbeatRequest(Request, key=12, versions="0-4", flexible="4+"):
    group_id: str = ""
    generation_id: Int32 = 0
    member_id: str = ""
    group_instance_id: str | None = since(3, default=None)


class HeartbeatResponse(Response, key=12, versions="0-4", flexible="4+"):
    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    error_code: Int16 = 0
