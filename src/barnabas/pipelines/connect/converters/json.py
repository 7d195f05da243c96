"""JsonConverter: `{"schema": ..., "payload": ...}` with `schemas.enable`, else plain JSON; the bytes are Connect's."""

from __future__ import annotations

import base64
import binascii
import decimal
import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from barnabas.pipelines.connect.config import parse_value
from barnabas.pipelines.connect.converters.converter import Converter
from barnabas.pipelines.connect.converters.json_compiled import Change, Text, reader_of, writer_of
from barnabas.pipelines.connect.data.java_text import java_decimal, java_float
from barnabas.pipelines.connect.data.record import NOTHING, SchemaAndValue
from barnabas.pipelines.connect.data.schema import (
    BITS,
    DECIMAL,
    TEMPORAL,
    TIMESTAMP,
    Field,
    Float32,
    Schema,
    Struct,
    Type,
    decode_logical,
    encode_logical,
    java_class,
    single,
    type_of,
)
from barnabas.pipelines.connect.errors import ConfigError, DataError

NAMES = {
    Type.INT8: "int8",
    Type.INT16: "int16",
    Type.INT32: "int32",
    Type.INT64: "int64",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
    Type.BYTES: "bytes",
    Type.ARRAY: "array",
    Type.MAP: "map",
    Type.STRUCT: "struct",
}
TYPES = {name: kind for kind, name in NAMES.items()}
NO_ENVELOPE = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain additional fields.'
    " If you are trying to deserialize plain JSON data, set schemas.enable=false in your converter configuration."
)
CACHE_MAX = 1_000
HEADS_MAX = 8
DECIMALS = json.JSONDecoder(parse_float=decimal.Decimal)
PLAIN_JSON = json.JSONDecoder()
SCHEMA_BEGINS = re.compile(r'\s*\{\s*"schema"\s*:\s*')
PAYLOAD_BEGINS = re.compile(r'\s*,\s*"payload"\s*:\s*')
LONG_NUMBER = re.compile(rb"[0-9]{19}")
encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def parse(data: bytes) -> Any:
    return json.loads(data, parse_float=decimal.Decimal)


def parse_plain(data: bytes, defaults: bool) -> Any:
    """Without a schema. Only numbers that may not fit into 64 bits need to be looked at one by one."""
    if data[:1] == b"{" and data[1:2] != b"\0" and LONG_NUMBER.search(data) is None:
        return PLAIN_JSON.decode(data.decode("utf-8", "surrogatepass"))
    return read_value(None, parse(data), defaults)


def head_of(data: bytes) -> bytes | None:
    """All bytes in front of the payload, if the schema stands first."""
    text = data.decode("utf-8", "ignore")
    begun = SCHEMA_BEGINS.match(text)
    if begun is None:
        return None
    _, end = DECIMALS.raw_decode(text, begun.end())
    behind = PAYLOAD_BEGINS.match(text, end)
    head = None if behind is None else text[: behind.end()].encode()
    return head if head is not None and data.startswith(head) else None


class Number(str):
    """A number as it is to be written; Python would write it in another way."""

    __slots__ = ()


