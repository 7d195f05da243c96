"""UpdateFeatures, key 57."""

from __future__ import annotations

from barnabas.wire.schema import Int8, Int16, Int32, Request, Response, Struct, field, since


class UpdateFeaturesRequest(Request, key=57, versions="0-2", flexible="0+"):
    timeout_ms: Int32 = 60000
    feature_updates: list[FeatureUpdateKey] = field(default_factory=list)
    validate_only: bool = since(1, default=False)


class FeatureUpdateKey(Struct):
    feature: str = ""
    max_version_level: Int16 = 0
    allow_downgrade: bool = field("0", default=False)
    upgrade_type: Int8 = since(1, default=1)


class UpdateFeaturesResponse(Response, key=57, versions="0-2", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""
    results: list[UpdatableFeatureResult] = field("0-1", default_factory=list, ignorable=True)


class UpdatableFeatureResult(Struct):
    feature: str = ""
    error_code: Int16 = 0
    error_message: str | None = ""
