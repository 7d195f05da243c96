"""DeleteShareGroupOffsets, key 92."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Request, Response, Struct, field
from barnabas.wire.uuids import ZERO_UUID, Uuid


class DeleteShareGroupOffsetsRequest(Request, key=92, versions="0", flexible="0+"):
    group_id: str = ""
    topics: list[DeleteShareGroupOffsetsRequestTopic] = field(default_factory=list)


class DeleteShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = ""


class DeleteShareGroupOffsetsResponse(Response, key=92, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    responses: list[DeleteShareGroupOffsetsResponseTopic] = field(default_factory=list)


class DeleteShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = ""
    topic_id: Uuid = ZERO_UUID
    error_code: Int16 = 0
    error_message: str | None = None
