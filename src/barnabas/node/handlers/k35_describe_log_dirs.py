"""DescribeLogDirs, versions 1 to 5: the log directories of this node, and how much of them its partitions take.

2 brought compact encoding, 3 an error for the whole request, 4 the size of the volume and what is left of it, 5 whether
a directory is cordoned, which none of ours ever is. Deviations from Kafka: none.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.node.storage.directory.log_dir import LogDir
from barnabas.node.storage.log import PartitionLog
from barnabas.node.turns import in_turns
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from barnabas.node.ports import Logs

NO_LAG = 0
UNKNOWN_LAG = -1


async def handle(context: RequestContext, request: DescribeLogDirsRequest, node: Logs) -> DescribeLogDirsResponse:
    if not context.may(Operation.DESCRIBE, Resource.cluster()):
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, index) async for topic in in_turns(request.topics) for index in topic.partitions}
    return DescribeLogDirsResponse(results=[await _describe(each, wanted, node) for each in node.log_dirs.dirs])


def _lag(future: PartitionLog, node: Logs) -> int:
    """By how much a replica on its way lags behind the one it will replace."""
    current = node.log_dirs.get(future.topic, future.partition)
    return max(current.log_end_offset - future.log_end_offset, 0) if current is not None else UNKNOWN_LAG


async def _describe(directory: LogDir, wanted: set[tuple[str, int]] | None, node: Logs) -> DescribeLogDirsResult:
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
    for is_future, logs in ((False, directory.logs), (True, directory.future_logs)):
        keys = logs if wanted is None else sorted(wanted & logs.keys())
        async for topic, index in in_turns(list(keys)):
            log = logs.get((topic, index))
            if log is None:
                continue
            described = topics.setdefault(topic, DescribeLogDirsTopic(name=topic))
            described.partitions.append(
                DescribeLogDirsPartition(
                    partition_index=index,
                    partition_size=log.size_bytes,
                    offset_lag=_lag(log, node) if is_future else NO_LAG,
                    is_future_key=is_future,
                )
            )
    result.topics = list(topics.values())
    return result
