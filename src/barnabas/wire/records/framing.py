"""The frame of a metadata record: frame version, record type and record version as varints, then the fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

from barnabas.wire.codec import DecodeError, put_uvarint, read_uvarint
from barnabas.wire.schema import Buffer, Record

FRAME_VERSION = 1
# Of every record that there is: its type and version are below 128.
FRAME_BYTES = 3


@cache
def metadata_record_types() -> dict[int, type[Record]]:
    from barnabas.wire.records import metadata

    return {
        item.api_key: item
        for item in vars(metadata).values()
        if isinstance(item, type) and issubclass(item, Record) and item.api_key >= 0
    }


def metadata_frames(record_type: type[Record]) -> list[bytes]:
    """What its records begin with, in each version."""
    low, high = record_type.valid_versions
    return [bytes([FRAME_VERSION, record_type.api_key, version]) for version in range(low, high + 1)]


def encode_metadata_record(record: Record, version: int) -> bytes:
    out = bytearray([FRAME_VERSION])
    put_uvarint(out, record.api_key)
    put_uvarint(out, version)
    record.encode_into(out, version)
    return bytes(out)


def _read_frame(data: Buffer) -> tuple[int, int, int]:
    """Type and version, and the position behind them."""
    try:
        frame_version, position = read_uvarint(data, 0)
        api_key, position = read_uvarint(data, position)
        version, position = read_uvarint(data, position)
    except IndexError as error:
        raise DecodeError("a metadata record ends within its frame") from error
    if frame_version != FRAME_VERSION:
        raise DecodeError(f"metadata frame version {frame_version} is unknown")
    return api_key, version, position


def decode_plain_metadata_records(values: Sequence[bytes]) -> list[Record]:
    """Of frames of three bytes, as all are. A start reads a million of them, so this is done in one loop."""
    records: list[Record] = []
    decoders = _decoders
    for value in values:
        decode = decoders.get(value[:FRAME_BYTES])
        if decode is None:
            record, version = decode_metadata_record(value)
            if value[0] == FRAME_VERSION and value[1] == record.api_key and value[2] == version:
                decoders[value[:FRAME_BYTES]] = type(record)._decoders[version]
        else:
            size = len(value)
            record, position = decode(value, FRAME_BYTES, size)
            if position != size:
                raise DecodeError(f"{size - position} bytes are left over after {type(record).__name__}")
        records.append(record)
    return records


# By the frame.
_decoders: dict[bytes, Callable[[Buffer, int, int], tuple[Record, int]]] = {}


def decode_metadata_record(data: Buffer) -> tuple[Record, int]:
    return decode_framed_record(data, metadata_record_types())


def decode_framed_record(data: Buffer, types: Mapping[int, type[Record]]) -> tuple[Record, int]:
    """Other logs have records in this frame too, of their own types."""
    if len(data) > 2 and data[0] == FRAME_VERSION and data[1] < 0x80 and data[2] < 0x80:
        api_key, version, position = data[1], data[2], 3  # as all that there are
    else:
        api_key, version, position = _read_frame(data)
    record_type = types.get(api_key)
    if record_type is None:
        raise DecodeError(f"metadata record type {api_key} is unknown")
    record, position = record_type.decode_from(data, position, version)
    if position != len(data):
        raise DecodeError(f"{len(data) - position} bytes are left over after {record_type.__name__}")
    return record, version
