"""Records of __remote_log_metadata, in the frame of metadata records.

We have no tiered storage: only the dump tool reads them.
"""

from __future__ import annotations

from barnabas.wire.schema import Int8, Int32, Int64, Record, Struct, field
from barnabas.wire.uuids import ZERO_UUID, Uuid


class TopicIdPartition(Struct):
    name: str = ""
    id: Uuid = ZERO_UUID
    partition: Int32 = 0


class RemoteLogSegmentId(Struct):
    topic_id_partition: TopicIdPartition = field(default_factory=TopicIdPartition)
    id: Uuid = ZERO_UUID


class SegmentLeaderEpoch(Struct):
    leader_epoch: Int32 = 0
    offset: Int64 = 0


class RemoteLogSegmentMetadataRecord(Record, key=0, versions="0", flexible="0+"):
    remote_log_segment_id: RemoteLogSegmentId = field(default_factory=RemoteLogSegmentId)
    start_offset: Int64 = 0
    end_offset: Int64 = 0
    broker_id: Int32 = 0
    max_timestamp_ms: Int64 = 0
    event_timestamp_ms: Int64 = 0
    segment_leader_epochs: list[SegmentLeaderEpoch] = field(default_factory=list)
    segment_size_in_bytes: Int32 = 0
    custom_metadata: bytes | None = None
    remote_log_segment_state: Int8 = 0
    txn_index_empty: bool = field(default=False, tag=0)


class RemoteLogSegmentMetadataUpdateRecord(Record, key=1, versions="0", flexible="0+"):
    remote_log_segment_id: RemoteLogSegmentId = field(default_factory=RemoteLogSegmentId)
    broker_id: Int32 = 0
    event_timestamp_ms: Int64 = 0
    custom_metadata: bytes | None = None
    remote_log_segment_state: Int8 = 0


class RemotePartitionDeleteMetadataRecord(Record, key=2, versions="0", flexible="0+"):
    topic_id_partition: TopicIdPartition = field(default_factory=TopicIdPartition)
    broker_id: Int32 = 0
    event_timestamp_ms: Int64 = 0
    remote_partition_delete_state: Int8 = 0


class RemoteLogSegmentMetadataSnapshotRecord(Record, key=3, versions="0", flexible="0+"):
    segment_id: Uuid = ZERO_UUID
    start_offset: Int64 = 0
    end_offset: Int64 = 0
    broker_id: Int32 = 0
    max_timestamp_ms: Int64 = 0
    event_timestamp_ms: Int64 = 0
    segment_leader_epochs: list[SegmentLeaderEpoch] = field(default_factory=list)
    segment_size_in_bytes: Int32 = 0
    custom_metadata: bytes | None = None
    remote_log_segment_state: Int8 = 0
    txn_index_empty: bool = field(default=False, tag=0)
