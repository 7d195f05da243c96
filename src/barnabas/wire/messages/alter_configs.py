"""AlterConfigs, key 33."""

from __future__ import annotations

from barnabas.wire.schema import Int8, Int16, Int32, Request, Response, Struct, field


class AlterConfigsRequest(Request, key=33, versions="0-2", flexible="2+"):
    resources: list[AlterConfigsResource] = field(default_factory=list)
    validate_only: bool = False


class AlterConfigsResource(Struct):
    resource_type: Int8 = 0
    resource_name: str = ""
    configs: list[AlterableConfig] = field(default_factory=list)


class AlterableConfig(Struct):
    name: str = ""
    value: str | None = ""


class AlterConfigsResponse(Response, key=33, versions="0-2", flexible="2+"):
    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = field(default_factory=list)


class AlterConfigsResourceResponse(Struct):
    error_code: Int16 = 0
    error_message: str | None = ""
    resource_type: Int8 = 0
    resource_name: str = ""
