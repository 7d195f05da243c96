"""Batches of the metadata log and of snapshot files: the quorum's control records, and framed metadata records."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from barnabas.core.metadata.records import MetadataError, UnsupportedMetadata, decode_record, encode_record
from barnabas.wire import batch as wire
from barnabas.wire.codec import DecodeError
from barnabas.wire.errors import KafkaError
from barnabas.wire.records import raft
from barnabas.wire.schema import Buffer, Record

CONTROL_TYPES: Mapping[int, type[Record]] = {
    2: raft.LeaderChangeMessage,
    3: raft.SnapshotHeaderRecord,
    4: raft.SnapshotFooterRecord,
    5: raft.KRaftVersionRecord,
    6: raft.VotersRecord,
}
_CONTROL_CODES = {record_type: code for code, record_type in CONTROL_TYPES.items()}
_CONTROL_KEY = struct.Struct(">hh")
_CONTROL_VALUE_VERSION = struct.Struct(">h")


@dataclass(frozen=True, slots=True)
class Batch:
    base_offset: int
    last_offset: int
    epoch: int
    timestamp_ms: int
    is_control: bool
    records: list[Record]


def build_control_batch(records: Sequence[Record], *, base_offset: int, epoch: int, now_ms: int) -> bytes:
    """All control records are written in version 0, as Kafka writes them for a quorum that its own format made."""
    framed = [
        wire.Record(
            base_offset + index, now_ms, _CONTROL_KEY.pack(0, _CONTROL_CODES[type(record)]), bytes(record.encode(0))
        )
        for index, record in enumerate(records)
    ]
    return bytes(wire.build_batch(framed, base_offset=base_offset, leader_epoch=epoch, control=True))


def build_batch(records: Sequence[Record], level: int, *, base_offset: int, epoch: int, now_ms: int) -> bytes:
    return frame_batch(encode_records(records, level), base_offset=base_offset, epoch=epoch, now_ms=now_ms)


def encode_records(records: Sequence[Record], level: int) -> list[bytes]:
    return [encode_record(record, level) for record in records]


def frame_batch(encoded: Sequence[bytes], *, base_offset: int, epoch: int, now_ms: int) -> bytes:
    framed = [wire.Record(base_offset + index, now_ms, None, value) for index, value in enumerate(encoded)]
    return bytes(wire.build_batch(framed, base_offset=base_offset, leader_epoch=epoch))


def read_batches(data: Buffer, position: int = 0) -> Iterator[tuple[int, Batch]]:
    """Each whole batch with the position behind it, up to the first bytes that are none (a torn or corrupt tail).

    A batch that is whole but holds what we do not know is an error: it must not be taken for a torn one.
    """
    while position < len(data):
        try:
            header = wire.validate(data, position)
        except KafkaError:
            return
        yield position + header.size, _decode(data, position, header)
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


def _decode(data: Buffer, position: int, header: wire.BatchHeader) -> Batch:
    try:
        framed = wire.decode_records(data, position)
    except KafkaError as error:
        raise MetadataError(f"the batch at offset {header.base_offset} cannot be read: {error.message}") from error
    try:
        records = [_control(each) if header.is_control else decode_record(each.value) for each in framed]
    except UnsupportedMetadata as error:
        raise UnsupportedMetadata(f"{error} (at offset {header.base_offset})") from error
    return Batch(
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        epoch=header.leader_epoch,
        timestamp_ms=header.max_timestamp,
        is_control=header.is_control,
        records=records,
    )


def _control(framed: wire.Record) -> Record:
    try:
        _, code = _CONTROL_KEY.unpack(framed.key or b"")
        (version,) = _CONTROL_VALUE_VERSION.unpack_from(framed.value or b"")
        return CONTROL_TYPES[code].decode(framed.value or b"", version)
    except (struct.error, DecodeError, KeyError) as error:
        raise UnsupportedMetadata(f"a control record is unknown: {error}") from error
