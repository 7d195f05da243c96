"""AlterShareGroupOffsets, key 91."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Int64, Request, Response, Struct, field
from barnabas.wire.uuids import ZERO_UUID, Uuid


class AlterShareGroupOffsetsRequest(Request, key=91, versions="0", flexible="0+"):
    group_id: str = ""
    topics: list[AlterShareGroupOffsetsRequestTopic] = field(default_factory=list)


class AlterShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = ""
    partitions: list[AlterShareGroupOffsetsRequestPartition] = field(default_factory=list)


class AlterShareGroupOffsetsRequestPartition(Struct):
    partition_index: Int32 = 0
    start_offset: Int64 = 0


class AlterShareGroupOffsetsResponse(Response, key=91, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    responses: list[AlterShareGroupOffsetsResponseTopic] = field(default_factory=list)


class AlterShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = ""
    topic_id: Uuid = ZERO_UUID
    partitions: list[AlterShareGroupOffsetsResponsePartition] = field(default_factory=list)


class AlterShareGroupOffsetsResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
