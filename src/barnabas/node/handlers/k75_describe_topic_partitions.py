"""DescribeTopicPartitions, version 0: topics in the order of their names, page by page.

A page holds at most as many partitions as asked for and as `max.request.partition.size.limit` allows; the cursor says
where the next one begins. No topics named means all of them.

Deviations from Kafka: an empty topic name is INVALID_TOPIC_EXCEPTION instead of UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.controller.topic_names import INTERNAL_TOPICS, name_error
from barnabas.core.controller.view import ImageView
from barnabas.core.metadata.state import MetadataImage, PartitionState
from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.node.turns import in_turns
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from barnabas.node.ports import Metadata


async def handle(
    context: RequestContext, request: DescribeTopicPartitionsRequest, node: Metadata
) -> DescribeTopicPartitionsResponse:
    limit = node.config.max_request_partition_size_limit
    page = _Page(context, request, node.image, max(min(request.response_partition_limit, limit), 1))
    async for name in in_turns(_names(request, node)):
        if not context.may(Operation.DESCRIBE, Resource.topic(name)):
            page.hide(name)
        elif not page.add(name):
            break
    page.response.topics += page.hidden
    return page.response


def error_response(request: DescribeTopicPartitionsRequest, error: KafkaError) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=error.code, name=topic.name) for topic in request.topics
        ]
    )


def _names(request: DescribeTopicPartitionsRequest, node: Metadata) -> list[str]:
    """From the cursor on."""
    names = {topic.name for topic in request.topics} if request.topics else set(node.image.topics)
    cursor = request.cursor
    if cursor is None:
        return sorted(names)
    if cursor.partition_index < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"The cursor's partition {cursor.partition_index} is negative.")
    if request.topics and cursor.topic_name not in names:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"The cursor's topic '{cursor.topic_name}' was not asked for.")
    return sorted(name for name in names if name >= cursor.topic_name)


class _Page:
    """What is answered, as far as there is room."""

    def __init__(
        self, context: RequestContext, request: DescribeTopicPartitionsRequest, image: MetadataImage, room: int
    ) -> None:
        self.context = context
        self.request = request
        self.image = image
        self.view = ImageView(image, context.listener)
        self.room = room
        self.response = DescribeTopicPartitionsResponse()
        self.hidden: list[DescribeTopicPartitionsResponseTopic] = []

    def hide(self, name: str) -> None:
        if self.request.topics:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            self.hidden.append(DescribeTopicPartitionsResponseTopic(error_code=code, name=name))

    def add(self, name: str) -> bool:
        """False once the page is full."""
        if self.room == 0:
            self.response.next_cursor = Cursor(topic_name=name, partition_index=0)
            return False
        described = DescribeTopicPartitionsResponseTopic(name=name, is_internal=name in INTERNAL_TOPICS)
        described.topic_authorized_operations = self.context.authorized_operations(Resource.topic(name))
        self.response.topics.append(described)
        topic = self.image.topics.get(name)
        if topic is None:
            legal = name_error(name) is None
            described.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if legal else ErrorCode.INVALID_TOPIC_EXCEPTION
            return True
        described.topic_id = topic.topic_id
        cursor = self.request.cursor
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        indexes = sorted(topic.partitions)[first : first + self.room]
        described.partitions = [_partition(self.view, topic.partitions[index]) for index in indexes]
        self.room -= len(indexes)
        if first + len(indexes) >= len(topic.partitions):
            return True
        self.response.next_cursor = Cursor(topic_name=name, partition_index=first + len(indexes))
        return False


def _partition(view: ImageView, partition: PartitionState) -> DescribeTopicPartitionsResponsePartition:
    seen = view.partition(partition)
    return DescribeTopicPartitionsResponsePartition(
        partition_index=partition.index,
        leader_id=seen.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        eligible_leader_replicas=partition.eligible_leader_replicas,
        last_known_elr=partition.last_known_elr,
        offline_replicas=seen.offline_replicas,
    )
