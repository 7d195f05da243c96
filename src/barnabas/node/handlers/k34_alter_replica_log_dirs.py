"""AlterReplicaLogDirs, versions 1 and 2: replicas of this node are to lie in another of its log directories.

The answer comes at once; the move goes on in the background and is seen in DescribeLogDirs. A partition that is not
here yet will be made in the directory asked for. 2 brought compact encoding. Deviations from Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from barnabas.node.node import Node


async def handle(
    context: RequestContext, request: AlterReplicaLogDirsRequest, node: Node
) -> AlterReplicaLogDirsResponse:
    if not context.may(Operation.ALTER, Resource.cluster()):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Replicas are moved by who may alter the cluster.")
    topics: dict[str, dict[int, ErrorCode]] = {}
    for (topic, index), path in _asked(request).items():
        topics.setdefault(topic, {})[index] = _move(node, topic, index, path)
    return _response(topics)


def error_response(request: AlterReplicaLogDirsRequest, error: KafkaError) -> AlterReplicaLogDirsResponse:
    topics: dict[str, dict[int, ErrorCode]] = {}
    for topic, index in _asked(request):
        topics.setdefault(topic, {})[index] = error.code
    return _response(topics)


def _asked(request: AlterReplicaLogDirsRequest) -> dict[tuple[str, int], str]:
    """The directory for each partition; of several the last one counts."""
    return {
        (topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }


def _move(node: Node, topic: str, index: int, path: str) -> ErrorCode:
    try:
        node.replica_moves.ask(topic, index, path, node.partitions.missing_error(node.image, topic, index))
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def _response(topics: dict[str, dict[int, ErrorCode]]) -> AlterReplicaLogDirsResponse:
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=topic,
                partitions=[
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error)
                    for index, error in errors.items()
                ],
            )
            for topic, errors in topics.items()
        ]
    )
