"""ExpireDelegationToken, key 40."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Int64, Request, Response


class ExpireDelegationTokenRequest(Request, key=40, versions="1-2", flexible="2+"):
    hmac: bytes = b""
    expiry_time_period_ms: Int64 = 0


class ExpireDelegationTokenResponse(Response, key=40, versions="1-2", flexible="2+"):
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0
