"""Bytes as numbers and text."""

from __future__ import annotations

import base64
import binascii
import struct

from barnabas.pipelines.sql.compute.java import EvaluationError
from barnabas.pipelines.sql.compute.registry import function


def order(name: str) -> str:
    if name.upper() not in ("BIG_ENDIAN", "LITTLE_ENDIAN"):
        raise EvaluationError(f"Byte order must be BIG_ENDIAN or LITTLE_ENDIAN, not {name}")
    return ">" if name.upper() == "BIG_ENDIAN" else "<"


def number(data: bytes, form: str, size: int, endian: str) -> float:
    if len(data) != size:
        raise EvaluationError(f"Number of bytes must be equal to {size}, but found {len(data)}")
    found: float = struct.unpack(order(endian) + form, data)[0]
    return found


@function("BIGINT_FROM_BYTES", "BYTES, STRING? -> BIGINT")
def bigint_from_bytes(data: bytes, endian: str = "BIG_ENDIAN") -> float:
    """Eight bytes as a number: BIGINT_FROM_BYTES(bytes [, 'LITTLE_ENDIAN'])."""
    return number(data, "q", 8, endian)


@function("INT_FROM_BYTES", "BYTES, STRING? -> INTEGER")
def int_from_bytes(data: bytes, endian: str = "BIG_ENDIAN") -> float:
    """Four bytes as a number."""
    return number(data, "i", 4, endian)


@function("DOUBLE_FROM_BYTES", "BYTES, STRING? -> DOUBLE")
def double_from_bytes(data: bytes, endian: str = "BIG_ENDIAN") -> float:
    """Eight bytes as a double."""
    return number(data, "d", 8, endian)


@function("FROM_BYTES", "BYTES, STRING -> STRING")
def from_bytes(data: bytes, encoding: str) -> str:
    """Bytes as text: hex, utf8, ascii or base64."""
    name = encoding.lower()
    if name == "hex":
        return data.hex().upper()
    if name == "base64":
        return base64.b64encode(data).decode()
    if name in ("utf8", "ascii"):
        return data.decode("utf-8" if name == "utf8" else "ascii", "replace")
    raise EvaluationError(f"Unknown encoding type '{encoding}'. Supported formats are [HEX, UTF8, ASCII, BASE64].")


@function("TO_BYTES", "STRING, STRING -> BYTES")
def to_bytes(text: str, encoding: str) -> bytes:
    """Text as bytes: hex, utf8, ascii or base64."""
    name = encoding.lower()
    try:
        if name == "hex":
            return binascii.unhexlify(text)
        if name == "base64":
            return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise EvaluationError(f"'{text}' is not {name}") from None
    if name in ("utf8", "ascii"):
        return text.encode("utf-8" if name == "utf8" else "ascii", "replace")
    raise EvaluationError(f"Unknown encoding type '{encoding}'. Supported formats are [HEX, UTF8, ASCII, BASE64].")
