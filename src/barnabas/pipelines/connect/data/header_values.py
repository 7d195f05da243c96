"""Texts that become typed values and back, as Connect's `Values` does for headers and literals.

`parse("12")` is an int8, `parse("3.5")` a float32, `parse("[1,2]")` an array; everything else is a string. Deviation: a
text that only begins with a number, as `12,a`, is a string here and the number in Connect.
"""

from __future__ import annotations

import base64
import decimal
import math
import re
from datetime import datetime
from typing import Any

from barnabas.pipelines.connect.data.date_format import date_format
from barnabas.pipelines.connect.data.java_text import java_text
from barnabas.pipelines.connect.data.record import NOTHING, SchemaAndValue
from barnabas.pipelines.connect.data.schema import (
    BITS,
    BOOLEAN,
    DATE_SCHEMA,
    DAY_MS,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    Struct,
    array,
    decimal_scale,
    decimal_schema,
    map_of,
    single,
    to_ms,
)

ISO_DATE, ISO_TIME = "yyyy-MM-dd", "HH:mm:ss.SSS'Z'"
ISO_TIMESTAMP = f"{ISO_DATE}'T'{ISO_TIME}"
BY_LENGTH = {13: (TIME_SCHEMA, ISO_TIME), 24: (TIMESTAMP_SCHEMA, ISO_TIMESTAMP), 10: (DATE_SCHEMA, ISO_DATE)}
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
LITERALS = {"null": NOTHING, "true": SchemaAndValue(BOOLEAN, True), "false": SchemaAndValue(BOOLEAN, False)}
INTEGERS = (INT8, INT16, INT32, INT64)


class NotEmbedded(Exception):
    """Not an array or a map after all."""


def parse(text: str) -> SchemaAndValue:
    if not text:
        return SchemaAndValue(STRING, text)
    if text in LITERALS:
        return LITERALS[text]
    if text[0] in "[{":
        try:
            found, end = _embedded(text, 0)
            if end == len(text):
                return found
        except NotEmbedded:
            pass
        return SchemaAndValue(STRING, text)
    return _scalar(text.strip()) or SchemaAndValue(STRING, text)


def _scalar(token: str) -> SchemaAndValue | None:
    if not token or not (token[0].isdigit() or token[0] in "+-"):
        return None
    if token[0].isdigit() and (time := _temporal(token)) is not None:
        return time
    if not NUMBER.fullmatch(token):
        return None
    number = decimal.Decimal(token)
    if not number or (1 <= abs(number) <= decimal.Decimal("1e19") and number == number.to_integral_value()):
        for schema in INTEGERS:
            if -(1 << BITS[schema.type] - 1) <= number < 1 << BITS[schema.type] - 1:
                return SchemaAndValue(schema, int(number))
    if decimal_scale(number) != 0:
        for schema, value in ((FLOAT32, single(float(number))), (FLOAT64, float(number))):
            if not math.isinf(value):
                return SchemaAndValue(schema, value)
    return SchemaAndValue(decimal_schema(decimal_scale(number)), number)


def _temporal(token: str) -> SchemaAndValue | None:
    token = token.replace("\\:", ":")
    if len(token) not in BY_LENGTH:
        return None
    schema, pattern = BY_LENGTH[len(token)]
    found = date_format(pattern).parse(token)
    return None if found is None else SchemaAndValue(schema, found)


def _embedded(text: str, at: int) -> tuple[SchemaAndValue, int]:
    at = _skip(text, at)
    if at >= len(text):
        raise NotEmbedded
    if text[at] == "[":
        return _array(text, at + 1)
    if text[at] == "{":
        return _map(text, at + 1)
    if text[at] == '"':
        end = at + 1
        while end < len(text) and (text[end] != '"' or text[end - 1] == "\\"):
            end += 1
        content = text[at + 1 : end].replace('\\"', '"').replace("\\\\", "\\")
        return _temporal(content) or SchemaAndValue(STRING, content), min(end + 1, len(text))
    found = re.compile(r"(\d\d:\d\d:\d\d\.\d{3}Z|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z|[^,:\[\]{}\"]+)").match(
        text, at
    )
    if found is None:
        raise NotEmbedded
    token = found[0].strip()
    scalar = LITERALS.get(token) or _scalar(token)
    if scalar is None:
        raise NotEmbedded
    return scalar, found.end()


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _array(text: str, at: int) -> tuple[SchemaAndValue, int]:
    found: list[SchemaAndValue] = []
    while True:
        at = _skip(text, at)
        if text[at : at + 1] == "]":
            schema = _shared([each.schema for each in found])
            return SchemaAndValue(
                array(schema) if schema else None, [_as(schema, each.value) for each in found]
            ), at + 1
        each, at = _embedded(text, at)
        found.append(each)
        at = _skip(text, at)
        if text[at : at + 1] == ",":
            at += 1
        elif text[at : at + 1] != "]":
            raise NotEmbedded


def _map(text: str, at: int) -> tuple[SchemaAndValue, int]:
    keys: list[SchemaAndValue] = []
    values: list[SchemaAndValue] = []
    while True:
        at = _skip(text, at)
        if text[at : at + 1] == "}":
            of_keys, of_values = _shared([each.schema for each in keys]), _shared([each.schema for each in values])
            schema = map_of(of_keys, of_values) if of_keys and of_values else None
            pairs = zip(keys, values, strict=True)
            return SchemaAndValue(schema, {key.value: _as(of_values, value.value) for key, value in pairs}), at + 1
        key, at = _embedded(text, at)
        at = _skip(text, at)
        if key.value is None or text[at : at + 1] != ":":
            raise NotEmbedded
        value, at = _embedded(text, at + 1)
        keys.append(key)
        values.append(value)
        at = _skip(text, at)
        if text[at : at + 1] == ",":
            at += 1


def _shared(schemas: list[Schema | None]) -> Schema | None:
    """The one that all have; of different integers the widest; else none."""
    known = [each for each in schemas if each is not None]
    if known and len(known) < len(schemas):
        raise NotEmbedded  # Connect does not read a null beside others
    if not known or all(each == known[0] for each in known):
        return known[0] if known else None
    if all(each in INTEGERS for each in known):
        return max(known, key=INTEGERS.index)
    if all(each in (*INTEGERS, FLOAT32, FLOAT64) for each in known):
        return FLOAT64 if FLOAT64 in known or INT64 in known or INT32 in known else FLOAT32
    return None


def _as(schema: Schema | None, value: Any) -> Any:
    return float(value) if schema in (FLOAT32, FLOAT64) and value is not None else value


def write(value: Any, *, embedded: bool = False) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' if embedded else value
    if isinstance(value, bytes | bytearray):
        return write(base64.b64encode(value).decode(), embedded=embedded)
    if isinstance(value, list | tuple):
        return "[" + ",".join(write(each, embedded=True) for each in value) + "]"
    if isinstance(value, Struct):
        value = {each.name: value.get(each.name) for each in value.schema.fields}
    if isinstance(value, dict):
        pairs = (f"{write(key, embedded=True)}:{write(each, embedded=True)}" for key, each in value.items())
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, datetime):
        return write_time(value)
    return java_text(value)


def write_time(time: datetime) -> str:
    milliseconds = to_ms(time)
    if milliseconds < DAY_MS:
        return date_format(ISO_TIME).format(time)
    return date_format(ISO_DATE if milliseconds % DAY_MS == 0 else ISO_TIMESTAMP).format(time)
