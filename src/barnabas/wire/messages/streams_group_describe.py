"""StreamsGroupDescribe, key 89."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Int64, Request, Response, Struct, UInt16, field


class StreamsGroupDescribeRequest(Request, key=89, versions="0", flexible="0+"):
    group_ids: list[str] = field(default_factory=list)
    include_authorized_operations: bool = False


class StreamsGroupDescribeResponse(Response, key=89, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup] = field(default_factory=list)


class DescribedGroup(Struct):
    error_code: Int16 = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    topology: Topology | None = None
    members: list[Member] = field(default_factory=list)
    authorized_operations: Int32 = -2147483648


class Topology(Struct):
    epoch: Int32 = 0
    subtopologies: list[Subtopology] | None = None


class Subtopology(Struct):
    subtopology_id: str = ""
    source_topics: list[str] = field(default_factory=list)
    repartition_sink_topics: list[str] = field(default_factory=list)
    state_changelog_topics: list[TopicInfo] = field(default_factory=list)
    repartition_source_topics: list[TopicInfo] = field(default_factory=list)


class Member(Struct):
    member_id: str = ""
    member_epoch: Int32 = 0
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topology_epoch: Int32 = 0
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] = field(default_factory=list)
    task_offsets: list[TaskOffset] = field(default_factory=list)
    task_end_offsets: list[TaskOffset] = field(default_factory=list)
    assignment: Assignment = field(default_factory=lambda: Assignment())
    target_assignment: Assignment = field(default_factory=lambda: Assignment())
    is_classic: bool = False


class Endpoint(Struct):
    host: str = ""
    port: UInt16 = 0


class TaskOffset(Struct):
    subtopology_id: str = ""
    partition: Int32 = 0
    offset: Int64 = 0


class Assignment(Struct):
    active_tasks: list[TaskIds] = field(default_factory=list)
    standby_tasks: list[TaskIds] = field(default_factory=list)
    warmup_tasks: list[TaskIds] = field(default_factory=list)


class TaskIds(Struct):
    subtopology_id: str = ""
    partitions: list[Int32] = field(default_factory=list)


class KeyValue(Struct):
    key: str = ""
    value: str = ""


class TopicInfo(Struct):
    name: str = ""
    partitions: Int32 = 0
    replication_factor: Int16 = 0
    topic_configs: list[KeyValue] = field(default_factory=list)
