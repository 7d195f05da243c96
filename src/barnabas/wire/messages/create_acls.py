"""CreateAcls, key 30."""

from __future__ import annotations

from barnabas.wire.schema import Int8, Int16, Int32, Request, Response, Struct, field


class CreateAclsRequest(Request, key=30, versions="1-3", flexible="2+"):
    creations: list[AclCreation] = field(default_factory=list)


class AclCreation(Struct):
    resource_type: Int8 = 0
    resource_name: str = ""
    resource_pattern_type: Int8 = 3
    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class CreateAclsResponse(Response, key=30, versions="1-3", flexible="2+"):
    throttle_time_ms: Int32 = 0
    results: list[AclCreationResult] = field(default_factory=list)


class AclCreationResult(Struct):
    error_code: Int16 = 0
    error_message: str | None = ""
