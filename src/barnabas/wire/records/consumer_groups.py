"""Records of __consumer_offsets: groups of the consumer protocol (KIP-848)."""

from __future__ import annotations

from barnabas.wire.schema import Int8, Int32, Int64, Record, Struct, field
from barnabas.wire.uuids import ZERO_UUID, Uuid


class ConsumerGroupMetadataKey(Record, key=3, versions="0"):
    group_id: str = ""


class ConsumerGroupMetadataValue(Record, key=3, versions="0", flexible="0+"):
    epoch: Int32 = 0
    metadata_hash: Int64 = field(default=0, tag=0)


class ConsumerGroupPartitionMetadataKey(Record, key=4, versions="0"):
    group_id: str = ""


class ConsumerGroupPartitionMetadataValue(Record, key=4, versions="0", flexible="0+"):
    topics: list[TopicMetadata] = field(default_factory=list)


class TopicMetadata(Struct):
    topic_id: Uuid = ZERO_UUID
    topic_name: str = ""
    num_partitions: Int32 = 0
    partition_metadata: list[PartitionMetadata] = field(default_factory=list)


class PartitionMetadata(Struct):
    partition: Int32 = 0
    racks: list[str] = field(default_factory=list)


class ConsumerGroupMemberMetadataKey(Record, key=5, versions="0"):
    group_id: str = ""
    member_id: str = ""


class ConsumerGroupMemberMetadataValue(Record, key=5, versions="0", flexible="0+"):
    instance_id: str | None = ""
    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)
    subscribed_topic_regex: str | None = ""
    rebalance_timeout_ms: Int32 = -1
    server_assignor: str | None = ""
    classic_member_metadata: ClassicMemberMetadata | None = field(
        default_factory=lambda: ClassicMemberMetadata(), tag=0
    )


class ClassicMemberMetadata(Struct):
    session_timeout_ms: Int32 = 0
    supported_protocols: list[ClassicProtocol] = field(default_factory=list)


class ClassicProtocol(Struct):
    name: str = ""
    metadata: bytes = b""


class ConsumerGroupTargetAssignmentMetadataKey(Record, key=6, versions="0"):
    group_id: str = ""


class ConsumerGroupTargetAssignmentMetadataValue(Record, key=6, versions="0", flexible="0+"):
    assignment_epoch: Int32 = 0
    assignment_timestamp: Int64 = field(default=0, tag=0)


class ConsumerGroupTargetAssignmentMemberKey(Record, key=7, versions="0"):
    group_id: str = ""
    member_id: str = ""


class ConsumerGroupTargetAssignmentMemberValue(Record, key=7, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartition] = field(default_factory=list)


class TopicPartition(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = field(default_factory=list)


class ConsumerGroupCurrentMemberAssignmentKey(Record, key=8, versions="0"):
    group_id: str = ""
    member_id: str = ""


class ConsumerGroupCurrentMemberAssignmentValue(Record, key=8, versions="0", flexible="0+"):
    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: list[TopicPartitions] = field(default_factory=list)
    partitions_pending_revocation: list[TopicPartitions] = field(default_factory=list)


class TopicPartitions(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = field(default_factory=list)
    assignment_epochs: list[Int32] | None = field(default_factory=list, tag=0)


class ConsumerGroupRegularExpressionKey(Record, key=16, versions="0"):
    group_id: str = ""
    regular_expression: str = ""


class ConsumerGroupRegularExpressionValue(Record, key=16, versions="0", flexible="0+"):
    topics: list[str] = field(default_factory=list)
    version: Int64 = 0
    timestamp: Int64 = 0
