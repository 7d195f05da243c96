"""The records of a batch as a cleaner sees them: where each begins and ends, its key, and whether it has a value.

Records that stay are copied as they are: offsets are relative to the batch's base offset, which never changes. Only
when a batch is given its delete horizon its base timestamp makes room for it, and the records' timestamps, which are
relative to it, are written anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import NamedTuple

from barnabas.wire.batch import (
    COMPRESSION_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    LOG_APPEND_TIME_FLAG,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    append_varint,
    assemble,
    read_compiled,
    read_header,
    read_varint,
    uncompressed_records,
)
from barnabas.wire.compression import Buffer, compress
from barnabas.wire.errors import KafkaError
from barnabas.wire.record_layout import (
    NULL_LENGTH,
    PATIENCE,
    RECORDS_PER_RUN,
    Irregular,
    Layout,
    count_alike,
    read_layout,
)

# A record of a topic may be larger than anything we would take from a client today.
DECOMPRESSED_BYTES_MAX = 1 << 30
# The offset deltas that have a varint of one byte, and both bytes of those that have two.
ONLY = bytes(2 * delta for delta in range(64)).ljust(8192, b"\0")
LOW = bytes(2 * delta & 0x7F | 0x80 for delta in range(8192))
HIGH = bytes(2 * delta >> 7 for delta in range(8192))
KEPT_WHEN_EMPTY = LOG_APPEND_TIME_FLAG | TRANSACTIONAL_FLAG | CONTROL_FLAG


class Uncleanable(Exception):
    """The log holds something that cannot be cleaned; it is left as it is."""


# Where it begins and ends, its offset behind the base offset, its key, and whether it has a value. A bare tuple, since
# a cleaner makes one for every record there is.
Outline = tuple[int, int, int, bytes | None, bool]


def payload_of(buffer: Buffer, position: int, header: BatchHeader) -> bytes:
    return bytes(uncompressed_records(buffer, position, header, DECOMPRESSED_BYTES_MAX))


class Keys(NamedTuple):
    """Of the records of a batch that have one."""

    keys: list[bytes]
    offsets: list[int]
    tombstones: list[int]  # the offsets of those without a value


def keys_of(buffer: Buffer, position: int, start_offset: int) -> Keys:
    """The keys of a batch's records from an offset on."""
    header = read_header(buffer, position)
    payload = payload_of(buffer, position, header)
    try:
        found = keys_by_runs(payload, header)
    except Irregular:
        found = keys_one_by_one(payload, header)
    if header.base_offset >= start_offset:
        return found
    later = [at for at, offset in enumerate(found.offsets) if offset >= start_offset]
    return Keys(
        [found.keys[at] for at in later],
        [found.offsets[at] for at in later],
        [offset for offset in found.tombstones if offset >= start_offset],
    )


def keys_one_by_one(payload: bytes, header: BatchHeader) -> Keys:
    found = Keys([], [], [])
    try:
        for record in read_compiled(memoryview(payload), header):
            key, offset = record.key, record.offset
            if key is not None:
                found.keys.append(key)
                found.offsets.append(offset)
                if record.value is None:
                    found.tombstones.append(offset)
    except Exception as error:  # the reader raises several kinds of its own
        raise Uncleanable(f"records cannot be read: {error}") from error
    return found


def keys_by_runs(payload: bytes, header: BatchHeader) -> Keys:
    found = Keys([], [], [])
    base = header.base_offset
    for run in runs_of(payload, header.records_count):
        if run.keys is not None:
            offsets = [base + delta for delta in run.offset_deltas]
            found.keys.extend(run.keys)
            found.offsets.extend(offsets)
            if not run.have_values:
                found.tombstones.extend(offsets)
    return found


class Run(NamedTuple):
    """Records in a row that look alike (`wire/record_layout.py`): what they consist of lies in equal distances."""

    start: int
    end: int
    span: int  # bytes of each
    offset_deltas: Sequence[int]
    keys: list[bytes] | None
    have_values: bool


