"""ConsumerGroupDescribe, key 69."""

from __future__ import annotations

from barnabas.wire.schema import Int8, Int16, Int32, Request, Response, Struct, field, since
from barnabas.wire.uuids import ZERO_UUID, Uuid


class ConsumerGroupDescribeRequest(Request, key=69, versions="0-1", flexible="0+"):
    group_ids: list[str] = field(default_factory=list)
    include_authorized_operations: bool = False


class ConsumerGroupDescribeResponse(Response, key=69, versions="0-1", flexible="0+"):
    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup] = field(default_factory=list)


class DescribedGroup(Struct):
    error_code: Int16 = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: str = ""
    members: list[Member] = field(default_factory=list)
    authorized_operations: Int32 = -2147483648


class Member(Struct):
    member_id: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: Int32 = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)
    subscribed_topic_regex: str | None = None
    assignment: Assignment = field(default_factory=lambda: Assignment())
    target_assignment: Assignment = field(default_factory=lambda: Assignment())
    member_type: Int8 = since(1, default=-1, ignorable=True)


class TopicPartitions(Struct):
    topic_id: Uuid = ZERO_UUID
    topic_name: str = ""
    partitions: list[Int32] = field(default_factory=list)


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = field(default_factory=list)
