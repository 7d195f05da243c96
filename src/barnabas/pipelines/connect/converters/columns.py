"""Converters for whole columns of texts and of JSON.

A column is taken only if every value of it is as it should be. For any other, None is returned, and the records are
converted one by one: that tells which of them is bad, and treats it as `errors.*` wants.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from barnabas.pipelines.connect.converters.json import JsonConverter, encode
from barnabas.pipelines.connect.data.schema import DATE, TIME, TIMESTAMP, Schema, Type

Write = Callable[[Any], Any]
Read = Callable[[Any], "tuple[Schema | None, Any] | None"]
TO_ESCAPE = re.compile(rb'["\\\x00-\x1f]')
NOTHING = pa.scalar(b"", pa.binary())
FITS_LONG = float(1 << 63)
PARSED = {
    Type.INT8: pa.int8(), Type.INT16: pa.int16(), Type.INT32: pa.int32(), Type.INT64: pa.int64(),
    Type.FLOAT64: pa.float64(), Type.BOOLEAN: pa.bool_(), Type.STRING: pa.string(),
}  # fmt: skip
TEMPORAL = {DATE: pa.int32(), TIME: pa.int32(), TIMESTAMP: pa.int64()}
CAST = {DATE: pa.date32(), TIME: pa.time32("ms"), TIMESTAMP: pa.timestamp("ms", tz="UTC")}


def spans(values: Any) -> tuple[Any, memoryview]:
    """Offsets of a binary column without nulls, and the bytes from the first to the last of them."""
    _, offsets, data = values.buffers()
    found = np.frombuffer(offsets, np.int32, len(values) + 1, offset=values.offset * 4).astype(np.int64)
    whole = memoryview(data) if data is not None else memoryview(b"")
    return found - found[0], whole[found[0] : found[-1]]


def json_texts(converter: JsonConverter, schema: Schema) -> Write:
    """Texts as JSON, with the schema around them if the converter says so."""
    before, after = (part.encode() for part in (converter.to_bytes("", schema, "|") or b"").decode().split("|"))
    before, after = before.removesuffix(b'"'), after.removeprefix(b'"')

    def write(values: Any) -> Any:
        _, data = spans(values)
        if TO_ESCAPE.search(data) is None:
            return pc.binary_join_element_wise(before + b'"', values, b'"' + after, NOTHING)
        quoted = [encode(each.decode()).encode() for each in values.to_pylist()]
        return pa.array([before + each + after for each in quoted], pa.binary())

    return write


def json_objects(values: Any) -> Any:
    """A table of a column of JSON objects, one after the other in its bytes."""
    if not len(values) or values.null_count:
        return None
    offsets, data = spans(values)
    view = np.frombuffer(data, np.uint8)
    lengths = np.diff(offsets)
    # Each of them begins and ends as an object does: so as many rows as values are one row of each.
    if lengths.min() < 2 or (view[offsets[:-1]] != ord("{")).any() or (view[offsets[1:] - 1] != ord("}")).any():
        return None
    try:
        values.cast(pa.string())  # is it UTF-8?
        return data
    except pa.ArrowInvalid:
        return None


def parsed(data: memoryview, rows: int, schema: Any = None) -> Any:
    reading = pj.ReadOptions(use_threads=False, block_size=len(data) + 1)
    unknown = "infer" if schema is None else "ignore"
    parsing = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unknown)
    try:
        found = pj.read_json(pa.BufferReader(pa.py_buffer(data)), read_options=reading, parse_options=parsing)
    except pa.ArrowException:
        return None
    return found if found.num_rows == rows else None


def read_plain(values: Any) -> tuple[Schema | None, Any] | None:
    """JSON without schemas: Arrow finds the types."""
    data = json_objects(values)
    found = None if data is None else parsed(data, len(values))
    if found is None or any(map(_has_time, found.schema.types)) or not all(map(_fits, found.columns)):
        return None
    return None, found


def _has_time(kind: Any) -> bool:
    """Texts that look like a time are taken for one."""
    if pa.types.is_struct(kind) or pa.types.is_list(kind):
        return any(_has_time(kind.field(number).type) for number in range(kind.num_fields))
    return bool(pa.types.is_timestamp(kind))


def _fits(column: Any) -> bool:
    """Whether no integer was too long for 64 bits, and became a float; NaN is no JSON."""
    if pa.types.is_struct(column.type):
        return all(map(_fits, column.flatten()))
    if pa.types.is_list(column.type):
        return _fits(pc.list_flatten(column))
    if not pa.types.is_float64(column.type) or column.null_count == len(column):
        return True
    return bool(pc.all(pc.less(pc.abs(column), FITS_LONG)).as_py())


def read_enveloped(converter: JsonConverter) -> Read | None:
    def read(values: Any) -> tuple[Schema | None, Any] | None:
        """JSON with schemas, if all values have the same one and write it alike."""
        if not len(values) or values.null_count:
            return None
        head, schema = converter.head_of(values[0].as_py())
        kind = None if schema is None else _parsed_schema(schema)
        if head is None or schema is None or kind is None or not pc.all(pc.starts_with(values, head)).as_py():
            return None
        offsets, data = spans(values)
        if (np.frombuffer(data, np.uint8)[offsets[1:] - 1] != ord("}")).any():
            return None
        payloads = pc.binary_slice(values, len(head), -1)
        found = json_objects(payloads)
        table = None if found is None else parsed(found, len(values), kind)
        return None if table is None else _typed(schema, table)

    return read


def _parsed_schema(schema: Schema) -> Any:
    """The types that Arrow is to parse; None if a value must be looked at by itself."""
    if schema.type is not Type.STRUCT:
        return None
    fields = []
    for each in schema.fields:
        kind = TEMPORAL.get(each.schema.name) if each.schema.name in TEMPORAL else PARSED.get(each.schema.type)
        if kind is None or each.schema.default is not None or each.schema.name not in (*TEMPORAL, None):
            return None
        fields.append(pa.field(each.name, kind))
    return pa.schema(fields)


def _typed(schema: Schema, table: Any) -> tuple[Schema, Any] | None:
    columns, fields = [], []
    for each in schema.fields:
        column = table.column(each.name)
        if column.null_count and not each.schema.optional:
            return None
        if each.schema.name in CAST:
            column = column.cast(CAST[each.schema.name])
        elif not _fits(column):
            return None
        columns.append(column)
        fields.append(pa.field(each.name, column.type, nullable=each.schema.optional))
    return schema, pa.Table.from_arrays(columns, schema=pa.schema(fields))
