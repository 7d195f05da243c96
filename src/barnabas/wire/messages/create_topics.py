"""CreateTopics, key 19."""

from __future__ import annotations

from barnabas.wire.schema import Int8, Int16, Int32, Request, Response, Struct, field, since
from barnabas.wire.uuids import ZERO_UUID, Uuid


class CreateTopicsRequest(Request, key=19, versions="2-7", flexible="5+"):
    topics: list[CreatableTopic] = field(default_factory=list)
    timeout_ms: Int32 = 60000
    validate_only: bool = False


class CreatableTopic(Struct):
    name: str = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: list[CreatableReplicaAssignment] = field(default_factory=list)
    configs: list[CreatableTopicConfig] = field(default_factory=list)


class CreatableReplicaAssignment(Struct):
    partition_index: Int32 = 0
    broker_ids: list[Int32] = field(default_factory=list)


class CreatableTopicConfig(Struct):
    name: str = ""
    value: str | None = ""


class CreateTopicsResponse(Response, key=19, versions="2-7", flexible="5+"):
    throttle_time_ms: Int32 = 0
    topics: list[CreatableTopicResult] = field(default_factory=list)


class CreatableTopicResult(Struct):
    name: str = ""
    topic_id: Uuid = since(7, default=ZERO_UUID, ignorable=True)
    error_code: Int16 = 0
    error_message: str | None = ""
    topic_config_error_code: Int16 = since(5, default=0, tag=0, ignorable=True)
    num_partitions: Int32 = since(5, default=-1, ignorable=True)
    replication_factor: Int16 = since(5, default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = since(5, default_factory=list, ignorable=True)


class CreatableTopicConfigs(Struct):
    name: str = since(5, default="")
    value: str | None = since(5, default="")
    read_only: bool = since(5, default=False)
    config_source: Int8 = since(5, default=-1, ignorable=True)
    is_sensitive: bool = since(5, default=False)
