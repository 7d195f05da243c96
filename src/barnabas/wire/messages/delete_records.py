"""DeleteRecords, key 21."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Int64, Request, Response, Struct, field


class DeleteRecordsRequest(Request, key=21, versions="0-2", flexible="2+"):
    topics: list[DeleteRecordsTopic] = field(default_factory=list)
    timeout_ms: Int32 = 0


class DeleteRecordsTopic(Struct):
    name: str = ""
    partitions: list[DeleteRecordsPartition] = field(default_factory=list)


class DeleteRecordsPartition(Struct):
    partition_index: Int32 = 0
    offset: Int64 = 0


class DeleteRecordsResponse(Response, key=21, versions="0-2", flexible="2+"):
    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult] = field(default_factory=list)


class DeleteRecordsTopicResult(Struct):
    name: str = ""
    partitions: list[DeleteRecordsPartitionResult] = field(default_factory=list)


class DeleteRecordsPartitionResult(Struct):
    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Int16 = 0
