"""ListConfigResources, key 74."""

from __future__ import annotations

from barnabas.wire.schema import Int8, Int16, Int32, Request, Response, Struct, field, since


class ListConfigResourcesRequest(Request, key=74, versions="0-1", flexible="0+"):
    resource_types: list[Int8] = since(1, default_factory=list)


class ListConfigResourcesResponse(Response, key=74, versions="0-1", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: list[ConfigResource] = field(default_factory=list)


class ConfigResource(Struct):
    resource_name: str = ""
    resource_type: Int8 = since(1, default=16, ignorable=True)
