"""ProtobufConverter: messages under the schemas of a registry, as Confluent's converter maps them.

Fields are numbered by their place. Dates, times and timestamps are Google's types, decimals Confluent's. What is read
is optional, for a field of proto3 may always be absent; a `oneof` is a struct named after it, with its number behind.
"""

from __future__ import annotations

import decimal
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from barnabas.client.schemas.protobuf.parameters import field_parameters
from barnabas.client.serdes import Decoded
from barnabas.client.serdes import Schema as Registered
from barnabas.client.serdes.protobuf_values import WRAPPERS, is_map
from barnabas.pipelines.connect.data.record import SchemaAndValue
from barnabas.pipelines.connect.data.schema import (
    DATE,
    DATE_SCHEMA,
    DECIMAL,
    EPOCH,
    TIME,
    TIME_SCHEMA,
    TIMESTAMP,
    TIMESTAMP_SCHEMA,
    Field,
    Schema,
    Struct,
    Type,
    array,
    decimal_bytes,
    decimal_from,
    decimal_scale,
    decimal_schema,
    map_of,
    scale_of,
    single,
)
from barnabas.pipelines.connect.errors import DataError
from barnabas.pipelines.connect.registry_converters import RegistryConverter

DEFAULT_NAME = "ConnectDefault1"
ENUM = "io.confluent.connect.protobuf.Enum"
PLAIN = {
    Type.INT8: "int32", Type.INT16: "int32", Type.INT32: "int32", Type.INT64: "int64", Type.FLOAT32: "float",
    Type.FLOAT64: "double", Type.BOOLEAN: "bool", Type.STRING: "string", Type.BYTES: "bytes",
}  # fmt: skip
LOGICAL = {
    DATE: ("google.type.Date", "google/type/date.proto"),
    TIME: ("google.type.TimeOfDay", "google/type/timeofday.proto"),
    TIMESTAMP: ("google.protobuf.Timestamp", "google/protobuf/timestamp.proto"),
    DECIMAL: ("confluent.type.Decimal", "confluent/type/decimal.proto"),
}
KNOWN = {
    "google.type.Date": DATE_SCHEMA,
    "google.type.TimeOfDay": TIME_SCHEMA,
    "google.protobuf.Timestamp": TIMESTAMP_SCHEMA,
}
META = "confluent/meta.proto"
READ = {
    FieldDescriptor.CPPTYPE_INT32: Type.INT32, FieldDescriptor.CPPTYPE_UINT32: Type.INT64,
    FieldDescriptor.CPPTYPE_INT64: Type.INT64, FieldDescriptor.CPPTYPE_UINT64: Type.INT64,
    FieldDescriptor.CPPTYPE_FLOAT: Type.FLOAT32, FieldDescriptor.CPPTYPE_DOUBLE: Type.FLOAT64,
    FieldDescriptor.CPPTYPE_BOOL: Type.BOOLEAN, FieldDescriptor.CPPTYPE_ENUM: Type.STRING,
    FieldDescriptor.CPPTYPE_STRING: Type.STRING,
}  # fmt: skip


class ProtobufConverter(RegistryConverter):
    def __init__(self, settings: Mapping[str, str], *, is_key: bool) -> None:
        super().__init__(settings, is_key=is_key)
        self._schemas: dict[int, tuple[Any, Schema]] = {}

    def registered(self, schema: Schema) -> Registered:
        return Registered(proto_text(schema), "PROTOBUF")

    def encoded(self, schema: Schema, value: Any) -> Any:
        if not isinstance(value, Struct):
            return {"value": proto_value(schema, value)}
        return proto_value(schema, value)

    def decoded(self, found: Decoded) -> SchemaAndValue:
        codec: Any = found.codec
        known = self._schemas.get(id(codec))
        if known is None:
            reading = SchemaReading(found.registered.schema.text)
            known = self._schemas[id(codec)] = codec, reading.message(codec.descriptor)
        return SchemaAndValue(known[1], connect_value(known[1], codec.decode(found.body)))


