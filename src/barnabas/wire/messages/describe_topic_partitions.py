"""DescribeTopicPartitions, key 75."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Request, Response, Struct, field
from barnabas.wire.uuids import ZERO_UUID, Uuid


class DescribeTopicPartitionsRequest(Request, key=75, versions="0", flexible="0+"):
    topics: list[TopicRequest] = field(default_factory=list)
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None


class TopicRequest(Struct):
    name: str = ""


class Cursor(Struct):
    topic_name: str = ""
    partition_index: Int32 = 0


class DescribeTopicPartitionsResponse(Response, key=75, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = field(default_factory=list)
    next_cursor: Cursor | None = None


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: Int16 = 0
    name: str | None = ""
    topic_id: Uuid = ZERO_UUID
    is_internal: bool = False
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(default_factory=list)
    topic_authorized_operations: Int32 = -2147483648


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = -1
    replica_nodes: list[Int32] = field(default_factory=list)
    isr_nodes: list[Int32] = field(default_factory=list)
    eligible_leader_replicas: list[Int32] | None = None
    last_known_elr: list[Int32] | None = None
    offline_replicas: list[Int32] = field(default_factory=list)
