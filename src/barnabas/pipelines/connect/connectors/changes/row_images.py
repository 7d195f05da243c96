"""Row images of the binlog, decoded with what a table's columns are found out once.

The library that reads the binlog asks for each value of each row what its column is. Here numbers, texts and bytes have
a decoder each; a value of another type is left to the library, at the same place of the packet.
"""

from __future__ import annotations

import codecs
import struct
from collections.abc import Callable, Iterator
from typing import Any

from pymysql.charset import charset_by_name
from pymysqlreplication.constants import FIELD_TYPE

Decode = Callable[[bytes, int], tuple[Any, int]]  # the packet and a place in it: the value, and the place behind it
Row = dict[str, Any]
NUMBERS = {
    FIELD_TYPE.TINY: ("<b", "<B"),
    FIELD_TYPE.SHORT: ("<h", "<H"),
    FIELD_TYPE.LONG: ("<i", "<I"),
    FIELD_TYPE.LONGLONG: ("<q", "<Q"),
    FIELD_TYPE.FLOAT: ("<f", "<f"),
    FIELD_TYPE.DOUBLE: ("<d", "<d"),
}
WIDE = 255  # the length of a text of more bytes takes two


def row_images(event: Any, images: int) -> Iterator[tuple[Row, ...]]:
    """Of each changed row: its values, or those before and after, as `images` says."""
    columns, packet = event.columns, event.packet.packet
    names = [column.name for column in columns]
    if not all(names) or not is_full(event, len(columns)):
        yield from given_by_library(event)
        return
    decoders = [decoder_of(event, number) for number in range(len(columns))]
    listed = list(enumerate(zip(names, decoders, strict=True)))
    data, at = packet._data, packet._position
    end = at + event.event_size - event.packet.read_bytes
    bitmap_bytes = (len(columns) + 7) // 8
    while at < end:
        found = []
        for _ in range(images):
            nulls = int.from_bytes(data[at : at + bitmap_bytes], "little")
            at += bitmap_bytes
            row: Row = {}
            for number, (name, decode) in listed:
                if nulls and nulls >> number & 1:
                    row[name] = None
                else:
                    row[name], at = decode(data, at)
            found.append(row)
        yield tuple(found)


def is_full(event: Any, columns: int) -> bool:
    every = (1 << columns) - 1
    bitmaps = [event.columns_present_bitmap, getattr(event, "columns_present_bitmap2", None)]
    return event.complete and all(
        int.from_bytes(each, "little") & every == every for each in bitmaps if each is not None
    )


def given_by_library(event: Any) -> Iterator[tuple[Row, ...]]:
    for row in event.rows:
        yield (row["values"],) if "values" in row else (row["before_values"], row["after_values"])


def decoder_of(event: Any, number: int) -> Decode:
    column = event.columns[number]
    formats = NUMBERS.get(column.type)
    if formats is not None:
        return number_decoder(formats[bool(column.unsigned)])
    if column.type in (FIELD_TYPE.VARCHAR, FIELD_TYPE.STRING):
        return text_decoder(2 if column.max_length > WIDE else 1, encoding_of(column))
    if column.type == FIELD_TYPE.BLOB:
        return text_decoder(column.length_size, encoding_of(column))
    return library_decoder(event, number)


def number_decoder(form: str) -> Decode:
    packed = struct.Struct(form)
    unpack, size = packed.unpack_from, packed.size

    def decode(data: bytes, at: int) -> tuple[Any, int]:
        return unpack(data, at)[0], at + size

    return decode


def encoding_of(column: Any) -> str | None:
    """None for bytes."""
    if column.character_set_name is None:
        return "utf-8"
    known = charset_by_name(column.character_set_name)
    name: str = known.encoding if known else column.character_set_name
    try:
        return codecs.lookup(name).name
    except LookupError:
        return None


def text_decoder(length_bytes: int, encoding: str | None) -> Decode:
    def decode(data: bytes, at: int) -> tuple[Any, int]:
        start = at + length_bytes
        end = start + int.from_bytes(data[at:start], "little")
        text = data[start:end]
        return text if encoding is None else text.decode(encoding), end

    return decode


def library_decoder(event: Any, number: int) -> Decode:
    packet, column = event.packet.packet, event.columns[number]
    read = event._RowsEvent__read_values_name
    present, no_nulls = b"\xff" * (number // 8 + 1), bytes(number // 8 + 1)

    def decode(_: bytes, at: int) -> tuple[Any, int]:
        packet._position = at
        value = read(column, no_nulls, number, False, present, column.unsigned, number)
        return value, packet._position

    return decode