def proto_text(schema: Schema) -> str:
    """A value that is no struct is a message with the one field `value`, as Confluent wraps it."""
    if schema.type is not Type.STRUCT:
        schema = Schema(type=Type.STRUCT, fields=(Field("value", 0, schema),))
    imports: set[str] = set()
    space, _, name = (schema.name or DEFAULT_NAME).rpartition(".")
    body = _message(name, schema, imports, "")
    head = ['syntax = "proto3";'] + ([f"package {space};"] if space else [])
    return "\n".join([*head, "", *(f'import "{each}";' for each in sorted(imports)), "", body]) + "\n"


def _message(name: str, schema: Schema, imports: set[str], indent: str) -> str:
    lines = [f"{indent}message {name} {{"]
    inner: list[str] = []
    for each in schema.fields:
        kind = _type(each.name, each.schema, imports, inner, indent + "  ")
        repeated = each.schema.type in (Type.ARRAY, Type.MAP)
        message = each.schema.type is Type.STRUCT or each.schema.name in LOGICAL
        label = "" if repeated or message or not each.schema.optional else "optional "
        options = _options(each.schema, imports)
        lines.append(f"{indent}  {label}{kind} {each.name} = {each.index + 1}{options};")
    return "\n".join([*lines, *inner, f"{indent}}}"])


def _type(field: str, schema: Schema, imports: set[str], inner: list[str], indent: str) -> str:
    if schema.name in LOGICAL:
        name, file = LOGICAL[schema.name]
        imports.add(file)
        return name
    if schema.type is Type.STRUCT:
        name = (schema.name or f"{DEFAULT_NAME}_{field}").rpartition(".")[2]
        text = _message(name, schema, imports, indent)
        if text not in inner:
            inner.append(text)
        return name
    if schema.type is Type.ARRAY and schema.value_schema is not None:
        if schema.value_schema.type in (Type.ARRAY, Type.MAP):
            raise DataError("ProtobufConverter writes no arrays of arrays or maps")
        return f"repeated {_type(field, schema.value_schema, imports, inner, indent)}"
    if schema.type is Type.MAP and schema.key_schema is not None and schema.value_schema is not None:
        if schema.key_schema.type not in PLAIN or schema.key_schema.type in (Type.FLOAT32, Type.FLOAT64, Type.BYTES):
            raise DataError("ProtobufConverter writes maps whose keys are texts, integers or truth values only")
        if schema.value_schema.type in (Type.ARRAY, Type.MAP):
            raise DataError("ProtobufConverter writes no maps of arrays or maps")
        keys, values = PLAIN[schema.key_schema.type], _type(field, schema.value_schema, imports, inner, indent)
        return f"map<{keys}, {values}>"
    return PLAIN[schema.type]


def _options(schema: Schema, imports: set[str]) -> str:
    """What Protobuf's own types do not tell."""
    given = {}
    if schema.type in (Type.INT8, Type.INT16) and schema.name not in LOGICAL:
        given["connect.type"] = schema.type.lower()
    if schema.name == DECIMAL:
        given |= {"scale": str(scale_of(schema))}
    if not given:
        return ""
    imports.add(META)
    pairs = ", ".join(f'{{key: "{key}", value: "{value}"}}' for key, value in given.items())
    return f" [(confluent.field_meta) = {{params: [{pairs}]}}]"


def proto_value(schema: Schema, value: Any) -> Any:
    if value is None:
        return None
    if schema.name == DATE:
        return {"year": value.year, "month": value.month, "day": value.day}
    if schema.name == TIME:
        return {"hours": value.hour, "minutes": value.minute, "seconds": value.second,
                "nanos": value.microsecond * 1000}  # fmt: skip
    if schema.name == DECIMAL:
        scale = decimal_scale(value)
        return {"value": decimal_bytes(value, scale), "precision": len(value.as_tuple().digits), "scale": scale}
    if schema.type is Type.STRUCT:
        return {each.name: proto_value(each.schema, value.get(each.name)) for each in schema.fields}
    if schema.type is Type.ARRAY and schema.value_schema is not None:
        return [proto_value(schema.value_schema, each) for each in value]
    if schema.type is Type.MAP and schema.value_schema is not None:
        return {key: proto_value(schema.value_schema, each) for key, each in value.items()}
    return value


