"""UnregisterBroker, key 64."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Request, Response


class UnregisterBrokerRequest(Request, key=64, versions="0", flexible="0+"):
    broker_id: Int32 = 0


class UnregisterBrokerResponse(Response, key=64, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""
