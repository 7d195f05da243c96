"""ListTransactions, key 66."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Int64, Request, Response, Struct, field, since


class ListTransactionsRequest(Request, key=66, versions="0-2", flexible="0+"):
    state_filters: list[str] = field(default_factory=list)
    producer_id_filters: list[Int64] = field(default_factory=list)
    duration_filter: Int64 = since(1, default=-1)
    transactional_id_pattern: str | None = since(2, default=None)


class ListTransactionsResponse(Response, key=66, versions="0-2", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: list[str] = field(default_factory=list)
    transaction_states: list[TransactionState] = field(default_factory=list)


class TransactionState(Struct):
    transactional_id: str = ""
    producer_id: Int64 = 0
    transaction_state: str = ""
