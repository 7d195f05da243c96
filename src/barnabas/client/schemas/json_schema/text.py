"""JSON Schema's text: decimals are kept to the digit."""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation

from barnabas.client.schemas.errors import InvalidSchema
from barnabas.client.schemas.json_text import Json, write_string
from barnabas.client.schemas.nesting import is_too_deep


def read_exact(text: str) -> Json:
    if is_too_deep(text):
        raise InvalidSchema("Invalid JSON schema: it is nested too deeply")
    try:
        return json.loads(text, parse_float=_decimal)
    except (ValueError, InvalidOperation) as error:
        raise InvalidSchema(f"Invalid JSON schema: {error}") from None


def _decimal(text: str) -> Decimal:
    number = Decimal(text)
    if abs(number.adjusted()) > 10_000:
        raise InvalidSchema(f"Invalid JSON schema: the number {text[:40]} is out of range")
    return number


def write_exact(value: Json, *, ordered: bool = False) -> str:
    if isinstance(value, dict):
        keys = sorted(value) if ordered else value
        inside = ",".join(f"{write_string(key)}:{write_exact(value[key], ordered=ordered)}" for key in keys)
        return f"{{{inside}}}"
    if isinstance(value, list):
        return f"[{','.join(write_exact(each, ordered=ordered) for each in value)}]"
    if isinstance(value, str):
        return write_string(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)