class JsonConverter(Converter):
    def __init__(self, settings: Mapping[str, str], *, is_key: bool) -> None:
        super().__init__(settings, is_key=is_key)
        self._with_schemas = parse_value("schemas.enable", "BOOLEAN", settings.get("schemas.enable", "true"))
        default = settings.get("replace.null.with.default", "true")
        self._defaults = parse_value("replace.null.with.default", "BOOLEAN", default)
        self._numeric = settings.get("decimal.format", "BASE64").upper()
        if self._numeric not in ("BASE64", "NUMERIC"):
            raise ConfigError("must be BASE64 or NUMERIC", "decimal.format", self._numeric)
        self._written: dict[int, tuple[Schema, Any]] = {}
        self._read: dict[str, Schema | None] = {}
        self._writers: dict[int, tuple[Schema, bytes, Text]] = {}
        self._readers: dict[int, tuple[Schema, Change]] = {}
        self._heads: list[tuple[bytes, int, Schema]] = []
        content = settings.get("schema.content")
        self._fixed = None if not content else read_schema(json.loads(content), self._defaults)

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if schema is None:
            if value is None:
                return None
            payload = self._payload(None, value)
            return dump({"schema": None, "payload": payload} if self._with_schemas else payload)
        head, write = self._writer(schema)
        data = write(value).encode("utf-8", "replace")
        return head + data + b"}" if self._with_schemas else data

    def _writer(self, schema: Schema) -> tuple[bytes, Text]:
        """What stands in front of the payload, and what writes the payload."""
        known = self._writers.get(id(schema))
        if known is None:
            if len(self._writers) >= CACHE_MAX:
                self._writers.clear()
            head = b'{"schema":' + dump(self._schema(schema)) + b',"payload":' if self._with_schemas else b""
            known = schema, head, writer_of(schema, self._text_of, defaults=self._defaults)
            self._writers[id(schema)] = known
        return known[1:]

    def _text_of(self, schema: Schema, value: Any) -> str:
        return text_of(self._payload(schema, value))

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is None or (not data and not self._with_schemas):
            return NOTHING
        try:
            if not self._with_schemas:
                return SchemaAndValue(None, parse_plain(data, self._defaults))
            if self._fixed is not None:
                return SchemaAndValue(self._fixed, self._reader(self._fixed)(parse(data)))
            return self._known_envelope(data) or self._envelope(data)
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"Converting byte[] to Kafka Connect data failed due to serialization error: {error}"
            ) from None

    def _envelope(self, data: bytes) -> SchemaAndValue:
        found = parse(data)
        if not isinstance(found, dict) or found.keys() != {"schema", "payload"}:
            raise DataError(NO_ENVELOPE)
        schema = self._schema_of(found["schema"])
        if schema is None:
            return SchemaAndValue(None, read_value(None, found["payload"], self._defaults))
        if (head := head_of(data)) is not None:
            self._heads = [(head, len(head.decode()), schema), *self._heads[: HEADS_MAX - 1]]
        return SchemaAndValue(schema, self._reader(schema)(found["payload"]))

    def head_of(self, data: bytes) -> tuple[bytes | None, Schema | None]:
        """What a record begins with that has the same schema, and that schema; nothing if the record cannot be read."""
        try:
            schema = self.to_connect("", data).schema if self._with_schemas and self._fixed is None else None
        except DataError:
            return None, None
        return next(((head, found) for head, _, found in self._heads if found is schema), (None, None))

    def column_writer(self, schema: Schema) -> Callable[[Any], Any] | None:
        from barnabas.pipelines.connect.converters.columns import json_texts

        return json_texts(self, schema) if schema.type is Type.STRING else None

    def column_reader(self) -> Callable[[Any], tuple[Schema | None, Any] | None] | None:
        from barnabas.pipelines.connect.converters.columns import read_enveloped, read_plain

        if self._with_schemas:
            return None if self._fixed is not None else read_enveloped(self)
        return read_plain

    def _known_envelope(self, data: bytes) -> SchemaAndValue | None:
        """Records with the same schema begin with the same bytes, which need not be read again."""
        for head, length, schema in self._heads:
            if data.startswith(head):
                text = data.decode()
                try:
                    payload, end = DECIMALS.raw_decode(text, length)
                except json.JSONDecodeError:
                    return None
                if text[end:].strip(" \t\r\n") != "}":
                    return None
                return SchemaAndValue(schema, self._reader(schema)(payload))
        return None

    def _reader(self, schema: Schema) -> Change:
        known = self._readers.get(id(schema))
        if known is None:
            if len(self._readers) >= CACHE_MAX:
                self._readers.clear()
            known = schema, reader_of(schema, lambda within, tree: read_value(within, tree, self._defaults))
            self._readers[id(schema)] = known
        return known[1]

    def _schema(self, schema: Schema | None) -> Any:
        if schema is None:
            return None
        known = self._written.get(id(schema))
        if known is None:
            if len(self._written) >= CACHE_MAX:
                self._written.clear()
            known = self._written[id(schema)] = schema, self._schema_tree(schema)
        return known[1]

    def _schema_of(self, tree: Any) -> Schema | None:
        if tree is None:
            return None
        text = json.dumps(tree, default=str)
        if text not in self._read:
            if len(self._read) >= CACHE_MAX:
                self._read.clear()
            self._read[text] = read_schema(tree, self._defaults)
        return self._read[text]

    def _schema_tree(self, schema: Schema) -> dict[str, Any]:
        tree: dict[str, Any] = {"type": NAMES[schema.type]}
        if schema.type is Type.ARRAY:
            tree["items"] = self._schema(schema.value_schema)
        elif schema.type is Type.MAP:
            tree["keys"], tree["values"] = self._schema(schema.key_schema), self._schema(schema.value_schema)
        elif schema.type is Type.STRUCT:
            tree["fields"] = [self._schema_tree(each.schema) | {"field": each.name} for each in schema.fields]
        tree["optional"] = schema.optional
        given = {"name": schema.name, "version": schema.version, "doc": schema.doc}
        tree |= {name: value for name, value in given.items() if value is not None}
        if schema.parameters is not None:
            tree["parameters"] = dict(schema.parameters)
        if schema.default is not None:
            tree["default"] = self._payload(schema, schema.default)
        return tree

    def _payload(self, schema: Schema | None, value: Any) -> Any:
        if value is None:
            if schema is None:
                return None
            if schema.default is not None and self._defaults:
                return self._payload(schema, schema.default)
            if schema.optional:
                return None
            raise DataError("Conversion error: null value for field that is required and has no default value")
        if schema is not None and schema.name is not None and (schema.name in TEMPORAL or schema.name == DECIMAL):
            return self._logical(schema, value)
        kind = type_of(value) if schema is None else schema.type
        if kind is None:
            raise DataError(f"Java class class {java_class(value)} does not have corresponding schema type.")
        if kind in PLAIN:
            return plain(kind, value, schema)
        return self._nested(kind, schema, value)

    def _logical(self, schema: Schema, value: Any) -> Any:
        kind = (schema.name or "").rpartition(".")[2]
        if not isinstance(value, decimal.Decimal if kind == "Decimal" else datetime):
            wanted = "BigDecimal" if kind == "Decimal" else "Date"
            raise DataError(f"Invalid type for {kind}, expected {wanted} but was class {java_class(value)}")
        if isinstance(value, decimal.Decimal) and self._numeric == "NUMERIC":
            return Number(java_decimal(value))
        encoded = encode_logical(schema, value)
        return base64.b64encode(encoded).decode() if isinstance(encoded, bytes) else encoded

    def _nested(self, kind: Type, schema: Schema | None, value: Any) -> Any:
        if kind is Type.ARRAY and isinstance(value, list | tuple):
            items = None if schema is None else schema.value_schema
            return [self._payload(items, each) for each in value]
        if kind is Type.MAP and isinstance(value, dict):
            return self._map(schema, value)
        if kind is Type.STRUCT and isinstance(value, Struct):
            if schema is None or (value.schema is not schema and value.schema != schema):
                raise DataError("Mismatching schema.")
            return {each.name: self._payload(each.schema, value.values.get(each.name)) for each in schema.fields}
        raise DataError(f"Invalid type for {kind if schema else 'unknown schema'}: class {java_class(value)}")

    def _map(self, schema: Schema | None, value: dict[Any, Any]) -> Any:
        keys, values = (None, None) if schema is None else (schema.key_schema, schema.value_schema)
        as_object = all(isinstance(key, str) for key in value) if keys is None else keys.type is Type.STRING
        if as_object:
            return {self._payload(keys, key): self._payload(values, each) for key, each in value.items()}
        return [[self._payload(keys, key), self._payload(values, each)] for key, each in value.items()]


