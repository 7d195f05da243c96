"""BeginQuorumEpoch, key 53."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Request, Response, Struct, UInt16, field, since
from barnabas.wire.uuids import ZERO_UUID, Uuid


class BeginQuorumEpochRequest(Request, key=53, versions="0-1", flexible="1+"):
    cluster_id: str | None = None
    voter_id: Int32 = since(1, default=-1, ignorable=True)
    topics: list[TopicData] = field(default_factory=list)
    leader_endpoints: list[LeaderEndpoint] = since(1, default_factory=list, ignorable=True)


class TopicData(Struct):
    topic_name: str = ""
    partitions: list[PartitionData] = field(default_factory=list)


class PartitionData(Struct):
    partition_index: Int32 = 0
    voter_directory_id: Uuid = since(1, default=ZERO_UUID, ignorable=True)
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class LeaderEndpoint(Struct):
    name: str = since(1, default="")
    host: str = since(1, default="")
    port: UInt16 = since(1, default=0)


class BeginQuorumEpochResponse(Response, key=53, versions="0-1", flexible="1+"):
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


class NodeEndpoint(Struct):
    node_id: Int32 = since(1, default=0)
    host: str = since(1, default="")
    port: UInt16 = since(1, default=0)
