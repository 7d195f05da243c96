"""FindCoordinator, key 10."""

from __future__ import annotations

from barnabas.wire.schema import Int8, Int16, Int32, Request, Response, Struct, field, since


class FindCoordinatorRequest(Request, key=10, versions="0-6", flexible="3+"):
    key: str = field("0-3", default="")
    key_type: Int8 = since(1, default=0)
    coordinator_keys: list[str] = since(4, default_factory=list)


class FindCoordinatorResponse(Response, key=10, versions="0-6", flexible="3+"):
    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    error_code: Int16 = field("0-3", default=0)
    error_message: str | None = field("1-3", default="", ignorable=True)
    node_id: Int32 = field("0-3", default=0)
    host: str = field("0-3", default="")
    port: Int32 = field("0-3", default=0)
    coordinators: list[Coordinator] = since(4, default_factory=list)


class Coordinator(Struct):
    key: str = since(4, default="")
    node_id: Int32 = since(4, default=0)
    host: str = since(4, default="")
    port: Int32 = since(4, default=0)
    error_code: Int16 = since(4, default=0)
    error_message: str | None = since(4, default="", ignorable=True)
