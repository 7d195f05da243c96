"""SaslHandshake, key 17."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Request, Response, field


class SaslHandshakeRequest(Request, key=17, versions="0-1"):
    mechanism: str = ""


class SaslHandshakeResponse(Response, key=17, versions="0-1"):
    error_code: Int16 = 0
    mechanisms: list[str] = field(default_factory=list)
