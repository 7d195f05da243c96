"""StreamsGroupHeartbeat, key 88."""

from __future__ import annotations

from barnabas.wire.schema import Int8, Int16, Int32, Int64, Request, Response, Struct, UInt16, field


class StreamsGroupHeartbeatRequest(Request, key=88, versions="0", flexible="0+"):
    group_id: str = ""
    member_id: str = ""
    member_epoch: Int32 = 0
    endpoint_information_epoch: Int32 = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: Int32 = -1
    topology: Topology | None = None
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    process_id: str | None = None
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] | None = None
    task_offsets: list[TaskOffset] | None = None
    task_end_offsets: list[TaskOffset] | None = None
    shutdown_application: bool = False


class Topology(Struct):
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


class KeyValue(Struct):
    key: str = ""
    value: str = ""


class TopicInfo(Struct):
    name: str = ""
    partitions: Int32 = 0
    replication_factor: Int16 = 0
    topic_configs: list[KeyValue] = field(default_factory=list)


class Endpoint(Struct):
    host: str = ""
    port: UInt16 = 0


class TaskOffset(Struct):
    subtopology_id: str = ""
    partition: Int32 = 0
    offset: Int64 = 0


class TaskIds(Struct):
    subtopology_id: str = ""
    partitions: list[Int32] = field(default_factory=list)


class StreamsGroupHeartbeatResponse(Response, key=88, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    member_id: str = ""
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    acceptable_recovery_lag: Int32 = 0
    task_offset_interval_ms: Int32 = 0
    status: list[Status] | None = field(default_factory=list)
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    endpoint_information_epoch: Int32 = 0
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = None


class EndpointToPartitions(Struct):
    user_endpoint: Endpoint = field(default_factory=lambda: Endpoint())
    active_partitions: list[TopicPartition] = field(default_factory=list)
    standby_partitions: list[TopicPartition] = field(default_factory=list)


class Status(Struct):
    status_code: Int8 = 0
    status_detail: str = ""


class TopicPartition(Struct):
    topic: str = ""
    partitions: list[Int32] = field(default_factory=list)