class SchemaReading:
    """Connect's schema of a message. Confluent's `field_meta` is read from the text: descriptors do not hold it."""

    def __init__(self, text: str) -> None:
        self._parameters = field_parameters(text)

    def message(self, message: Descriptor, above: tuple[str, ...] = ()) -> Schema:
        if message.full_name in above:
            raise DataError(f"ProtobufConverter reads no message that holds itself: {message.full_name}")
        path = (*above, message.full_name)
        fields: list[tuple[str, Schema]] = []
        for field in message.fields:
            union = field.containing_oneof
            if union is None or union.name.startswith("_"):  # of a field that is optional
                fields.append((field.name, self._field(field, path)))
            elif union.fields[0].name == field.name:
                members = tuple(Field(each.name, at, self._field(each, path)) for at, each in enumerate(union.fields))
                made = Schema(type=Type.STRUCT, optional=True, name=f"{union.name}_{union.index}", fields=members)
                fields.append((f"{union.name}_{union.index}", made))
        made_fields = tuple(Field(name, at, schema) for at, (name, schema) in enumerate(fields))
        return Schema(type=Type.STRUCT, name=message.full_name, fields=made_fields)

    def _field(self, field: FieldDescriptor, path: tuple[str, ...]) -> Schema:
        if is_map(field):
            entry = field.message_type.fields_by_name
            keys, values = self._single(entry["key"], path), self._single(entry["value"], path)
            return map_of(keys.as_optional(), values.as_optional(), optional=True)
        found = self._single(field, path).as_optional()
        return array(found, optional=True) if field.is_repeated else found

    def _single(self, field: FieldDescriptor, path: tuple[str, ...]) -> Schema:
        given = self._parameters.get(field.full_name, {})
        if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            name = field.message_type.full_name
            if name == "confluent.type.Decimal":
                return decimal_schema(int(given.get("scale", "0")))
            if name in WRAPPERS:
                return self._single(field.message_type.fields_by_name["value"], path)
            return KNOWN[name] if name in KNOWN else self.message(field.message_type, path)
        if field.type == FieldDescriptor.TYPE_BYTES:
            return Schema(type=Type.BYTES)
        if field.type == FieldDescriptor.TYPE_ENUM:
            values = {f"{ENUM}.{each.name}": str(each.number) for each in field.enum_type.values}
            return Schema(type=Type.STRING, parameters={ENUM: field.enum_type.name} | values)
        small = given.get("connect.type", "").upper()
        return Schema(type=Type[small] if small in ("INT8", "INT16") else READ[field.cpp_type])


def connect_value(schema: Schema, value: Any) -> Any:
    if value is None:
        return None
    if schema.name == DATE:
        return datetime(value["year"], value["month"], value["day"], tzinfo=EPOCH.tzinfo)
    if schema.name == TIME:
        seconds = value["hours"] * 3600 + value["minutes"] * 60 + value["seconds"]
        return EPOCH + timedelta(seconds=seconds, microseconds=value["nanos"] // 1000)
    if schema.name == DECIMAL:
        found = decimal_from(value["value"], value["scale"])
        return found.quantize(decimal.Decimal(1).scaleb(-scale_of(schema)))
    if schema.type is Type.STRUCT:
        return _struct(schema, value)
    if schema.type is Type.ARRAY and schema.value_schema is not None:
        return [connect_value(schema.value_schema, each) for each in value]
    if schema.type is Type.MAP and schema.value_schema is not None:
        return {key: connect_value(schema.value_schema, each) for key, each in value.items()}
    return single(value) if schema.type is Type.FLOAT32 else value


def _struct(schema: Schema, value: Mapping[str, Any]) -> Struct:
    values = {}
    for each in schema.fields:
        inner = each.schema
        if inner.type is Type.STRUCT and inner.name == each.name and each.name not in value:  # a oneof
            chosen = {name.name: value.get(name.name) for name in inner.fields}
            given = any(found is not None for found in chosen.values())
            values[each.name] = _struct(inner, chosen) if given else None
        else:
            values[each.name] = connect_value(inner, value.get(each.name))
    return Struct.unchecked(schema, values)
