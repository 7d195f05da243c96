"""DeleteTopics, key 20."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Request, Response, Struct, field, since
from barnabas.wire.uuids import ZERO_UUID, Uuid


class DeleteTopicsRequest(Request, key=20, versions="1-6", flexible="4+"):
    topics: list[DeleteTopicState] = since(6, default_factory=list)
    topic_names: list[str] = field("0-5", default_factory=list, ignorable=True)
    timeout_ms: Int32 = 0


class DeleteTopicState(Struct):
    name: str | None = since(6, default=None)
    topic_id: Uuid = since(6, default=ZERO_UUID)


class DeleteTopicsResponse(Response, key=20, versions="1-6", flexible="4+"):
    throttle_time_ms: Int32 = 0
    responses: list[DeletableTopicResult] = field(default_factory=list)


class DeletableTopicResult(Struct):
    name: str | None = field(default="", nullable="6+")
    topic_id: Uuid = since(6, default=ZERO_UUID, ignorable=True)
    error_code: Int16 = 0
    error_message: str | None = since(5, default=None, ignorable=True)
