"""RenewDelegationToken, key 39."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Int64, Request, Response


class RenewDelegationTokenRequest(Request, key=39, versions="1-2", flexible="2+"):
    hmac: bytes = b""
    renew_period_ms: Int64 = 0


class RenewDelegationTokenResponse(Response, key=39, versions="1-2", flexible="2+"):
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0
