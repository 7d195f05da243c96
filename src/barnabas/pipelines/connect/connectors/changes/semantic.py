"""Debezium's semantic types: schemas with the names that consumers look for, and values for them."""

from __future__ import annotations

import base64
import decimal
import struct as packing
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

from barnabas.pipelines.connect.data.schema import (
    BYTES,
    DATE_SCHEMA,
    DECIMAL,
    FLOAT64,
    INT32,
    OPTIONAL_BYTES,
    OPTIONAL_INT32,
    STRING,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    Struct,
    Type,
    decimal_bytes,
    decimal_scale,
    from_ms,
    struct,
)

EPOCH_DAY = date(1970, 1, 1).toordinal()
DAY_US = 86_400_000_000


def named(kind: Type, name: str, **parameters: str) -> Schema:
    return Schema(type=kind, name=f"io.debezium.{name}", version=1, parameters=parameters or None)


DATE = named(Type.INT32, "time.Date")
TIME = named(Type.INT32, "time.Time")
MICRO_TIME = named(Type.INT64, "time.MicroTime")
NANO_TIME = named(Type.INT64, "time.NanoTime")
TIMESTAMP = named(Type.INT64, "time.Timestamp")
MICRO_TIMESTAMP = named(Type.INT64, "time.MicroTimestamp")
NANO_TIMESTAMP = named(Type.INT64, "time.NanoTimestamp")
ZONED_TIMESTAMP = named(Type.STRING, "time.ZonedTimestamp")
ZONED_TIME = named(Type.STRING, "time.ZonedTime")
ISO_DATE, ISO_TIME, ISO_TIMESTAMP = (named(Type.STRING, f"time.Iso{each}") for each in ("Date", "Time", "Timestamp"))
MICRO_DURATION = named(Type.INT64, "time.MicroDuration")
INTERVAL = named(Type.STRING, "time.Interval")
YEAR = named(Type.INT32, "time.Year")
UUID, JSON, XML = named(Type.STRING, "data.Uuid"), named(Type.STRING, "data.Json"), named(Type.STRING, "data.Xml")
LTREE = named(Type.STRING, "data.Ltree")
POINT = struct(
    [("x", FLOAT64), ("y", FLOAT64), ("wkb", OPTIONAL_BYTES), ("srid", OPTIONAL_INT32)],
    name="io.debezium.data.geometry.Point",
    version=1,
    doc="Geometry (POINT)",
)
GEOMETRY = struct(
    [("wkb", BYTES), ("srid", OPTIONAL_INT32)], name="io.debezium.data.geometry.Geometry", version=1, doc="Geometry"
)
VARIABLE_DECIMAL = struct(
    [("scale", INT32), ("value", BYTES)],
    name="io.debezium.data.VariableScaleDecimal",
    version=1,
    doc="Variable scaled decimal",
)
Typed = tuple[Schema, Callable[[Any], Any]]


def enumeration(labels: list[str], name: str = "data.Enum") -> Schema:
    return named(Type.STRING, name, allowed=",".join(labels))


def bits(length: int) -> Schema:
    return named(Type.BYTES, "data.Bits", length=str(length))


def decimals(scale: int, precision: int | None) -> Schema:
    parameters = {"scale": str(scale)}
    if precision is not None:
        parameters["connect.decimal.precision"] = str(precision)
    return Schema(type=Type.BYTES, name=DECIMAL, version=1, parameters=parameters)


def decimal_type(mode: str, scale: int | None, precision: int | None) -> Typed:
    """By `decimal.handling.mode`, of text or of a Decimal; without a scale, each value has its own."""
    if mode == "string":
        return STRING, lambda value: format(value, "f") if isinstance(value, decimal.Decimal) else value
    if mode == "double":
        return FLOAT64, float
    if scale is None:
        return VARIABLE_DECIMAL, variable_decimal
    unit = decimal.Decimal(1).scaleb(-scale)
    context = decimal.Context(prec=1_000)

    def convert(value: Any) -> decimal.Decimal:
        return decimal.Decimal(value).quantize(unit, context=context)

    return decimals(scale, precision), convert


def variable_decimal(value: Any) -> Struct | None:
    found = decimal.Decimal(value)
    if not found.is_finite():
        return None
    scale = decimal_scale(found)
    return Struct.unchecked(VARIABLE_DECIMAL, {"scale": scale, "value": decimal_bytes(found, scale)})


def binary_type(mode: str) -> Typed:
    if mode == "base64":
        return STRING, lambda value: base64.b64encode(value).decode()
    if mode == "base64-url-safe":
        return STRING, lambda value: base64.urlsafe_b64encode(value).decode()
    if mode == "hex":
        return STRING, lambda value: bytes(value).hex()
    return BYTES, bytes


def date_type(mode: str) -> Typed:
    """Of days since 1970."""
    if mode == "connect":
        return DATE_SCHEMA, lambda days: from_ms(days * 86_400_000)
    if mode == "isostring":
        return ISO_DATE, lambda days: date.fromordinal(days + EPOCH_DAY).isoformat() + "Z"
    return DATE, int


def time_type(mode: str, precision: int) -> Typed:
    """Of microseconds since midnight."""
    if mode == "connect":
        return TIME_SCHEMA, lambda micros: from_ms(micros // 1_000)
    if mode == "isostring":
        return ISO_TIME, lambda micros: time_text(micros) + "Z"
    if mode == "nanoseconds":
        return NANO_TIME, lambda micros: micros * 1_000
    if mode == "adaptive" and precision <= 3:
        return TIME, lambda micros: micros // 1_000
    return MICRO_TIME, int


def timestamp_type(mode: str, precision: int) -> Typed:
    """Of microseconds since 1970."""
    if mode == "connect":
        return TIMESTAMP_SCHEMA, lambda micros: from_ms(micros // 1_000)
    if mode == "isostring":
        return ISO_TIMESTAMP, iso_instant
    if mode == "nanoseconds":
        return NANO_TIMESTAMP, lambda micros: micros * 1_000
    if mode != "microseconds" and precision <= 3:
        return TIMESTAMP, lambda micros: micros // 1_000
    return MICRO_TIMESTAMP, int


def time_text(micros: int) -> str:
    seconds, rest = divmod(micros, 1_000_000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{rest:06d}".rstrip("0") if rest else text


def iso_instant(micros: int) -> str:
    """As Java writes an instant: no more digits of a second than needed."""
    days, rest = divmod(micros, DAY_US)
    return f"{date.fromordinal(days + EPOCH_DAY).isoformat()}T{time_text(rest)}Z"


def padded_instant(micros: int, digits: int) -> str:
    text = iso_instant(micros - micros % 1_000_000)[:-1]
    fraction = f".{micros % 1_000_000:06d}"[: digits + 1] if digits else ""
    return f"{text}{fraction}Z"


def micros_of(moment: datetime) -> int:
    aware = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def point(x: float, y: float, srid: int | None = None) -> Struct:
    wkb = packing.pack("<BIdd", 1, 1, x, y)
    return Struct.unchecked(POINT, {"x": x, "y": y, "wkb": wkb, "srid": srid})


def int64(value: int) -> int:
    """As Java wraps what is too large."""
    return ((value + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)


def bound(schema: Schema, convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A struct's value belongs to the very schema of its field."""
    if schema.type is not Type.STRUCT:
        return convert

    def converted(value: Any) -> Struct | None:
        found = convert(value)
        return None if found is None else Struct.unchecked(schema, found.values)

    return converted
