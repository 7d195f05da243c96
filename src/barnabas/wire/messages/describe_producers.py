"""DescribeProducers, key 61."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Int64, Request, Response, Struct, field


class DescribeProducersRequest(Request, key=61, versions="0", flexible="0+"):
    topics: list[TopicRequest] = field(default_factory=list)


class TopicRequest(Struct):
    name: str = ""
    partition_indexes: list[Int32] = field(default_factory=list)


class DescribeProducersResponse(Response, key=61, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    topics: list[TopicResponse] = field(default_factory=list)


class TopicResponse(Struct):
    name: str = ""
    partitions: list[PartitionResponse] = field(default_factory=list)


class PartitionResponse(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    active_producers: list[ProducerState] = field(default_factory=list)


class ProducerState(Struct):
    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1
