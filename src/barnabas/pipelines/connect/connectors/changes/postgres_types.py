"""PostgreSQL's columns as Debezium's fields: of the text that the server writes for a value."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from barnabas.pipelines.connect.connectors.changes import semantic
from barnabas.pipelines.connect.connectors.changes.envelope import ChangeColumn
from barnabas.pipelines.connect.connectors.changes.semantic import EPOCH_DAY, Typed
from barnabas.pipelines.connect.data.schema import (
    BOOLEAN,
    BYTES,
    FLOAT32,
    FLOAT64,
    INT16,
    INT32,
    INT64,
    STRING,
    Schema,
    Struct,
    Type,
    array,
    from_ms,
    map_of,
    single,
)
from barnabas.pipelines.connect.errors import DataError

TIME_MODES = (
    "adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds",
)  # fmt: skip
MONTH_US = int(30.4375 * 86_400_000_000)
DAY_US = 86_400_000_000
UNIT_US = {"year": 12 * MONTH_US, "mon": MONTH_US, "day": DAY_US}
MOMENT = re.compile(r"(\d+)-(\d\d)-(\d\d)(?: (\d\d:\d\d:\d\d(?:\.\d+)?))?([+-]\d\d(?::\d\d(?::\d\d)?)?)?( BC)?")
INFINITY_US = {"infinity": 9_223_372_036_825_200_000, "-infinity": -9_223_372_036_832_400_000}
LITERAL = re.compile(
    r"\(?'((?:[^']|'')*)'(?:::[\w \".\[\](),]+)?\)?|\(?(-?\d+(?:\.\d+)?)\)?(?:::[\w \".(),]+)?|(true|false)"
)
NOW = re.compile(
    r"\(?'?(now|current_|localtime|statement_timestamp|transaction_timestamp|clock_timestamp|timezone)", re.I
)


@dataclass(frozen=True, slots=True)
class PostgresType:
    """A row of pg_type: `element` is that of an array, `base` that of a domain."""

    oid: int
    name: str
    kind: str = "b"
    element: int = 0
    base: int = 0
    base_modifier: int = -1
    labels: tuple[str, ...] = ()


class PostgresTypes:
    def __init__(self, values: Mapping[str, Any], known: Mapping[int, PostgresType]) -> None:
        self._known = known
        self._decimals = values["decimal.handling.mode"].lower()
        self._times = values["time.precision.mode"].lower()
        self._binary = values["binary.handling.mode"].lower()
        self._intervals = values["interval.handling.mode"].lower()
        self._hstore = values["hstore.handling.mode"].lower()
        self._placeholder = values["unavailable.value.placeholder"]
        self._unknown = values["include.unknown.datatypes"]

    def column(
        self, name: str, type_oid: int, modifier: int, *, not_null: bool, default: str | None
    ) -> ChangeColumn | None:
        """None if the type is unknown and unknown types are not wanted."""
        found = self.typed(type_oid, modifier)
        if found is None:
            return None
        schema, convert = found
        value = default_value(schema, convert, default)
        made = schema.but(optional=not not_null, default=value)
        fallback = value if value is not None else fallback_of(schema)
        return ChangeColumn(
            name, made, semantic.bound(made, convert), self._unsent(schema), fallback if not_null else None
        )

    def _unsent(self, schema: Schema) -> Any:
        if schema.type is Type.STRING:
            return self._placeholder
        if schema.type is Type.BYTES and schema.name is None:
            return self._placeholder.encode()
        if schema.type is Type.ARRAY and schema.value_schema is not None and schema.value_schema.type is Type.STRING:
            return [self._placeholder]
        return fallback_of(schema)

    def typed(self, type_oid: int, modifier: int) -> Typed | None:
        found = self._known.get(type_oid)
        if found is None:
            return (BYTES, str.encode) if self._unknown else None
        if found.kind == "e":
            return semantic.enumeration(list(found.labels)), str
        if found.kind == "d":
            return self.typed(found.base, modifier if modifier >= 0 else found.base_modifier)
        if found.element and found.name.startswith("_"):
            return self._array(found.element, modifier)
        maker = MAKERS.get(found.name)
        if maker is not None:
            return maker(self, modifier)
        simple = SIMPLE.get(found.name)
        if simple is not None:
            return simple
        if found.kind in "rm":
            return STRING, str
        return (BYTES, str.encode) if self._unknown else None

    def _array(self, element: int, modifier: int) -> Typed | None:
        inner = self.typed(element, modifier)
        if inner is None:
            return None
        schema, convert = inner[0].as_optional(), inner[1]
        element_of = semantic.bound(schema, convert)
        return array(schema), lambda text: _elements(parse_array(text), element_of)

    def _numeric(self, modifier: int) -> Typed:
        if modifier < 4:
            return semantic.decimal_type(self._decimals, None, None)
        precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
        scale = (scale ^ 1024) - 1024  # eleven bits with a sign
        return semantic.decimal_type(self._decimals, scale, precision)

    def _money(self, _: int) -> Typed:
        schema, convert = semantic.decimal_type(self._decimals, 2, None)
        return schema, lambda text: convert(re.sub(r"[^\d.\-]", "", text.replace("(", "-")))

    def _date(self, _: int) -> Typed:
        schema, convert = semantic.date_type(self._times)
        return schema, lambda text: convert(days_of(text))

    def _time(self, modifier: int) -> Typed:
        schema, convert = semantic.time_type(self._times, modifier if modifier >= 0 else 6)
        return schema, lambda text: convert(clock_us(text))

    def _timestamp(self, modifier: int) -> Typed:
        schema, convert = semantic.timestamp_type(self._times, modifier if modifier >= 0 else 6)
        return schema, lambda text: convert(moment_us(text))

    def _timestamptz(self, modifier: int) -> Typed:
        """As many digits of a second as the column has, zeros too."""
        digits = modifier if modifier >= 0 else 6

        def convert(text: str) -> str:
            return text if text in INFINITY_US else semantic.padded_instant(moment_us(text), digits)

        return semantic.ZONED_TIMESTAMP, convert

    def _interval(self, _: int) -> Typed:
        if self._intervals == "string":
            return semantic.INTERVAL, interval_text
        return semantic.MICRO_DURATION, interval_us

    def _bytea(self, _: int) -> Typed:
        schema, convert = semantic.binary_type(self._binary)
        return schema, lambda text: convert(bytes.fromhex(text[2:]))

    def _bit(self, modifier: int) -> Typed:
        if modifier == 1:
            return BOOLEAN, lambda text: text == "1"
        return semantic.bits(modifier if modifier > 0 else 2_147_483_647), bit_bytes

    def _varbit(self, modifier: int) -> Typed:
        return semantic.bits(modifier if modifier > 0 else 2_147_483_647), bit_bytes

    def _hstores(self, _: int) -> Typed:
        import json

        if self._hstore == "map":
            return map_of(STRING, STRING.as_optional()), parse_hstore
        return semantic.JSON, lambda text: json.dumps(parse_hstore(text), separators=(",", ":"), ensure_ascii=False)


MAKERS: dict[str, Callable[[PostgresTypes, int], Typed]] = {
    "numeric": PostgresTypes._numeric,
    "money": PostgresTypes._money,
    "date": PostgresTypes._date,
    "time": PostgresTypes._time,
    "timestamp": PostgresTypes._timestamp,
    "timestamptz": PostgresTypes._timestamptz,
    "interval": PostgresTypes._interval,
    "bytea": PostgresTypes._bytea,
    "bit": PostgresTypes._bit,
    "varbit": PostgresTypes._varbit,
    "hstore": PostgresTypes._hstores,
}


def zoned_time(text: str) -> str:
    at = max(text.rfind("+"), text.rfind("-"))
    return semantic.time_text((clock_us(text[:at]) - zone_us(text[at:])) % DAY_US) + "Z"


def parse_point(text: str) -> Struct:
    x, y = text.strip("()").split(",")
    return semantic.point(float(x), float(y))


SIMPLE: dict[str, Typed] = {
    "bool": (BOOLEAN, lambda text: text == "t"),
    "int2": (INT16, int),
    "int4": (INT32, int),
    "int8": (INT64, int),
    "oid": (INT64, int),
    "xid": (INT64, int),
    "float4": (FLOAT32, lambda text: single(float(text))),
    "float8": (FLOAT64, float),
    "timetz": (semantic.ZONED_TIME, zoned_time),
    "uuid": (semantic.UUID, str),
    "json": (semantic.JSON, str),
    "jsonb": (semantic.JSON, str),
    "xml": (semantic.XML, str),
    "ltree": (semantic.LTREE, str),
    "point": (semantic.POINT, parse_point),
    **dict.fromkeys(
        ("text", "varchar", "bpchar", "char", "name", "citext", "inet", "cidr", "macaddr", "macaddr8", "tsvector",
         "int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange", "isbn", "vector"),
        (STRING, str),
    ),
}  # fmt: skip


def fallback_of(schema: Schema) -> Any:
    if schema.name is not None and schema.type is Type.STRUCT:
        return None
    kinds: dict[Type, Any] = {
        Type.BOOLEAN: False, Type.STRING: "", Type.BYTES: b"", Type.FLOAT32: single(0.0), Type.FLOAT64: 0.0,
    }  # fmt: skip
    if schema.name == "org.apache.kafka.connect.data.Decimal":
        return semantic.decimal_type("precise", int((schema.parameters or {}).get("scale", "0")), None)[1]("0")
    if schema.name is not None and schema.name.startswith("org.apache"):
        return from_ms(0)
    if schema.type is Type.ARRAY:
        return []
    return kinds.get(schema.type, 0 if schema.type.startswith("INT") else None)


def default_value(schema: Schema, convert: Callable[[Any], Any], expression: str | None) -> Any:
    """Of a literal; sequences count as 0 and the current time as 1970, as Debezium has it."""
    if expression is None or expression.upper().startswith("NULL"):
        return None
    found = LITERAL.fullmatch(expression)
    if found is not None:
        text = found[1].replace("''", "'") if found[1] is not None else found[2] or found[3]
        if schema.type is Type.BOOLEAN:
            text = text[0]
        try:
            return convert(text)
        except (ValueError, ArithmeticError, DataError, IndexError, AttributeError):
            return None
    if expression.startswith("nextval("):
        return 0 if schema.type.startswith("INT") else None
    if NOW.match(expression):
        if schema.name == semantic.ZONED_TIMESTAMP.name:
            return convert("1970-01-01 00:00:00+00")
        return fallback_of(schema) if schema.type.startswith("INT") else None
    return None


def days_of(text: str) -> int:
    if len(text) == 10:
        return date.fromisoformat(text).toordinal() - EPOCH_DAY
    if text in INFINITY_US:
        return 2_147_483_647 if text == "infinity" else -2_147_483_648
    return moment_us(text) // DAY_US


def moment_us(text: str) -> int:
    """Of a date, a timestamp or one with a zone, of any year."""
    if text in INFINITY_US:
        return INFINITY_US[text]
    found = MOMENT.fullmatch(text)
    if found is None:
        raise DataError(f"{text} is no time that PostgreSQL writes")
    year, month, day, clock, zone, before = found.groups()
    number = 1 - int(year) if before else int(year)
    cycles = 0 if 1 <= number <= 9999 else (number - 2000) // 400  # the calendar repeats after 400 years
    days = date(number - 400 * cycles, int(month), int(day)).toordinal() - EPOCH_DAY + cycles * 146_097
    return days * DAY_US + (clock_us(clock) if clock else 0) - (zone_us(zone) if zone else 0)


def clock_us(text: str) -> int:
    seconds = int(text[:2]) * 3600 + int(text[3:5]) * 60 + int(text[6:8])
    return seconds * 1_000_000 + (int(text[9:].ljust(6, "0")) if len(text) > 8 else 0)


def zone_us(text: str) -> int:
    parts = [int(each) for each in text[1:].split(":")]
    seconds = sum(part * unit for part, unit in zip(parts, (3600, 60, 1), strict=False))
    return (-1 if text[0] == "-" else 1) * seconds * 1_000_000


def interval_parts(text: str) -> tuple[dict[str, int], int]:
    """Years, months and days, and the microseconds of the clock."""
    parts = {"year": 0, "mon": 0, "day": 0}
    clock = 0
    words = text.split()
    at = 0
    while at < len(words):
        if ":" in words[at]:
            sign, digits = (-1, words[at][1:]) if words[at][0] == "-" else (1, words[at].lstrip("+"))
            hours, _, rest = digits.partition(":")
            clock = sign * (int(hours) * 3_600_000_000 + clock_us("00:" + rest))
            at += 1
        else:
            parts[words[at + 1].rstrip("s")] = int(words[at])
            at += 2
    return parts, clock


def interval_us(text: str) -> int:
    parts, clock = interval_parts(text)
    return sum(UNIT_US[unit] * count for unit, count in parts.items()) + clock


def interval_text(text: str) -> str:
    parts, clock = interval_parts(text)
    sign = "-" if clock < 0 else ""
    seconds, rest = divmod(abs(clock), 1_000_000)
    part = f"{seconds % 60}.{rest:06d}".rstrip("0") if rest else f"{seconds % 60}.0"
    clocked = f"{sign}{seconds // 3600}H{sign}{seconds // 60 % 60}M{sign}{part}S"
    return f"P{parts['year']}Y{parts['mon']}M{parts['day']}DT{clocked}"


def bit_bytes(text: str) -> bytes:
    """The least byte first."""
    return int(text or "0", 2).to_bytes(max((len(text.lstrip("0")) + 7) // 8, 1), "little")


def parse_array(text: str) -> list[Any]:
    """Strings, None and lists of them."""
    at = text.index("{")  # bounds may stand before it
    found, _ = _list(text, at + 1)
    return found


def _list(text: str, at: int) -> tuple[list[Any], int]:
    found: list[Any] = []
    while text[at] != "}":
        if text[at] == "{":
            inner, at = _list(text, at + 1)
            found.append(inner)
        elif text[at] == '"':
            end = at + 1
            while text[end] != '"':
                end += 2 if text[end] == "\\" else 1
            found.append(re.sub(r"\\(.)", r"\1", text[at + 1 : end], flags=re.S))
            at = end + 1
        else:
            end = at
            while text[end] not in ",}":
                end += 1
            found.append(None if text[at:end].upper() == "NULL" else text[at:end])
            at = end
        if text[at] == ",":
            at += 1
    return found, at + 1


def _elements(found: list[Any], convert: Callable[[Any], Any]) -> list[Any]:
    return [
        None if each is None else _elements(each, convert) if isinstance(each, list) else convert(each)
        for each in found
    ]


HSTORE = re.compile(r'"((?:[^"\\]|\\.)*)"=>(?:"((?:[^"\\]|\\.)*)"|NULL)', re.S)


def parse_hstore(text: str) -> dict[str, str | None]:
    def plain(part: str | None) -> str | None:
        return None if part is None else re.sub(r"\\(.)", r"\1", part, flags=re.S)

    return {plain(found[1]) or "": plain(found[2]) for found in HSTORE.finditer(text)}