def runs_of(payload: bytes, count: int) -> Iterator[Run]:
    """Raises `Irregular` if the runs are too short to be worth it."""
    at, left, end = 0, count, len(payload)
    found = 0
    try:
        while left:
            if found == PATIENCE + (count - left) // RECORDS_PER_RUN:
                raise Irregular
            found += 1
            layout = read_layout(payload, at)
            span = layout.span
            alike = 1 if left == 1 else count_alike(payload, at, layout, min(left, (end - at) // span))
            run_end = at + alike * span
            length, key_at = read_varint(payload, at + layout.key_at)
            keys = None
            if length >= 0:
                keys = [payload[begin : begin + length] for begin in range(key_at, run_end, span)]
            have_values = payload[key_at + max(length, 0)] != NULL_LENGTH
            yield Run(at, run_end, span, offset_deltas(payload, at, run_end, layout), keys, have_values)
            at = run_end
            left -= alike
    except KafkaError as error:
        raise Uncleanable(f"records cannot be read: {error.message}") from error
    if at != end:
        raise Uncleanable(f"records of {at} bytes in a batch that has {end}")


def offset_deltas(payload: bytes, at: int, run_end: int, layout: Layout) -> Sequence[int]:
    """Of a run of records: varints of the same number of bytes, each byte in a column of its own."""
    columns = [payload[at + column : run_end : layout.span] for column in range(layout.offset_at, layout.key_at)]
    first, _ = read_varint(payload, at + layout.offset_at)
    behind = first + len(columns[0])
    if len(columns) <= 2 and first >= 0 and behind <= len(LOW):
        # One after the other, as in every batch that was not compacted.
        low, high = (ONLY, None) if len(columns) == 1 else (LOW, HIGH)
        if columns[0] == low[first:behind] and (high is None or columns[1] == high[first:behind]):
            return range(first, behind)
    return [read_varint(bytes(each), 0)[0] for each in zip(*columns, strict=True)]


def outline(payload: bytes, count: int) -> list[Outline]:
    """All records."""
    try:
        return outline_by_runs(payload, count)
    except Irregular:
        return outline_one_by_one(payload, count)


def outline_by_runs(payload: bytes, count: int) -> list[Outline]:
    found: list[Outline] = []
    for start, end, span, deltas, keys, have_values in runs_of(payload, count):
        starts, ends = range(start, end, span), range(start + span, end + span, span)
        found.extend(zip(starts, ends, deltas, repeat(None) if keys is None else keys, repeat(have_values)))
    return found


def outline_one_by_one(payload: bytes, count: int) -> list[Outline]:
    """Varints of one and two bytes, which nearly all are, are read in place."""
    found: list[Outline] = []
    add = found.append
    end = 0
    try:
        for _ in range(count):
            start = at = end
            byte = payload[at]
            if byte < 0x80:
                end = at + 1 + (byte >> 1)
                at += 2
            elif (second := payload[at + 1]) < 0x80:
                end = at + 2 + ((byte & 0x7F | second << 7) >> 1)
                at += 3
            else:
                length, at = read_varint(payload, at)
                end = at + length
                at += 1
            while payload[at] > 0x7F:  # the timestamp
                at += 1
            at += 1
            byte = payload[at]
            if byte < 0x80:
                offset_delta = byte >> 1
                at += 1
            else:
                offset_delta, at = read_varint(payload, at)
            byte = payload[at]
            if byte == 1:
                key = None
                at += 1
            else:
                if byte < 0x80:
                    length = byte >> 1
                    at += 1
                else:
                    length, at = read_varint(payload, at)
                key = payload[at : at + length]
                at += length
            if at >= end:
                raise ValueError(f"a record of {end - start} bytes whose key ends behind it")
            add((start, end, offset_delta, key, payload[at] != 1))
    except (IndexError, ValueError) as error:
        raise Uncleanable(f"records cannot be read: {error}") from error
    if end > len(payload):
        raise Uncleanable(f"records of {end} bytes in a batch that has {len(payload)}")
    return found


def rebuilt(header: BatchHeader, payload: bytes, kept: Sequence[Outline], horizon_ms: int | None) -> bytearray:
    """The batch with only these records, and with a delete horizon if one is given."""
    base_timestamp = header.base_timestamp
    if header.is_log_append_time:
        max_timestamp = header.max_timestamp
    else:
        max_timestamp = max(base_timestamp + timestamp_delta(payload, each)[0] for each in kept)
    if horizon_ms is None:
        records = b"".join([payload[start:end] for start, end, *_ in kept])
    else:
        records = b"".join([moved(payload, each, base_timestamp - horizon_ms) for each in kept])
        header = header._replace(base_timestamp=horizon_ms, attributes=header.attributes | DELETE_HORIZON_FLAG)
    header = header._replace(max_timestamp=max_timestamp, records_count=len(kept))
    return assemble(header, compress(records, header.compression) if header.compression else records)


def emptied(header: BatchHeader) -> bytearray:
    """A batch that tells of its producer's last sequence, or of the offset where the log goes on, and no more."""
    attributes = header.attributes & KEPT_WHEN_EMPTY & ~COMPRESSION_MASK
    return assemble(header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, records_count=0), b"")


def timestamp_delta(payload: bytes, record: Outline) -> tuple[int, int, int]:
    """Its value, and where it begins and ends."""
    _, at = read_varint(payload, record[0])
    start = at + 1
    delta, end = read_varint(payload, start)
    return delta, start, end


def moved(payload: bytes, record: Outline, by_ms: int) -> bytearray:
    """The record with its timestamp relative to another base."""
    delta, start, end = timestamp_delta(payload, record)
    body = bytearray(payload[start - 1 : start])
    append_varint(body, delta + by_ms)
    body += payload[end : record[1]]
    whole = bytearray()
    append_varint(whole, len(body))
    return whole + body
