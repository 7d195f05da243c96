"""How keys and values become objects and bytes again; None is a tombstone on both sides.

Numbers are Java's: big-endian, of fixed size. `AUTO` writes what a function returned by its type: bytes and text as
they are, everything else as JSON; it reads text. JSON with a schema can be read by Spark too.
"""

from __future__ import annotations

import functools
import json as json_module
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

SPACES = " \t\n\r"
_scan = json_module.JSONDecoder().scan_once  # type: ignore[attr-defined]


class SerdeError(ValueError):
    """A reason why bytes can't be read or an object can't be written."""


@dataclass(frozen=True)
class Serde(Generic[T]):
    """`encode` and `decode` never see None. They raise SerdeError (or any ValueError) with a reason."""

    name: str
    encode: Callable[[T], bytes] = field(repr=False)
    decode: Callable[[bytes], T] = field(repr=False)
    schema: str | None = None  # what Spark parses JSON to, in its own words
    decode_all: Callable[[pa.Array], list[Any]] | None = field(default=None, repr=False)  # raises if one is wrong

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


def read_json(data: bytes) -> Any:
    text = _decode_string(data)
    try:
        found, end = _scan(text, 0)
    except (StopIteration, json_module.JSONDecodeError):
        found, end = None, -1
    if end == len(text):
        return found
    try:
        return json_module.loads(text)  # white space around it, or the reason
    except json_module.JSONDecodeError as error:
        raise SerdeError(f"it is no JSON: {error.msg} at character {error.pos}") from None


def read_strings(column: pa.Array) -> list[Any]:
    found: list[Any] = column.cast("string").to_pylist()
    return found


def read_jsons(column: pa.Array) -> list[Any]:
    texts = read_strings(column)
    scan = _scan
    found = [(None, 0) if text is None else scan(text, 0) for text in texts]
    if any(text is not None and end != len(text) for (_, end), text in zip(found, texts, strict=True)):
        raise SerdeError("something stands behind a value")
    return [value for value, _ in found]


def _refuse(value: Any) -> Any:
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


@functools.cache
def _writer() -> Callable[[Any, int], Any]:
    """What json.dumps makes anew for each value."""
    from json import encoder

    make, text = getattr(encoder, "c_make_encoder", None), encoder.encode_basestring
    if make is None:
        whole = json_module.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
        return lambda value, level: whole(value)
    made: Callable[[Any, int], Any] = make(None, _refuse, text, None, ":", ",", False, False, True)
    return made


def write_json(value: Any) -> bytes:
    try:
        return "".join(_writer()(value, 0)).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise SerdeError(f"it can't be written as JSON: {error}") from None


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


def _decode_auto(data: bytes) -> Any:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def json(schema: str | None = None) -> Serde[Any]:
    """JSON; with a schema, as `json("id string, amount double")`, its fields are columns for Spark."""
    return Serde("json", write_json, read_json, schema, read_jsons)


def serde_of(name: str) -> Serde[Any] | None:
    """A serde of this module by its name."""
    return next((one for one in NAMED if one.name == name), None)


BYTES: Serde[bytes] = Serde("bytes", _checked((bytes, bytearray), "bytes", bytes), bytes)
STRING: Serde[str] = Serde("string", _checked(str, "text", str.encode), _decode_string, None, read_strings)
JSON: Serde[Any] = json()
SHORT: Serde[int] = _number("short", ">h", (int,))
INT: Serde[int] = _number("int", ">i", (int,))
LONG: Serde[int] = _number("long", ">q", (int,))
FLOAT: Serde[float] = _number("float", ">f", (int, float))
DOUBLE: Serde[float] = _number("double", ">d", (int, float))
AUTO: Serde[Any] = Serde("auto", _encode_auto, _decode_auto)
NAMED = (BYTES, STRING, JSON, SHORT, INT, LONG, FLOAT, DOUBLE, AUTO)
