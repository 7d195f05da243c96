"""The headers around every request and response."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Message, field


class RequestHeader(Message, versions="1-2", flexible="2+"):
    request_api_key: Int16 = 0
    request_api_version: Int16 = 0
    correlation_id: Int32 = 0
    client_id: str | None = field(default="", flexible="none")


class ResponseHeader(Message, versions="0-1", flexible="1+"):
    correlation_id: Int32 = 0
