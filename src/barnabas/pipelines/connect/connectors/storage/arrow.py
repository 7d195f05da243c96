"""Connect's schemas and values as Arrow's, and back: how Parquet files hold them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pyarrow as pa

from barnabas.pipelines.connect.data.schema import (
    BOOLEAN,
    BYTES,
    DATE,
    DATE_SCHEMA,
    DECIMAL,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    TIME,
    TIME_SCHEMA,
    TIMESTAMP,
    TIMESTAMP_SCHEMA,
    Schema,
    Struct,
    Type,
    array,
    decimal_schema,
    from_ms,
    map_of,
    scale_of,
    single,
    struct,
    to_ms,
)
from barnabas.pipelines.connect.errors import DataError

PRECISION = 38
PLAIN = {
    Type.INT8: pa.int8(), Type.INT16: pa.int16(), Type.INT32: pa.int32(), Type.INT64: pa.int64(),
    Type.FLOAT32: pa.float32(), Type.FLOAT64: pa.float64(), Type.BOOLEAN: pa.bool_(), Type.STRING: pa.string(),
    Type.BYTES: pa.binary(),
}  # fmt: skip
LOGICAL = {DATE: pa.date32(), TIME: pa.time32("ms"), TIMESTAMP: pa.timestamp("ms", tz="UTC")}
Change = Callable[[Any], Any]


def arrow_type(schema: Schema) -> Any:
    if schema.name in LOGICAL:
        return LOGICAL[schema.name]
    if schema.name == DECIMAL:
        return pa.decimal128(PRECISION, scale_of(schema))
    if schema.type is Type.STRUCT:
        return pa.struct([arrow_field(each.name, each.schema) for each in schema.fields])
    if schema.type is Type.ARRAY and schema.value_schema is not None:
        return pa.list_(arrow_field("element", schema.value_schema))
    if schema.type is Type.MAP and schema.key_schema is not None and schema.value_schema is not None:
        return pa.map_(arrow_type(schema.key_schema), arrow_field("value", schema.value_schema))
    return PLAIN[schema.type]


def arrow_field(name: str, schema: Schema) -> Any:
    return pa.field(name, arrow_type(schema), nullable=schema.optional)


def change_of(schema: Schema) -> Change | None:
    """What makes a value one that Arrow takes; None if it is one."""
    if schema.name == DATE:
        return lambda value: None if value is None else value.date()
    if schema.name == TIME:
        return lambda value: None if value is None else to_ms(value)
    if schema.type is Type.STRUCT:
        changes = [(each.name, each.schema.default, change_of(each.schema)) for each in schema.fields]
        return lambda value: None if value is None else _members(changes, value.values)
    if schema.type is Type.ARRAY and schema.value_schema is not None:
        items = change_of(schema.value_schema)
        return None if items is None else lambda value: None if value is None else [items(each) for each in value]
    if schema.type is Type.MAP and schema.key_schema is not None and schema.value_schema is not None:
        keys, values = change_of(schema.key_schema) or _same, change_of(schema.value_schema) or _same
        return lambda value: None if value is None else [(keys(key), values(each)) for key, each in value.items()]
    return None


def _same(value: Any) -> Any:
    return value


def _members(changes: list[tuple[str, Any, Change | None]], values: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for name, default, change in changes:
        value = values.get(name)
        value = default if value is None else value
        found[name] = value if change is None else change(value)
    return found


def table(schema: Schema, values: Sequence[Struct]) -> Any:
    """Column by column, so that plain values are not touched."""
    columns, fields = [], []
    for each in schema.fields:
        default, name, change = each.schema.default, each.name, change_of(each.schema)
        column: list[Any] = [value.values.get(name) for value in values]
        if default is not None:
            column = [default if value is None else value for value in column]
        if change is not None:
            column = [change(value) for value in column]
        field = arrow_field(name, each.schema)
        try:
            columns.append(pa.array(column, type=field.type))
        except (pa.ArrowException, TypeError, OverflowError) as error:
            raise DataError(f"field {name} cannot be written: {error}") from None
        fields.append(field)
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def inferred_table(values: Sequence[dict[str, Any]]) -> Any:
    """Of maps without a schema: Arrow looks at the values. A field that only a later map has is a column too."""
    names = dict.fromkeys(name for value in values for name in value)
    try:
        return pa.table({name: [value.get(name) for value in values] for name in names})
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise DataError(f"these records have no common schema: {error}") from None


def together(tables: Sequence[Any]) -> Any:
    """The rows of several tables; a column that one of them has not is null there."""
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(f"these records have no common schema: {error}") from None


READ = [
    (pa.types.is_boolean, BOOLEAN), (pa.types.is_int8, INT8), (pa.types.is_int16, INT16), (pa.types.is_uint8, INT16),
    (pa.types.is_int32, INT32), (pa.types.is_uint16, INT32), (pa.types.is_int64, INT64), (pa.types.is_uint32, INT64),
    (pa.types.is_float32, FLOAT32), (pa.types.is_float16, FLOAT32), (pa.types.is_float64, FLOAT64),
    (pa.types.is_string, STRING), (pa.types.is_large_string, STRING), (pa.types.is_binary, BYTES),
    (pa.types.is_large_binary, BYTES), (pa.types.is_fixed_size_binary, BYTES), (pa.types.is_date, DATE_SCHEMA),
    (pa.types.is_time, TIME_SCHEMA), (pa.types.is_timestamp, TIMESTAMP_SCHEMA),
]  # fmt: skip


def connect_type(kind: Any) -> Schema:
    if pa.types.is_decimal(kind):
        return decimal_schema(kind.scale)
    if pa.types.is_struct(kind):
        return struct((field.name, connect_field(field)) for field in kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return array(connect_field(kind.value_field))
    if pa.types.is_map(kind):
        return map_of(connect_type(kind.key_type), connect_field(kind.item_field))
    if pa.types.is_dictionary(kind):
        return connect_type(kind.value_type)
    for test, schema in READ:
        if test(kind):
            return schema
    raise DataError(f"Connect has no type for {kind}")


def connect_field(field: Any) -> Schema:
    found = connect_type(field.type)
    return found.as_optional() if field.nullable else found


def read_value(schema: Schema, value: Any) -> Any:
    """Of what Arrow's `to_pylist` gives."""
    if value is None:
        return None
    if schema.type is Type.STRUCT:
        return Struct.unchecked(
            schema, {each.name: read_value(each.schema, value[each.name]) for each in schema.fields}
        )
    if schema.type is Type.ARRAY and schema.value_schema is not None:
        return [read_value(schema.value_schema, each) for each in value]
    if schema.type is Type.MAP and schema.key_schema is not None and schema.value_schema is not None:
        pairs = value.items() if isinstance(value, dict) else value
        return {read_value(schema.key_schema, key): read_value(schema.value_schema, each) for key, each in pairs}
    if schema.name in LOGICAL:
        return _time(value)
    return single(value) if schema.type is Type.FLOAT32 else value


def _time(value: Any) -> datetime:
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    assert isinstance(value, time)
    passed = timedelta(hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond)
    return from_ms(passed // timedelta(milliseconds=1))
