"""The types of columns.

Values in Python: BOOLEAN bool, INTEGER and BIGINT int, DOUBLE float, DECIMAL Decimal, STRING str, BYTES bytes, DATE
days and TIMESTAMP milliseconds since 1970 as int, TIME milliseconds of the day as int, ARRAY list, MAP dict, STRUCT
dict by field name. None is null everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.pipelines.sql.errors import SqlError

NUMERIC = ("INTEGER", "BIGINT", "DECIMAL", "DOUBLE")  # each fits into those behind it
ALIASES = {
    "INT": "INTEGER",
    "VARCHAR": "STRING",
    "BOOL": "BOOLEAN",
    "DEC": "DECIMAL",
    "NUMERIC": "DECIMAL",
}
PRIMITIVES = ("BOOLEAN", "INTEGER", "BIGINT", "DOUBLE", "STRING", "BYTES", "TIME", "DATE", "TIMESTAMP")


@dataclass(frozen=True, slots=True)
class SqlType:
    base: str
    precision: int = 0
    scale: int = 0
    key: SqlType | None = None  # of a MAP
    element: SqlType | None = None  # of an ARRAY, or the values of a MAP
    fields: tuple[tuple[str, SqlType], ...] = ()  # of a STRUCT

    def __str__(self) -> str:
        if self.base == "DECIMAL":
            return f"DECIMAL({self.precision}, {self.scale})"
        if self.base == "ARRAY":
            return f"ARRAY<{self.element}>"
        if self.base == "MAP":
            return f"MAP<{self.key}, {self.element}>"
        if self.base == "STRUCT":
            return f"STRUCT<{', '.join(f'`{name}` {kind}' for name, kind in self.fields)}>"
        return self.base

    @property
    def is_numeric(self) -> bool:
        return self.base in NUMERIC

    def field(self, name: str) -> SqlType | None:
        return next((kind for one, kind in self.fields if one == name), None)


BOOLEAN, INTEGER, BIGINT, DOUBLE = SqlType("BOOLEAN"), SqlType("INTEGER"), SqlType("BIGINT"), SqlType("DOUBLE")
STRING, BYTES = SqlType("STRING"), SqlType("BYTES")
TIME, DATE, TIMESTAMP = SqlType("TIME"), SqlType("DATE"), SqlType("TIMESTAMP")
NULL = SqlType("NULL")  # of the literal
UNIT = SqlType("INTERVALUNIT")  # as in TIMESTAMPADD(DAYS, ...)
LAMBDA = SqlType("LAMBDA")


def decimal(precision: int, scale: int) -> SqlType:
    if precision < 1 or scale < 0 or scale > precision:
        raise SqlError(f"DECIMAL({precision}, {scale}) is no type: precision is at least 1 and at least the scale.")
    return SqlType("DECIMAL", precision, scale)


def array(element: SqlType) -> SqlType:
    return SqlType("ARRAY", element=element)


def map_of(key: SqlType, value: SqlType) -> SqlType:
    return SqlType("MAP", key=key, element=value)


def struct(*fields: tuple[str, SqlType]) -> SqlType:
    return SqlType("STRUCT", fields=tuple(fields))


def as_decimal(kind: SqlType) -> SqlType:
    """The DECIMAL that holds every number of an exact type."""
    if kind.base == "INTEGER":
        return decimal(10, 0)
    if kind.base == "BIGINT":
        return decimal(19, 0)
    return kind


def common(one: SqlType, other: SqlType) -> SqlType | None:
    """The type that both fit into; None if there is none."""
    if one == other or other == NULL:
        return one
    if one == NULL:
        return other
    if one.is_numeric and other.is_numeric:
        if "DOUBLE" in (one.base, other.base):
            return DOUBLE
        if "DECIMAL" in (one.base, other.base):
            left, right = as_decimal(one), as_decimal(other)
            scale = max(left.scale, right.scale)
            return decimal(max(left.precision - left.scale, right.precision - right.scale) + scale, scale)
        return BIGINT
    if {one.base, other.base} <= {"TIMESTAMP", "DATE"}:
        return TIMESTAMP
    if one.base == other.base == "ARRAY":
        element = common(_part(one.element), _part(other.element))
        return None if element is None else array(element)
    if one.base == other.base == "MAP":
        key, value = common(_part(one.key), _part(other.key)), common(_part(one.element), _part(other.element))
        return None if key is None or value is None else map_of(key, value)
    if one.base == other.base == "STRUCT":
        return _common_struct(one, other)
    return None


def _common_struct(one: SqlType, other: SqlType) -> SqlType | None:
    names = list(dict.fromkeys([name for name, _ in (*one.fields, *other.fields)]))
    found: list[tuple[str, SqlType]] = []
    for name in names:
        kind = common(one.field(name) or NULL, other.field(name) or NULL)
        if kind is None:
            return None
        found.append((name, kind))
    return struct(*found)


def fits(given: SqlType, wanted: SqlType) -> bool:
    """Whether a value may be taken without a CAST."""
    if given in (wanted, NULL):
        return True
    if given.base == wanted.base == "DECIMAL":
        return given.scale <= wanted.scale and given.precision - given.scale <= wanted.precision - wanted.scale
    if given.is_numeric and wanted.is_numeric:
        if wanted.base == "DECIMAL":
            return given.base != "DOUBLE" and fits(as_decimal(given), wanted)
        return NUMERIC.index(given.base) <= NUMERIC.index(wanted.base)
    if given.base == "DATE" and wanted.base == "TIMESTAMP":
        return True
    if given.base == wanted.base and given.base in ("ARRAY", "MAP", "STRUCT"):
        return common(given, wanted) == wanted
    return False


def _part(kind: SqlType | None) -> SqlType:
    assert kind is not None
    return kind
