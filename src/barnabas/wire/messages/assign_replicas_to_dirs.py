"""AssignReplicasToDirs, key 73."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Int64, Request, Response, Struct, field
from barnabas.wire.uuids import ZERO_UUID, Uuid


class AssignReplicasToDirsRequest(Request, key=73, versions="0", flexible="0+"):
    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    directories: list[DirectoryData] = field(default_factory=list)


class DirectoryData(Struct):
    id: Uuid = ZERO_UUID
    topics: list[TopicData] = field(default_factory=list)


class TopicData(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


class PartitionData(Struct):
    partition_index: Int32 = 0


class AssignReplicasToDirsResponse(Response, key=73, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    directories: list[ResponseDirectoryData] = field(default_factory=list)


class ResponseDirectoryData(Struct):
    id: Uuid = ZERO_UUID
    topics: list[ResponseTopicData] = field(default_factory=list)


class ResponseTopicData(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[ResponsePartitionData] = field(default_factory=list)


class ResponsePartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
