"""AlterShareGroupOffsets, version 0: a share group without members begins elsewhere.

Deviations from Kafka: the id of a topic that the caller may not read is not told; no group comes to be if none of the
partitions exists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.security.model import Operation, Resource
from barnabas.node.broker.shares.initializing import initialize
from barnabas.node.handlers.group_protocols import require_share_protocol
from barnabas.node.requests import RequestContext
from barnabas.node.turns import in_turns
from barnabas.wire.errors import ErrorCode, KafkaError, sentence_of
from barnabas.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from barnabas.wire.uuids import Uuid

if TYPE_CHECKING:
    from barnabas.node.ports import Shares


async def handle(
    context: RequestContext, request: AlterShareGroupOffsetsRequest, node: Shares
) -> AlterShareGroupOffsetsResponse:
    group_id = request.group_id
    try:
        require_share_protocol(node)
        context.authorize(Operation.READ, Resource.group(group_id))
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        offsets: dict[tuple[Uuid, int], int] = {}
        answers = [await _answer(context, topic, node, offsets) async for topic in in_turns(request.topics)]
        wanted = await node.groups.submit(group_id, lambda shard: shard.members.alter_share_offsets(group_id, offsets))
        if offsets:
            await initialize(node, wanted)
    except KafkaError as error:
        message = error.message or sentence_of(error.code)
        return AlterShareGroupOffsetsResponse(error_code=error.code, error_message=message)
    return AlterShareGroupOffsetsResponse(responses=answers)


async def _answer(
    context: RequestContext,
    asked: AlterShareGroupOffsetsRequestTopic,
    node: Shares,
    offsets: dict[tuple[Uuid, int], int],
) -> AlterShareGroupOffsetsResponseTopic:
    """Notes the offsets that can be set."""
    answer = AlterShareGroupOffsetsResponseTopic(topic_name=asked.topic_name)
    topic = node.image.topics.get(asked.topic_name)
    may = context.may(Operation.READ, Resource.topic(asked.topic_name))
    if topic is not None and may:
        answer.topic_id = topic.topic_id
    async for each in in_turns(asked.partitions):
        code = ErrorCode.NONE
        if not may:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif topic is None or each.partition_index not in topic.partitions:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            offsets[topic.topic_id, each.partition_index] = each.start_offset
        answer.partitions.append(
            AlterShareGroupOffsetsResponsePartition(
                partition_index=each.partition_index, error_code=code, error_message=sentence_of(code) if code else None
            )
        )
    return answer
