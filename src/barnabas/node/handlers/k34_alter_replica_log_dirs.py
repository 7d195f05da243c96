"""AlterReplicaLogDirs, versions 1 and 2: replicas of this node are to lie in another of its log directories.

The answer comes at once; the move goes on in the background and is seen in DescribeLogDirs. A partition that is not
here yet will be made in the directory asked for. 2 brought compact encoding. Deviations from Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.node.turns import in_turns
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from barnabas.node.ports import Moves


async def handle(
    context: RequestContext, request: AlterReplicaLogDirsRequest, node: Moves
) -> AlterReplicaLogDirsResponse:
    if not context.may(Operation.ALTER, Resource.cluster()):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Replicas are moved by who may alter the cluster.")
    topics: dict[str, dict[int, ErrorCode]] = {}
    asked = {
        (topic.name, index): directory.path
        async for directory in in_turns(request.dirs)
        async for topic in in_turns(directory.topics)
        for index in topic.partitions
    }
    async for (name, index), path in in_turns(asked.items()):
        topics.setdefault(name, {})[index] = _move(node, name, index, path)
    return AlterReplicaLogDirsResponse(results=[_result(*each) async for each in in_turns(topics.items())])


def error_response(request: AlterReplicaLogDirsRequest, error: KafkaError) -> AlterReplicaLogDirsResponse:
    topics: dict[str, dict[int, ErrorCode]] = {}
    for topic, index in _asked(request):
        topics.setdefault(topic, {})[index] = error.code
    return AlterReplicaLogDirsResponse(results=[_result(*each) for each in topics.items()])


def _asked(request: AlterReplicaLogDirsRequest) -> dict[tuple[str, int], str]:
    """The directory for each partition; of several the last one counts."""
    return {
        (topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }


def _move(node: Moves, topic: str, index: int, path: str) -> ErrorCode:
    try:
        node.replica_moves.ask(topic, index, path, node.partitions.missing_error(node.image, topic, index))
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def _result(topic: str, errors: dict[int, ErrorCode]) -> AlterReplicaLogDirTopicResult:
    return AlterReplicaLogDirTopicResult(
        topic_name=topic,
        partitions=[
            AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error)
            for index, error in errors.items()
        ],
    )
