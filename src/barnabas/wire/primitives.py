"""What the compiled codecs are made of: their errors, variable-length numbers and the widths of plain types."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from barnabas.wire.schema import Buffer
from barnabas.wire.shapes import Kind

FORMATS = {
    Kind.BOOL: "?",
    Kind.INT8: "b",
    Kind.INT16: "h",
    Kind.UINT16: "H",
    Kind.INT32: "i",
    Kind.UINT32: "I",
    Kind.INT64: "q",
    Kind.FLOAT64: "d",
}
MAX_STRING_LENGTH = 0x7FFF
# Kafka's own messages have a handful. A count of one byte keeps a peer from sending millions of them to be skipped.
MAX_TAGGED_FIELDS = 0x7F
# Structs, strings, UUIDs, numbers in arrays and tagged fields in one request. Objects take many times the bytes of a
# frame: 100 MB of empty topics in a Produce request would be 8 GB.
MAX_REQUEST_ELEMENTS = 100_000
# Reading so many takes a fraction of a millisecond.
ELEMENTS_PER_STEP = 200
# Bytes are copied quickly: 4 KiB of them count as one element more.
BYTES_PER_ELEMENT_BITS = 12


class CodecError(Exception):
    """Root of what can go wrong between objects and bytes."""


class DecodeError(CodecError):
    """The peer's fault: these bytes are not that message."""


class TooManyElements(DecodeError):
    """The message has more elements than its reader takes."""


class EncodeError(CodecError):
    """Our own fault: this object cannot be said in that version."""


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Raises IndexError where the buffer ends. Unrolled, for it is on the way of every longer field."""
    value = buffer[position]
    if value < 0x80:
        return value, position + 1
    byte = buffer[position + 1]
    if byte < 0x80:
        return value & 0x7F | byte << 7, position + 2
    value = value & 0x7F | (byte & 0x7F) << 7
    byte = buffer[position + 2]
    if byte < 0x80:
        return value | byte << 14, position + 3
    value |= (byte & 0x7F) << 14
    byte = buffer[position + 3]
    if byte < 0x80:
        return value | byte << 21, position + 4
    value |= (byte & 0x7F) << 21
    byte = buffer[position + 4]
    if byte < 0x10:
        return value | byte << 28, position + 5
    raise DecodeError("a variable-length number has more than 32 bits")


def put_uvarint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


class LayoutsByCount(dict[int, Callable[..., Any]]):
    """A `struct` call for each number of elements after the same beginning, made when first needed.

    `compiled` picks the call: `Struct.pack` or `Struct.unpack_from`. The caller asks for small numbers only.
    """

    LIMIT = 32

    def __init__(self, beginning: str, element: str, compiled: Callable[[struct.Struct], Callable[..., Any]]) -> None:
        super().__init__()
        self._beginning = beginning
        self._element = element
        self._compiled = compiled

    def __missing__(self, count: int) -> Callable[..., Any]:
        layout = struct.Struct(f">{self._beginning}{count}{self._element}")
        self[count] = call = self._compiled(layout)
        return call
