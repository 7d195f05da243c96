"""ConsumerGroupHeartbeat, key 68."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Request, Response, Struct, field, since
from barnabas.wire.uuids import ZERO_UUID, Uuid


class ConsumerGroupHeartbeatRequest(Request, key=68, versions="0-1", flexible="0+"):
    group_id: str = ""
    member_id: str = ""
    member_epoch: Int32 = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: list[str] | None = None
    subscribed_topic_regex: str | None = since(1, default=None)
    server_assignor: str | None = None
    topic_partitions: list[TopicPartitions] | None = None


class TopicPartitions(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = field(default_factory=list)


class ConsumerGroupHeartbeatResponse(Response, key=68, versions="0-1", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = field(default_factory=list)
