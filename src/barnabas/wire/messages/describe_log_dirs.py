"""DescribeLogDirs, key 35."""

from __future__ import annotations

from barnabas.wire.schema import Int16, Int32, Int64, Request, Response, Struct, field, since


class DescribeLogDirsRequest(Request, key=35, versions="1-5", flexible="2+"):
    topics: list[DescribableLogDirTopic] | None = field(default_factory=list)


class DescribableLogDirTopic(Struct):
    topic: str = ""
    partitions: list[Int32] = field(default_factory=list)


class DescribeLogDirsResponse(Response, key=35, versions="1-5", flexible="2+"):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = since(3, default=0, ignorable=True)
    results: list[DescribeLogDirsResult] = field(default_factory=list)


class DescribeLogDirsResult(Struct):
    error_code: Int16 = 0
    log_dir: str = ""
    topics: list[DescribeLogDirsTopic] = field(default_factory=list)
    total_bytes: Int64 = since(4, default=-1, ignorable=True)
    usable_bytes: Int64 = since(4, default=-1, ignorable=True)
    is_cordoned: bool = since(5, default=False, ignorable=True)


class DescribeLogDirsTopic(Struct):
    name: str = ""
    partitions: list[DescribeLogDirsPartition] = field(default_factory=list)


class DescribeLogDirsPartition(Struct):
    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: bool = False
