"""ListPartitionReassignments, key 46."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Request, Response, Struct, field


class ListPartitionReassignmentsRequest(Request, key=46, versions="0", flexible="0+"):
    timeout_ms: Int32 = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = None


class ListPartitionReassignmentsTopics(Struct):
    name: str = ""
    partition_indexes: list[Int32] = field(default_factory=list)


class ListPartitionReassignmentsResponse(Response, key=46, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""
    topics: list[OngoingTopicReassignment] = field(default_factory=list)


class OngoingTopicReassignment(Struct):
    name: str = ""
    partitions: list[OngoingPartitionReassignment] = field(default_factory=list)


class OngoingPartitionReassignment(Struct):
    partition_index: Int32 = 0
    replicas: list[Int32] = field(default_factory=list)
    adding_replicas: list[Int32] = field(default_factory=list)
    removing_replicas: list[Int32] = field(default_factory=list)
