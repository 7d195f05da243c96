"""Records of Kafka's own logs as JSON: the fields by the definitions' names, as Kafka's tools print them."""

from __future__ import annotations

import base64
from typing import Any

from barnabas.wire.schema import Struct
from barnabas.wire.shapes import Field, fields_of
from barnabas.wire.uuids import Uuid


def record_json(record: Struct, version: int) -> dict[str, Any]:
    """The fields of a version; tagged ones only where they are set."""
    told: dict[str, Any] = {}
    for field in fields_of(type(record)):
        value = getattr(record, field.name)
        if field.in_version(version) and not (field.is_tagged(version) and value == _default(field)):
            told[_camel_case(field.name)] = _json_value(value, version)
    return told


def _default(field: Field) -> Any:
    return field.default_factory() if field.default_factory is not None else field.default


def _json_value(value: Any, version: int) -> Any:
    if isinstance(value, Uuid):
        return str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    if isinstance(value, list):
        return [_json_value(item, version) for item in value]
    if isinstance(value, Struct):
        return record_json(value, version)
    return value


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
