"""ReadShareGroupState, key 84."""

from __future__ import annotations

from barnabas.wire.schema import Int8, Int16, Int32, Int64, Request, Response, Struct, field
from barnabas.wire.uuids import ZERO_UUID, Uuid


class ReadShareGroupStateRequest(Request, key=84, versions="0", flexible="0+"):
    group_id: str = ""
    topics: list[ReadStateData] = field(default_factory=list)


class ReadStateData(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


class PartitionData(Struct):
    partition: Int32 = 0
    leader_epoch: Int32 = 0


class ReadShareGroupStateResponse(Response, key=84, versions="0", flexible="0+"):
    results: list[ReadStateResult] = field(default_factory=list)


class ReadStateResult(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionResult] = field(default_factory=list)


class PartitionResult(Struct):
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    state_epoch: Int32 = 0
    start_offset: Int64 = 0
    state_batches: list[StateBatch] = field(default_factory=list)


class StateBatch(Struct):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_state: Int8 = 0
    delivery_count: Int16 = 0
