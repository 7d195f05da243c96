"""How keys and values become objects and bytes again; None is a tombstone on both sides.

Numbers are Java's: big-endian, of fixed size. `AUTO` writes what a function returned by its type: bytes and text as
they are, everything else as JSON; it reads text.
"""

from __future__ import annotations

import json as json_module
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

PLAIN_KINDS = {dict, list, int, float, bool, type(None)}


class SerdeError(ValueError):
    """A reason why bytes can't be read or an object can't be written."""


@dataclass(frozen=True)
class Serde(Generic[T]):
    """`encode` and `decode` never see None. They raise SerdeError (or any ValueError) with a reason."""

    name: str
    encode: Callable[[T], bytes] = field(repr=False)
    decode: Callable[[bytes], T] = field(repr=False)
    schema: str | None = None  # of JSON, in Spark's words
    # Of a whole batch, in which None may be; both raise if one is wrong.
    decode_all: Callable[[pa.Array], list[Any]] | None = field(default=None, repr=False)
    encode_all: Callable[[list[Any]], pa.Array] | None = field(default=None, repr=False)
    # The same serde for the keys or values of a topic, where it matters which (schemas have subjects).
    on: Callable[[str, bool], Serde[T]] | None = field(default=None, repr=False)

    def to_bytes(self, value: T | None) -> bytes | None:
        return None if value is None else self.encode(value)

    def from_bytes(self, data: bytes | None) -> T | None:
        return None if data is None else self.decode(data)


def _checked(kind: type | tuple[type, ...], wanted: str, write: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    def encode(value: Any) -> bytes:
        if not isinstance(value, kind) or (isinstance(value, bool) and bool not in (kind, *_kinds(kind))):
            raise SerdeError(f"it should be {wanted}, not {type(value).__name__}")
        return write(value)

    return encode


def _kinds(kind: type | tuple[type, ...]) -> tuple[type, ...]:
    return kind if isinstance(kind, tuple) else (kind,)


def _decode_string(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise SerdeError("it is no UTF-8") from None


_read = msgspec.json.Decoder().decode


def read_json(data: bytes) -> Any:
    try:
        return _read(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        text = _decode_string(data)
    try:
        return json_module.loads(text)  # NaN and other things that many write, or the reason
    except json_module.JSONDecodeError as error:
        raise SerdeError(f"it is no JSON: {error.msg} at character {error.pos}") from None


def read_strings(column: pa.Array) -> list[Any]:
    found: list[Any] = column.cast("string").to_pylist()
    return found


def read_jsons(column: pa.Array) -> list[Any]:
    if column.null_count:
        return [None if data is None else read_json(data) for data in column.to_pylist()]
    try:
        return list(map(_read, column.to_pylist()))
    except msgspec.MsgspecError:
        return list(map(read_json, column.to_pylist()))


_write = msgspec.json.Encoder().encode


def write_json(value: Any) -> bytes:
    try:
        return _write(value)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        pass
    try:
        return json_module.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()  # keys that are no text
    except (TypeError, ValueError, RecursionError) as error:
        raise SerdeError(f"it can't be written as JSON: {error}") from None


def write_jsons(values: list[Any]) -> pa.Array:
    if None in values:
        return _bytes_column([None if value is None else write_json(value) for value in values])
    return _bytes_column(list(map(_write, values)))


def write_strings(values: list[Any]) -> pa.Array:
    import pyarrow as pa

    if not set(map(type, values)) <= {str, type(None)}:  # Arrow would take bytes as well
        raise SerdeError("some are no text")
    return pa.array(values, pa.string()).cast(pa.binary())


def _bytes_column(values: list[Any]) -> pa.Array:
    import pyarrow as pa

    return pa.array(values, pa.binary())


def _number(name: str, form: str, kinds: tuple[type, ...]) -> Serde[Any]:
    size = struct.calcsize(form)

    def write(value: Any) -> bytes:
        try:
            return struct.pack(form, value)
        except struct.error as error:
            raise SerdeError(f"{value} is no {name}: {error}") from None

    def read(data: bytes) -> Any:
        if len(data) != size:
            raise SerdeError(f"a {name} has {size} bytes, and here are {len(data)}")
        return struct.unpack(form, data)[0]

    return Serde(name, _checked(kinds, f"a {name}", write), read)


def _encode_auto(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    return write_json(value)


def _encode_all_auto(values: list[Any]) -> pa.Array:
    kinds = set(map(type, values))
    if kinds <= PLAIN_KINDS:
        return write_jsons(values)
    if kinds <= {str, type(None)}:
        return write_strings(values)
    return _bytes_column([None if value is None else _encode_auto(value) for value in values])


def _decode_auto(data: bytes) -> Any:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def json(schema: str | None = None) -> Serde[Any]:
    """JSON; with a schema, as `json("id string, amount double")`, columns read the fields they name and no others."""
    return Serde("json", write_json, read_json, schema, read_jsons, write_jsons)


BYTES: Serde[bytes] = Serde("bytes", _checked((bytes, bytearray), "bytes", bytes), bytes)
STRING: Serde[str] = Serde(
    "string", _checked(str, "text", str.encode), _decode_string, None, read_strings, write_strings
)
JSON: Serde[Any] = json()
SHORT: Serde[int] = _number("short", ">h", (int,))
INT: Serde[int] = _number("int", ">i", (int,))
LONG: Serde[int] = _number("long", ">q", (int,))
FLOAT: Serde[float] = _number("float", ">f", (int, float))
DOUBLE: Serde[float] = _number("double", ">d", (int, float))
AUTO: Serde[Any] = Serde("auto", _encode_auto, _decode_auto, encode_all=_encode_all_auto)
