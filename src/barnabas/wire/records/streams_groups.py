"""Records of __consumer_offsets: streams groups."""

from __future__ import annotations

from barnabas.wire.schema import Int8, Int16, Int32, Int64, Record, Struct, UInt16, field


class StreamsGroupMetadataKey(Record, key=17, versions="0"):
    group_id: str = ""


class StreamsGroupMetadataValue(Record, key=17, versions="0", flexible="0+"):
    epoch: Int32 = 0
    metadata_hash: Int64 = 0
    validated_topology_epoch: Int32 = field(default=-1, tag=0)
    last_assignment_configs: list[LastAssignmentConfig] | None = field(default_factory=list, tag=1)


class LastAssignmentConfig(Struct):
    key: str = ""
    value: str = ""


class StreamsGroupMemberMetadataKey(Record, key=19, versions="0"):
    group_id: str = ""
    member_id: str = ""


class StreamsGroupMemberMetadataValue(Record, key=19, versions="0", flexible="0+"):
    instance_id: str | None = ""
    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: Int32 = -1
    topology_epoch: Int32 = 0
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] = field(default_factory=list)


class Endpoint(Struct):
    host: str = ""
    port: UInt16 = 0


class KeyValue(Struct):
    key: str = ""
    value: str = ""


class StreamsGroupTargetAssignmentMetadataKey(Record, key=20, versions="0"):
    group_id: str = ""


class StreamsGroupTargetAssignmentMetadataValue(Record, key=20, versions="0", flexible="0+"):
    assignment_epoch: Int32 = 0
    assignment_timestamp: Int64 = field(default=0, tag=0)


class StreamsGroupTargetAssignmentMemberKey(Record, key=21, versions="0"):
    group_id: str = ""
    member_id: str = ""


class StreamsGroupTargetAssignmentMemberValue(Record, key=21, versions="0", flexible="0+"):
    active_tasks: list[TaskIds] = field(default_factory=list)
    standby_tasks: list[TaskIds] = field(default_factory=list)
    warmup_tasks: list[TaskIds] = field(default_factory=list)


class TaskIds(Struct):
    subtopology_id: str = ""
    partitions: list[Int32] = field(default_factory=list)


class StreamsGroupCurrentMemberAssignmentKey(Record, key=22, versions="0"):
    group_id: str = ""
    member_id: str = ""


class StreamsGroupCurrentMemberAssignmentValue(Record, key=22, versions="0", flexible="0+"):
    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    active_tasks: list[StreamsGroupCurrentMemberAssignmentTaskIds] = field(default_factory=list)
    standby_tasks: list[StreamsGroupCurrentMemberAssignmentTaskIds] = field(default_factory=list)
    warmup_tasks: list[StreamsGroupCurrentMemberAssignmentTaskIds] = field(default_factory=list)
    active_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentTaskIds] = field(default_factory=list)
    standby_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentTaskIds] = field(default_factory=list)
    warmup_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentTaskIds] = field(default_factory=list)


class StreamsGroupCurrentMemberAssignmentTaskIds(Struct):
    subtopology_id: str = ""
    partitions: list[Int32] = field(default_factory=list)
    assignment_epochs: list[Int32] | None = field(default_factory=list, tag=0)


class StreamsGroupTopologyKey(Record, key=23, versions="0"):
    group_id: str = ""


class StreamsGroupTopologyValue(Record, key=23, versions="0", flexible="0+"):
    epoch: Int32 = 0
    subtopologies: list[Subtopology] = field(default_factory=list)


class Subtopology(Struct):
    subtopology_id: str = ""
    source_topics: list[str] = field(default_factory=list)
    source_topic_regex: list[str] = field(default_factory=list)
    state_changelog_topics: list[TopicInfo] = field(default_factory=list)
    repartition_sink_topics: list[str] = field(default_factory=list)
    repartition_source_topics: list[TopicInfo] = field(default_factory=list)
    copartition_groups: list[CopartitionGroup] = field(default_factory=list)


class CopartitionGroup(Struct):
    source_topics: list[Int16] = field(default_factory=list)
    source_topic_regex: list[Int16] = field(default_factory=list)
    repartition_source_topics: list[Int16] = field(default_factory=list)


class TopicConfig(Struct):
    key: str = ""
    value: str = ""


class TopicInfo(Struct):
    name: str = ""
    partitions: Int32 = 0
    replication_factor: Int16 = 0
    topic_configs: list[TopicConfig] = field(default_factory=list)