PLAIN = frozenset(NAMES) - {Type.ARRAY, Type.MAP, Type.STRUCT}


def plain(kind: Type, value: Any, schema: Schema | None) -> Any:
    if kind in BITS:
        fits = isinstance(value, int) and not isinstance(value, bool)
    elif kind in (Type.FLOAT32, Type.FLOAT64):
        fits = isinstance(value, float)
        if fits:
            small = kind is Type.FLOAT32
            return value if 1e-3 <= abs(value) < 1e7 and not small else _odd_float(value, small)
    elif kind is Type.BYTES:
        fits = isinstance(value, bytes | bytearray | memoryview)
        if fits:
            return base64.b64encode(value).decode()
    else:
        fits = isinstance(value, bool if kind is Type.BOOLEAN else str)
    if not fits:
        raise DataError(f"Invalid type for {kind if schema else 'unknown schema'}: class {java_class(value)}")
    return value


def _odd_float(value: float, small: bool) -> str:
    text = java_float(value, single=small)
    return text if math.isnan(value) or math.isinf(value) else Number(text)


def dump(tree: Any) -> bytes:
    return text_of(tree).encode("utf-8", "replace")


def text_of(tree: Any) -> str:
    """Compact. Numbers that Python writes in another way than Java take the longer way."""
    return _text(tree) if _has_numbers(tree) else encode(tree)


