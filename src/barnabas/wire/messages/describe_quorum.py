"""DescribeQuorum, key 55."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Int64, Request, Response, Struct, UInt16, field, since
from barnabas.wire.uuids import ZERO_UUID, Uuid


class DescribeQuorumRequest(Request, key=55, versions="0-2", flexible="0+"):
    topics: list[TopicData] = field(default_factory=list)


class TopicData(Struct):
    topic_name: str = ""
    partitions: list[PartitionData] = field(default_factory=list)


class PartitionData(Struct):
    partition_index: Int32 = 0


class DescribeQuorumResponse(Response, key=55, versions="0-2", flexible="0+"):
    error_code: Int16 = 0
    error_message: str | None = since(2, default="", ignorable=True)
    topics: list[ResponseTopicData] = field(default_factory=list)
    nodes: list[Node] = since(2, default_factory=list)


class ResponseTopicData(Struct):
    topic_name: str = ""
    partitions: list[ResponsePartitionData] = field(default_factory=list)


class ResponsePartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = since(2, default="", ignorable=True)
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    high_watermark: Int64 = 0
    current_voters: list[ReplicaState] = field(default_factory=list)
    observers: list[ReplicaState] = field(default_factory=list)


class Node(Struct):
    node_id: Int32 = since(2, default=0)
    listeners: list[Listener] = since(2, default_factory=list)


class Listener(Struct):
    name: str = since(2, default="")
    host: str = since(2, default="")
    port: UInt16 = since(2, default=0)


class ReplicaState(Struct):
    replica_id: Int32 = 0
    replica_directory_id: Uuid = since(2, default=ZERO_UUID)
    log_end_offset: Int64 = 0
    last_fetch_timestamp: Int64 = since(1, default=-1, ignorable=True)
    last_caught_up_timestamp: Int64 = since(1, default=-1, ignorable=True)
