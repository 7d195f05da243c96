"""AVRO, JSON_SR and PROTOBUF: schemas made of columns, kept in a registry. PROTOBUF_NOSR is the message alone.

What is read may be written with any schema: fields are matched by name, whatever their case, as in JSON. A union of
Avro is a STRUCT with a field for each of its types, named as Avro names them (STRING, LONG, ...).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import Any

from barnabas.pipelines.sql.compute import dates
from barnabas.pipelines.sql.compute.java import EXACT, EvaluationError, fitted
from barnabas.pipelines.sql.formats.codecs import Codec, Columns, SerdeError
from barnabas.pipelines.sql.formats.json import coercion, plain_writer
from barnabas.pipelines.sql.types import SqlType

RECORD_NAME = "KsqlDataSourceSchema"
NAMESPACE = "io.confluent.ksql.avro_schemas"
KINDS = {"AVRO": "AVRO", "JSON_SR": "JSON", "PROTOBUF": "PROTOBUF"}
AVRO = {
    "BOOLEAN": "boolean",
    "INTEGER": "int",
    "BIGINT": "long",
    "DOUBLE": "double",
    "STRING": "string",
    "BYTES": "bytes",
    "TIMESTAMP": {"type": "long", "logicalType": "timestamp-millis"},
    "DATE": {"type": "int", "logicalType": "date"},
    "TIME": {"type": "int", "logicalType": "time-millis"},
}
LOGICAL = "org.apache.kafka.connect.data."
JSON_SCHEMA: dict[str, dict[str, Any]] = {
    "BOOLEAN": {"type": "boolean"},
    "INTEGER": {"type": "integer", "connect.type": "int32"},
    "BIGINT": {"type": "integer", "connect.type": "int64"},
    "DOUBLE": {"type": "number", "connect.type": "float64"},
    "STRING": {"type": "string"},
    "BYTES": {"type": "string", "connect.type": "bytes"},
    "TIMESTAMP": {
        "type": "integer",
        "title": f"{LOGICAL}Timestamp",
        "connect.version": 1,
        "connect.type": "int64",
    },
    "DATE": {"type": "integer", "title": f"{LOGICAL}Date", "connect.version": 1, "connect.type": "int32"},
    "TIME": {"type": "integer", "title": f"{LOGICAL}Time", "connect.version": 1, "connect.type": "int32"},
}
PROTOBUF = {
    "BOOLEAN": "bool",
    "INTEGER": "int32",
    "BIGINT": "int64",
    "DOUBLE": "double",
    "STRING": "string",
    "BYTES": "bytes",
    "TIMESTAMP": "int64",
    "DATE": "int32",
    "TIME": "int32",
    "DECIMAL": "string",
}
WRAPPERS = {
    "bool": "Bool",
    "int32": "Int32",
    "int64": "Int64",
    "double": "Double",
    "string": "String",
    "bytes": "Bytes",
}


class RegistryCodec(Codec):
    def __init__(
        self, columns: Columns, name: str, wrap: bool, topic: str, is_key: bool, settings: dict[str, Any]
    ) -> None:
        super().__init__(columns)
        self.name, self.wrap, self.topic, self.is_key, self.settings = name, wrap, topic, is_key, settings
        self._serializer: Any = None
        self._deserializer: Any = None
        self._spelled: Callable[[Any], Any] | None = None  # as the fields of a given schema are spelled
        self._writers = [writer(kind, name) for _, kind in columns]
        self._readers = [reader(kind) for _, kind in columns]

    def __reduce__(self) -> Any:
        return type(self), (self.columns, self.name, self.wrap, self.topic, self.is_key, self.settings)

    @property
    def registry(self) -> Any:
        from barnabas.client.serdes import shared_registry

        url = self.settings.get("REGISTRY")
        if not url:
            raise SerdeError(f"format {self.name} needs a schema registry: set ksql.schema.registry.url")
        return shared_registry(str(url))

    def encode(self, values: Sequence[Any]) -> bytes | None:
        if self._serializer is None:
            self._serializer = self._made_serializer()
        if not self.wrap:
            if values[0] is None:
                return None
            tree: Any = self._writers[0](values[0])
        else:
            tree = {
                name: None if value is None else write(value)
                for (name, _), write, value in zip(self.columns, self._writers, values, strict=True)
            }
            if self._spelled is not None:
                tree = self._spelled(tree)
            if self.name.startswith("PROTOBUF"):
                tree = {name: value for name, value in tree.items() if value is not None}
        try:
            data: bytes | None = self._serializer.encode(self.topic, tree)
        except Exception as error:
            raise SerdeError(f"it can't be written as {self.name}: {error}") from None
        return data

    def _made_serializer(self) -> Any:
        from barnabas.client.serdes import Schema, SerdeSettings, Serializer
        from barnabas.client.serdes.protobuf import ProtobufCodec

        given = self.settings.get("SCHEMA_ID")
        settings = SerdeSettings(use_id=None if given is None else int(given), logical_types=False)
        schema = None if given is not None else Schema(self.schema_text(), KINDS[self.name])
        message = str(self.settings.get("SCHEMA_NAME", "")) if self.name == "PROTOBUF" else ""
        if given is not None and (kind := self.registry.by_id(int(given)).schema.type) != KINDS[self.name]:
            raise SerdeError(f"schema {given} is of type {kind}, and the format is {self.name}")
        if given is not None and self.name == "AVRO":
            found = json.loads(self.registry.by_id(int(given)).schema.text)
            self._spelled = partial(spelled_as, tree=found, named={})
        elif given is not None and self.name == "JSON_SR":
            found = json.loads(self.registry.by_id(int(given)).schema.text)
            self._spelled = partial(spelled_as_json, tree=found)
        made = Serializer(self.registry, schema, settings, is_key=self.is_key, message=message)
        if given is not None and self.name == "PROTOBUF":
            codec = made.prepared(self.topic).codec
            assert isinstance(codec, ProtobufCodec)
            self._spelled = partial(spelled_as_message, descriptor=codec.descriptor)
        return made

    def _made_deserializer(self) -> Any:
        from barnabas.client.serdes import Deserializer

        return Deserializer(self.registry, is_key=self.is_key, logical_types=False)

    def schema_text(self) -> str:
        if self.name == "AVRO":
            namespace, _, name = str(self.settings.get("SCHEMA_NAME", f"{NAMESPACE}.{RECORD_NAME}")).rpartition(".")
            if not self.wrap:
                return json.dumps(_nullable(self.columns[0][1], name))
            tree = avro_record(self.columns, name) | {"namespace": namespace}
            return json.dumps(tree if namespace else {key: one for key, one in tree.items() if key != "namespace"})
        if self.name == "JSON_SR":
            return json.dumps(json_object(self.columns) if self.wrap else json_type(self.columns[0][1]))
        name, nulls = self.settings.get("SCHEMA_NAME", "ConnectDefault1"), self.settings.get("NULLABLE", "")
        return protobuf_file(self.columns, str(name), str(nulls))

    def decode(self, data: bytes) -> tuple[Any, ...]:
        from barnabas.client.serdes import RegistryRefused, RegistryUnreachable
        from barnabas.client.serdes import SerdeError as ClientSerdeError

        if self._deserializer is None:
            self._deserializer = self._made_deserializer()
        try:
            found = self._deserializer.decode(data)
        except RegistryUnreachable:
            raise
        except (ClientSerdeError, RegistryRefused) as error:
            raise SerdeError(str(error)) from None
        try:
            if not self.wrap:
                return (None if found is None else self._readers[0](found),)
            if not isinstance(found, dict):
                raise SerdeError(f"it is no record but {type(found).__name__}")
            upper = {key.upper(): value for key, value in found.items()}
            values = [found.get(name, upper.get(name.upper())) for name, _ in self.columns]
            return tuple(
                None if value is None else read(value) for read, value in zip(self._readers, values, strict=True)
            )
        except (EvaluationError, ValueError) as error:
            raise SerdeError(str(error)) from None


class BareProtobufCodec(RegistryCodec):
    """Protobuf without a registry: the bytes are a message with the columns as fields, numbered in their order."""

    def _made_serializer(self) -> Any:
        return self._message()

    def _made_deserializer(self) -> Any:
        return self._message()

    def _message(self) -> Any:
        from barnabas.client.serdes import Schema
        from barnabas.client.serdes.protobuf import ProtobufFile

        return BareMessage(ProtobufFile(Schema(self.schema_text(), "PROTOBUF")).codec())


class BareMessage:
    """A codec of messages as RegistryCodec asks it."""

    def __init__(self, codec: Any) -> None:
        self.decode = codec.decode
        self._codec = codec

    def encode(self, topic: str, tree: Any) -> bytes:
        data: bytes = self._codec.encode(tree)
        return data


def reader(kind: SqlType) -> Any:
    """A value as Avro, JSON or Protobuf give it, in a column."""
    plain = coercion(kind)
    if kind.base == "BYTES":
        return lambda value: bytes(value) if isinstance(value, (bytes, bytearray)) else plain(value)
    if kind.base == "DECIMAL":
        return lambda value: _decimal(value, kind, plain)
    if kind.base == "TIMESTAMP":
        return lambda value: dates.ms_of(value) if isinstance(value, datetime) else plain(value)
    if kind.base == "DATE":
        return lambda value: _date(value) if isinstance(value, dict) else plain(value)
    if kind.base == "TIME":
        return lambda value: _time(value) if isinstance(value, dict) else plain(value)
    if kind.base == "STRUCT":
        readers = {name: reader(inner) for name, inner in kind.fields}
        return lambda value: _struct(value, readers)
    if kind.base == "ARRAY" and kind.element is not None:
        element = reader(kind.element)
        return lambda value: [None if one is None else element(one) for one in value]
    if kind.base == "MAP" and kind.element is not None:
        inner_reader = reader(kind.element)
        return lambda value: {key: None if one is None else inner_reader(one) for key, one in _entries(value)}
    return plain


def _decimal(value: Any, kind: SqlType, otherwise: Any) -> Decimal:
    """Bytes as in Avro, or Confluent's message of Protobuf."""
    if isinstance(value, dict):
        scale = int(value.get("scale", 0))
        number = int.from_bytes(value.get("value", b""), "big", signed=True)
        return fitted(EXACT.scaleb(Decimal(number), -scale), kind)
    found: Decimal = _unscaled(value, kind) if isinstance(value, (bytes, bytearray)) else otherwise(value)
    return found


