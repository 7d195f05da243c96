"""AddPartitionsToTxn, key 24."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Int64, Request, Response, Struct, field, since


class AddPartitionsToTxnRequest(Request, key=24, versions="0-5", flexible="3+"):
    transactions: list[AddPartitionsToTxnTransaction] = since(4, default_factory=list)
    v3_and_below_transactional_id: str = field("0-3", default="")
    v3_and_below_producer_id: Int64 = field("0-3", default=0)
    v3_and_below_producer_epoch: Int16 = field("0-3", default=0)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field("0-3", default_factory=list)


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: str = since(4, default="")
    producer_id: Int64 = since(4, default=0)
    producer_epoch: Int16 = since(4, default=0)
    verify_only: bool = since(4, default=False)
    topics: list[AddPartitionsToTxnTopic] = since(4, default_factory=list)


class AddPartitionsToTxnTopic(Struct):
    name: str = ""
    partitions: list[Int32] = field(default_factory=list)


class AddPartitionsToTxnResponse(Response, key=24, versions="0-5", flexible="3+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(4, default=0, ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = since(4, default_factory=list)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field("0-3", default_factory=list)


class AddPartitionsToTxnResult(Struct):
    transactional_id: str = since(4, default="")
    topic_results: list[AddPartitionsToTxnTopicResult] = since(4, default_factory=list)


class AddPartitionsToTxnTopicResult(Struct):
    name: str = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(default_factory=list)


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: Int32 = 0
    partition_error_code: Int16 = 0
