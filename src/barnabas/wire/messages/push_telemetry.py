"""PushTelemetry, key 72."""

from __future__ import annotations

from barnabas.wire.schema import Int8, Int16, Int32, Request, Response
from barnabas.wire.uuids import ZERO_UUID, Uuid


class PushTelemetryRequest(Request, key=72, versions="0", flexible="0+"):
    client_instance_id: Uuid = ZERO_UUID
    subscription_id: Int32 = 0
    terminating: bool = False
    compression_type: Int8 = 0
    metrics: bytes = b""


class PushTelemetryResponse(Response, key=72, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
