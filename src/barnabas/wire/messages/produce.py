"""Produce, key 0."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Int64, Records, Request, Response, Struct, field, since
from barnabas.wire.uuids import ZERO_UUID, Uuid


class ProduceRequest(Request, key=0, versions="3-13", flexible="9+"):
    transactional_id: str | None = None
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: list[TopicProduceData] = field(default_factory=list)


class TopicProduceData(Struct):
    name: str = field("0-12", default="", ignorable=True)
    topic_id: Uuid = since(13, default=ZERO_UUID, ignorable=True)
    partition_data: list[PartitionProduceData] = field(default_factory=list)


class PartitionProduceData(Struct):
    index: Int32 = 0
    records: Records | None = b""


class ProduceResponse(Response, key=0, versions="3-13", flexible="9+"):
    responses: list[TopicProduceResponse] = field(default_factory=list)
    throttle_time_ms: Int32 = 0
    node_endpoints: list[NodeEndpoint] = since(10, default_factory=list, tag=0)


class TopicProduceResponse(Struct):
    name: str = field("0-12", default="", ignorable=True)
    topic_id: Uuid = since(13, default=ZERO_UUID, ignorable=True)
    partition_responses: list[PartitionProduceResponse] = field(default_factory=list)


class PartitionProduceResponse(Struct):
    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Int64 = -1
    log_start_offset: Int64 = since(5, default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = since(8, default_factory=list, ignorable=True)
    error_message: str | None = since(8, default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = since(10, default_factory=lambda: LeaderIdAndEpoch(), tag=0)


class BatchIndexAndErrorMessage(Struct):
    batch_index: Int32 = since(8, default=0)
    batch_index_error_message: str | None = since(8, default=None)


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = since(10, default=-1)
    leader_epoch: Int32 = since(10, default=-1)


class NodeEndpoint(Struct):
    node_id: Int32 = since(10, default=0)
    host: str = since(10, default="")
    port: Int32 = since(10, default=0)
    rack: str | None = since(10, default=None)
