"""A record as one line of JSON, and back: `barnabas consume --json` writes it, `barnabas produce --json` reads it.

    {"topic": "t", "partition": 0, "offset": 7, "timestamp": 1700000000000, "timestamp_type": "CreateTime",
     "key": "k", "value": "v", "headers": [["name", "value"]]}

Bytes that are not UTF-8 stand in base64 under `key_base64`, `value_base64`, or as `{"base64": ...}` in a header. A
value of null is a tombstone.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.cli.errors import ToolFailed

if TYPE_CHECKING:
    from barnabas.client.records import ConsumerRecord

TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
KNOWN = {
    "topic", "partition", "offset", "timestamp", "timestamp_type", "key", "key_base64", "value", "value_base64",
    "headers",
}  # fmt: skip


class Envelope(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    partition: int | None
    timestamp: int | None


def record_line(record: ConsumerRecord) -> str:
    told: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": TIMESTAMP_TYPES[record.timestamp_type],
        **_field("key", record.key),
        **_field("value", record.value),
        "headers": [[name, _header_value(value)] for name, value in record.headers],
    }
    return json.dumps(told, ensure_ascii=False)


def _field(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    text = _utf8(data)
    return {name: text} if text is not None else {f"{name}_base64": base64.b64encode(data).decode()}


def _header_value(data: bytes | None) -> Any:
    if data is None:
        return None
    text = _utf8(data)
    return text if text is not None else {"base64": base64.b64encode(data).decode()}


def _utf8(data: bytes) -> str | None:
    try:
        return bytes(data).decode()
    except UnicodeDecodeError:
        return None


def parse(line: bytes, number: int) -> Envelope:
    try:
        told = json.loads(line)
    except ValueError as error:
        raise ToolFailed(f"Line {number} is not JSON: {error}.") from None
    if not isinstance(told, dict):
        raise ToolFailed(f"Line {number} is not a JSON object with key, value and headers.")
    if unknown := sorted(set(told) - KNOWN):
        raise ToolFailed(f"Line {number} has {', '.join(unknown)}, which is no part of a record.")
    if "value" not in told and "value_base64" not in told:
        raise ToolFailed(f"Line {number} has no value; a tombstone says so with null.")
    return Envelope(
        _bytes(told, "key", number),
        _bytes(told, "value", number),
        _headers(told.get("headers") or [], number),
        _number(told, "partition", number),
        _number(told, "timestamp", number),
    )


def _bytes(told: dict[str, Any], name: str, number: int) -> bytes | None:
    if (encoded := told.get(f"{name}_base64")) is not None:
        return _decoded(encoded, number)
    value = told.get(name)
    if value is None or isinstance(value, str):
        return None if value is None else value.encode()
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _decoded(encoded: object, number: int) -> bytes:
    try:
        return base64.b64decode(str(encoded), validate=True)
    except (binascii.Error, ValueError):
        raise ToolFailed(f"Line {number} has base64 that is none: {encoded}.") from None


def _headers(told: object, number: int) -> list[tuple[str, bytes | None]]:
    pairs = list(told.items()) if isinstance(told, dict) else told
    headers: list[tuple[str, bytes | None]] = []
    for pair in pairs if isinstance(pairs, list) else [None]:
        if not (isinstance(pair, (list, tuple)) and len(pair) == 2 and isinstance(pair[0], str)):
            raise ToolFailed(f"Line {number} has headers that are not pairs of name and value.")
        name, value = pair
        if isinstance(value, dict) and set(value) == {"base64"}:
            headers.append((name, _decoded(value["base64"], number)))
        else:
            headers.append((name, None if value is None else str(value).encode()))
    return headers


def _number(told: dict[str, Any], name: str, number: int) -> int | None:
    value = told.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise ToolFailed(f"Line {number}: {name} must be a whole number.")
    return value
