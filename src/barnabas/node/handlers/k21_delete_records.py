"""DeleteRecords, versions 0 to 2: the log start moves forward; -1 moves it to the high watermark.

2 brought compact encoding.

Deviations from Kafka: the answer comes when the leader's log start has moved, with the leader's start as the low
watermark. Kafka answers when that of every live replica has, or `timeout_ms` is over: here followers hear of it with
their next fetch, and a follower that leads before it hears of it offers the records again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.controller.topic_names import INTERNAL_TOPICS
from barnabas.core.security.model import Operation, Resource
from barnabas.node.item_faults import item_error
from barnabas.node.requests import RequestContext
from barnabas.node.turns import in_turns
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from barnabas.node.ports import Logs

TO_HIGH_WATERMARK = -1
INVALID_LOW_WATERMARK = -1


async def handle(context: RequestContext, request: DeleteRecordsRequest, node: Logs) -> DeleteRecordsResponse:
    topics: dict[str, dict[int, DeleteRecordsPartitionResult]] = {}
    async for topic in in_turns(request.topics):
        results = topics.setdefault(topic.name, {})
        async for asked in in_turns(topic.partitions):
            try:
                low_watermark = _delete(context, node, topic.name, asked.partition_index, asked.offset)
                error = ErrorCode.NONE
            except Exception as fault:
                refusal = item_error(fault, f"{topic.name}-{asked.partition_index}")
                low_watermark, error = INVALID_LOW_WATERMARK, refusal.code
            results[asked.partition_index] = DeleteRecordsPartitionResult(
                partition_index=asked.partition_index, low_watermark=low_watermark, error_code=error
            )
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(name=name, partitions=list(results.values()))
            async for name, results in in_turns(topics.items())
        ]
    )


def error_response(request: DeleteRecordsRequest, error: KafkaError) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    DeleteRecordsPartitionResult(
                        partition_index=each.partition_index,
                        low_watermark=INVALID_LOW_WATERMARK,
                        error_code=error.code,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _delete(context: RequestContext, node: Logs, topic: str, index: int, offset: int) -> int:
    context.authorize(Operation.DELETE, Resource.topic(topic))
    partition = node.partitions.get(topic, index)
    if partition is None:
        raise KafkaError(node.partitions.missing_error(node.image, topic, index))
    if topic in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Records of {topic} are not deleted by clients.")
    partition.require_available()
    if "delete" not in partition.log.config.cleanup_policy:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"The cleanup.policy of {topic} does not delete records.")
    if offset == TO_HIGH_WATERMARK:
        offset = partition.high_watermark
    if not 0 <= offset <= partition.high_watermark:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{topic}-{index} has no committed offset {offset}.")
    if partition.log.advance_log_start_offset(offset):
        partition.log_start_moved()
    return partition.log.log_start_offset
