"""The answer to a Produce in which everything was appended, packed by hand; one with errors is left to the codec.

From version 5 on a partition has its log start offset, from 8 on (empty) record errors and (no) error message; from 9
on lengths are variable and tagged fields follow, and from 13 on a topic is named by its id.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from barnabas.node.turns import in_turns
from barnabas.wire.codec import put_uvarint
from barnabas.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from barnabas.wire.schema import Response
from barnabas.wire.uuids import Uuid

UNKNOWN_OFFSET = -1
NO_TIME = -1

# index, error, base offset, log append time, [log start offset,] [no record errors, no error message]
_V3 = struct.Struct(">ihqq").pack
_V5 = struct.Struct(">ihqqq").pack
_V8 = struct.Struct(">ihqqqih").pack
_V9 = struct.Struct(">ihqqqBBB").pack
_int16 = struct.Struct(">h").pack
_int32 = struct.Struct(">i").pack
_throttle_time_and_no_tags = struct.Struct(">iB").pack
# A partition of version 9 as above, and what follows the only one.
_V9_ONLY = struct.Struct(">ihqqqBBBBiB").pack
_ONE = 2  # as a compact array counts
_SHORT_BYTES = 126  # a compact string of so many has one byte of length


class PartitionResult(NamedTuple):
    partition: int
    error_code: int = 0
    base_offset: int = UNKNOWN_OFFSET
    log_append_time_ms: int = NO_TIME
    log_start_offset: int = UNKNOWN_OFFSET
    record_errors: Sequence[tuple[int, str]] = ()
    error_message: str | None = None
    current_leader: tuple[int, int] | None = None


TopicResults: TypeAlias = list[tuple[str | Uuid, list[PartitionResult]]]


class AppendedResponse(Response):
    """Packs itself behind the header of the answer."""

    def __init__(self, topics: TopicResults) -> None:
        self.topics = topics
        self.throttle_time_ms = 0

    def encode_into(self, out: bytearray, version: int) -> None:
        if version < 9:
            _pack_plain(out, version, self.topics)
            out += _int32(self.throttle_time_ms)
        elif len(self.topics) == 1 and len(self.topics[0][1]) == 1:
            _pack_only(out, version, *self.topics[0], self.throttle_time_ms)
        else:
            _pack_compact(out, version, self.topics)
            out += _throttle_time_and_no_tags(self.throttle_time_ms, 0)


def _pack_only(
    out: bytearray, version: int, topic: str | Uuid, results: list[PartitionResult], throttle_time_ms: int
) -> None:
    """As `_pack_compact`, for one partition: most clients are answered so."""
    out.append(_ONE)
    if version >= 13:
        out += topic  # type: ignore[arg-type]
    else:
        name = topic.encode()  # type: ignore[union-attr]
        if len(name) <= _SHORT_BYTES:
            out.append(len(name) + 1)
        else:
            put_uvarint(out, len(name) + 1)
        out += name
    out.append(_ONE)
    out += _V9_ONLY(*results[0][:5], 1, 0, 0, 0, throttle_time_ms, 0)


def _pack_compact(out: bytearray, version: int, topics: TopicResults) -> None:
    put_uvarint(out, len(topics) + 1)
    for topic, results in topics:
        if version >= 13:
            out += topic  # type: ignore[arg-type]
        else:
            name = topic.encode()  # type: ignore[union-attr]
            put_uvarint(out, len(name) + 1)
            out += name
        put_uvarint(out, len(results) + 1)
        for result in results:
            out += _V9(*result[:5], 1, 0, 0)
        out.append(0)


def _pack_plain(out: bytearray, version: int, topics: TopicResults) -> None:
    out += _int32(len(topics))
    for topic, results in topics:
        name = topic.encode()  # type: ignore[union-attr]
        out += _int16(len(name))
        out += name
        out += _int32(len(results))
        for result in results:
            if version >= 8:
                out += _V8(*result[:5], 0, -1)
            elif version >= 5:
                out += _V5(*result[:5])
            else:
                out += _V3(*result[:4])


async def declare(topics: TopicResults) -> ProduceResponse:
    responses = []
    async for topic, results in in_turns(topics):
        partitions = [declare_partition(result) async for result in in_turns(results)]
        if isinstance(topic, Uuid):
            responses.append(TopicProduceResponse(topic_id=topic, partition_responses=partitions))
        else:
            responses.append(TopicProduceResponse(name=topic, partition_responses=partitions))
    return ProduceResponse(responses=responses)


def declare_partition(result: PartitionResult) -> PartitionProduceResponse:
    response = PartitionProduceResponse(
        index=result.partition,
        error_code=result.error_code,
        base_offset=result.base_offset,
        log_append_time_ms=result.log_append_time_ms,
        log_start_offset=result.log_start_offset,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
            for index, message in result.record_errors
        ],
        error_message=result.error_message,
    )
    if result.current_leader is not None:
        leader, epoch = result.current_leader
        response.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
    return response
