"""Batches of the metadata log and of snapshot files: the quorum's control records, and framed metadata records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from barnabas.core.metadata.records import (
    MetadataError,
    UnsupportedMetadata,
    decode_plain_records,
    encode_record,
)
from barnabas.core.raft.records import InvalidBatch, decode_control_record
from barnabas.wire import batch as wire
from barnabas.wire.errors import KafkaError
from barnabas.wire.schema import Buffer, Record


@dataclass(frozen=True, slots=True)
class MetadataBatch:
    base_offset: int
    last_offset: int
    epoch: int
    timestamp_ms: int
    is_control: bool
    records: list[Record]
    size_bytes: int = 0


class EncodedBatch(NamedTuple):
    """A batch whose records are not decoded yet, unless they are the quorum's own."""

    header: wire.BatchHeader
    control_records: list[Record]
    values: list[bytes]


def build_batch(records: Sequence[Record], level: int, *, base_offset: int, epoch: int, now_ms: int) -> bytes:
    return frame_batch(encode_records(records, level), base_offset=base_offset, epoch=epoch, now_ms=now_ms)


def encode_records(records: Sequence[Record], level: int) -> list[bytes]:
    return [encode_record(record, level) for record in records]


def frame_batch(encoded: Sequence[bytes], *, base_offset: int, epoch: int, now_ms: int) -> bytes:
    framed = [wire.Record(base_offset + index, now_ms, None, value) for index, value in enumerate(encoded)]
    return bytes(wire.build_batch(framed, base_offset=base_offset, leader_epoch=epoch))


def read_batches(data: Buffer, position: int = 0) -> Iterator[tuple[int, MetadataBatch]]:
    """Each whole batch with the position behind it, up to the first bytes that are none (a torn or corrupt tail).

    A batch that is whole but holds what we do not know is an error: it must not be taken for a torn one.
    """
    for end, batch in read_encoded_batches(data, position):
        yield end, _decode(batch)


def read_encoded_batches(data: Buffer, position: int = 0) -> Iterator[tuple[int, EncodedBatch]]:
    """The same, for whoever decodes the records by himself."""
    while position < len(data):
        try:
            header = wire.validate(data, position)
        except KafkaError:
            return
        yield position + header.size, _open(data, position, header)
        position += header.size


def find_batch(data: Buffer, position: int, from_offset: int) -> tuple[int, int] | None:
    """Position and offset of the first whole batch behind `position` whose offset is not below `from_offset`."""
    view = memoryview(data)
    searched = bytes(view[position:])
    # No offset can lie further ahead than there are bytes.
    highest = from_offset + len(searched)
    at = searched.find(bytes([wire.MAGIC]), wire.MAGIC_OFFSET)
    while at >= 0:
        start = at - wire.MAGIC_OFFSET
        offset, _ = wire.SPAN.unpack_from(searched, start)
        if from_offset <= offset <= highest:
            try:
                wire.validate(searched, start)
                return position + start, offset
            except KafkaError:
                pass
        at = searched.find(bytes([wire.MAGIC]), at + 1)
    return None


def _open(data: Buffer, position: int, header: wire.BatchHeader) -> EncodedBatch:
    try:
        if not header.is_control and (plain := _plain_values(data, position, header)) is not None:
            return EncodedBatch(header, [], plain)
        framed = wire.decode_records(data, position)
    except KafkaError as error:
        raise MetadataError(f"the batch at offset {header.base_offset} cannot be read: {error.message}") from error
    with naming_offset(header.base_offset):
        if header.is_control:
            return EncodedBatch(header, [_control(each) for each in framed], [])
    values = [each.value for each in framed if each.value is not None]
    if len(values) < len(framed):
        raise MetadataError("a record of the metadata log has no value")
    return EncodedBatch(header, [], values)


@contextmanager
def naming_offset(base_offset: int) -> Iterator[None]:
    """What is not supported is told with the offset of its batch."""
    try:
        yield
    except UnsupportedMetadata as error:
        raise UnsupportedMetadata(f"{error} (at offset {base_offset})") from error


def _decode(batch: EncodedBatch) -> MetadataBatch:
    header = batch.header
    with naming_offset(header.base_offset):
        records = batch.control_records if header.is_control else decode_plain_records(batch.values)
    return MetadataBatch(
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        epoch=header.leader_epoch,
        timestamp_ms=header.max_timestamp,
        is_control=header.is_control,
        records=records,
        size_bytes=header.size,
    )


def _plain_values(data: Buffer, position: int, header: wire.BatchHeader) -> list[bytes] | None:
    """The values of records as the quorum writes them: no key, no header, the batch's own time, shorter than 8 KB.

    None if any is different; then they are read one field at a time. A start reads all of the log, so this is done in
    one loop.
    """
    if header.attributes & wire.COMPRESSION_MASK:
        return None
    records = bytes(memoryview(data)[position + wire.RECORDS_OFFSET : position + header.size])
    values = []
    at = 0
    try:
        for _ in range(header.records_count):
            length = records[at]
            at += 1
            if length >= 0x80:
                length += (records[at] - 1) << 7
                if records[at] >= 0x80:
                    return None
                at += 1
            end = at + (length >> 1)
            if length & 1 or records[at + 1]:
                return None
            at += 2
            while records[at] >= 0x80:
                at += 1
            if records[at + 1] != 1:
                return None
            length = records[at + 2]
            at += 3
            if length >= 0x80:
                length += (records[at] - 1) << 7
                if records[at] >= 0x80:
                    return None
                at += 1
            value_end = at + (length >> 1)
            if length & 1 or records[value_end] or value_end + 1 != end:
                return None
            values.append(records[at:value_end])
            at = end
    except IndexError:
        return None
    return values


def _control(framed: wire.Record) -> Record:
    try:
        return decode_control_record(framed)
    except InvalidBatch as error:
        raise UnsupportedMetadata(str(error)) from error
