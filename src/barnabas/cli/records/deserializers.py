"""Kafka's deserializers by their class names: bytes in, the text Java would print out.

A name may come with its package or without. Two differ on purpose: for ByteArray and ByteBuffer Java prints an
object's address, here the bytes themselves are printed.
"""

from __future__ import annotations

import codecs
import math
import re
import struct
import uuid
from collections.abc import Callable, Mapping

Deserializer = Callable[[bytes], bytes]

PACKAGE = "org.apache.kafka.common.serialization."


class SerializationError(Exception):
    """The bytes are not what the deserializer reads."""


class UnknownDeserializer(Exception):
    """There is no deserializer of that name."""


def deserializer(name: str, properties: Mapping[str, str], *, key: bool) -> Deserializer:
    """`properties` are those with the deserializer's prefix, without it: `encoding` of strings is among them."""
    short = name.removeprefix(PACKAGE).removesuffix("Deserializer")
    if short == "String":
        return _string(_encoding(properties, key))
    if short not in _BY_NAME:
        known = ", ".join(sorted(["String", *_BY_NAME]))
        raise UnknownDeserializer(f"There is no deserializer {name}; there are {known} (with 'Deserializer' after it).")
    return _BY_NAME[short]


def _encoding(properties: Mapping[str, str], key: bool) -> str:
    own = "key.deserializer.encoding" if key else "value.deserializer.encoding"
    name = properties.get(own) or properties.get("deserializer.encoding") or properties.get("encoding") or "utf-8"
    try:
        codecs.lookup(name)
    except LookupError:
        raise UnknownDeserializer(f"The encoding {name} is not known.") from None
    return name


def _string(encoding: str) -> Deserializer:
    def read(data: bytes) -> bytes:
        return data.decode(encoding, "replace").encode()

    return read


def _number(name: str, form: str) -> Deserializer:
    size = struct.calcsize(form)

    def read(data: bytes) -> bytes:
        if len(data) != size:
            raise SerializationError(f"Size of data received by {name}Deserializer is not {size}")
        (value,) = struct.unpack(form, data)
        return str(value).encode()

    return read


def _double(data: bytes) -> bytes:
    if len(data) != 8:
        raise SerializationError("Size of data received by Deserializer is not 8")
    (value,) = struct.unpack(">d", data)
    return java_double(value).encode()


def _float(data: bytes) -> bytes:
    if len(data) != 4:
        raise SerializationError("Size of data received by Deserializer is not 4")
    (value,) = struct.unpack(">f", data)
    return java_float(value).encode()


def _boolean(data: bytes) -> bytes:
    if data not in (b"\x00", b"\x01"):
        raise SerializationError("Unexpected byte received by BooleanDeserializer: only one of 0 and 1 is a boolean")
    return b"true" if data == b"\x01" else b"false"


def _uuid(data: bytes) -> bytes:
    try:
        return str(uuid.UUID(data.decode())).encode()
    except ValueError:
        raise SerializationError("Error parsing data into UUID") from None


def _void(data: bytes) -> bytes:
    raise SerializationError("Data should be null for a VoidDeserializer.")


def _escaped(data: bytes) -> bytes:
    """As Kafka prints `Bytes`: what is not printable ASCII, and the backslash, in hexadecimal."""
    return re.sub(rb"[^ -\[\]-~]", lambda found: b"\\x%02X" % found[0][0], data)


_BY_NAME: dict[str, Deserializer] = {
    "Short": _number("Short", ">h"),
    "Integer": _number("Integer", ">i"),
    "Long": _number("Long", ">q"),
    "Float": _float,
    "Double": _double,
    "Boolean": _boolean,
    "UUID": _uuid,
    "Void": _void,
    "Bytes": _escaped,
    "ByteArray": bytes,
    "ByteBuffer": bytes,
}


def java_double(value: float) -> str:
    """As Java's Double.toString: plain between 0.001 and ten million, else with an exponent."""
    return _java(value, repr(value))


def java_float(value: float) -> str:
    """`value` is a float of 32 bits; the fewest digits that tell it from its neighbours."""
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if struct.pack(">f", float(text)) == struct.pack(">f", value):
            return _java(value, text)
    return _java(value, repr(value))


def _java(value: float, shortest: str) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if value == 0:
        return f"{sign}0.0"
    digits, exponent = _digits(shortest.lstrip("-"))
    if -3 <= exponent < 7:
        whole, fraction = _around_point(digits, exponent)
        return f"{sign}{whole}.{fraction}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _digits(text: str) -> tuple[str, int]:
    """Significant digits and the exponent of the first: 1234.5 is 12345 and 3."""
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    leading = len(whole + fraction) - len(digits)
    return digits.rstrip("0") or "0", int(exponent or 0) + len(whole) - 1 - leading


def _around_point(digits: str, exponent: int) -> tuple[str, str]:
    if exponent < 0:
        return "0", "0" * (-exponent - 1) + digits
    padded = digits.ljust(exponent + 1, "0")
    return padded[: exponent + 1], padded[exponent + 1 :] or "0"
