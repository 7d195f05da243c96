"""ElectLeaders, key 43."""

from __future__ import annotations

from barnabas.wire.schema import Int8, Int16, Int32, Request, Response, Struct, field, since


class ElectLeadersRequest(Request, key=43, versions="0-2", flexible="2+"):
    election_type: Int8 = since(1, default=0)
    topic_partitions: list[TopicPartitions] | None = field(default_factory=list)
    timeout_ms: Int32 = 60000


class TopicPartitions(Struct):
    topic: str = ""
    partitions: list[Int32] = field(default_factory=list)


class ElectLeadersResponse(Response, key=43, versions="0-2", flexible="2+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(1, default=0)
    replica_election_results: list[ReplicaElectionResult] = field(default_factory=list)


class ReplicaElectionResult(Struct):
    topic: str = ""
    partition_result: list[PartitionResult] = field(default_factory=list)


class PartitionResult(Struct):
    partition_id: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""
