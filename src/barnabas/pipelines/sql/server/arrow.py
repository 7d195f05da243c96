"""Columns of SQL as Arrow and Spark have them, and back. TIME is a number of milliseconds there."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

from barnabas.pipelines.sql.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIMESTAMP,
    SqlType,
    array,
    decimal,
    map_of,
    struct,
)

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
EPOCH_DAY = datetime.date(1970, 1, 1)
SPARK = {
    "BOOLEAN": "BOOLEAN",
    "INTEGER": "INT",
    "BIGINT": "BIGINT",
    "DOUBLE": "DOUBLE",
    "STRING": "STRING",
    "BYTES": "BINARY",
    "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP",
    "TIME": "INT",
}
Convert = Callable[[Any], Any]


def spark_type(kind: SqlType) -> str:
    if kind.base == "DECIMAL":
        return f"DECIMAL({min(kind.precision, 38)}, {kind.scale})"
    if kind.base == "ARRAY" and kind.element is not None:
        return f"ARRAY<{spark_type(kind.element)}>"
    if kind.base == "MAP" and kind.element is not None and kind.key is not None:
        return f"MAP<{spark_type(kind.key)}, {spark_type(kind.element)}>"
    if kind.base == "STRUCT":
        return "STRUCT<" + ", ".join(f"`{name}`: {spark_type(one)}" for name, one in kind.fields) + ">"
    return SPARK[kind.base]


def arrow_type(kind: SqlType) -> Any:
    import pyarrow as pa

    if kind.base == "DECIMAL":
        return pa.decimal128(min(kind.precision, 38), kind.scale)
    if kind.base == "ARRAY" and kind.element is not None:
        return pa.list_(arrow_type(kind.element))
    if kind.base == "MAP" and kind.element is not None and kind.key is not None:
        return pa.map_(arrow_type(kind.key), arrow_type(kind.element))
    if kind.base == "STRUCT":
        return pa.struct([(name, arrow_type(one)) for name, one in kind.fields])
    return {
        "BOOLEAN": pa.bool_(),
        "INTEGER": pa.int32(),
        "BIGINT": pa.int64(),
        "DOUBLE": pa.float64(),
        "STRING": pa.string(),
        "BYTES": pa.binary(),
        "DATE": pa.date32(),
        "TIMESTAMP": pa.timestamp("us", tz="UTC"),
        "TIME": pa.int32(),
    }[kind.base]


def to_arrow(kind: SqlType) -> Convert | None:
    """From a value of ours to what pyarrow takes; None where they are the same."""
    if kind.base == "TIMESTAMP":
        return lambda value: value * 1000
    if kind.base == "ARRAY" and kind.element is not None:
        element = to_arrow(kind.element)
        return None if element is None else lambda value: [_each(element, one) for one in value]
    if kind.base == "MAP" and kind.element is not None:
        inner = to_arrow(kind.element)
        return lambda value: [(key, one if inner is None else _each(inner, one)) for key, one in value.items()]
    if kind.base == "STRUCT":
        parts = {name: to_arrow(one) for name, one in kind.fields}
        return lambda value: {name: _each(part, value.get(name)) for name, part in parts.items()}
    return None


def from_arrow(kind: SqlType) -> Convert | None:
    """From what pyarrow gives to a value of ours; None where they are the same."""
    if kind.base == "TIMESTAMP":
        return _milliseconds
    if kind.base == "DATE":
        return lambda value: (value - EPOCH_DAY).days
    if kind.base == "ARRAY" and kind.element is not None:
        element = from_arrow(kind.element)
        return None if element is None else lambda value: [_each(element, one) for one in value]
    if kind.base == "MAP" and kind.element is not None:
        inner = from_arrow(kind.element)
        return lambda value: {key: _each(inner, one) for key, one in value}
    if kind.base == "STRUCT":
        parts = {name: from_arrow(one) for name, one in kind.fields}
        return lambda value: {name: _each(part, value.get(name)) for name, part in parts.items()}
    return None


def _each(convert: Convert | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)


def _milliseconds(value: datetime.datetime) -> int:
    aware = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
    return (aware - EPOCH) // datetime.timedelta(milliseconds=1)


def sql_type(given: Any) -> SqlType:
    """Of a column that Spark gives."""
    import pyarrow.types as is_

    if is_.is_boolean(given):
        return BOOLEAN
    if is_.is_integer(given):
        return INTEGER if given.bit_width <= 32 else BIGINT
    if is_.is_floating(given):
        return DOUBLE
    if is_.is_decimal(given):
        return decimal(given.precision, given.scale)
    if is_.is_binary(given) or is_.is_large_binary(given):
        return BYTES
    if is_.is_date(given):
        return DATE
    if is_.is_timestamp(given):
        return TIMESTAMP
    if is_.is_list(given) or is_.is_large_list(given):
        return array(sql_type(given.value_type))
    if is_.is_map(given):
        return map_of(sql_type(given.key_type), sql_type(given.item_type))
    if is_.is_struct(given):
        return struct(*((field.name, sql_type(field.type)) for field in given))
    return STRING
