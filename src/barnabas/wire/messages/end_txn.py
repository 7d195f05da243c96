"""EndTxn, key 26."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Int64, Request, Response, since


class EndTxnRequest(Request, key=26, versions="0-5", flexible="3+"):
    transactional_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: bool = False


class EndTxnResponse(Response, key=26, versions="0-5", flexible="3+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = since(5, default=-1, ignorable=True)
    producer_epoch: Int16 = since(5, default=-1, ignorable=True)
