"""CreatePartitions, key 37."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Request, Response, Struct, field


class CreatePartitionsRequest(Request, key=37, versions="0-3", flexible="2+"):
    topics: list[CreatePartitionsTopic] = field(default_factory=list)
    timeout_ms: Int32 = 0
    validate_only: bool = False


class CreatePartitionsTopic(Struct):
    name: str = ""
    count: Int32 = 0
    assignments: list[CreatePartitionsAssignment] | None = field(default_factory=list)


class CreatePartitionsAssignment(Struct):
    broker_ids: list[Int32] = field(default_factory=list)


class CreatePartitionsResponse(Response, key=37, versions="0-3", flexible="2+"):
    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult] = field(default_factory=list)


class CreatePartitionsTopicResult(Struct):
    name: str = ""
    error_code: Int16 = 0
    error_message: str | None = None
