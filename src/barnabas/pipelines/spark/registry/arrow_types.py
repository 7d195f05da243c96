"""The Arrow type of a schema's records, which is Spark's type too."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from barnabas.client.schemas.avro.model import Array, AvroType, Enum, Fixed, Map, Record, Union
from barnabas.pipelines.spark.option_values import OptionError

PRIMITIVES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
# Avro's logical types that Spark has too; others are read as the type they stand on.
LOGICAL = frozenset(
    {
        "decimal",
        "date",
        "timestamp-millis",
        "timestamp-micros",
        "local-timestamp-millis",
        "local-timestamp-micros",
    }
)
JSON_TYPES = {"string": pa.string(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}


def of_avro(schema: AvroType, above: tuple[AvroType, ...] = ()) -> pa.DataType:
    if any(schema is each for each in above):
        raise OptionError("a schema that holds itself has no end, and Spark's types have one")
    inside = (*above, schema)
    if isinstance(schema, Record):
        return pa.struct([pa.field(each.name, of_avro(each.type, inside)) for each in schema.fields])
    if isinstance(schema, Array):
        return pa.list_(of_avro(schema.items, inside))
    if isinstance(schema, Map):
        return pa.map_(pa.string(), of_avro(schema.values, inside))
    if isinstance(schema, Union):
        branches = [each for each in schema.branches if each.kind != "null"]
        if len(branches) > 1:
            raise OptionError("a union of several types has no type in Spark; null and one other can be read")
        return of_avro(branches[0], above) if branches else pa.null()
    if isinstance(schema, Enum):
        return pa.string()
    return scalar_of_avro(schema)


def scalar_of_avro(schema: AvroType) -> pa.DataType:
    logical = schema.properties.get("logicalType")
    if logical == "decimal" and schema.kind in ("bytes", "fixed"):
        precision, scale = schema.properties.get("precision"), schema.properties.get("scale", 0)
        if isinstance(precision, int) and 0 < precision <= 38:
            return pa.decimal128(precision, scale)
    if logical == "date" and schema.kind == "int":
        return pa.date32()
    if logical in LOGICAL and schema.kind == "long":
        return pa.timestamp("us") if str(logical).startswith("local") else pa.timestamp("us", "UTC")
    return pa.binary() if isinstance(schema, Fixed) else PRIMITIVES[schema.kind]


def of_json_schema(tree: Any, depth: int = 0) -> pa.DataType:
    """Objects with properties are structs, arrays lists; what is anything else is its JSON as a string."""
    if not isinstance(tree, dict) or depth > 50:
        return pa.string()
    kind = tree.get("type")
    if isinstance(kind, list):
        kinds = [each for each in kind if each != "null"]
        kind = kinds[0] if len(kinds) == 1 else None
    if kind == "object" and tree.get("properties"):
        return pa.struct([pa.field(name, of_json_schema(each, depth + 1)) for name, each in tree["properties"].items()])
    if kind == "array" and isinstance(tree.get("items"), dict):
        return pa.list_(of_json_schema(tree["items"], depth + 1))
    return JSON_TYPES.get(str(kind), pa.string())


def of_protobuf(descriptor: Any, above: tuple[str, ...] = ()) -> pa.DataType:
    from barnabas.client.serdes.protobuf_values import DURATION, TIMESTAMP, WRAPPERS

    name = descriptor.full_name
    if name == TIMESTAMP:
        return pa.timestamp("us", "UTC")
    if name == DURATION:
        return pa.duration("us")
    if name in WRAPPERS:
        return _protobuf_field(descriptor.fields_by_name["value"], above)
    if name in above:
        raise OptionError(f"{name} holds itself, and Spark's types have an end")
    return pa.struct([pa.field(each.name, _protobuf_field(each, (*above, name))) for each in descriptor.fields])


def _protobuf_field(field: Any, above: tuple[str, ...]) -> pa.DataType:
    from barnabas.client.serdes.protobuf_values import is_map

    if is_map(field):
        parts = field.message_type.fields_by_name
        return pa.map_(_protobuf_scalar(parts["key"], above), _protobuf_scalar(parts["value"], above))
    scalar = _protobuf_scalar(field, above)
    return pa.list_(scalar) if field.is_repeated else scalar


def _protobuf_scalar(field: Any, above: tuple[str, ...]) -> pa.DataType:
    if field.message_type is not None:
        return of_protobuf(field.message_type, above)
    kinds = {
        field.CPPTYPE_INT32: pa.int32(),
        field.CPPTYPE_INT64: pa.int64(),
        field.CPPTYPE_UINT32: pa.int64(),
        field.CPPTYPE_UINT64: pa.decimal128(20, 0),
        field.CPPTYPE_DOUBLE: pa.float64(),
        field.CPPTYPE_FLOAT: pa.float32(),
        field.CPPTYPE_BOOL: pa.bool_(),
        field.CPPTYPE_ENUM: pa.string(),
    }
    if field.cpp_type in kinds:
        return kinds[field.cpp_type]
    return pa.binary() if field.type == field.TYPE_BYTES else pa.string()
