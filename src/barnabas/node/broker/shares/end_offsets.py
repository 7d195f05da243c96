"""Where partitions end, asked of their leaders: how far a share group lags behind is told by its coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

from barnabas.client.errors import ClientError
from barnabas.node.broker.leaders import current_leader
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from barnabas.node.ports import Shares

LATEST = -1
CONSUMER = -1
TIMEOUT_MS = 10_000

TopicPartition: TypeAlias = tuple[str, int]


async def end_offsets(node: Shares, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | ErrorCode]:
    """Of each partition its high watermark, or why it is not known."""
    found: dict[TopicPartition, int | ErrorCode] = {}
    elsewhere: dict[int, list[TopicPartition]] = {}
    for topic, index in partitions:
        partition = node.partitions.get(topic, index)
        if partition is not None and partition.is_leader:
            found[topic, index] = partition.high_watermark
            continue
        leader, _ = current_leader(node.image, topic, index)
        if leader in (-1, node.config.node_id):
            found[topic, index] = ErrorCode.LEADER_NOT_AVAILABLE
        else:
            elsewhere.setdefault(leader, []).append((topic, index))
    for answer in await asyncio.gather(*[_ask(node, leader, wanted) for leader, wanted in elsewhere.items()]):
        found |= answer
    return found


async def _ask(node: Shares, leader: int, wanted: list[TopicPartition]) -> dict[TopicPartition, int | ErrorCode]:
    topics: dict[str, ListOffsetsTopic] = {}
    for name, index in wanted:
        asked = ListOffsetsPartition(partition_index=index, timestamp=LATEST)
        topics.setdefault(name, ListOffsetsTopic(name=name)).partitions.append(asked)
    request = ListOffsetsRequest(replica_id=CONSUMER, topics=list(topics.values()), timeout_ms=TIMEOUT_MS)
    found: dict[TopicPartition, int | ErrorCode] = dict.fromkeys(wanted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    try:
        answer: ListOffsetsResponse = await node.peers.ask(leader, "share-lag", request, TIMEOUT_MS)
    except ClientError:
        return dict.fromkeys(wanted, ErrorCode.NETWORK_EXCEPTION)
    for topic in answer.topics:
        for each in topic.partitions:
            found[topic.name, each.partition_index] = ErrorCode(each.error_code) if each.error_code else each.offset
    return found
