"""ReadShareGroupStateSummary, key 87."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Int64, Request, Response, Struct, field, since
from barnabas.wire.uuids import ZERO_UUID, Uuid


class ReadShareGroupStateSummaryRequest(Request, key=87, versions="0-1", flexible="0+"):
    group_id: str = ""
    topics: list[ReadStateSummaryData] = field(default_factory=list)


class ReadStateSummaryData(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


class PartitionData(Struct):
    partition: Int32 = 0
    leader_epoch: Int32 = 0


class ReadShareGroupStateSummaryResponse(Response, key=87, versions="0-1", flexible="0+"):
    results: list[ReadStateSummaryResult] = field(default_factory=list)


class ReadStateSummaryResult(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionResult] = field(default_factory=list)


class PartitionResult(Struct):
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Int32 = since(1, default=-1, ignorable=True)
