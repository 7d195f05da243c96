"""Variable-length numbers."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.wire.primitives import DecodeError, LayoutsByCount, put_uvarint, read_uvarint

WELL_KNOWN = {
    0: b"\0",
    1: b"\1",
    127: b"\x7f",
    128: b"\x80\1",
    300: b"\xac\2",
    16_383: b"\xff\x7f",
    16_384: b"\x80\x80\1",
    2_097_152: b"\x80\x80\x80\1",
    268_435_456: b"\x80\x80\x80\x80\1",
    0x7FFFFFFF: b"\xff\xff\xff\xff\7",
    0xFFFFFFFF: b"\xff\xff\xff\xff\x0f",
}


@pytest.mark.parametrize("value", WELL_KNOWN)
def test_numbers_at_the_edges_of_each_width(value: int) -> None:
    out = bytearray()
    put_uvarint(out, value)
    assert out == WELL_KNOWN[value]
    assert read_uvarint(out, 0) == (value, len(out))
    assert read_uvarint(b"?" + out + b"\xff", 1) == (value, 1 + len(out))


@given(st.integers(0, 0xFFFFFFFF))
def test_what_is_read_is_what_was_written(value: int) -> None:
    out = bytearray()
    put_uvarint(out, value)
    assert read_uvarint(memoryview(out), 0) == (value, len(out))


@given(st.binary(max_size=8))
def test_any_bytes_are_a_number_or_too_few_or_too_many(data: bytes) -> None:
    try:
        value, position = read_uvarint(data, 0)
    except IndexError:
        assert len(data) < 5
        assert all(byte > 127 for byte in data)
    except DecodeError:
        assert all(byte > 127 for byte in data[:4])
        assert data[4] > 0x0F
    else:
        assert 0 <= value <= 0xFFFFFFFF
        assert position <= 5


def test_superfluous_zeros_are_accepted_as_kafka_accepts_them() -> None:
    assert read_uvarint(b"\x81\x80\0", 0) == (1, 3)


def test_layouts_are_made_once_for_each_count() -> None:
    layouts = LayoutsByCount("hB", "i", lambda layout: layout.pack)
    assert layouts[3](7, 4, 1, 2, 3) == struct.pack(">hBiii", 7, 4, 1, 2, 3)
    assert layouts[0](7, 1) == struct.pack(">hB", 7, 1)
    assert layouts[3] is layouts[3]
    assert sorted(layouts) == [0, 3]
