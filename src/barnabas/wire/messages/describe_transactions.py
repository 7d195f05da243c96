"""DescribeTransactions, key 65."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Int64, Request, Response, Struct, field


class DescribeTransactionsRequest(Request, key=65, versions="0", flexible="0+"):
    transactional_ids: list[str] = field(default_factory=list)


class DescribeTransactionsResponse(Response, key=65, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    transaction_states: list[TransactionState] = field(default_factory=list)


class TransactionState(Struct):
    error_code: Int16 = 0
    transactional_id: str = ""
    transaction_state: str = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: list[TopicData] = field(default_factory=list)


class TopicData(Struct):
    topic: str = ""
    partitions: list[Int32] = field(default_factory=list)
