"""WriteShareGroupState, key 85."""

from __future__ import annotations

from barnabas.wire.schema import Int8, Int16, Int32, Int64, Request, Response, Struct, field, since
from barnabas.wire.uuids import ZERO_UUID, Uuid


class WriteShareGroupStateRequest(Request, key=85, versions="0-1", flexible="0+"):
    group_id: str = ""
    topics: list[WriteStateData] = field(default_factory=list)


class WriteStateData(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


class PartitionData(Struct):
    partition: Int32 = 0
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Int32 = since(1, default=-1, ignorable=True)
    state_batches: list[StateBatch] = field(default_factory=list)


class StateBatch(Struct):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_state: Int8 = 0
    delivery_count: Int16 = 0


class WriteShareGroupStateResponse(Response, key=85, versions="0-1", flexible="0+"):
    results: list[WriteStateResult] = field(default_factory=list)


class WriteStateResult(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionResult] = field(default_factory=list)


class PartitionResult(Struct):
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
