"""The frame of a metadata record: frame version, record type and record version as varints, then the fields."""

from __future__ import annotations

from functools import cache

from barnabas.wire.codec import DecodeError, put_uvarint, read_uvarint
from barnabas.wire.schema import Buffer, Record

FRAME_VERSION = 1


@cache
def metadata_record_types() -> dict[int, type[Record]]:
    from barnabas.wire.records import metadata

    return {
        item.api_key: item
        for item in vars(metadata).values()
        if isinstance(item, type) and issubclass(item, Record) and item.api_key >= 0
    }


def encode_metadata_record(record: Record, version: int) -> bytes:
    out = bytearray([FRAME_VERSION])
    put_uvarint(out, record.api_key)
    put_uvarint(out, version)
    record.encode_into(out, version)
    return bytes(out)


def decode_metadata_record(data: Buffer) -> tuple[Record, int]:
    try:
        frame_version, position = read_uvarint(data, 0)
        api_key, position = read_uvarint(data, position)
        version, position = read_uvarint(data, position)
    except IndexError as error:
        raise DecodeError("a metadata record ends within its frame") from error
    if frame_version != FRAME_VERSION:
        raise DecodeError(f"metadata frame version {frame_version} is unknown")
    record_type = metadata_record_types().get(api_key)
    if record_type is None:
        raise DecodeError(f"metadata record type {api_key} is unknown")
    record, position = record_type.decode_from(data, position, version)
    if position != len(data):
        raise DecodeError(f"{len(data) - position} bytes are left over after {record_type.__name__}")
    return record, version
