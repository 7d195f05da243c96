"""MariaDB's and MySQL's columns as Debezium's fields: of the values that the driver and the binlog give."""

from __future__ import annotations

import decimal
import struct as packing
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from barnabas.pipelines.connect.connectors.changes import semantic
from barnabas.pipelines.connect.connectors.changes.envelope import ChangeColumn
from barnabas.pipelines.connect.connectors.changes.semantic import EPOCH_DAY, Typed
from barnabas.pipelines.connect.data.schema import (
    BOOLEAN,
    FLOAT32,
    FLOAT64,
    INT16,
    INT32,
    INT64,
    STRING,
    Schema,
    Struct,
    Type,
    from_ms,
    single,
)

TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "inet4", "inet6"})
BINARIES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
GEOMETRIES = frozenset(
    {"geometry", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection"}
)


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """A row of information_schema.columns."""

    name: str
    data_type: str
    column_type: str
    nullable: bool
    default: str | None
    precision: int | None
    scale: int | None
    fraction: int
    length: int | None

    @property
    def unsigned(self) -> bool:
        return "unsigned" in self.column_type


class MySqlTypes:
    def __init__(self, values: Mapping[str, Any]) -> None:
        self._decimals = values["decimal.handling.mode"].lower()
        self._times = values["time.precision.mode"].lower()
        self._binary = values["binary.handling.mode"].lower()
        self._large = values["bigint.unsigned.handling.mode"].lower()

    def column(self, facts: ColumnFacts) -> ChangeColumn:
        schema, convert = self._typed(facts)
        value = default_value(schema, convert, facts)
        made = schema.but(optional=facts.nullable, default=value)
        return ChangeColumn(facts.name, made, semantic.bound(made, convert))

    def _typed(self, facts: ColumnFacts) -> Typed:
        kind = facts.data_type
        if kind in INTEGERS:
            return INTEGERS[kind][facts.unsigned], int
        if kind == "bigint":
            return self._bigint(facts.unsigned)
        if kind in ("decimal", "numeric"):
            return semantic.decimal_type(self._decimals, facts.scale or 0, facts.precision)
        if kind in TEXTS:
            return STRING, text_of
        if kind in BINARIES:
            schema, convert = semantic.binary_type(self._binary)
            width = facts.length or 0 if kind == "binary" else 0
            return schema, lambda value: convert(bytes_of(value).ljust(width, b"\0"))
        if kind == "bit":
            return self._bit(facts.precision or 1)
        maker = MAKERS.get(kind)
        if maker is not None:
            return maker(self, facts)
        if kind in GEOMETRIES:
            return semantic.GEOMETRY, geometry
        return SIMPLE.get(kind, (STRING, text_of))

    def _bigint(self, unsigned: bool) -> Typed:
        if unsigned and self._large == "precise":
            return semantic.decimals(0, None), decimal.Decimal
        return INT64, semantic.int64

    @staticmethod
    def _bit(length: int) -> Typed:
        if length == 1:
            return BOOLEAN, lambda value: bit_number(value) == 1
        width = (length + 7) // 8
        return semantic.bits(length), lambda value: bit_number(value).to_bytes(width, "little")

    def _date(self, _: ColumnFacts) -> Typed:
        schema, convert = semantic.date_type(self._times)
        return schema, lambda value: convert(day_of(value))

    def _time(self, facts: ColumnFacts) -> Typed:
        mode = "adaptive_time_microseconds" if self._times == "adaptive" else self._times
        schema, convert = semantic.time_type(mode, facts.fraction)
        return schema, lambda value: convert(span_us(value))

    def _datetime(self, facts: ColumnFacts) -> Typed:
        schema, convert = semantic.timestamp_type(self._times, facts.fraction)
        return schema, lambda value: convert(moment_us(value))

    def _enum(self, facts: ColumnFacts) -> Typed:
        return semantic.enumeration(labels(facts.column_type)), text_of

    def _set(self, facts: ColumnFacts) -> Typed:
        known = labels(facts.column_type)

        def convert(value: Any) -> str:
            return ",".join(each for each in known if each in value) if isinstance(value, set) else text_of(value)

        return semantic.enumeration(known, "data.EnumSet"), convert


MAKERS: dict[str, Callable[[MySqlTypes, ColumnFacts], Typed]] = {
    "date": MySqlTypes._date,
    "time": MySqlTypes._time,
    "datetime": MySqlTypes._datetime,
    "enum": MySqlTypes._enum,
    "set": MySqlTypes._set,
}
INTEGERS: dict[str, dict[bool, Schema]] = {
    "tinyint": {False: INT16, True: INT16},
    "smallint": {False: INT16, True: INT32},
    "mediumint": {False: INT32, True: INT32},
    "int": {False: INT32, True: INT64},
}


def zoned(value: Any) -> str:
    return semantic.iso_instant(moment_us(value))


def point(value: Any) -> Struct:
    srid, _, _, x, y = packing.unpack("<IBIdd", bytes(value)[:25])
    return semantic.point(x, y, srid or None)


def geometry(value: Any) -> Struct:
    data = bytes(value)
    srid = int.from_bytes(data[:4], "little")
    return Struct.unchecked(semantic.GEOMETRY, {"wkb": data[4:], "srid": srid or None})


def uuid_text(value: Any) -> str:
    return str(uuid.UUID(bytes=bytes(value))) if isinstance(value, bytes) else str(value)


def json_text(value: Any) -> str:
    import json

    return text_of(value) if isinstance(value, str | bytes) else json.dumps(value, ensure_ascii=False)


SIMPLE: dict[str, Typed] = {
    "float": (FLOAT32, lambda value: single(float(value))),
    "double": (FLOAT64, float),
    "timestamp": (semantic.ZONED_TIMESTAMP, zoned),
    "year": (semantic.YEAR, int),
    "json": (semantic.JSON, json_text),
    "point": (semantic.POINT, point),
    "uuid": (STRING, uuid_text),
}


def text_of(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def bytes_of(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def bit_number(value: Any) -> int:
    return int(value, 2) if isinstance(value, str) else int.from_bytes(value, "big")


def day_of(value: Any) -> int:
    found = date.fromisoformat(value) if isinstance(value, str) else value
    return int(found.toordinal()) - EPOCH_DAY


def span_us(value: Any) -> int:
    if isinstance(value, str):
        hours, minutes, seconds = value.split(":")
        whole, _, rest = seconds.partition(".")
        value = timedelta(
            hours=int(hours), minutes=int(minutes), seconds=int(whole), microseconds=int(rest.ljust(6, "0") or 0)
        )
    return int(value // timedelta(microseconds=1))


def moment_us(value: Any) -> int:
    return semantic.micros_of(datetime.fromisoformat(value) if isinstance(value, str) else value)


def labels(column_type: str) -> list[str]:
    inner = column_type[column_type.index("(") + 1 : column_type.rindex(")")]
    return [each.replace("''", "'") for each in inner[1:-1].split("','")]


def default_value(schema: Schema, convert: Callable[[Any], Any], facts: ColumnFacts) -> Any:
    """Of a literal; the current time counts as 1970, as Debezium has it."""
    text = facts.default
    if text is None or text.upper() == "NULL":
        return None
    if text.lower().startswith(("current_timestamp", "now(", "curdate", "curtime")):
        if schema.name == semantic.ZONED_TIMESTAMP.name:
            return "1970-01-01T00:00:00Z"
        return from_ms(0) if (schema.name or "").startswith("org.apache") else 0 if schema.type is Type.INT64 else None
    if len(text) > 1 and text[0] == text[-1] == "'":
        text = text[1:-1].replace("''", "'").replace("\\'", "'")
    if facts.data_type == "bit":
        text = text.removeprefix("b'").rstrip("'")
    try:
        return convert(text)
    except (ValueError, ArithmeticError, TypeError, packing.error):
        return None
