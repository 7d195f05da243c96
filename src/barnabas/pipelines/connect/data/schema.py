"""Connect's schemas and structs.

A value's Python type by the schema's: integers are int, floats are float, bytes are bytes, arrays list, maps dict,
structs Struct. The logical types are Decimal (decimal.Decimal), and Date, Time and Timestamp (datetime in UTC, as
Java has one class for the three). A value without a schema is one of these too; `Float32` tells a Java float from
a double.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Self

import numpy as np

from barnabas.pipelines.connect.errors import DataError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY_MS = 86_400_000
DECIMAL = "org.apache.kafka.connect.data.Decimal"
DATE = "org.apache.kafka.connect.data.Date"
TIME = "org.apache.kafka.connect.data.Time"
TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"
TEMPORAL = frozenset({DATE, TIME, TIMESTAMP})
SCALE = "scale"
# Enough for any decimal of a database; Python's default of 28 digits would round.
EXACT = decimal.Context(prec=1_000)


class Type(StrEnum):
    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    FLOAT32 = "FLOAT32"
    FLOAT64 = "FLOAT64"
    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    BYTES = "BYTES"
    ARRAY = "ARRAY"
    MAP = "MAP"
    STRUCT = "STRUCT"


BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}


class Float32(float):
    """A float without a schema that Java would keep in four bytes."""


def single(value: float) -> Float32:
    with np.errstate(over="ignore"):
        return Float32(np.float32(value))


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    index: int
    schema: Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    type: Type
    optional: bool = False
    default: Any = None
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: Mapping[str, str] | None = None
    fields: tuple[Field, ...] = ()
    key_schema: Schema | None = None
    value_schema: Schema | None = None
    by_name: Mapping[str, Field] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {each.name: each for each in self.fields})
        if len(self.by_name) < len(self.fields):
            names = [each.name for each in self.fields]
            twice = next(name for name in names if names.count(name) > 1)
            raise DataError(f"Cannot create field because of field name duplication {twice}")

    def __hash__(self) -> int:
        return hash((self.type, self.name, self.version, tuple(self.by_name)))

    def field(self, name: str) -> Field | None:
        return self.by_name.get(name)

    def but(self, **changes: Any) -> Schema:
        return replace(self, **changes)

    def as_optional(self) -> Schema:
        return self if self.optional else replace(self, optional=True)

    def __str__(self) -> str:
        return f"Schema{{{self.name}:{self.type}}}" if self.name is not None else f"Schema{{{self.type}}}"


INT8, INT16, INT32, INT64 = (Schema(type=each) for each in (Type.INT8, Type.INT16, Type.INT32, Type.INT64))
FLOAT32, FLOAT64 = Schema(type=Type.FLOAT32), Schema(type=Type.FLOAT64)
BOOLEAN, STRING, BYTES = (Schema(type=each) for each in (Type.BOOLEAN, Type.STRING, Type.BYTES))
OPTIONAL_INT32, OPTIONAL_INT64, OPTIONAL_STRING, OPTIONAL_BYTES = (
    each.as_optional() for each in (INT32, INT64, STRING, BYTES)
)
DATE_SCHEMA = Schema(type=Type.INT32, name=DATE, version=1)
TIME_SCHEMA = Schema(type=Type.INT32, name=TIME, version=1)
TIMESTAMP_SCHEMA = Schema(type=Type.INT64, name=TIMESTAMP, version=1)


def decimal_schema(scale: int, *, optional: bool = False) -> Schema:
    return Schema(type=Type.BYTES, optional=optional, name=DECIMAL, version=1, parameters={SCALE: str(scale)})


def array(items: Schema, **rest: Any) -> Schema:
    return Schema(type=Type.ARRAY, value_schema=items, **rest)


def map_of(keys: Schema, values: Schema, **rest: Any) -> Schema:
    return Schema(type=Type.MAP, key_schema=keys, value_schema=values, **rest)


def struct(fields: Iterable[tuple[str, Schema]], **rest: Any) -> Schema:
    made = tuple(Field(name, index, schema) for index, (name, schema) in enumerate(fields))
    return Schema(type=Type.STRUCT, fields=made, **rest)


class Struct:
    """Values by the names of a schema's fields."""

    __slots__ = ("schema", "values")

    def __init__(self, schema: Schema, values: Mapping[str, Any] | None = None) -> None:
        if schema.type is not Type.STRUCT:
            raise DataError(f"Not a struct schema: {schema}")
        self.schema = schema
        self.values: dict[str, Any] = {}
        for name, value in (values or {}).items():
            self.put(name, value)

    @classmethod
    def unchecked(cls, schema: Schema, values: dict[str, Any]) -> Self:
        """Of values that are known to fit."""
        made = cls.__new__(cls)
        made.schema, made.values = schema, values
        return made

    def get(self, name: str) -> Any:
        """With the schema's default where there is no value."""
        found = self.values.get(name)
        if found is None:
            return self._field(name).schema.default
        return found

    def without_default(self, name: str) -> Any:
        self._field(name)
        return self.values.get(name)

    def read(self, name: str, *, with_default: bool) -> Any:
        return self.get(name) if with_default else self.without_default(name)

    def put(self, name: str, value: Any) -> Struct:
        validate(self._field(name).schema, value, name)
        self.values[name] = value
        return self

    def validate(self) -> None:
        for each in self.schema.fields:
            if self.values.get(each.name) is None and (each.schema.optional or each.schema.default is not None):
                continue
            validate(each.schema, self.values.get(each.name), each.name)

    def _field(self, name: str) -> Field:
        found = self.schema.by_name.get(name)
        if found is None:
            raise DataError(f"{name} is not a valid field name")
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Struct) and self.schema == other.schema and self._all() == other._all()

    def _all(self) -> list[Any]:
        return [self.values.get(each.name) for each in self.schema.fields]

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        from barnabas.pipelines.connect.data.java_text import java_text

        shown = ((each.name, self.values.get(each.name)) for each in self.schema.fields)
        return "Struct{" + ",".join(f"{name}={java_text(value)}" for name, value in shown if value is not None) + "}"

    __repr__ = __str__


