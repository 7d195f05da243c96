"""ApiVersions, key 18."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Int64, Request, Response, Struct, field, since


class ApiVersionsRequest(Request, key=18, versions="0-4", flexible="3+"):
    client_software_name: str = since(3, default="", ignorable=True)
    client_software_version: str = since(3, default="", ignorable=True)


class ApiVersionsResponse(Response, key=18, versions="0-4", flexible="3+"):
    error_code: Int16 = 0
    api_keys: list[ApiVersion] = field(default_factory=list)
    throttle_time_ms: Int32 = since(1, default=0, ignorable=True)
    supported_features: list[SupportedFeatureKey] = since(3, default_factory=list, tag=0, ignorable=True)
    finalized_features_epoch: Int64 = since(3, default=-1, tag=1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = since(3, default_factory=list, tag=2, ignorable=True)
    zk_migration_ready: bool = since(3, default=False, tag=3, ignorable=True)


class ApiVersion(Struct):
    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


class SupportedFeatureKey(Struct):
    name: str = since(3, default="")
    min_version: Int16 = since(3, default=0)
    max_version: Int16 = since(3, default=0)


class FinalizedFeatureKey(Struct):
    name: str = since(3, default="")
    max_version_level: Int16 = since(3, default=0)
    min_version_level: Int16 = since(3, default=0)
