"""Whether a default is a value of the field's type."""

from __future__ import annotations

from barnabas.client.schemas.avro.model import MISSING, Array, AvroType, Map, Record, Union
from barnabas.client.schemas.errors import InvalidSchema
from barnabas.client.schemas.json_text import Json

INTEGERS = {"int": 1 << 31, "long": 1 << 63}


def is_valid_default(kind: AvroType, value: Json) -> bool:
    name = kind.kind
    if name in ("string", "bytes", "enum", "fixed"):
        return isinstance(value, str)
    if name in INTEGERS:
        return isinstance(value, int) and not isinstance(value, bool) and -INTEGERS[name] <= value < INTEGERS[name]
    if name in ("float", "double"):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if name == "boolean":
        return isinstance(value, bool)
    if name == "null":
        return value is None
    if isinstance(kind, Array):
        return isinstance(value, list) and all(is_valid_default(kind.items, each) for each in value)
    if isinstance(kind, Map):
        return isinstance(value, dict) and all(is_valid_default(kind.values, each) for each in value.values())
    if isinstance(kind, Union):
        return any(is_valid_default(branch, value) for branch in kind.branches)
    assert isinstance(kind, Record)
    if not kind.complete:
        raise InvalidSchema("Schema fields not set yet")
    if not isinstance(value, dict):
        return False
    for each in kind.fields:
        given = value.get(each.name, each.default)
        if given is MISSING or not is_valid_default(each.type, given):
            return False
    return True
