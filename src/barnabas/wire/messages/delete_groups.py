"""DeleteGroups, key 42."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Request, Response, Struct, field


class DeleteGroupsRequest(Request, key=42, versions="0-2", flexible="2+"):
    groups_names: list[str] = field(default_factory=list)


class DeleteGroupsResponse(Response, key=42, versions="0-2", flexible="2+"):
    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult] = field(default_factory=list)


class DeletableGroupResult(Struct):
    group_id: str = ""
    error_code: Int16 = 0
