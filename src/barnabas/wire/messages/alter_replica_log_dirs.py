"""AlterReplicaLogDirs, key 34."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Request, Response, Struct, field


class AlterReplicaLogDirsRequest(Request, key=34, versions="1-2", flexible="2+"):
    dirs: list[AlterReplicaLogDir] = field(default_factory=list)


class AlterReplicaLogDir(Struct):
    path: str = ""
    topics: list[AlterReplicaLogDirTopic] = field(default_factory=list)


class AlterReplicaLogDirTopic(Struct):
    name: str = ""
    partitions: list[Int32] = field(default_factory=list)


class AlterReplicaLogDirsResponse(Response, key=34, versions="1-2", flexible="2+"):
    throttle_time_ms: Int32 = 0
    results: list[AlterReplicaLogDirTopicResult] = field(default_factory=list)


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: str = ""
    partitions: list[AlterReplicaLogDirPartitionResult] = field(default_factory=list)


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
