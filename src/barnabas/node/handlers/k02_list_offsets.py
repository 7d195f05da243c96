"""ListOffsets, versions 1 to 11: the offset of a partition's beginning, end, greatest time, or of a time.

2 brought the isolation level, 4 leader epochs, 5 OFFSET_NOT_AVAILABLE, 6 compact encoding, 7 the greatest time (-3), 8
the earliest local offset (-4), 9 the latest tiered one (-5), 10 a time limit, 11 the earliest not yet uploaded (-6).

There is no remote storage: the earliest local offset is the earliest, and nothing is tiered or to be uploaded.
Deviations from Kafka: none.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from barnabas.core.security.model import Operation, Resource
from barnabas.node.partition import Partition
from barnabas.node.requests import RequestContext
from barnabas.node.storage.background import when_mended
from barnabas.node.storage.segment import TimestampOffset
from barnabas.wire.batch import read_header
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from barnabas.node.node import Node

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = range(-1, -7, -1)
SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
LEADER_EPOCH_SINCE = 4
CONSUMER_REPLICA_ID = -1
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
# A lookup by time reads from the disk: so many at most before others have their turn.
LOOKUPS_PER_TURN = 16


async def handle(context: RequestContext, request: ListOffsetsRequest, node: Node) -> ListOffsetsResponse:
    asked = Counter((topic.name, each.partition_index) for topic in request.topics for each in topic.partitions)
    topics: dict[str, dict[int, ListOffsetsPartitionResponse]] = {}
    lookups = 0
    for topic in request.topics:
        allowed = context.may(Operation.DESCRIBE, Resource.topic(topic.name))
        answers = topics.setdefault(topic.name, {})
        for each in topic.partitions:
            if not allowed:
                answer = _refuse(each, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            elif asked[topic.name, each.partition_index] > 1:
                answer = _refuse(each, ErrorCode.INVALID_REQUEST)
            else:
                answer = await _answer(context, request, node, topic.name, each)
            answers[each.partition_index] = answer
            lookups += each.timestamp >= 0 or each.timestamp == MAX_TIMESTAMP
            if lookups > LOOKUPS_PER_TURN:
                lookups = 0
                await asyncio.sleep(0)
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(name=name, partitions=list(answers.values())) for name, answers in topics.items()
        ]
    )


def error_response(request: ListOffsetsRequest, error: KafkaError) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name, partitions=[_refuse(each, error.code) for each in topic.partitions]
            )
            for topic in request.topics
        ]
    )


async def _answer(
    context: RequestContext, request: ListOffsetsRequest, node: Node, topic: str, asked: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    if asked.timestamp < 0 and context.api_version < SINCE.get(asked.timestamp, 1 << 15):
        return _refuse(asked, ErrorCode.UNSUPPORTED_VERSION)
    partition = node.partitions.get(topic, asked.partition_index)
    if partition is None:
        return _refuse(asked, node.partitions.missing_error(node.image, topic, asked.partition_index))
    try:
        partition.require_available(asked.current_leader_epoch)
        found = await _find(node, partition, asked.timestamp, _last_fetchable(partition, request))
    except KafkaError as error:
        return _refuse(asked, error.code)
    if found is None:
        return _refuse(asked, ErrorCode.NONE)
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch if context.api_version >= LEADER_EPOCH_SINCE else -1,
    )


def _refuse(asked: ListOffsetsPartition, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=error)


def _last_fetchable(partition: Partition, request: ListOffsetsRequest) -> int:
    if request.replica_id != CONSUMER_REPLICA_ID:
        return partition.log.log_end_offset
    if request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Unknown isolation level {request.isolation_level}")
    return partition.readable_end(request.isolation_level == READ_COMMITTED)


async def _find(node: Node, partition: Partition, timestamp: int, last_fetchable: int) -> TimestampOffset | None:
    if timestamp == LATEST:
        return TimestampOffset(-1, last_fetchable, partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return partition.log.earliest()
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return None
    search = _find_greatest(node, partition) if timestamp == MAX_TIMESTAMP else _find_time(node, partition, timestamp)
    found = await search
    return found if found is not None and found.offset < last_fetchable else None


async def _find_greatest(node: Node, partition: Partition) -> TimestampOffset | None:
    batch = await when_mended(partition.log.batch_of_max_timestamp)
    if batch is None:
        return None
    return await node.recompression.first_record(batch, read_header(batch).max_timestamp, 0)


async def _find_time(node: Node, partition: Partition, timestamp: int) -> TimestampOffset | None:
    """Headers say which batch may have such a record, and need not tell the truth."""
    batch = await when_mended(lambda: partition.log.batch_for_timestamp(timestamp))
    while batch is not None:
        found = await node.recompression.first_record(batch, timestamp, partition.log.log_start_offset)
        if found is not None:
            return found
        await asyncio.sleep(0)
        partition.require_available()
        behind = read_header(batch).last_offset + 1
        batch = await when_mended(partial(partition.log.batch_for_timestamp, timestamp, behind))
    return None
