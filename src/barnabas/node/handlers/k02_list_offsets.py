"""ListOffsets, versions 1 to 11: the offset of a partition's beginning, end, greatest time, or of a time.

2 brought the isolation level, 4 leader epochs, 5 OFFSET_NOT_AVAILABLE, 6 compact encoding, 7 the greatest time (-3), 8
the earliest local offset (-4), 9 the latest tiered one (-5), 10 a time limit, 11 the earliest not yet uploaded (-6).

The replica id -2 is that of a tool that looks for faults: a follower answers it as well, from its own log.

There is no remote storage: the earliest local offset is the earliest, and nothing is tiered or to be uploaded.
Deviations from Kafka: none.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from barnabas.core.security.model import Operation, Resource
from barnabas.node.broker.partition import Partition
from barnabas.node.item_faults import item_error
from barnabas.node.requests import RequestContext
from barnabas.node.storage.directory.background import when_repaired
from barnabas.node.storage.segment.segment import TimestampOffset
from barnabas.node.storage.segment.segments import NotFoundYet
from barnabas.node.turns import in_turns, next_turn
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
    from barnabas.node.ports import Logs

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = range(-1, -7, -1)
SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
LEADER_EPOCH_SINCE = 4
NOT_AVAILABLE_SINCE = 5
CONSUMER_REPLICA_ID, DEBUGGING_REPLICA_ID = -1, -2
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
# A lookup by time reads from the disk: so many at most before others have their turn.
BATCHES_PER_TURN = 1_000


async def handle(context: RequestContext, request: ListOffsetsRequest, node: Logs) -> ListOffsetsResponse:
    if len(request.topics) == 1 and len(request.topics[0].partitions) == 1:
        (only,) = request.topics
        allowed = context.may_everything or context.may(Operation.DESCRIBE, Resource.topic(only.name))
        answer = await _answer(context, request, node, only.name, only.partitions[0], allowed=allowed)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=only.name, partitions=[answer])])
    asked: dict[tuple[str, int], int] = {}
    async for topic in in_turns(request.topics):
        async for each in in_turns(topic.partitions):
            at = (topic.name, each.partition_index)
            asked[at] = asked.get(at, 0) + 1
    topics: dict[str, dict[int, ListOffsetsPartitionResponse]] = {}
    async for topic in in_turns(request.topics):
        allowed = context.may(Operation.DESCRIBE, Resource.topic(topic.name))
        answers = topics.setdefault(topic.name, {})
        async for each in in_turns(topic.partitions):
            if allowed and asked[topic.name, each.partition_index] > 1:
                answer = _refuse(each, ErrorCode.INVALID_REQUEST)
            else:
                answer = await _answer(context, request, node, topic.name, each, allowed=allowed)
            answers[each.partition_index] = answer
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(name=name, partitions=list(answers.values()))
            async for name, answers in in_turns(topics.items())
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
    context: RequestContext,
    request: ListOffsetsRequest,
    node: Logs,
    topic: str,
    asked: ListOffsetsPartition,
    *,
    allowed: bool,
) -> ListOffsetsPartitionResponse:
    if not allowed:
        return _refuse(asked, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if asked.timestamp < 0 and context.api_version < SINCE.get(asked.timestamp, 1 << 15):
        return _refuse(asked, ErrorCode.UNSUPPORTED_VERSION)
    partition = node.partitions.get(topic, asked.partition_index)
    if partition is None:
        return _refuse(asked, node.partitions.missing_error(node.image, topic, asked.partition_index))
    try:
        require_available = partial(_require_available, partition, request.replica_id == DEBUGGING_REPLICA_ID)
        require_available(asked.current_leader_epoch)
        found = await _find(node, partition, asked.timestamp, _last_fetchable(partition, request), require_available)
    except Exception as error:
        code = item_error(error, f"{topic}-{asked.partition_index}").code
        if code is ErrorCode.OFFSET_NOT_AVAILABLE and context.api_version < NOT_AVAILABLE_SINCE:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        return _refuse(asked, code)
    if found is None:
        return _refuse(asked, ErrorCode.NONE)
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch if context.api_version >= LEADER_EPOCH_SINCE else -1,
    )


def _require_available(partition: Partition, may_follow: bool, current_leader_epoch: int = -1) -> None:
    if may_follow and partition.availability_error(current_leader_epoch) is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        return
    partition.require_available(current_leader_epoch)


def _refuse(asked: ListOffsetsPartition, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=error)


def _last_fetchable(partition: Partition, request: ListOffsetsRequest) -> int:
    if request.replica_id != CONSUMER_REPLICA_ID:
        return partition.log.log_end_offset
    if request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Unknown isolation level {request.isolation_level}")
    if not partition.knows_committed:
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, f"{partition.log.name} has a new leader.")
    return partition.readable_end(request.isolation_level == READ_COMMITTED)


async def _find(
    node: Logs, partition: Partition, timestamp: int, last_fetchable: int, require_available: Callable[[], None]
) -> TimestampOffset | None:
    if timestamp == LATEST:
        return TimestampOffset(-1, last_fetchable, partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return partition.log.earliest()
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return None
    if timestamp == MAX_TIMESTAMP:
        found = await _find_greatest(node, partition)
    else:
        found = await _find_time(node, partition, timestamp, require_available)
    return found if found is not None and found.offset < last_fetchable else None


async def _find_greatest(node: Logs, partition: Partition) -> TimestampOffset | None:
    batch = await when_repaired(partition.log.batch_of_max_timestamp)
    if batch is None:
        return None
    return await node.recompression.first_record(batch, read_header(batch).max_timestamp, 0)


async def _find_time(
    node: Logs, partition: Partition, timestamp: int, require_available: Callable[[], None]
) -> TimestampOffset | None:
    """Headers say which batch may have such a record, and need not tell the truth."""
    batch = await _batch_for_time(partition, timestamp, 0, require_available)
    while batch is not None:
        found = await node.recompression.first_record(batch, timestamp, partition.log.log_start_offset)
        if found is not None:
            return found
        await next_turn()
        require_available()
        batch = await _batch_for_time(partition, timestamp, read_header(batch).last_offset + 1, require_available)
    return None


async def _batch_for_time(
    partition: Partition, timestamp: int, offset: int, require_available: Callable[[], None]
) -> memoryview | None:
    while True:
        try:
            return await when_repaired(partial(partition.log.batch_for_timestamp, timestamp, offset, BATCHES_PER_TURN))
        except NotFoundYet as search:
            offset = search.offset
        await next_turn()
        require_available()
