"""A log's records and places, as tests ask for them: all at once, where the node takes turns."""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.segment.segment import TimestampOffset
from barnabas.node.storage.segment.segments import first_record
from barnabas.wire.batch import read_header

ITERATE_BYTES = 1024 * 1024


def iterate(log: PartitionLog, offset: int | None = None) -> Iterator[memoryview]:
    """Batch by batch from `offset` (or the start) to the end as it is now, read a megabyte at a time."""
    offset, end_offset = log.log_start_offset if offset is None else offset, log.log_end_offset
    while offset < end_offset:
        chunk = memoryview(log.read(offset, ITERATE_BYTES, upper_bound_offset=end_offset))
        if not chunk:
            return
        position = 0
        while position < len(chunk):
            header = read_header(chunk, position)
            yield chunk[position : position + header.size]
            position += header.size
            offset = header.last_offset + 1


def offset_for_timestamp(log: PartitionLog, timestamp: int) -> TimestampOffset | None:
    """The first record that is not earlier than `timestamp`."""
    from_offset = log.log_start_offset
    while (batch := log.batch_for_timestamp(timestamp, from_offset)) is not None:
        found = first_record(batch, timestamp, log.log_start_offset)
        if found is not None:
            return found
        from_offset = read_header(batch).last_offset + 1
    return None


def max_timestamp(log: PartitionLog) -> TimestampOffset | None:
    """The record with the greatest timestamp, None in an empty log."""
    batch = log.batch_of_max_timestamp()
    return None if batch is None else first_record(batch, read_header(batch).max_timestamp, 0)