PYTHON_TYPES: dict[Type, tuple[type, ...]] = {
    Type.FLOAT32: (float,),
    Type.FLOAT64: (float,),
    Type.BOOLEAN: (bool,),
    Type.STRING: (str,),
    Type.BYTES: (bytes, bytearray, memoryview),
    Type.ARRAY: (list, tuple),
    Type.MAP: (dict,),
    Type.STRUCT: (Struct,),
}


def validate(schema: Schema, value: Any, name: str = "") -> None:
    """Raises DataError if the value does not fit."""
    where = f' for field: "{name}"' if name else ""
    if value is None:
        if not schema.optional and schema.default is None:
            raise DataError(
                f'Invalid value: null used for required field: "{name or "null"}", schema type: {schema.type}'
            )
        return
    if not _fits(schema, value):
        raise DataError(
            f"Invalid Java object for schema {schema.name or str(schema)} with type {schema.type}: "
            f"class {java_class(value)}{where}"
        )
    if schema.type is Type.STRUCT and value.schema is not schema and value.schema != schema:
        raise DataError("Struct schemas do not match.")
    if schema.type is Type.ARRAY and schema.value_schema is not None:
        for each in value:
            validate(schema.value_schema, each, name)
    elif schema.type is Type.MAP and schema.key_schema is not None and schema.value_schema is not None:
        for key, each in value.items():
            validate(schema.key_schema, key, name)
            validate(schema.value_schema, each, name)


def _fits(schema: Schema, value: Any) -> bool:
    if schema.name is not None:
        if schema.name in TEMPORAL:
            return isinstance(value, datetime)
        if schema.name == DECIMAL:
            return isinstance(value, decimal.Decimal)
    bits = BITS.get(schema.type)
    if bits is not None:
        return isinstance(value, int) and not isinstance(value, bool) and -(1 << bits - 1) <= value < 1 << bits - 1
    return isinstance(value, PYTHON_TYPES[schema.type])


