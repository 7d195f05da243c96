"""TxnOffsetCommit, key 28."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Int64, Request, Response, Struct, field, since


class TxnOffsetCommitRequest(Request, key=28, versions="0-5", flexible="3+"):
    transactional_id: str = ""
    group_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id: Int32 = since(3, default=-1)
    member_id: str = since(3, default="")
    group_instance_id: str | None = since(3, default=None)
    topics: list[TxnOffsetCommitRequestTopic] = field(default_factory=list)


class TxnOffsetCommitRequestTopic(Struct):
    name: str = ""
    partitions: list[TxnOffsetCommitRequestPartition] = field(default_factory=list)


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = since(2, default=-1, ignorable=True)
    committed_metadata: str | None = ""


class TxnOffsetCommitResponse(Response, key=28, versions="0-5", flexible="3+"):
    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = field(default_factory=list)


class TxnOffsetCommitResponseTopic(Struct):
    name: str = ""
    partitions: list[TxnOffsetCommitResponsePartition] = field(default_factory=list)


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
