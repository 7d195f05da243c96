"""DescribeLogDirs, versions 1 to 5: the log directories of this node, and how much of them its partitions take.

2 brought compact encoding, 3 an error for the whole request, 4 the size of the volume and what is left of it, 5 whether
a directory is cordoned, which none of ours ever is. Deviations from Kafka: none.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.node.storage.log_dir import LogDir
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from barnabas.node.node import Node

NO_LAG = 0


async def handle(context: RequestContext, request: DescribeLogDirsRequest, node: Node) -> DescribeLogDirsResponse:
    if not context.may(Operation.DESCRIBE, Resource.cluster()):
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    return DescribeLogDirsResponse(results=[_describe(each, wanted) for each in node.log_dirs.dirs])


def _describe(directory: LogDir, wanted: set[tuple[str, int]] | None) -> DescribeLogDirsResult:
    result = DescribeLogDirsResult(log_dir=directory.path)
    try:
        volume = os.statvfs(directory.path)
    except OSError:
        volume = None
    if volume is None or directory.offline is not None:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    result.total_bytes = volume.f_blocks * volume.f_frsize
    result.usable_bytes = volume.f_bavail * volume.f_frsize
    topics: dict[str, DescribeLogDirsTopic] = {}
    keys = directory.logs if wanted is None else sorted(wanted & directory.logs.keys())
    for topic, index in keys:
        described = topics.setdefault(topic, DescribeLogDirsTopic(name=topic))
        size = directory.logs[topic, index].size_bytes
        described.partitions.append(
            DescribeLogDirsPartition(partition_index=index, partition_size=size, offset_lag=NO_LAG)
        )
    result.topics = list(topics.values())
    return result
