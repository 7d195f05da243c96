"""ListGroups, key 16."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Request, Response, Struct, field, since


class ListGroupsRequest(Request, key=16, versions="0-5", flexible="3+"):
    states_filter: list[str] = since(4, default_factory=list)
    types_filter: list[str] = since(5, default_factory=list)


class ListGroupsResponse(Response, key=16, versions="0-5", flexible="3+"):
    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    error_code: Int16 = 0
    groups: list[ListedGroup] = field(default_factory=list)


class ListedGroup(Struct):
    group_id: str = ""
    protocol_type: str = ""
    group_state: str = since(4, default="", ignorable=True)
    group_type: str = since(5, default="", ignorable=True)
