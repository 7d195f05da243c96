"""DeleteShareGroupOffsets, version 0: a share group without members forgets topics.

Deviations from Kafka: none known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.security.model import Operation, Resource
from barnabas.node.broker.shares.initializing import delete_states
from barnabas.node.handlers.group_protocols import require_share_protocol
from barnabas.node.requests import RequestContext
from barnabas.node.turns import in_turns
from barnabas.wire.errors import ErrorCode, KafkaError, sentence_of
from barnabas.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from barnabas.wire.uuids import ZERO_UUID, Uuid

if TYPE_CHECKING:
    from barnabas.node.ports import Shares


async def handle(
    context: RequestContext, request: DeleteShareGroupOffsetsRequest, node: Shares
) -> DeleteShareGroupOffsetsResponse:
    group_id = request.group_id
    try:
        require_share_protocol(node)
        context.authorize(Operation.DELETE, Resource.group(group_id))
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        answers = [_answer(context, topic.topic_name, node) async for topic in in_turns(request.topics)]
        wanted = [each.topic_id for each in answers if not each.error_code]
        gone = await node.groups.submit(group_id, lambda shard: shard.members.begin_deletion(group_id, wanted))
        async for answer in in_turns(answers):
            if not answer.error_code and answer.topic_id not in gone:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                answer.topic_id = ZERO_UUID
                answer.error_message = "There is no offset information to delete."
        await delete_states(node, group_id, gone)
        topics: list[Uuid] = list(gone)
        await node.groups.submit(group_id, lambda shard: shard.members.share.deleted(group_id, topics))
    except KafkaError as error:
        message = error.message or sentence_of(error.code)
        return DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=message)
    return DeleteShareGroupOffsetsResponse(responses=answers)


def _answer(context: RequestContext, name: str, node: Shares) -> DeleteShareGroupOffsetsResponseTopic:
    topic = node.image.topics.get(name)
    code = ErrorCode.NONE
    if not context.may(Operation.READ, Resource.topic(name)):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif topic is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=name,
        topic_id=topic.topic_id if topic is not None and not code else ZERO_UUID,
        error_code=code,
        error_message=sentence_of(code) if code else None,
    )