def _has_numbers(tree: Any) -> bool:
    if isinstance(tree, dict):
        return any(map(_has_numbers, tree.values()))
    if isinstance(tree, list):
        return any(map(_has_numbers, tree))
    return isinstance(tree, Number | Float32)


def _text(tree: Any) -> str:
    if isinstance(tree, dict):
        return (
            "{" + ",".join(f"{json.dumps(key, ensure_ascii=False)}:{_text(each)}" for key, each in tree.items()) + "}"
        )
    if isinstance(tree, list):
        return "[" + ",".join(map(_text, tree)) + "]"
    if isinstance(tree, Number):
        return str(tree)
    return java_float(tree) if isinstance(tree, float) else json.dumps(tree, ensure_ascii=False)


def read_schema(tree: Any, defaults: bool = True) -> Schema | None:
    if tree is None:
        return None
    if not isinstance(tree, dict) or not isinstance(tree.get("type"), str):
        raise DataError("Schema must contain 'type' field")
    kind = TYPES.get(tree["type"])
    if kind is None:
        raise DataError(f"Unknown schema type: {tree['type']}")
    rest: dict[str, Any] = {}
    if kind is Type.ARRAY:
        if tree.get("items") is None:
            raise DataError("Array schema did not specify the element type")
        rest["value_schema"] = read_schema(tree["items"], defaults)
    elif kind is Type.MAP:
        for part, what in (("keys", "key"), ("values", "value")):
            if part not in tree:
                raise DataError(f"Map schema did not specify the {what} type")
            rest[f"{what}_schema"] = read_schema(tree[part], defaults)
    elif kind is Type.STRUCT:
        rest["fields"] = _fields(tree.get("fields"), defaults)
    version, name, doc = tree.get("version"), tree.get("name"), tree.get("doc")
    schema = Schema(
        type=kind,
        optional=tree.get("optional") is True,
        name=name if isinstance(name, str) else None,
        version=version if isinstance(version, int) and not isinstance(version, bool) else None,
        doc=doc if isinstance(doc, str) else None,
        parameters=_parameters(tree.get("parameters")),
        **rest,
    )
    if "default" in tree:
        schema = schema.but(default=read_value(schema, tree["default"], defaults))
    return schema


def _fields(given: Any, defaults: bool) -> tuple[Field, ...]:
    if not isinstance(given, list):
        raise DataError('Struct schema\'s "fields" argument is not an array.')
    fields: list[Field] = []
    for each in given:
        if not isinstance(each, dict) or not isinstance(each.get("field"), str):
            raise DataError("Struct schema's field name not specified properly")
        schema = read_schema(each, defaults)
        assert schema is not None
        fields.append(Field(each["field"], len(fields), schema))
    return tuple(fields)


def _parameters(given: Any) -> dict[str, str] | None:
    if not isinstance(given, dict) or not given:
        return None
    if not all(isinstance(each, str) for each in given.values()):
        raise DataError("Schema parameters must have string values.")
    return given


NODES = ((bool, "BOOLEAN"), (int, "NUMBER"), (decimal.Decimal, "NUMBER"), (str, "STRING"), (list, "ARRAY"),
         (dict, "OBJECT"))  # fmt: skip


def node_type(value: Any) -> str:
    return next((name for kind, name in NODES if isinstance(value, kind)), "NULL")