def type_of(value: Any) -> Type | None:
    """What a value without a schema would be; None for what Connect does not know, as a date."""
    if isinstance(value, bool):
        return Type.BOOLEAN
    if isinstance(value, int):
        return Type.INT64
    if isinstance(value, float):
        return Type.FLOAT32 if isinstance(value, Float32) else Type.FLOAT64
    for kind in (Type.STRING, Type.BYTES, Type.ARRAY, Type.MAP, Type.STRUCT):
        if isinstance(value, PYTHON_TYPES[kind]):
            return kind
    return None


JAVA_CLASSES = (
    (bool, "java.lang.Boolean"),
    (int, "java.lang.Long"),
    (Float32, "java.lang.Float"),
    (float, "java.lang.Double"),
    (str, "java.lang.String"),
    (bytes, "[B"),
    (list, "java.util.ArrayList"),
    (dict, "java.util.HashMap"),
    (Struct, "org.apache.kafka.connect.data.Struct"),
    (decimal.Decimal, "java.math.BigDecimal"),
    (datetime, "java.util.Date"),
)


def java_class(value: Any) -> str:
    """The name that error messages of Connect show."""
    if value is None:
        return "null"
    return next((name for kind, name in JAVA_CLASSES if isinstance(value, kind)), type(value).__name__)


def from_ms(milliseconds: int) -> datetime:
    try:
        return EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        raise DataError(f"{milliseconds} ms is no time between the years 1 and 9999") from None


def to_ms(time: datetime) -> int:
    return (time - EPOCH) // timedelta(milliseconds=1)


def encode_logical(schema: Schema, value: Any) -> Any:
    """Days, milliseconds or bytes of a logical value; other values as they are."""
    if schema.name == TIMESTAMP:
        return to_ms(value)
    if schema.name == DATE:
        days, rest = divmod(to_ms(value), DAY_MS)
        if rest:
            raise DataError("Kafka Connect Date type should not have any time fields set to non-zero values.")
        return days
    if schema.name == TIME:
        milliseconds = to_ms(value)
        if not 0 <= milliseconds < DAY_MS:
            raise DataError("Kafka Connect Time type should not have any date fields set to non-zero values.")
        return milliseconds
    if schema.name == DECIMAL:
        return decimal_bytes(value, scale_of(schema))
    return value


def decode_logical(schema: Schema, value: Any) -> Any:
    if schema.name in (TIMESTAMP, TIME):
        return from_ms(value)
    if schema.name == DATE:
        return from_ms(value * DAY_MS)
    if schema.name == DECIMAL:
        return decimal_from(value, scale_of(schema))
    return value


def scale_of(schema: Schema) -> int:
    text = (schema.parameters or {}).get(SCALE)
    if text is None:
        raise DataError("Invalid Decimal schema: scale parameter not found.")
    try:
        return int(text)
    except ValueError:
        raise DataError("Invalid scale parameter found in Decimal schema: " + text) from None


def decimal_scale(value: decimal.Decimal) -> int:
    exponent = value.as_tuple().exponent
    return -exponent if isinstance(exponent, int) else 0


def decimal_bytes(value: decimal.Decimal, scale: int) -> bytes:
    if decimal_scale(value) != scale:
        raise DataError(
            f"Decimal value has mismatching scale for given Decimal schema. Schema has scale {scale}, "
            f"value has scale {decimal_scale(value)}."
        )
    unscaled = int(value.scaleb(scale, EXACT))
    width = ((unscaled if unscaled >= 0 else -unscaled - 1).bit_length()) // 8 + 1
    return unscaled.to_bytes(width, "big", signed=True)


def decimal_from(data: bytes, scale: int) -> decimal.Decimal:
    return decimal.Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-scale, EXACT)
