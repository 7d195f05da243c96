"""DescribeDelegationToken, key 41."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Int64, Request, Response, Struct, field, since


class DescribeDelegationTokenRequest(Request, key=41, versions="1-3", flexible="2+"):
    owners: list[DescribeDelegationTokenOwner] | None = field(default_factory=list)


class DescribeDelegationTokenOwner(Struct):
    principal_type: str = ""
    principal_name: str = ""


class DescribeDelegationTokenResponse(Response, key=41, versions="1-3", flexible="2+"):
    error_code: Int16 = 0
    tokens: list[DescribedDelegationToken] = field(default_factory=list)
    throttle_time_ms: Int32 = 0


class DescribedDelegationToken(Struct):
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: str = since(3, default="")
    token_requester_principal_name: str = since(3, default="")
    issue_timestamp: Int64 = 0
    expiry_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    token_id: str = ""
    hmac: bytes = b""
    renewers: list[DescribedDelegationTokenRenewer] = field(default_factory=list)


class DescribedDelegationTokenRenewer(Struct):
    principal_type: str = ""
    principal_name: str = ""
