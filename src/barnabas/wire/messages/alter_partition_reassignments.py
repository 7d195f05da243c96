"""AlterPartitionReassignments, key 45."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Request, Response, Struct, field, since


class AlterPartitionReassignmentsRequest(Request, key=45, versions="0-1", flexible="0+"):
    timeout_ms: Int32 = 60000
    allow_replication_factor_change: bool = since(1, default=True)
    topics: list[ReassignableTopic] = field(default_factory=list)


class ReassignableTopic(Struct):
    name: str = ""
    partitions: list[ReassignablePartition] = field(default_factory=list)


class ReassignablePartition(Struct):
    partition_index: Int32 = 0
    replicas: list[Int32] | None = None


class AlterPartitionReassignmentsResponse(Response, key=45, versions="0-1", flexible="0+"):
    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: bool = since(1, default=True, ignorable=True)
    error_code: Int16 = 0
    error_message: str | None = ""
    responses: list[ReassignableTopicResponse] = field(default_factory=list)


class ReassignableTopicResponse(Struct):
    name: str = ""
    partitions: list[ReassignablePartitionResponse] = field(default_factory=list)


class ReassignablePartitionResponse(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""
