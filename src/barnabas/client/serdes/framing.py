"""Where a record says which schema it has: before its bytes, or in a header.

In front: a zero byte and the schema's id of 4 bytes. In the header `__value_schema_id` (or `__key_schema_id`): a one
and the schema's guid of 16 bytes, which is the same in every registry. Protobuf has the path to the message behind it.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable
from typing import NamedTuple

from barnabas.client.serdes.errors import SerdeError

PREFIX = struct.Struct(">bI")
ID_MAGIC, GUID_MAGIC = 0, 1
GUID_END = 17
KEY_HEADER, VALUE_HEADER = "__key_schema_id", "__value_schema_id"
INDEXES_MAX = 100
FIRST_MESSAGE = b"\0"

Headers = Iterable[tuple[str, bytes | None]]


class Framed(NamedTuple):
    id: int | None
    guid: str | None
    data: bytes
    at: int  # where the rest of `data` begins: the path to a message or the record
    body: bytes | None  # the record, if `data` is a header


def id_prefix(schema_id: int) -> bytes:
    return PREFIX.pack(ID_MAGIC, schema_id)


def guid_mark(guid: str) -> bytes:
    return bytes((GUID_MAGIC,)) + uuid.UUID(guid).bytes


def header_name(is_key: bool) -> str:
    return KEY_HEADER if is_key else VALUE_HEADER


def read_frame(data: bytes, headers: Headers, *, is_key: bool) -> Framed:
    wanted = header_name(is_key)
    for name, mark in headers:
        if name == wanted and mark:
            return _framed(mark, data)
    return _framed(data, None)


def _framed(data: bytes, body: bytes | None) -> Framed:
    if len(data) >= PREFIX.size and data[0] == ID_MAGIC:
        return Framed(PREFIX.unpack_from(data)[1], None, data, PREFIX.size, body)
    if len(data) >= GUID_END and data[0] == GUID_MAGIC:
        return Framed(None, str(uuid.UUID(bytes=bytes(data[1:GUID_END]))), data, GUID_END, body)
    raise SerdeError("The bytes do not begin with the id of a schema: they were not written with a schema registry.")


def write_indexes(indexes: tuple[int, ...]) -> bytes:
    """The first message alone is written short."""
    if indexes == (0,):
        return FIRST_MESSAGE
    return b"".join(_varint(each) for each in (len(indexes), *indexes))


def read_indexes(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    if data[at : at + 1] == FIRST_MESSAGE:
        return (0,), at + 1
    count, at = _read_varint(data, at)
    if not 0 < count <= INDEXES_MAX:
        raise SerdeError("The path to a Protobuf message cannot be read.")
    indexes = []
    for _ in range(count):
        index, at = _read_varint(data, at)
        indexes.append(index)
    return tuple(indexes), at


def _varint(value: int) -> bytes:
    number, written = value << 1, bytearray()
    while number > 0x7F:
        written.append((number & 0x7F) | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while at < len(data) and shift < 35:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    raise SerdeError("The path to a Protobuf message cannot be read.")
