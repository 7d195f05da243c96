"""DescribeAcls, key 29."""

from __future__ import annotations

from barnabas.wire.schema import Int8, Int16, Int32, Request, Response, Struct, field


class DescribeAclsRequest(Request, key=29, versions="1-3", flexible="2+"):
    resource_type_filter: Int8 = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: Int8 = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DescribeAclsResponse(Response, key=29, versions="1-3", flexible="2+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""
    resources: list[DescribeAclsResource] = field(default_factory=list)


class DescribeAclsResource(Struct):
    resource_type: Int8 = 0
    resource_name: str = ""
    pattern_type: Int8 = 3
    acls: list[AclDescription] = field(default_factory=list)


class AclDescription(Struct):
    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0
