"""Keys and values as they stand in bodies: base64, JSON, text, or JSON of a schema."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from barnabas.client.serdes import Deserializer, SerdeError
from barnabas.web.app import json_bytes

SCHEMA_TYPES = {"avro": "AVRO", "jsonschema": "JSON", "protobuf": "PROTOBUF"}
FORMATS = ("binary", "json", *SCHEMA_TYPES)


def v2_type(name: str) -> str:
    return f"application/vnd.kafka.{name}.v2+json"


PLAIN_V2 = "application/vnd.kafka.v2+json"
V2_TYPES = {v2_type(name): name for name in FORMATS}


def from_base64(value: Any) -> bytes:
    if not isinstance(value, str):
        raise SerdeError(f"data={json.dumps(value)[:80]} is not a base64 string.")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise SerdeError(f"data={json.dumps(value)[:80]} is not a valid base64 string.") from None


def point_in_time_ms(given: Any) -> int | None:
    """Of milliseconds or of a time as ISO 8601 writes it; None if it is neither."""
    if isinstance(given, int) and not isinstance(given, bool):
        return given if given >= 0 else None
    try:
        return int(datetime.fromisoformat(str(given)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def to_bytes(form: str, value: Any) -> bytes | None:
    """Of the formats without a schema; null is a tombstone, but in JSON."""
    if form == "json":
        return None if value is None else json_bytes(value)
    return None if value is None else from_base64(value)


def from_bytes(form: str, data: bytes | None, deserializer: Deserializer | None, headers: Any) -> Any:
    if data is None:
        return None
    if form == "binary":
        return base64.b64encode(data).decode()
    if form == "json":
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            raise SerdeError("The bytes are not JSON.") from None
    assert deserializer is not None
    return deserializer.decode_json(data, headers)


def unknown_field(tree: Mapping[str, Any], known: frozenset[str]) -> str | None:
    """The first field that nobody reads. What it was meant for would be lost without a word."""
    return None if tree.keys() <= known else next(name for name in tree if name not in known)
