"""OffsetCommit, key 8."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Int64, Request, Response, Struct, field, since
from barnabas.wire.uuids import ZERO_UUID, Uuid


class OffsetCommitRequest(Request, key=8, versions="2-10", flexible="8+"):
    group_id: str = ""
    generation_id_or_member_epoch: Int32 = -1
    member_id: str = ""
    group_instance_id: str | None = since(7, default=None)
    retention_time_ms: Int64 = field("2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = field(default_factory=list)


class OffsetCommitRequestTopic(Struct):
    name: str = field("0-9", default="", ignorable=True)
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = field(default_factory=list)


class OffsetCommitRequestPartition(Struct):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = since(6, default=-1, ignorable=True)
    committed_metadata: str | None = ""


class OffsetCommitResponse(Response, key=8, versions="2-10", flexible="8+"):
    throttle_time_ms: Int32 = since(3, default=0, ignorable=True)
    topics: list[OffsetCommitResponseTopic] = field(default_factory=list)


class OffsetCommitResponseTopic(Struct):
    name: str = field("0-9", default="", ignorable=True)
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = field(default_factory=list)


class OffsetCommitResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
