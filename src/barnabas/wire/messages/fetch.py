"""Fetch, key 1."""

from __future__ import annotations

from barnabas.wire.schema import Int8, Int16, Int32, Int64, Records, Request, Response, Struct, field, since
from barnabas.wire.uuids import ZERO_UUID, Uuid


class FetchRequest(Request, key=1, versions="4-18", flexible="12+"):
    cluster_id: str | None = since(12, default=None, tag=0, ignorable=True)
    replica_id: Int32 = field("0-14", default=-1)
    replica_state: ReplicaState = since(15, default_factory=lambda: ReplicaState(), tag=1)
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 2147483647
    isolation_level: Int8 = 0
    session_id: Int32 = since(7, default=0, ignorable=True)
    session_epoch: Int32 = since(7, default=-1, ignorable=True)
    topics: list[FetchTopic] = field(default_factory=list)
    forgotten_topics_data: list[ForgottenTopic] = since(7, default_factory=list)
    rack_id: str = since(11, default="", ignorable=True)


class ReplicaState(Struct):
    replica_id: Int32 = since(15, default=-1)
    replica_epoch: Int64 = since(15, default=-1)


class FetchTopic(Struct):
    topic: str = field("0-12", default="", ignorable=True)
    topic_id: Uuid = since(13, default=ZERO_UUID, ignorable=True)
    partitions: list[FetchPartition] = field(default_factory=list)


class FetchPartition(Struct):
    partition: Int32 = 0
    current_leader_epoch: Int32 = since(9, default=-1, ignorable=True)
    fetch_offset: Int64 = 0
    last_fetched_epoch: Int32 = since(12, default=-1)
    log_start_offset: Int64 = since(5, default=-1, ignorable=True)
    partition_max_bytes: Int32 = 0
    replica_directory_id: Uuid = since(17, default=ZERO_UUID, tag=0, ignorable=True)
    high_watermark: Int64 = since(18, default=9223372036854775807, tag=1, ignorable=True)


class ForgottenTopic(Struct):
    topic: str = field("7-12", default="", ignorable=True)
    topic_id: Uuid = since(13, default=ZERO_UUID, ignorable=True)
    partitions: list[Int32] = since(7, default_factory=list)


class FetchResponse(Response, key=1, versions="4-18", flexible="12+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(7, default=0, ignorable=True)
    session_id: Int32 = since(7, default=0)
    responses: list[FetchableTopicResponse] = field(default_factory=list)
    node_endpoints: list[NodeEndpoint] = since(16, default_factory=list, tag=0)


class FetchableTopicResponse(Struct):
    topic: str = field("0-12", default="", ignorable=True)
    topic_id: Uuid = since(13, default=ZERO_UUID, ignorable=True)
    partitions: list[PartitionData] = field(default_factory=list)


class PartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Int64 = -1
    log_start_offset: Int64 = since(5, default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = since(12, default_factory=lambda: EpochEndOffset(), tag=0)
    current_leader: LeaderIdAndEpoch = since(12, default_factory=lambda: LeaderIdAndEpoch(), tag=1)
    snapshot_id: SnapshotId = since(12, default_factory=lambda: SnapshotId(), tag=2)
    aborted_transactions: list[AbortedTransaction] | None = field(default_factory=list)
    preferred_read_replica: Int32 = since(11, default=-1)
    records: Records | None = b""


class EpochEndOffset(Struct):
    epoch: Int32 = since(12, default=-1)
    end_offset: Int64 = since(12, default=-1)


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = since(12, default=-1)
    leader_epoch: Int32 = since(12, default=-1)


class SnapshotId(Struct):
    end_offset: Int64 = -1
    epoch: Int32 = -1


class AbortedTransaction(Struct):
    producer_id: Int64 = 0
    first_offset: Int64 = 0


class NodeEndpoint(Struct):
    node_id: Int32 = since(16, default=0)
    host: str = since(16, default="")
    port: Int32 = since(16, default=0)
    rack: str | None = since(16, default=None)
