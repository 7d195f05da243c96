"""DeleteShareGroupState, key 86."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Request, Response, Struct, field
from barnabas.wire.uuids import ZERO_UUID, Uuid


class DeleteShareGroupStateRequest(Request, key=86, versions="0", flexible="0+"):
    group_id: str = ""
    topics: list[DeleteStateData] = field(default_factory=list)


class DeleteStateData(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


class PartitionData(Struct):
    partition: Int32 = 0


class DeleteShareGroupStateResponse(Response, key=86, versions="0", flexible="0+"):
    results: list[DeleteStateResult] = field(default_factory=list)


class DeleteStateResult(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionResult] = field(default_factory=list)


class PartitionResult(Struct):
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
