"""Records of __consumer_offsets: share groups."""

from __future__ import annotations

from barnabas.wire.schema import Int8, Int32, Int64, Record, Struct, field
from barnabas.wire.uuids import ZERO_UUID, Uuid


class ShareGroupMemberMetadataKey(Record, key=10, versions="0"):
    group_id: str = ""
    member_id: str = ""


class ShareGroupMemberMetadataValue(Record, key=10, versions="0", flexible="0+"):
    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)


class ShareGroupMetadataKey(Record, key=11, versions="0"):
    group_id: str = ""


class ShareGroupMetadataValue(Record, key=11, versions="0", flexible="0+"):
    epoch: Int32 = 0
    metadata_hash: Int64 = 0


class ShareGroupTargetAssignmentMetadataKey(Record, key=12, versions="0"):
    group_id: str = ""


class ShareGroupTargetAssignmentMetadataValue(Record, key=12, versions="0", flexible="0+"):
    assignment_epoch: Int32 = 0
    assignment_timestamp: Int64 = field(default=0, tag=0)


class ShareGroupTargetAssignmentMemberKey(Record, key=13, versions="0"):
    group_id: str = ""
    member_id: str = ""


class ShareGroupTargetAssignmentMemberValue(Record, key=13, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartition] = field(default_factory=list)


class TopicPartition(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = field(default_factory=list)


class ShareGroupCurrentMemberAssignmentKey(Record, key=14, versions="0"):
    group_id: str = ""
    member_id: str = ""


class ShareGroupCurrentMemberAssignmentValue(Record, key=14, versions="0", flexible="0+"):
    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: list[TopicPartitions] = field(default_factory=list)


class TopicPartitions(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = field(default_factory=list)


class ShareGroupStatePartitionMetadataKey(Record, key=15, versions="0"):
    group_id: str = ""


class ShareGroupStatePartitionMetadataValue(Record, key=15, versions="0", flexible="0+"):
    initializing_topics: list[TopicPartitionsInfo] = field(default_factory=list)
    initialized_topics: list[TopicPartitionsInfo] = field(default_factory=list)
    deleting_topics: list[TopicInfo] = field(default_factory=list)


class TopicPartitionsInfo(Struct):
    topic_id: Uuid = ZERO_UUID
    topic_name: str = ""
    partitions: list[Int32] = field(default_factory=list)


class TopicInfo(Struct):
    topic_id: Uuid = ZERO_UUID
    topic_name: str = ""
