"""DescribeProducers, version 0: the producers that partitions remember, with the transactions they have open.

Deviations from Kafka: messages are in our own words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.controller.topic_names import name_error
from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from barnabas.node.node import Node


async def handle(context: RequestContext, request: DescribeProducersRequest, node: Node) -> DescribeProducersResponse:
    topics = []
    for topic in request.topics:
        error = _topic_error(context, node, topic.name)
        partitions = [
            _describe(node, topic.name, index) if error is None else _refuse(index, error.code, error.message)
            for index in topic.partition_indexes
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


def _topic_error(context: RequestContext, node: Node, topic: str) -> KafkaError | None:
    if wrong := name_error(topic):
        return KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, wrong)
    if not context.may(Operation.READ, Resource.topic(topic)):
        return KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"{context.principal} may not read {topic}.")
    if topic not in node.image.topics:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {topic} here.")
    return None


def _refuse(index: int, error: ErrorCode, message: str | None = None) -> PartitionResponse:
    return PartitionResponse(partition_index=index, error_code=error, error_message=message or None)


def _describe(node: Node, topic: str, index: int) -> PartitionResponse:
    partition = node.partitions.get(topic, index)
    if partition is None:
        return _refuse(index, node.partitions.missing_error(node.image, topic, index))
    error = partition.availability_error()
    if error is not ErrorCode.NONE:
        return _refuse(index, error)
    return PartitionResponse(
        partition_index=index,
        active_producers=[ProducerState(**each._asdict()) for each in partition.log.active_producers()],
    )
