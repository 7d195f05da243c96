"""ShareAcknowledge, versions 1 and 2: what a member has done with records, without fetching more.

2 brought renewals. Deviations from Kafka: partitions without batches are always answered, where Kafka leaves them out
if there are no others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any

from barnabas.core.security.model import Operation, Resource
from barnabas.core.share.partition import Acknowledgement
from barnabas.core.share.records import ShareKey
from barnabas.node.broker.leaders import current_leader
from barnabas.node.broker.shares.sessions import FINAL_EPOCH, INITIAL_EPOCH
from barnabas.node.handlers.group_protocols import checked_share_member_id, require_share_protocol
from barnabas.node.handlers.k78_share_fetch import ELSEWHERE, acknowledge
from barnabas.node.item_faults import item_error
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.share_acknowledge import (
    AcknowledgePartition,
    LeaderIdAndEpoch,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from barnabas.wire.uuids import Uuid

if TYPE_CHECKING:
    from barnabas.node.ports import Shares


async def handle(context: RequestContext, request: ShareAcknowledgeRequest, node: Shares) -> ShareAcknowledgeResponse:
    partitions = node.share_partitions
    try:
        require_share_protocol(node)
        if request.group_id is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid group id in the request.")
        if not context.may(Operation.READ, Resource.group(request.group_id)):
            raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        member_id = checked_share_member_id(request.member_id)
        if request.share_session_epoch == INITIAL_EPOCH:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        if request.share_session_epoch == FINAL_EPOCH:
            partitions.sessions.find(request.group_id, member_id)
        else:
            partitions.sessions.proceed(request.group_id, member_id, request.share_session_epoch)
    except KafkaError as error:
        return ShareAcknowledgeResponse(error_code=error.code, error_message=error.message or None)
    responses = [
        ShareAcknowledgeTopicResponse(
            topic_id=topic.topic_id,
            partitions=await _side_by_side(
                [_acknowledge(context, request, topic.topic_id, each, node) for each in _once(topic.partitions)]
            ),
        )
        for topic in request.topics
    ]
    if request.share_session_epoch == FINAL_EPOCH:
        partitions.sessions.close(request.group_id, member_id)
        partitions.session_ended(request.group_id, member_id)
    lock_ms = partitions.settings(request.group_id).lock_duration_ms
    return ShareAcknowledgeResponse(acquisition_lock_timeout_ms=lock_ms, responses=responses)


def _once(partitions: list[AcknowledgePartition]) -> Iterable[AcknowledgePartition]:
    """A partition that is named again counts as it is named last."""
    return {each.partition_index: each for each in partitions}.values()


async def _side_by_side(answers: list[Coroutine[Any, Any, PartitionData]]) -> list[PartitionData]:
    """Each may wait for a coordinator on another broker, and for its replicas."""
    return [await answers[0]] if len(answers) == 1 else await asyncio.gather(*answers)


async def _acknowledge(
    context: RequestContext,
    request: ShareAcknowledgeRequest,
    topic_id: Uuid,
    asked: AcknowledgePartition,
    node: Shares,
) -> PartitionData:
    answer = PartitionData(partition_index=asked.partition_index)
    topic = node.image.topic_names.get(topic_id)
    try:
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        if not context.may(Operation.READ, Resource.topic(topic)):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        batches = [
            Acknowledgement(each.first_offset, each.last_offset, each.acknowledge_types)
            for each in asked.acknowledgement_batches
        ]
        key = ShareKey(request.group_id or "", topic_id, asked.partition_index)
        await acknowledge(node, key, request.member_id or "", batches, renews=request.is_renew_ack)
    except Exception as fault:
        error = item_error(fault, "an acknowledgement")
        answer.error_code, answer.error_message = error.code, error.message or None
        if error.code in ELSEWHERE and topic is not None:
            leader_id, leader_epoch = current_leader(node.image, topic, asked.partition_index)
            answer.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
    return answer
