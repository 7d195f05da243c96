"""CreateDelegationToken, key 38."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Int64, Request, Response, Struct, field, since


class CreateDelegationTokenRequest(Request, key=38, versions="1-3", flexible="2+"):
    owner_principal_type: str | None = since(3, default="")
    owner_principal_name: str | None = since(3, default="")
    renewers: list[CreatableRenewers] = field(default_factory=list)
    max_lifetime_ms: Int64 = 0


class CreatableRenewers(Struct):
    principal_type: str = ""
    principal_name: str = ""


class CreateDelegationTokenResponse(Response, key=38, versions="1-3", flexible="2+"):
    error_code: Int16 = 0
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: str = since(3, default="")
    token_requester_principal_name: str = since(3, default="")
    issue_timestamp_ms: Int64 = 0
    expiry_timestamp_ms: Int64 = 0
    max_timestamp_ms: Int64 = 0
    token_id: str = ""
    hmac: bytes = b""
    throttle_time_ms: Int32 = 0
