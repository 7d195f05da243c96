"""The records of a batch as a cleaner sees them: where each begins and ends, its key, and whether it has a value.

Records that stay are copied as they are: offsets are relative to the batch's base offset, which never changes. Only
when a batch is given its delete horizon its base timestamp makes room for it, and the records' timestamps, which are
relative to it, are written anew.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    compiled_records,
    read_varint,
    uncompressed_records,
)
from barnabas.wire.compression import Buffer, compress
from barnabas.wire.errors import KafkaError

# A record of a topic may be larger than anything we would take from a client today.
DECOMPRESSED_BYTES_MAX = 1 << 30
KEPT_WHEN_EMPTY = LOG_APPEND_TIME_FLAG | TRANSACTIONAL_FLAG | CONTROL_FLAG


class Uncleanable(Exception):
    """The log holds something that cannot be cleaned; it is left as it is."""


# Where it begins and ends, its offset behind the base offset, its key, and whether it has a value. A bare tuple, since
# a cleaner makes one for every record there is.
Outline = tuple[int, int, int, bytes | None, bool]


def payload_of(buffer: Buffer, position: int, header: BatchHeader) -> bytes:
    return bytes(uncompressed_records(buffer, position, header, DECOMPRESSED_BYTES_MAX))


def keys_of(buffer: Buffer, position: int, start_offset: int) -> tuple[list[tuple[bytes, int]], list[int]]:
    """The keys and offsets of a batch's records from an offset on, and the offsets of those without a value."""
    pairs: list[tuple[bytes, int]] = []
    tombstones: list[int] = []
    try:
        for record in compiled_records(buffer, position, DECOMPRESSED_BYTES_MAX):
            key, offset = record.key, record.offset
            if key is not None and offset >= start_offset:
                pairs.append((key, offset))
                if record.value is None:
                    tombstones.append(offset)
    except KafkaError:
        raise
    except Exception as error:  # the reader raises several kinds of its own
        raise Uncleanable(f"records cannot be read: {error}") from error
    return pairs, tombstones


def outline(payload: bytes, count: int) -> list[Outline]:
    """All records; varints of one and two bytes, which nearly all are, are read in place."""
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
