"""Record batches by hand, so that a test can make any part of one wrong."""

import struct
from collections.abc import Sequence

from barnabas.wire.checksum import crc32c

KeyAndValue = tuple[bytes | None, bytes | None]


def crafted_batch(
    records: Sequence[KeyAndValue] = ((b"k", b"v"),),
    *,
    base_offset: int = 0,
    length: int | None = None,
    leader_epoch: int = -1,
    magic: int = 2,
    crc: int | None = None,
    attributes: int = 0,
    last_offset_delta: int | None = None,
    base_timestamp: int = 1_700_000_000_000,
    max_timestamp: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    count: int | None = None,
    body: bytes | None = None,
) -> bytes:
    """A batch of magic 2 whose i-th record has offset delta and timestamp delta i; what is given replaces the truth.

    `body` replaces the records' bytes, for instance with compressed ones.
    """
    encoded = body if body is not None else b"".join(_record(i, *record) for i, record in enumerate(records))
    last = len(records) - 1 if last_offset_delta is None else last_offset_delta
    fields = (
        attributes,
        last,
        base_timestamp,
        base_timestamp + len(records) - 1 if max_timestamp is None else max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records) if count is None else count,
    )
    covered = struct.pack(">hiqqqhii", *fields) + encoded
    checksum = crc32c(covered) if crc is None else crc
    size = len(covered) + 9 if length is None else length
    return struct.pack(">qiibI", base_offset, size, leader_epoch, magic, checksum) + covered


def encoded_records(records: Sequence[KeyAndValue]) -> bytes:
    """The records as they stand in an uncompressed batch."""
    return b"".join(_record(i, *record) for i, record in enumerate(records))


def varint(value: int) -> bytes:
    folded = (value << 1) ^ (value >> 63)
    out = bytearray()
    while folded > 0x7F:
        out.append(folded & 0x7F | 0x80)
        folded >>= 7
    out.append(folded)
    return bytes(out)


def _record(delta: int, key: bytes | None, value: bytes | None) -> bytes:
    body = b"\0" + varint(delta) + varint(delta) + _bytes(key) + _bytes(value) + varint(0)
    return varint(len(body)) + body


def _bytes(value: bytes | None) -> bytes:
    return varint(-1) if value is None else varint(len(value)) + value
