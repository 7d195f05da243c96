"""DescribeShareGroupOffsets, key 90."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Int64, Request, Response, Struct, field, since
from barnabas.wire.uuids import ZERO_UUID, Uuid


class DescribeShareGroupOffsetsRequest(Request, key=90, versions="0-1", flexible="0+"):
    groups: list[DescribeShareGroupOffsetsRequestGroup] = field(default_factory=list)


class DescribeShareGroupOffsetsRequestGroup(Struct):
    group_id: str = ""
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = field(default_factory=list)


class DescribeShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = ""
    partitions: list[Int32] = field(default_factory=list)


class DescribeShareGroupOffsetsResponse(Response, key=90, versions="0-1", flexible="0+"):
    throttle_time_ms: Int32 = 0
    groups: list[DescribeShareGroupOffsetsResponseGroup] = field(default_factory=list)


class DescribeShareGroupOffsetsResponseGroup(Struct):
    group_id: str = ""
    topics: list[DescribeShareGroupOffsetsResponseTopic] = field(default_factory=list)
    error_code: Int16 = 0
    error_message: str | None = None


class DescribeShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = ""
    topic_id: Uuid = ZERO_UUID
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = field(default_factory=list)


class DescribeShareGroupOffsetsResponsePartition(Struct):
    partition_index: Int32 = 0
    start_offset: Int64 = 0
    leader_epoch: Int32 = 0
    lag: Int64 = since(1, default=-1, ignorable=True)
    error_code: Int16 = 0
    error_message: str | None = None
