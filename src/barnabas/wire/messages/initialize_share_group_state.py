"""InitializeShareGroupState, key 83."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Int64, Request, Response, Struct, field
from barnabas.wire.uuids import ZERO_UUID, Uuid


class InitializeShareGroupStateRequest(Request, key=83, versions="0", flexible="0+"):
    group_id: str = ""
    topics: list[InitializeStateData] = field(default_factory=list)


class InitializeStateData(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


class PartitionData(Struct):
    partition: Int32 = 0
    state_epoch: Int32 = 0
    start_offset: Int64 = 0


class InitializeShareGroupStateResponse(Response, key=83, versions="0", flexible="0+"):
    results: list[InitializeStateResult] = field(default_factory=list)


class InitializeStateResult(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionResult] = field(default_factory=list)


class PartitionResult(Struct):
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