def read_value(schema: Schema | None, value: Any, defaults: bool = True) -> Any:
    if schema is None:
        return _schemaless(value)
    if value is None:
        if schema.default is not None and defaults:
            return schema.default
        if schema.optional:
            return None
        raise DataError(f"Invalid null value for required {schema.type} field")
    if schema.name is not None and (schema.name in TEMPORAL or schema.name == DECIMAL):
        return _read_logical(schema, value)
    if schema.type in PLAIN:
        return _read_plain(schema.type, value)
    if schema.type is Type.ARRAY:
        if not isinstance(value, list):
            raise DataError(f"Arrays should be encoded as JSON arrays, but found {node_type(value)}")
        return [read_value(schema.value_schema, each, defaults) for each in value]
    if schema.type is Type.MAP:
        return _read_map(schema, value, defaults)
    if not isinstance(value, dict):
        raise DataError(f"Structs should be encoded as JSON objects, but found {node_type(value)}")
    result = Struct(schema)
    for each in schema.fields:
        result.put(each.name, read_value(each.schema, value.get(each.name), defaults))
    return result


def _schemaless(value: Any) -> Any:
    if isinstance(value, list):
        return [_schemaless(each) for each in value]
    if isinstance(value, dict):
        return {key: _schemaless(each) for key, each in value.items()}
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return _wrapped(value, 64)
    return value


def _wrapped(value: int, bits: int) -> int:
    return ((value + (1 << bits - 1)) & ((1 << bits) - 1)) - (1 << bits - 1)


def _read_plain(kind: Type, value: Any) -> Any:
    """As lenient as Connect: what is no number is 0, what is no truth value is false."""
    number = value if isinstance(value, int | decimal.Decimal) and not isinstance(value, bool) else 0
    if kind in BITS:
        return _wrapped(_wrapped(int(number), 64 if kind is Type.INT64 else 32), BITS[kind])
    if kind is Type.FLOAT64:
        return float(number)
    if kind is Type.FLOAT32:
        return single(float(number))
    if kind is Type.BOOLEAN:
        return value is True
    if kind is Type.STRING:
        return value if isinstance(value, str) else None
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise DataError("Invalid bytes field") from None


def _read_logical(schema: Schema, value: Any) -> Any:
    if schema.name == DECIMAL:
        if isinstance(value, int | decimal.Decimal) and not isinstance(value, bool):
            return decimal.Decimal(value)
        if not isinstance(value, str):
            raise DataError(
                "Invalid type for Decimal, underlying representation should be numeric or bytes but was "
                + node_type(value)
            )
        try:
            return decode_logical(schema, base64.b64decode(value, validate=True))
        except (ValueError, binascii.Error):
            raise DataError("Invalid bytes for Decimal field") from None
    kind = (schema.name or "").rpartition(".")[2]
    fits = isinstance(value, int) and not isinstance(value, bool)
    if schema.name != TIMESTAMP and fits:
        fits = -(1 << 31) <= value < 1 << 31
    if not fits:
        wanted = "integral" if schema.name == TIMESTAMP else "integer"
        raise DataError(
            f"Invalid type for {kind}, underlying representation should be {wanted} but was {node_type(value)}"
        )
    return decode_logical(schema, value)


def _read_map(schema: Schema, value: Any, defaults: bool) -> dict[Any, Any]:
    assert schema.key_schema is not None
    if schema.key_schema.type is Type.STRING:
        if not isinstance(value, dict):
            raise DataError(f"Maps with string fields should be encoded as JSON objects, but found {node_type(value)}")
        return {key: read_value(schema.value_schema, each, defaults) for key, each in value.items()}
    if not isinstance(value, list):
        raise DataError(
            f"Maps with non-string fields should be encoded as JSON array of tuples, but found {node_type(value)}"
        )
    found = {}
    for entry in value:
        if not isinstance(entry, list):
            raise DataError(f"Found invalid map entry instead of array tuple: {node_type(entry)}")
        if len(entry) != 2:
            raise DataError(f"Found invalid map entry, expected length 2 but found :{len(entry)}")
        key = read_value(schema.key_schema, entry[0], defaults)
        found[key] = read_value(schema.value_schema, entry[1], defaults)
    return found
