"""ShareGroupHeartbeat, key 76."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Request, Response, Struct, field
from barnabas.wire.uuids import ZERO_UUID, Uuid


class ShareGroupHeartbeatRequest(Request, key=76, versions="1", flexible="0+"):
    group_id: str = ""
    member_id: str = ""
    member_epoch: Int32 = 0
    rack_id: str | None = None
    subscribed_topic_names: list[str] | None = None


class ShareGroupHeartbeatResponse(Response, key=76, versions="1", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = field(default_factory=list)


class TopicPartitions(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = field(default_factory=list)
