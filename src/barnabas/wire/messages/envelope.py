"""Envelope, key 58."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Request, Response


class EnvelopeRequest(Request, key=58, versions="0", flexible="0+"):
    request_data: bytes = b""
    request_principal: bytes | None = b""
    client_host_address: bytes = b""


class EnvelopeResponse(Response, key=58, versions="0", flexible="0+"):
    response_data: bytes | None = None
    error_code: Int16 = 0
