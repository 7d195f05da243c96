"""OffsetForLeaderEpoch, versions 2 to 4: where a leader epoch ended in this log, so that divergence is found.

3 brought the replica id, 4 compact encoding. Deviations from Kafka: none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.security.model import Operation, Resource
from barnabas.node.item_faults import item_error
from barnabas.node.requests import RequestContext
from barnabas.node.turns import in_turns
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from barnabas.node.ports import Logs


async def handle(
    context: RequestContext, request: OffsetForLeaderEpochRequest, node: Logs
) -> OffsetForLeaderEpochResponse:
    is_broker = context.may(Operation.CLUSTER_ACTION, Resource.cluster())
    topics: dict[str, list[EpochEndOffset]] = {}
    async for topic in in_turns(request.topics):
        allowed = is_broker or context.may(Operation.DESCRIBE, Resource.topic(topic.topic))
        topics.setdefault(topic.topic, []).extend(
            [
                _end_offset(node, topic.topic, asked)
                if allowed
                else EpochEndOffset(partition=asked.partition, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                async for asked in in_turns(topic.partitions)
            ]
        )
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(topic=name, partitions=results)
            async for name, results in in_turns(topics.items())
        ]
    )


def error_response(request: OffsetForLeaderEpochRequest, error: KafkaError) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    EpochEndOffset(partition=asked.partition, error_code=error.code) for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _end_offset(node: Logs, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    partition = node.partitions.get(topic, asked.partition)
    if partition is None:
        error = node.partitions.missing_error(node.image, topic, asked.partition)
    else:
        error = partition.availability_error(asked.current_leader_epoch)
    if partition is None or error is not ErrorCode.NONE:
        return EpochEndOffset(partition=asked.partition, error_code=error)
    try:
        epoch, end_offset = partition.log.end_offset_for_epoch(asked.leader_epoch)
    except Exception as fault:
        error = item_error(fault, partition.log.name).code
        return EpochEndOffset(partition=asked.partition, error_code=error)
    return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end_offset)
