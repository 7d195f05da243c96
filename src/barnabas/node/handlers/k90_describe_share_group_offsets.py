"""DescribeShareGroupOffsets, versions 0 and 1: where share groups begin in their partitions.

1 brought the lag. Deviations from Kafka: the lag is known for partitions that this node leads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.core.controller.topic_names import SHARE_GROUP_STATE_TOPIC
from barnabas.core.groups.share.group import ShareGroup
from barnabas.core.security.model import Operation, Resource
from barnabas.core.share.records import ShareKey
from barnabas.node.handlers.group_protocols import require_share_protocol
from barnabas.node.item_faults import item_error
from barnabas.node.requests import RequestContext
from barnabas.node.turns import in_turns
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)

if TYPE_CHECKING:
    from barnabas.node.ports import Shares

UNKNOWN = -1


async def handle(
    context: RequestContext, request: DescribeShareGroupOffsetsRequest, node: Shares
) -> DescribeShareGroupOffsetsResponse:
    groups = []
    async for asked in in_turns(request.groups):
        try:
            require_share_protocol(node)
            if not context.may(Operation.DESCRIBE, Resource.group(asked.group_id)):
                raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
            topics = [
                await _topic(context, asked.group_id, name, partitions, node)
                async for name, partitions in in_turns(_wanted(asked, node))
                if asked.topics is not None or context.may(Operation.DESCRIBE, Resource.topic(name))
            ]
            groups.append(DescribeShareGroupOffsetsResponseGroup(group_id=asked.group_id, topics=topics))
        except KafkaError as error:
            is_denied = error.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
            message = None if is_denied else error.message or error.code.name
            groups.append(
                DescribeShareGroupOffsetsResponseGroup(
                    group_id=asked.group_id, error_code=error.code, error_message=message
                )
            )
    return DescribeShareGroupOffsetsResponse(groups=groups)


def _wanted(asked: DescribeShareGroupOffsetsRequestGroup, node: Shares) -> list[tuple[str, Iterable[int]]]:
    group = node.groups.shard_for(asked.group_id).committed_group(asked.group_id)
    if asked.topics is not None:
        return [(topic.topic_name, topic.partitions) for topic in asked.topics]
    if not isinstance(group, ShareGroup):
        return []
    return [(name, sorted(partitions)) for name, partitions in group.states.initialized.values()]


async def _topic(
    context: RequestContext, group_id: str, name: str, partitions: Iterable[int], node: Shares
) -> DescribeShareGroupOffsetsResponseTopic:
    if not context.may(Operation.DESCRIBE, Resource.topic(name)):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        refused = [
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=index,
                start_offset=UNKNOWN,
                error_code=code,
                error_message="Topic authorization failed.",
            )
            async for index in in_turns(partitions)
        ]
        return DescribeShareGroupOffsetsResponseTopic(topic_name=name, partitions=refused)
    topic = node.image.topics.get(name)
    if topic is None:
        unknown = [
            DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=UNKNOWN)
            async for index in in_turns(partitions)
        ]
        return DescribeShareGroupOffsetsResponseTopic(topic_name=name, partitions=unknown)
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=name,
        topic_id=topic.topic_id,
        partitions=[
            await _partition(ShareKey(group_id, topic.topic_id, index), name, node)
            async for index in in_turns(partitions)
        ],
    )


async def _partition(key: ShareKey, topic: str, node: Shares) -> DescribeShareGroupOffsetsResponsePartition:
    if SHARE_GROUP_STATE_TOPIC not in node.image.topics:
        # No share group has begun anywhere yet.
        return DescribeShareGroupOffsetsResponsePartition(
            partition_index=key.partition, start_offset=UNKNOWN, lag=UNKNOWN
        )
    try:
        known = await node.persister.summary(key)
    except Exception as fault:
        error = item_error(fault, "the state of a share partition")
        return DescribeShareGroupOffsetsResponsePartition(
            partition_index=key.partition,
            start_offset=UNKNOWN,
            error_code=error.code,
            error_message=error.message or None,
        )
    lag = UNKNOWN
    partition = node.partitions.get(topic, key.partition)
    if known.start_offset >= 0 and known.delivery_complete_count >= 0 and partition is not None:
        lag = max(partition.high_watermark - known.start_offset - known.delivery_complete_count, 0)
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=key.partition, start_offset=known.start_offset, leader_epoch=known.leader_epoch, lag=lag
    )
