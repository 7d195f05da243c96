"""Columns of a writer's schema as a reader's schema sees them: its fields, their types and defaults.

Only what Avro's resolution decides by names and types alone is done here. Aliases, symbols that the reader does not
have and defaults of records are left to the way row by row, and so is a null where the reader wants a value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from barnabas.client.schemas.avro.model import MISSING, Array, AvroType, Enum, Field, Fixed, Map, Named, Record, Union
from barnabas.pipelines.spark.registry.arrow_types import of_avro, scalar_of_avro
from barnabas.pipelines.spark.registry.avro_columns import NotReadable

PROMOTIONS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
PLAIN_DEFAULTS = {
    "boolean": bool,
    "int": int,
    "long": int,
    "float": (int, float),
    "double": (int, float),
    "string": str,
    "enum": str,
}


def can_project(writer: AvroType, reader: AvroType) -> bool:
    """Both can be read by columns, so neither holds itself and unions are of null and one other."""
    writer, reader = _value(writer), _value(reader)
    if isinstance(writer, Named) and isinstance(reader, Named) and writer.full_name != reader.full_name:
        return False
    if isinstance(writer, Record) and isinstance(reader, Record):
        given = {each.name: each for each in writer.fields}
        return all(
            can_project(given[each.name].type, each.type) if each.name in given else _has_plain_default(each)
            for each in reader.fields
        )
    if isinstance(writer, Array) and isinstance(reader, Array):
        return can_project(writer.items, reader.items)
    if isinstance(writer, Map) and isinstance(reader, Map):
        return can_project(writer.values, reader.values)
    if isinstance(writer, Enum) and isinstance(reader, Enum):
        return set(writer.symbols) <= set(reader.symbols)
    if isinstance(writer, Fixed) and isinstance(reader, Fixed) and writer.size != reader.size:
        return False
    if writer.kind == reader.kind:
        return _is_nested(writer) or scalar_of_avro(writer) == scalar_of_avro(reader)
    logical = "logicalType" in writer.properties or "logicalType" in reader.properties
    return not logical and reader.kind in PROMOTIONS.get(writer.kind, ())


def project(column: pa.Array, writer: AvroType, reader: AvroType) -> pa.Array:
    """Raises NotReadable."""
    if column.null_count and not isinstance(reader, Union):
        raise NotReadable
    writer, reader = _value(writer), _value(reader)
    if isinstance(writer, Record) and isinstance(reader, Record):
        return _project_record(column, writer, reader)
    if isinstance(writer, Array) and isinstance(reader, Array):
        values = project(column.values, writer.items, reader.items)
        return pa.ListArray.from_arrays(column.offsets, values, mask=_nulls(column))
    if isinstance(writer, Map) and isinstance(reader, Map):
        values = project(column.items, writer.values, reader.values)
        return pa.MapArray.from_arrays(column.offsets, column.keys, values, mask=_nulls(column))
    if writer.kind == reader.kind:
        return column
    try:
        return column.cast(scalar_of_avro(reader), safe=reader.kind == "string")
    except pa.ArrowInvalid:
        raise NotReadable from None


def _project_record(column: pa.Array, writer: Record, reader: Record) -> pa.Array:
    given = {each.name: (place, each.type) for place, each in enumerate(writer.fields)}
    present = column.is_valid()
    held = column.filter(present) if column.null_count else column
    columns = []
    for each in reader.fields:
        if each.name in given:
            place, kind = given[each.name]
            columns.append(project(held.field(place), kind, each.type))
        else:
            default = pa.array([each.default], of_avro(each.type))
            columns.append(default.take(pa.array(np.zeros(len(held), np.int64))))
    names = [each.name for each in reader.fields]
    found = pa.StructArray.from_arrays(columns, names=names) if columns else pa.array([{}] * len(held), pa.struct([]))
    if not column.null_count:
        return found
    there = present.to_numpy(zero_copy_only=False)
    return found.take(pa.array(np.cumsum(there) - 1, mask=~there))


def _has_plain_default(field: Field) -> bool:
    if field.aliases or field.default is MISSING:
        return False
    kind = field.type.branches[0] if isinstance(field.type, Union) else field.type
    if kind.kind == "null":
        return field.default is None
    wanted: Any = PLAIN_DEFAULTS.get(kind.kind)
    return wanted is not None and "logicalType" not in kind.properties and isinstance(field.default, wanted)


def _value(schema: AvroType) -> AvroType:
    """What a union holds beside null."""
    if isinstance(schema, Union):
        return next(each for each in schema.branches if each.kind != "null")
    return schema


def _is_nested(schema: AvroType) -> bool:
    return isinstance(schema, Record | Array | Map | Enum)


def _nulls(column: pa.Array) -> pa.Array | None:
    return column.is_null() if column.null_count else None
