"""Vote, key 52."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Int64, Request, Response, Struct, UInt16, field, since
from barnabas.wire.uuids import ZERO_UUID, Uuid


class VoteRequest(Request, key=52, versions="0-2", flexible="0+"):
    cluster_id: str | None = None
    voter_id: Int32 = since(1, default=-1, ignorable=True)
    topics: list[TopicData] = field(default_factory=list)


class TopicData(Struct):
    topic_name: str = ""
    partitions: list[PartitionData] = field(default_factory=list)


class PartitionData(Struct):
    partition_index: Int32 = 0
    replica_epoch: Int32 = 0
    replica_id: Int32 = 0
    replica_directory_id: Uuid = since(1, default=ZERO_UUID, ignorable=True)
    voter_directory_id: Uuid = since(1, default=ZERO_UUID, ignorable=True)
    last_offset_epoch: Int32 = 0
    last_offset: Int64 = 0
    pre_vote: bool = since(2, default=False)


class VoteResponse(Response, key=52, versions="0-2", flexible="0+"):
    error_code: Int16 = 0
    topics: list[ResponseTopicData] = field(default_factory=list)
    node_endpoints: list[NodeEndpoint] = since(1, default_factory=list, tag=0)


class ResponseTopicData(Struct):
    topic_name: str = ""
    partitions: list[ResponsePartitionData] = field(default_factory=list)


class ResponsePartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    vote_granted: bool = False


class NodeEndpoint(Struct):
    node_id: Int32 = since(1, default=0)
    host: str = since(1, default="")
    port: UInt16 = since(1, default=0)
