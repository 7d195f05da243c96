"""OffsetFetch, key 9."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Int64, Request, Response, Struct, field, since
from barnabas.wire.uuids import ZERO_UUID, Uuid


class OffsetFetchRequest(Request, key=9, versions="1-10", flexible="6+"):
    group_id: str = field("0-7", default="")
    topics: list[OffsetFetchRequestTopic] | None = field("0-7", default_factory=list, nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = since(8, default_factory=list)
    require_stable: bool = since(7, default=False)


class OffsetFetchRequestTopic(Struct):
    name: str = field("0-7", default="")
    partition_indexes: list[Int32] = field("0-7", default_factory=list)


class OffsetFetchRequestGroup(Struct):
    group_id: str = since(8, default="")
    member_id: str | None = since(9, default=None, ignorable=True)
    member_epoch: Int32 = since(9, default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = since(8, default_factory=list)


class OffsetFetchRequestTopics(Struct):
    name: str = field("8-9", default="", ignorable=True)
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    partition_indexes: list[Int32] = since(8, default_factory=list)


class OffsetFetchResponse(Response, key=9, versions="1-10", flexible="6+"):
    throttle_time_ms: Int32 = since(3, default=0, ignorable=True)
    topics: list[OffsetFetchResponseTopic] = field("0-7", default_factory=list)
    error_code: Int16 = field("2-7", default=0, ignorable=True)
    groups: list[OffsetFetchResponseGroup] = since(8, default_factory=list)


class OffsetFetchResponseTopic(Struct):
    name: str = field("0-7", default="")
    partitions: list[OffsetFetchResponsePartition] = field("0-7", default_factory=list)


class OffsetFetchResponsePartition(Struct):
    partition_index: Int32 = field("0-7", default=0)
    committed_offset: Int64 = field("0-7", default=0)
    committed_leader_epoch: Int32 = field("5-7", default=-1, ignorable=True)
    metadata: str | None = field("0-7", default="")
    error_code: Int16 = field("0-7", default=0)


class OffsetFetchResponseGroup(Struct):
    group_id: str = since(8, default="")
    topics: list[OffsetFetchResponseTopics] = since(8, default_factory=list)
    error_code: Int16 = since(8, default=0)


class OffsetFetchResponseTopics(Struct):
    name: str = field("8-9", default="", ignorable=True)
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = since(8, default_factory=list)


class OffsetFetchResponsePartitions(Struct):
    partition_index: Int32 = since(8, default=0)
    committed_offset: Int64 = since(8, default=0)
    committed_leader_epoch: Int32 = since(8, default=-1, ignorable=True)
    metadata: str | None = since(8, default="")
    error_code: Int16 = since(8, default=0)
