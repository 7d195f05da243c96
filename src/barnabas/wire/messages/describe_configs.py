"""DescribeConfigs, key 32."""

from __future__ import annotations

from barnabas.wire.schema import Int8, Int16, Int32, Request, Response, Struct, field, since


class DescribeConfigsRequest(Request, key=32, versions="1-4", flexible="4+"):
    resources: list[DescribeConfigsResource] = field(default_factory=list)
    include_synonyms: bool = False
    include_documentation: bool = since(3, default=False)


class DescribeConfigsResource(Struct):
    resource_type: Int8 = 0
    resource_name: str = ""
    configuration_keys: list[str] | None = field(default_factory=list)


class DescribeConfigsResponse(Response, key=32, versions="1-4", flexible="4+"):
    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult] = field(default_factory=list)


class DescribeConfigsResult(Struct):
    error_code: Int16 = 0
    error_message: str | None = ""
    resource_type: Int8 = 0
    resource_name: str = ""
    configs: list[DescribeConfigsResourceResult] = field(default_factory=list)


class DescribeConfigsResourceResult(Struct):
    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: Int8 = -1
    is_sensitive: bool = False
    synonyms: list[DescribeConfigsSynonym] = field(default_factory=list)
    config_type: Int8 = since(3, default=0, ignorable=True)
    documentation: str | None = since(3, default="", ignorable=True)


class DescribeConfigsSynonym(Struct):
    name: str = ""
    value: str | None = ""
    source: Int8 = 0
