"""OffsetDelete, key 47."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Request, Response, Struct, field


class OffsetDeleteRequest(Request, key=47, versions="0"):
    group_id: str = ""
    topics: list[OffsetDeleteRequestTopic] = field(default_factory=list)


class OffsetDeleteRequestTopic(Struct):
    name: str = ""
    partitions: list[OffsetDeleteRequestPartition] = field(default_factory=list)


class OffsetDeleteRequestPartition(Struct):
    partition_index: Int32 = 0


class OffsetDeleteResponse(Response, key=47, versions="0"):
    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: list[OffsetDeleteResponseTopic] = field(default_factory=list)


class OffsetDeleteResponseTopic(Struct):
    name: str = ""
    partitions: list[OffsetDeleteResponsePartition] = field(default_factory=list)


class OffsetDeleteResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
