"""OffsetCommit, versions 2 to 10: how far a group has come, from one of its members or from somebody without one.

Until 4 the client said how long to keep the offset, 6 brought leader epochs, 7 static members, 9 member epochs of the
consumer protocol, 10 topic ids. Deviations from Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.groups.commits import Commit, Committer
from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from barnabas.node.node import Node

KNOWS_GROUP_ID_NOT_FOUND = 9
TOPIC_IDS = 10


async def handle(context: RequestContext, request: OffsetCommitRequest, node: Node) -> OffsetCommitResponse:
    context.authorize(Operation.READ, Resource.group(request.group_id))
    responses = []
    commits: list[Commit] = []
    committed: list[OffsetCommitResponsePartition] = []
    for topic in request.topics:
        answer = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        responses.append(answer)
        name, error = _find_topic(context, topic, node)
        partitions = node.image.topics[name].partitions if error is ErrorCode.NONE else {}
        for each in topic.partitions:
            index = each.partition_index
            result = OffsetCommitResponsePartition(partition_index=index, error_code=error)
            answer.partitions.append(result)
            if index in partitions:
                committed.append(result)
                offset = Commit(
                    name, index, each.committed_offset, each.committed_leader_epoch, each.committed_metadata
                )
                commits.append(offset)
            elif error is ErrorCode.NONE:
                result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if commits or not request.topics:
        for result, code in zip(committed, await _commit(context, request, commits, node), strict=True):
            result.error_code = code
    return OffsetCommitResponse(topics=responses)


def error_response(request: OffsetCommitRequest, error: KafkaError) -> OffsetCommitResponse:
    topics = [
        OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=error.code)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return OffsetCommitResponse(topics=topics)


async def _commit(
    context: RequestContext, request: OffsetCommitRequest, commits: list[Commit], node: Node
) -> list[ErrorCode]:
    committer = Committer(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id_or_member_epoch
    )
    knows = context.api_version >= KNOWS_GROUP_ID_NOT_FOUND
    no_group = ErrorCode.GROUP_ID_NOT_FOUND if knows else ErrorCode.ILLEGAL_GENERATION
    try:
        return await node.groups.submit(
            request.group_id,
            lambda shard: shard.commits.commit(
                committer, commits, retention_ms=request.retention_time_ms, no_group=no_group
            ),
        )
    except KafkaError as error:
        return [error.code] * len(commits)


def _find_topic(context: RequestContext, topic: OffsetCommitRequestTopic, node: Node) -> tuple[str, ErrorCode]:
    name: str | None = topic.name
    if context.api_version >= TOPIC_IDS:
        name = node.image.topic_names.get(topic.topic_id)
        if name is None:
            return "", ErrorCode.UNKNOWN_TOPIC_ID
    assert name is not None
    if not context.may(Operation.READ, Resource.topic(name)):
        return name, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return name, ErrorCode.NONE if name in node.image.topics else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
