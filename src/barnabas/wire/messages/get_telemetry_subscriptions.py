"""GetTelemetrySubscriptions, key 71."""

from __future__ import annotations

from barnabas.wire.schema import Int8, Int16, Int32, Request, Response, field
from barnabas.wire.uuids import ZERO_UUID, Uuid


class GetTelemetrySubscriptionsRequest(Request, key=71, versions="0", flexible="0+"):
    client_instance_id: Uuid = ZERO_UUID


class GetTelemetrySubscriptionsResponse(Response, key=71, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    client_instance_id: Uuid = ZERO_UUID
    subscription_id: Int32 = 0
    accepted_compression_types: list[Int8] = field(default_factory=list)
    push_interval_ms: Int32 = 0
    telemetry_max_bytes: Int32 = 0
    delta_temporality: bool = False
    requested_metrics: list[str] = field(default_factory=list)
