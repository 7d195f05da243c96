"""AlterPartition, key 56."""

from __future__ import annotations

from barnabas.wire.schema import Int8, Int16, Int32, Int64, Request, Response, Struct, field, since
from barnabas.wire.uuids import ZERO_UUID, Uuid


class AlterPartitionRequest(Request, key=56, versions="2-3", flexible="0+"):
    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    topics: list[TopicData] = field(default_factory=list)


class TopicData(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


class PartitionData(Struct):
    partition_index: Int32 = 0
    leader_epoch: Int32 = 0
    new_isr: list[Int32] = field("0-2", default_factory=list)
    new_isr_with_epochs: list[BrokerState] = since(3, default_factory=list)
    leader_recovery_state: Int8 = 0
    partition_epoch: Int32 = 0


class BrokerState(Struct):
    broker_id: Int32 = since(3, default=0)
    broker_epoch: Int64 = since(3, default=-1)


class AlterPartitionResponse(Response, key=56, versions="2-3", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    topics: list[ResponseTopicData] = field(default_factory=list)


class ResponseTopicData(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[ResponsePartitionData] = field(default_factory=list)


class ResponsePartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    isr: list[Int32] = field(default_factory=list)
    leader_recovery_state: Int8 = 0
    partition_epoch: Int32 = 0
