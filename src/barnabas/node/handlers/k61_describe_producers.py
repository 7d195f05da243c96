"""DescribeProducers, version 0: the producers that replicas here remember, and the transactions they have open.

Deviations from Kafka: messages are in our own words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.controller.topic_names import name_error
from barnabas.core.security.model import Operation, Resource
from barnabas.node.item_faults import item_error
from barnabas.node.requests import RequestContext
from barnabas.node.turns import in_turns
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from barnabas.node.ports import Logs


async def handle(context: RequestContext, request: DescribeProducersRequest, node: Logs) -> DescribeProducersResponse:
    topics = []
    async for topic in in_turns(request.topics):
        error = _topic_error(context, node, topic.name)
        partitions = [
            _describe(node, topic.name, index) if error is None else _refuse(index, error.code, error.message)
            async for index in in_turns(topic.partition_indexes)
        ]
        topics.append(TopicResponse(name=topic.name, partitions=partitions))
    return DescribeProducersResponse(topics=topics)


def error_response(request: DescribeProducersRequest, error: KafkaError) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_refuse(index, error.code, error.message) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _topic_error(context: RequestContext, node: Logs, topic: str) -> KafkaError | None:
    if wrong := name_error(topic):
        return KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, wrong)
    if not context.may(Operation.READ, Resource.topic(topic)):
        return KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"{context.principal} may not read {topic}.")
    if topic not in node.image.topics:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {topic} here.")
    return None


def _refuse(index: int, error: ErrorCode, message: str | None = None) -> PartitionResponse:
    return PartitionResponse(partition_index=index, error_code=error, error_message=message or None)


def _describe(node: Logs, topic: str, index: int) -> PartitionResponse:
    partition = node.partitions.get(topic, index)
    if partition is None:
        return _refuse(index, node.partitions.missing_error(node.image, topic, index))
    if partition.log.offline:
        return _refuse(index, ErrorCode.KAFKA_STORAGE_ERROR)
    try:  # a follower answers too: an administrator names the broker whose memory is asked for
        producers = [ProducerState(**each._asdict()) for each in partition.log.active_producers()]
    except Exception as fault:
        return _refuse(index, item_error(fault, partition.log.name).code)
    return PartitionResponse(partition_index=index, active_producers=producers)
