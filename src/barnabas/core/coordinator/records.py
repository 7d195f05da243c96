"""Records of internal topics as bytes: the key begins with its type, the value with its version.

A value of None is a tombstone. Keys of a type that is not known are left alone: a later version wrote them.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from barnabas.wire.primitives import DecodeError
from barnabas.wire.schema import Record

_INT16 = struct.Struct(">h")


class CoordinatorRecord(NamedTuple):
    key: Record
    value: Record | None
    value_version: int = 0

    def encode(self) -> tuple[bytes, bytes | None]:
        key = bytearray(_INT16.pack(self.key.api_key))
        self.key.encode_into(key, 0)
        if self.value is None:
            return bytes(key), None
        value = bytearray(_INT16.pack(self.value_version))
        self.value.encode_into(value, self.value_version)
        return bytes(key), bytes(value)


class Kind(NamedTuple):
    """The classes of one type of record."""

    key: type[Record]
    value: type[Record]


Kinds: TypeAlias = Mapping[int, Kind]


def decode(kinds: Kinds, key: bytes | None, value: bytes | None) -> CoordinatorRecord | None:
    """None for what is of no known type; raises `DecodeError` for what should be readable and is not."""
    if key is None or len(key) < _INT16.size:
        raise DecodeError("a record of an internal topic without a type in its key")
    kind = kinds.get(_INT16.unpack_from(key)[0])
    if kind is None:
        return None
    decoded_key, end = kind.key.decode_from(key, _INT16.size, 0)
    if end != len(key):
        raise DecodeError(f"{len(key) - end} bytes are left over after {kind.key.__name__}")
    if value is None:
        return CoordinatorRecord(decoded_key, None)
    if len(value) < _INT16.size:
        raise DecodeError(f"a {kind.value.__name__} without a version")
    version = _INT16.unpack_from(value)[0]
    low, high = kind.value.valid_versions
    if not low <= version <= high:
        raise DecodeError(f"{kind.value.__name__} of version {version} is unknown")
    decoded_value, end = kind.value.decode_from(value, _INT16.size, version)
    if end != len(value):
        raise DecodeError(f"{len(value) - end} bytes are left over after {kind.value.__name__}")
    return CoordinatorRecord(decoded_key, decoded_value, version)
