"""FetchSnapshot, key 59."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Int64, Records, Request, Response, Struct, UInt16, field, since
from barnabas.wire.uuids import ZERO_UUID, Uuid


class FetchSnapshotRequest(Request, key=59, versions="0-1", flexible="0+"):
    cluster_id: str | None = field(default=None, tag=0)
    replica_id: Int32 = -1
    max_bytes: Int32 = 2147483647
    topics: list[TopicSnapshot] = field(default_factory=list)


class TopicSnapshot(Struct):
    name: str = ""
    partitions: list[PartitionSnapshot] = field(default_factory=list)


class PartitionSnapshot(Struct):
    partition: Int32 = 0
    current_leader_epoch: Int32 = 0
    snapshot_id: SnapshotId = field(default_factory=lambda: SnapshotId())
    position: Int64 = 0
    replica_directory_id: Uuid = since(1, default=ZERO_UUID, tag=0, ignorable=True)


class SnapshotId(Struct):
    end_offset: Int64 = 0
    epoch: Int32 = 0


class FetchSnapshotResponse(Response, key=59, versions="0-1", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    topics: list[ResponseTopicSnapshot] = field(default_factory=list)
    node_endpoints: list[NodeEndpoint] = since(1, default_factory=list, tag=0)


class ResponseTopicSnapshot(Struct):
    name: str = ""
    partitions: list[ResponsePartitionSnapshot] = field(default_factory=list)


class ResponsePartitionSnapshot(Struct):
    index: Int32 = 0
    error_code: Int16 = 0
    snapshot_id: SnapshotId = field(default_factory=lambda: SnapshotId())
    current_leader: LeaderIdAndEpoch = field(default_factory=lambda: LeaderIdAndEpoch(), tag=0)
    size: Int64 = 0
    position: Int64 = 0
    unaligned_records: Records = b""


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class NodeEndpoint(Struct):
    node_id: Int32 = since(1, default=0)
    host: str = since(1, default="")
    port: UInt16 = since(1, default=0)
