"""What an append has done, and the batches of one that no client sent, with their offsets: a coordinator's own, or a
leader's."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.node.storage.producer_state import ProducerState
from barnabas.node.storage.recovery import recovery
from barnabas.node.storage.segment.segment import Placed
from barnabas.wire.batch import CONTROL_FLAG, BatchHeader, iterate_batches, set_timestamp, validate
from barnabas.wire.compression import Buffer
from barnabas.wire.errors import ErrorCode, KafkaError


class Appended(NamedTuple):
    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    size: int
    duplicate: bool = False
    flush_due: bool = False  # `flush.messages` asks for a sync before the answer


def with_append_time(view: memoryview, now_ms: int) -> memoryview:
    """The batches with the time of the append in their headers: written into the buffer, or into a copy of it."""
    if view.readonly:
        view = memoryview(bytearray(view))
    for position, _ in iterate_batches(view):
        set_timestamp(view, position, max_timestamp=now_ms, log_append_time=True)
    return view


def placed_at(offset: int, leader_epoch: int, header: BatchHeader) -> BatchHeader:
    """The header with the offset and the epoch that a leader gives; `_replace` takes five times as long."""
    return tuple.__new__(BatchHeader, (offset, header[1], leader_epoch, *header[3:]))


def place_own(view: memoryview, offset: int, leader_epoch: int, producers: ProducerState) -> Placed:
    """One after the other from `offset` on, each checked against what its producer wrote before."""
    placed: Placed = []
    position = 0
    while position < len(view):
        header = placed_at(offset, leader_epoch, validate(view, position))
        if header.producer_id >= 0:
            producers.check(header, offset, sequences=False)
            if header.attributes & CONTROL_FLAG:
                producers.check_coordinator(header, view, position)
        placed.append((position, header))
        position += header.size
        offset = header.last_offset + 1
    return placed


def begins_before(batches: Buffer, log_start_offset: int, log_end_offset: int) -> int | None:
    """Where the first of these batches begins if the end of an empty log lies within it.

    Records may be deleted up to the middle of a batch. A replica that is to start there gets the batch whole.
    """
    if log_start_offset != log_end_offset:
        return None
    for _, header in iterate_batches(memoryview(batches)):
        return header.base_offset if header.base_offset < log_end_offset <= header.last_offset else None
    return None


def place_replicated(view: memoryview, log_end_offset: int, topic_partition: str) -> tuple[Placed, int]:
    """A leader's batches with the offsets they have, and where the last whole one ends."""
    placed: Placed = []
    end, expected = 0, log_end_offset
    for position, header in iterate_batches(view):
        recovery.ensure_valid(view, position, header)
        if header.base_offset < expected:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"Unexpected offset in append to {topic_partition}: {header.base_offset} is less than {expected}",
            )
        placed.append((position, header))
        end, expected = position + header.size, header.last_offset + 1
    return placed, end
