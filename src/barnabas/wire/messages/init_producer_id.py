"""InitProducerId, key 22."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Int64, Request, Response, since


class InitProducerIdRequest(Request, key=22, versions="0-6", flexible="2+"):
    transactional_id: str | None = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Int64 = since(3, default=-1)
    producer_epoch: Int16 = since(3, default=-1)
    enable2_pc: bool = since(6, default=False)
    keep_prepared_txn: bool = since(6, default=False)


class InitProducerIdResponse(Response, key=22, versions="0-6", flexible="2+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
    ongoing_txn_producer_id: Int64 = since(6, default=-1)
    ongoing_txn_producer_epoch: Int16 = since(6, default=-1)
