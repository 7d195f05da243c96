import struct

import pytest

from barnabas.cli.records.deserializers import (
    SerializationError,
    UnknownDeserializer,
    deserializer,
    java_double,
    java_float,
)

PACKAGE = "org.apache.kafka.common.serialization."


@pytest.mark.parametrize(
    ("name", "data", "printed"),
    [
        ("Long", struct.pack(">q", -5), b"-5"),
        ("Integer", struct.pack(">i", 77), b"77"),
        ("Short", struct.pack(">h", -3), b"-3"),
        ("Double", struct.pack(">d", 1.5), b"1.5"),
        ("Float", struct.pack(">f", 0.1), b"0.1"),
        ("UUID", b"123E4567-e89b-12d3-a456-426614174000", b"123e4567-e89b-12d3-a456-426614174000"),
        ("Boolean", b"\x01", b"true"),
        ("Bytes", b"x\x00\xff\\", b"x\\x00\\xFF\\x5C"),
        ("String", "é".encode(), "é".encode()),
        ("ByteArray", b"\x00ab", b"\x00ab"),
    ],
)
def test_bytes_are_printed_as_java_prints_them(name: str, data: bytes, printed: bytes) -> None:
    for spelled in (name, f"{PACKAGE}{name}Deserializer"):
        assert deserializer(spelled, {}, key=False)(data) == printed


@pytest.mark.parametrize("name", ["Long", "Integer", "Short", "Double", "Float", "UUID", "Boolean", "Void"])
def test_bytes_of_another_kind_are_refused(name: str) -> None:
    with pytest.raises(SerializationError):
        deserializer(name, {}, key=False)(b"xyz")


def test_strings_have_the_encoding_that_is_asked_for() -> None:
    read = deserializer("String", {"key.deserializer.encoding": "utf-16-le"}, key=True)
    assert read("ä".encode("utf-16-le")) == "ä".encode()
    with pytest.raises(UnknownDeserializer, match="klingon"):
        deserializer("String", {"deserializer.encoding": "klingon"}, key=True)


def test_an_unknown_deserializer_is_told_with_the_known_ones() -> None:
    with pytest.raises(UnknownDeserializer, match=r"Nope.*Double"):
        deserializer("Nope", {}, key=False)


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (1e10, "1.0E10"),
        (1e-5, "1.0E-5"),
        (123456789.0, "1.23456789E8"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (1e7, "1.0E7"),
        (9999999.5, "9999999.5"),
        (0.001, "0.001"),
        (100.0, "100.0"),
        (-0.0, "-0.0"),
        (2 / 3, "0.6666666666666666"),
        (3.4e38, "3.4E38"),
    ],
)
def test_doubles_read_as_in_java(value: float, printed: str) -> None:
    assert java_double(value) == printed


def test_floats_have_no_more_digits_than_they_need() -> None:
    (third,) = struct.unpack(">f", struct.pack(">f", 2 / 3))
    assert java_float(third) == "0.6666667"
