"""OffsetForLeaderEpoch, key 23."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Int64, Request, Response, Struct, field, since


class OffsetForLeaderEpochRequest(Request, key=23, versions="2-4", flexible="4+"):
    replica_id: Int32 = since(3, default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = field(default_factory=list)


class OffsetForLeaderTopic(Struct):
    topic: str = ""
    partitions: list[OffsetForLeaderPartition] = field(default_factory=list)


class OffsetForLeaderPartition(Struct):
    partition: Int32 = 0
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32 = 0


class OffsetForLeaderEpochResponse(Response, key=23, versions="2-4", flexible="4+"):
    throttle_time_ms: Int32 = 0
    topics: list[OffsetForLeaderTopicResult] = field(default_factory=list)


class OffsetForLeaderTopicResult(Struct):
    topic: str = ""
    partitions: list[EpochEndOffset] = field(default_factory=list)


class EpochEndOffset(Struct):
    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1
