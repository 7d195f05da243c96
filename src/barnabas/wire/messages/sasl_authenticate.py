"""SaslAuthenticate, key 36."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int64, Request, Response, since


class SaslAuthenticateRequest(Request, key=36, versions="0-2", flexible="2+"):
    auth_bytes: bytes = b""


class SaslAuthenticateResponse(Response, key=36, versions="0-2", flexible="2+"):
    error_code: Int16 = 0
    error_message: str | None = ""
    auth_bytes: bytes = b""
    session_lifetime_ms: Int64 = since(1, default=0, ignorable=True)
