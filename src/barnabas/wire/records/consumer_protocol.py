"""What consumers of a classic group tell each other through the coordinator."""

from __future__ import annotations

from barnabas.wire.schema import Int32, Record, Struct, field, since


class ConsumerProtocolSubscription(Record, versions="0-3"):
    topics: list[str] = field(default_factory=list)
    user_data: bytes | None = None
    owned_partitions: list[TopicPartition] = since(1, default_factory=list, ignorable=True)
    generation_id: Int32 = since(2, default=-1, ignorable=True)
    rack_id: str | None = since(3, default=None, ignorable=True)


class TopicPartition(Struct):
    topic: str = since(1, default="")
    partitions: list[Int32] = since(1, default_factory=list)


class ConsumerProtocolAssignment(Record, versions="0-3"):
    assigned_partitions: list[ConsumerProtocolAssignmentTopicPartition] = field(default_factory=list)
    user_data: bytes | None = None


class ConsumerProtocolAssignmentTopicPartition(Struct):
    topic: str = ""
    partitions: list[Int32] = field(default_factory=list)
