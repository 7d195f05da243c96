"""OffsetDelete, version 0: committed offsets of partitions that the group does not consume.

Deviations from Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.node.turns import in_turns
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from barnabas.node.ports import Groups


async def handle(context: RequestContext, request: OffsetDeleteRequest, node: Groups) -> OffsetDeleteResponse:
    context.authorize(Operation.DELETE, Resource.group(request.group_id))
    errors: dict[tuple[str, int], ErrorCode] = {}
    accepted: dict[tuple[str, int], None] = {}
    async for topic in in_turns(request.topics):
        async for each in in_turns(topic.partitions):
            at = (topic.name, each.partition_index)
            error = errors[at] = _topic_error(context, topic.name, each.partition_index, node)
            if error is ErrorCode.NONE:
                accepted[at] = None
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    # The group's own errors come first, also where no partition is left to delete.
    decided = await node.groups.submit(request.group_id, lambda shard: shard.commits.delete(request.group_id, accepted))
    errors |= dict(zip(accepted, decided, strict=True))
    return OffsetDeleteResponse(topics=[await _result(topic, errors) async for topic in in_turns(request.topics)])


def _topic_error(context: RequestContext, topic: str, partition: int, node: Groups) -> ErrorCode:
    if not context.may(Operation.READ, Resource.topic(topic)):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    known = node.image.topics.get(topic)
    return ErrorCode.NONE if known and partition in known.partitions else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def _result(
    topic: OffsetDeleteRequestTopic, errors: dict[tuple[str, int], ErrorCode]
) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=[
            OffsetDeleteResponsePartition(
                partition_index=each.partition_index, error_code=errors[topic.name, each.partition_index]
            )
            async for each in in_turns(topic.partitions)
        ],
    )
