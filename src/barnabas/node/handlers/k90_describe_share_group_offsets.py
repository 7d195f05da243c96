"""DescribeShareGroupOffsets, versions 0 and 1: where share groups begin in their partitions.

1 brought the lag: the coordinator asks the leaders where their partitions end. Deviations from Kafka: none known.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from barnabas.core.controller.topic_names import SHARE_GROUP_STATE_TOPIC
from barnabas.core.groups.share.group import ShareGroup
from barnabas.core.security.model import Operation, Resource
from barnabas.core.share.records import ShareKey
from barnabas.node.broker.shares.end_offsets import end_offsets
from barnabas.node.broker.shares.persister import Known, ask_until_settled
from barnabas.node.handlers.group_protocols import require_share_protocol
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

log = logging.getLogger("barnabas.shares")

UNKNOWN = -1
AT_A_TIME = 50
PATIENCE_S = 3.0  # with coordinators of states that are about to change
NOTHING = Known(0, UNKNOWN)


async def handle(
    context: RequestContext, request: DescribeShareGroupOffsetsRequest, node: Shares
) -> DescribeShareGroupOffsetsResponse:
    groups = []
    until = asyncio.get_running_loop().time() + PATIENCE_S

    def has_time() -> bool:
        return asyncio.get_running_loop().time() < until

    async for asked in in_turns(request.groups):
        try:
            require_share_protocol(node)
            if not context.may(Operation.DESCRIBE, Resource.group(asked.group_id)):
                raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
            topics = [
                await _topic(context, asked.group_id, name, partitions, node, has_time)
                async for name, partitions in in_turns(_wanted(asked, node))
                if asked.topics is not None or context.may(Operation.DESCRIBE, Resource.topic(name))
            ]
            await _tell_lags(topics, node)
            groups.append(
                DescribeShareGroupOffsetsResponseGroup(group_id=asked.group_id, topics=[each for each, _ in topics])
            )
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


# A topic of the answer, and what is known of those of its partitions whose lag can be told.
Answered: TypeAlias = tuple[DescribeShareGroupOffsetsResponseTopic, dict[int, Known]]


async def _topic(
    context: RequestContext,
    group_id: str,
    name: str,
    partitions: Iterable[int],
    node: Shares,
    has_time: Callable[[], bool],
) -> Answered:
    answer = DescribeShareGroupOffsetsResponseTopic(topic_name=name)
    if not context.may(Operation.DESCRIBE, Resource.topic(name)):
        async for index in in_turns(partitions):
            answer.partitions.append(
                DescribeShareGroupOffsetsResponsePartition(
                    partition_index=index,
                    start_offset=UNKNOWN,
                    error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                    error_message="Topic authorization failed.",
                )
            )
        return answer, {}
    topic = node.image.topics.get(name)
    if topic is None:
        async for index in in_turns(partitions):
            answer.partitions.append(
                DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=UNKNOWN)
            )
        return answer, {}
    answer.topic_id = topic.topic_id
    lagging: dict[int, Known] = {}
    listed = list(partitions)
    for first in range(0, len(listed), AT_A_TIME):
        keys = [ShareKey(group_id, topic.topic_id, index) for index in listed[first : first + AT_A_TIME]]
        for key, known in zip(keys, await asyncio.gather(*[_known(key, node, has_time) for key in keys]), strict=True):
            answer.partitions.append(
                DescribeShareGroupOffsetsResponsePartition(
                    partition_index=key.partition,
                    start_offset=known.start_offset,
                    leader_epoch=known.leader_epoch,
                    lag=UNKNOWN,
                )
            )
            if known.start_offset != UNKNOWN and known.delivery_complete_count != UNKNOWN:
                lagging[key.partition] = known
    return answer, lagging


async def _known(key: ShareKey, node: Shares, has_time: Callable[[], bool]) -> Known:
    """As in Kafka, a state that cannot be read is no error: nothing is known of the partition."""
    if SHARE_GROUP_STATE_TOPIC not in node.image.topics:
        return NOTHING  # no share group has begun anywhere yet
    try:
        return await ask_until_settled(partial(node.persister.summary, key), has_time)
    except KafkaError as error:
        log.info("the state of share group %s in %s-%d was not read: %s", *key, error)
        return NOTHING


async def _tell_lags(topics: list[Answered], node: Shares) -> None:
    wanted = [(topic.topic_name, index) for topic, lagging in topics for index in lagging]
    ends = await end_offsets(node, wanted)
    for topic, lagging in topics:
        async for each in in_turns(topic.partitions):
            known = lagging.get(each.partition_index)
            if known is None:
                continue
            end_offset = ends[topic.topic_name, each.partition_index]
            if isinstance(end_offset, ErrorCode):
                each.error_code, each.error_message = end_offset, end_offset.name
                each.start_offset = each.leader_epoch = 0
            else:
                each.lag = max(end_offset - known.start_offset - known.delivery_complete_count, 0)