def _date(value: dict[str, Any]) -> int:
    """Google's message of a date."""
    return (date(value.get("year", 1970), value.get("month", 1), value.get("day", 1)) - date(1970, 1, 1)).days


def _time(value: dict[str, Any]) -> int:
    seconds = (value.get("hours", 0) * 60 + value.get("minutes", 0)) * 60 + value.get("seconds", 0)
    return int(seconds * 1000 + value.get("nanos", 0) // 1_000_000)


def _entries(value: Any) -> Any:
    """Maps whose keys are no text are arrays of entries in Avro."""
    if isinstance(value, dict):
        return value.items()
    return [(one.get("key", one.get("KEY")), one.get("value", one.get("VALUE"))) for one in value]


def _struct(value: Any, readers: dict[str, Any]) -> dict[str, Any]:
    if isinstance(value, dict):
        upper = {key.upper(): one for key, one in value.items()}
        found = {name: value.get(name, upper.get(name.upper())) for name in readers}
    else:
        names = union_names(value)
        chosen = next((name for name in readers if name.upper() in names), None)
        if chosen is None:
            raise SerdeError(f"the union has a {names[0].lower()}, and the STRUCT has no field {names[0]}")
        found = {name: value if name == chosen else None for name in readers}
    return {name: None if found[name] is None else read(found[name]) for name, read in readers.items()}


def union_names(value: Any) -> tuple[str, ...]:
    if isinstance(value, bool):
        return ("BOOLEAN",)
    if isinstance(value, int):
        return ("LONG", "INT")
    if isinstance(value, float):
        return ("DOUBLE", "FLOAT")
    if isinstance(value, str):
        return ("STRING",)
    return ("BYTES",) if isinstance(value, bytes) else ("ARRAY", "MAP")


def _unscaled(data: bytes | bytearray, kind: SqlType) -> Decimal:
    return EXACT.scaleb(Decimal(int.from_bytes(data, "big", signed=True)), -kind.scale)


def writer(kind: SqlType, name: str) -> Any:
    """A column as the codec of a format takes it."""
    if kind.base == "STRUCT":
        parts = {field: writer(inner, name) for field, inner in kind.fields}
        return lambda value: {
            field: None if value.get(field) is None else write(value[field]) for field, write in parts.items()
        }
    if kind.base == "ARRAY" and kind.element is not None:
        element = writer(kind.element, name)
        return lambda value: [None if one is None else element(one) for one in value]
    if kind.base == "MAP" and kind.element is not None:
        inner = writer(kind.element, name)
        return lambda value: {str(key): None if one is None else inner(one) for key, one in value.items()}
    if kind.base == "DECIMAL":
        return {
            "AVRO": lambda value: _two_complement(int(EXACT.scaleb(value, kind.scale))),
            "JSON_SR": float,
            "PROTOBUF": lambda value: format(value, "f"),
            "PROTOBUF_NOSR": lambda value: format(value, "f"),
        }[name]
    return plain_writer(kind) if name == "JSON_SR" else lambda value: value


def _two_complement(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 8) // 8, "big", signed=True)


def avro_record(columns: Columns, name: str) -> dict[str, Any]:
    fields = [
        {"name": column, "type": _nullable(kind, f"{name}_{column}"), "default": None} for column, kind in columns
    ]
    return {"type": "record", "name": name, "namespace": NAMESPACE, "fields": fields}


def _nullable(kind: SqlType, name: str) -> list[Any]:
    return ["null", avro_type(kind, name)]


def avro_type(kind: SqlType, name: str) -> Any:
    if kind.base == "DECIMAL":
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if kind.base == "ARRAY" and kind.element is not None:
        return {"type": "array", "items": _nullable(kind.element, name)}
    if kind.base == "MAP" and kind.element is not None:
        return {"type": "map", "values": _nullable(kind.element, name)}
    if kind.base == "STRUCT":
        return avro_record(kind.fields, name)
    return AVRO[kind.base]


def json_object(columns: Columns) -> dict[str, Any]:
    properties = {
        name: {"connect.index": index, "oneOf": [{"type": "null"}, json_type(kind)]}
        for index, (name, kind) in enumerate(columns)
    }
    return {"type": "object", "properties": properties}


def json_type(kind: SqlType) -> dict[str, Any]:
    if kind.base == "ARRAY" and kind.element is not None:
        return {"type": "array", "items": {"oneOf": [{"type": "null"}, json_type(kind.element)]}}
    if kind.base == "MAP" and kind.element is not None:
        values = {"oneOf": [{"type": "null"}, json_type(kind.element)]}
        return {"type": "object", "connect.type": "map", "additionalProperties": values}
    if kind.base == "DECIMAL":
        parameters = {"scale": str(kind.scale), "connect.decimal.precision": str(kind.precision)}
        return {
            "type": "number",
            "title": f"{LOGICAL}Decimal",
            "connect.version": 1,
            "connect.parameters": parameters,
            "connect.type": "bytes",
        }
    return json_object(kind.fields) if kind.base == "STRUCT" else dict(JSON_SCHEMA[kind.base])


def protobuf_file(columns: Columns, full_name: str, nulls: str) -> str:
    """`nulls` says how a field that is null differs from one that is 0 or empty: OPTIONAL, WRAPPER, or not at all."""
    body, nested = _message_body(columns, nulls)
    package, _, name = full_name.rpartition(".")
    packaged = f"package {package};\n\n" if package else ""
    imports = 'import "google/protobuf/wrappers.proto";\n\n' if "google.protobuf." in body + nested else ""
    return f'syntax = "proto3";\n\n{packaged}{imports}message {name} {{\n{body}{nested}}}\n'


def spelled_as_json(value: Any, tree: Any) -> Any:
    """A value with the names of a JSON schema's properties, whatever their case."""
    if not isinstance(tree, dict):
        return value
    if isinstance(value, list):
        return [spelled_as_json(one, tree.get("items")) for one in value]
    choices = [one for one in tree.get("oneOf", ()) if isinstance(one, dict) and one.get("type") != "null"]
    if len(choices) == 1:
        return spelled_as_json(value, choices[0])
    properties = tree.get("properties")
    if not isinstance(value, dict) or not properties:
        return value
    fields = {name.upper(): name for name in properties}
    names = {name: fields.get(name.upper(), name) for name in value}
    return {names[name]: spelled_as_json(one, properties.get(names[name])) for name, one in value.items()}


def spelled_as_message(value: Any, descriptor: Any) -> Any:
    """A value with the names of a Protobuf message's fields, whatever their case."""
    fields = {one.name.upper(): one for one in descriptor.fields}
    found: dict[str, Any] = {}
    for name, one in value.items():
        field = fields.get(name.upper())
        inner = None if field is None else field.message_type
        if field is None or inner is None or inner.GetOptions().map_entry:
            found[name if field is None else field.name] = one
        elif isinstance(one, list):
            found[field.name] = [spelled_as_message(each, inner) if isinstance(each, dict) else each for each in one]
        else:
            found[field.name] = spelled_as_message(one, inner) if isinstance(one, dict) else one
    return found


def is_default(field: Any) -> bool:
    """Whether null stands for the default of a field of Avro: it can't hold null."""
    kind = field["type"]
    return "default" in field and "null" not in (kind if isinstance(kind, list) else [kind])


def spelled_as(value: Any, tree: Any, named: dict[str, Any]) -> Any:
    """A value with the names of an Avro schema's fields, whatever their case."""
    if isinstance(tree, list):
        others = [one for one in tree if one != "null"]
        return spelled_as(value, others[0], named) if value is not None and len(others) == 1 else value
    if isinstance(tree, str):
        return spelled_as(value, named[tree], named) if tree in named else value
    if tree.get("name"):
        named[tree["name"]] = tree
    if value is None:
        return None
    kind = tree["type"]
    if kind == "record" and isinstance(value, dict):
        given = {name.upper(): one for name, one in value.items()}
        there = [(one, given[one["name"].upper()]) for one in tree["fields"] if one["name"].upper() in given]
        return {
            one["name"]: spelled_as(value, one["type"], named)
            for one, value in there
            if value is not None or not is_default(one)
        }
    if kind == "array" and isinstance(value, list):
        return [spelled_as(one, tree["items"], named) for one in value]
    if kind == "map" and isinstance(value, dict):
        return {name: spelled_as(one, tree["values"], named) for name, one in value.items()}
    return spelled_as(value, kind, named) if not isinstance(kind, str) else value


def _message_body(columns: Columns, nulls: str) -> tuple[str, str]:
    lines: list[str] = []
    nested: list[str] = []
    for number, (name, kind) in enumerate(columns, 1):
        written = _proto_type(name, kind, nested, nulls)
        if kind.base in PROTOBUF and nulls == "OPTIONAL":
            written = f"optional {written}"
        elif kind.base in PROTOBUF and nulls == "WRAPPER":
            written = f"google.protobuf.{WRAPPERS[written]}Value"
        lines.append(f"  {written} {name} = {number};\n")
    return "".join(lines), "".join(nested)


def _proto_type(name: str, kind: SqlType, nested: list[str], nulls: str) -> str:
    if kind.base == "ARRAY" and kind.element is not None:
        return f"repeated {_proto_type(name, kind.element, nested, nulls)}"
    if kind.base == "MAP" and kind.element is not None and kind.key is not None:
        return f"map<{PROTOBUF[kind.key.base]}, {_proto_type(name, kind.element, nested, nulls)}>"
    if kind.base == "STRUCT":
        body, inner = _message_body(kind.fields, nulls)
        nested.append(f"  message {name}_Message {{\n{body}{inner}  }}\n")
        return f"{name}_Message"
    return PROTOBUF[kind.base]
