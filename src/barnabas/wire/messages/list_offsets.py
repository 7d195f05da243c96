"""ListOffsets, key 2."""

from __future__ import annotations

from barnabas.wire.schema import Int8, Int16, Int32, Int64, Request, Response, Struct, field, since


class ListOffsetsRequest(Request, key=2, versions="1-11", flexible="6+"):
    replica_id: Int32 = 0
    isolation_level: Int8 = since(2, default=0)
    topics: list[ListOffsetsTopic] = field(default_factory=list)
    timeout_ms: Int32 = since(10, default=0, ignorable=True)


class ListOffsetsTopic(Struct):
    name: str = ""
    partitions: list[ListOffsetsPartition] = field(default_factory=list)


class ListOffsetsPartition(Struct):
    partition_index: Int32 = 0
    current_leader_epoch: Int32 = since(4, default=-1, ignorable=True)
    timestamp: Int64 = 0


class ListOffsetsResponse(Response, key=2, versions="1-11", flexible="6+"):
    throttle_time_ms: Int32 = since(2, default=0, ignorable=True)
    topics: list[ListOffsetsTopicResponse] = field(default_factory=list)


class ListOffsetsTopicResponse(Struct):
    name: str = ""
    partitions: list[ListOffsetsPartitionResponse] = field(default_factory=list)


class ListOffsetsPartitionResponse(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Int32 = since(4, default=-1)
