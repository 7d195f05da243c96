"""DeleteAcls, key 31."""

from __future__ import annotations

from barnabas.wire.schema import Int8, Int16, Int32, Request, Response, Struct, field


class DeleteAclsRequest(Request, key=31, versions="1-3", flexible="2+"):
    filters: list[DeleteAclsFilter] = field(default_factory=list)


class DeleteAclsFilter(Struct):
    resource_type_filter: Int8 = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: Int8 = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DeleteAclsResponse(Response, key=31, versions="1-3", flexible="2+"):
    throttle_time_ms: Int32 = 0
    filter_results: list[DeleteAclsFilterResult] = field(default_factory=list)


class DeleteAclsFilterResult(Struct):
    error_code: Int16 = 0
    error_message: str | None = ""
    matching_acls: list[DeleteAclsMatchingAcl] = field(default_factory=list)


class DeleteAclsMatchingAcl(Struct):
    error_code: Int16 = 0
    error_message: str | None = ""
    resource_type: Int8 = 0
    resource_name: str = ""
    pattern_type: Int8 = 3
    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0
