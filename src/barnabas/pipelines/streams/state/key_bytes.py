"""Keys of stores as bytes, and back: equal keys have equal bytes, and windows stand in the order of their starts.

A key is what operators use: text, a number, bytes, a pair of a window's start and a key, or any other object that can
be pickled. Two keys that Python takes for equal though their types differ (1 and 1.0) are two keys here.
"""

from __future__ import annotations

import io
import pickle
import struct
from typing import Any

TEXT, BYTES, NUMBER, WINDOW, OTHER = b"s", b"b", b"i", b"w", b"p"
START_BIAS = 1 << 63
START_MIN, START_MAX = -START_BIAS, START_BIAS - 1
_start = struct.Struct(">Q")


def to_bytes(key: Any) -> bytes:
    kind = type(key)  # a kind of str, as an enumeration, is none of these
    if kind is str:
        return TEXT + bytes(key.encode("utf-8", "surrogatepass"))
    if kind is bytes:
        return BYTES + bytes(key)
    if kind is int:
        return NUMBER + int(key).to_bytes(key.bit_length() // 8 + 1, "big", signed=True)
    if kind is tuple and len(key) == 2 and type(key[0]) is int and START_MIN <= key[0] <= START_MAX:
        return WINDOW + _start.pack(key[0] + START_BIAS) + to_bytes(key[1])
    return OTHER + _pickled(key)


def from_bytes(data: bytes) -> Any:
    kind, rest = data[:1], data[1:]
    if kind == TEXT:
        return rest.decode("utf-8", "surrogatepass")
    if kind == BYTES:
        return rest
    if kind == NUMBER:
        return int.from_bytes(rest, "big", signed=True)
    if kind == WINDOW:
        return _start.unpack_from(rest)[0] - START_BIAS, from_bytes(rest[_start.size :])
    return pickle.loads(rest)


def _pickled(key: Any) -> bytes:
    """Without references to parts that were there before: whether two equal parts are one object must not be seen."""
    written = io.BytesIO()
    pickler = pickle.Pickler(written, pickle.HIGHEST_PROTOCOL)
    pickler.fast = True
    pickler.dump(key)
    return written.getvalue()
