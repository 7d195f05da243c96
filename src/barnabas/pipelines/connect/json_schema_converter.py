"""JsonSchemaConverter: JSON under the schemas of a registry, as Confluent's converter maps them.

Connect's types are `connect.type` beside JSON's, fields have their place as `connect.index`, and an optional schema is
`oneOf` null and the other. Decimals are written as numbers, so that they fit the schema that is registered.
"""

from __future__ import annotations

import decimal
import json
from collections.abc import Mapping
from typing import Any

from barnabas.client.serdes import Decoded
from barnabas.client.serdes import Schema as Registered
from barnabas.pipelines.connect.converters.json import JsonConverter, read_value
from barnabas.pipelines.connect.data.record import SchemaAndValue
from barnabas.pipelines.connect.data.schema import DECIMAL, Field, Schema, Type
from barnabas.pipelines.connect.errors import DataError
from barnabas.pipelines.connect.registry_converters import RegistryConverter

PLAIN = {
    Type.INT8: ("integer", "int8"),
    Type.INT16: ("integer", "int16"),
    Type.INT32: ("integer", "int32"),
    Type.INT64: ("integer", "int64"),
    Type.FLOAT32: ("number", "float32"),
    Type.FLOAT64: ("number", "float64"),
    Type.BOOLEAN: ("boolean", None),
    Type.STRING: ("string", None),
    Type.BYTES: ("string", "bytes"),
}
CONNECT_TYPES = {name: kind for kind, (_, name) in PLAIN.items() if name is not None}
DEFAULTS = {"integer": Type.INT64, "number": Type.FLOAT64, "boolean": Type.BOOLEAN, "string": Type.STRING}
NULL = {"type": "null"}


class JsonSchemaConverter(RegistryConverter):
    def __init__(self, settings: Mapping[str, str], *, is_key: bool) -> None:
        super().__init__(settings, is_key=is_key)
        self._values = JsonConverter({"schemas.enable": "false", "decimal.format": "NUMERIC"}, is_key=is_key)
        self._schemas: dict[str, Schema] = {}

    def registered(self, schema: Schema) -> Registered:
        return Registered(json.dumps(json_schema(schema)), "JSON")

    def encoded(self, schema: Schema, value: Any) -> Any:
        return json.loads(self._values.to_bytes("", schema, value) or b"null")

    def decoded(self, found: Decoded) -> SchemaAndValue:
        text = found.registered.schema.text
        if text not in self._schemas:
            tree = json.loads(text)
            self._schemas[text] = connect_schema(tree, tree)
        schema = self._schemas[text]
        found.codec.decode(found.body)  # whether it fits the registered schema
        return SchemaAndValue(schema, read_value(schema, json.loads(found.body, parse_float=decimal.Decimal)))


def json_schema(schema: Schema, index: int | None = None) -> dict[str, Any]:
    tree = _bare(schema)
    place = {} if index is None else {"connect.index": index}
    if not schema.optional:
        return tree | place
    return {"oneOf": [dict(NULL), tree]} | place


def _bare(schema: Schema) -> dict[str, Any]:
    tree: dict[str, Any]
    if schema.type is Type.STRUCT:
        tree = {"type": "object", "properties": {each.name: json_schema(each.schema, each.index)
                                                 for each in schema.fields}}  # fmt: skip
    elif schema.type is Type.ARRAY and schema.value_schema is not None:
        tree = {"type": "array", "items": json_schema(schema.value_schema)}
    elif schema.type is Type.MAP and schema.key_schema is not None and schema.value_schema is not None:
        if schema.key_schema.type is not Type.STRING:
            raise DataError("JsonSchemaConverter writes maps whose keys are texts only")
        tree = {"type": "object", "connect.type": "map", "additionalProperties": json_schema(schema.value_schema)}
    else:
        kind, name = ("number", "bytes") if schema.name == DECIMAL else PLAIN[schema.type]
        tree = {"type": kind} | ({} if name is None else {"connect.type": name})
    tree |= {} if schema.name is None else {"title": schema.name}
    tree |= {} if schema.version is None else {"connect.version": schema.version}
    tree |= {} if schema.doc is None else {"description": schema.doc}
    tree |= {"connect.parameters": dict(schema.parameters)} if schema.parameters else {}
    if schema.default is not None:
        values = JsonConverter({"schemas.enable": "false", "decimal.format": "NUMERIC"}, is_key=False)
        tree["default"] = json.loads(values.to_bytes("", schema.but(default=None), schema.default) or b"null")
    return tree


def connect_schema(tree: Any, root: Any, depth: int = 0) -> Schema:
    if depth > 100:
        raise DataError("JsonSchemaConverter reads no schema that holds itself")
    if not isinstance(tree, dict):
        raise DataError("JsonSchemaConverter needs a schema that names a type")
    if "$ref" in tree:
        return connect_schema(_referenced(tree["$ref"], root), root, depth + 1)
    for word in ("oneOf", "anyOf"):
        if word in tree:
            rest = [each for each in tree[word] if each.get("type") != "null"]
            if len(rest) != 1:
                raise DataError(f"JsonSchemaConverter reads {word} of null and one other type only")
            return connect_schema(rest[0], root, depth + 1).but(optional=len(rest) < len(tree[word]))
    if isinstance(tree.get("type"), list):
        kinds = [each for each in tree["type"] if each != "null"]
        if len(kinds) != 1:
            raise DataError("JsonSchemaConverter reads a list of null and one other type only")
        return connect_schema(tree | {"type": kinds[0]}, root, depth + 1).but(optional=len(kinds) < len(tree["type"]))
    return _of_type(tree, root, depth)


def _of_type(tree: dict[str, Any], root: Any, depth: int) -> Schema:
    kind = "string" if "enum" in tree and "type" not in tree else tree.get("type")
    rest: dict[str, Any] = {"name": tree.get("title"), "version": tree.get("connect.version"),
                            "doc": tree.get("description"), "parameters": tree.get("connect.parameters")}  # fmt: skip
    if kind == "array":
        return Schema(type=Type.ARRAY, value_schema=connect_schema(tree.get("items"), root, depth + 1), **rest)
    if kind == "object" and tree.get("connect.type") == "map":
        values = connect_schema(tree.get("additionalProperties"), root, depth + 1)
        return Schema(type=Type.MAP, key_schema=Schema(type=Type.STRING), value_schema=values, **rest)
    if kind == "object":
        given = tree.get("properties", {})
        names = sorted(given, key=lambda name: given[name].get("connect.index", 1 << 31))
        fields = (Field(name, at, connect_schema(given[name], root, depth + 1)) for at, name in enumerate(names))
        return Schema(type=Type.STRUCT, fields=tuple(fields), **rest)
    if kind not in DEFAULTS:
        raise DataError(f"JsonSchemaConverter has no type for {json.dumps(tree)[:100]}")
    plain = Schema(type=CONNECT_TYPES.get(tree.get("connect.type", ""), DEFAULTS[kind]), **rest)
    return plain if tree.get("default") is None else plain.but(default=read_value(plain, tree["default"]))


def _referenced(reference: str, root: Any) -> Any:
    found = root
    for part in reference.removeprefix("#").strip("/").split("/") if reference.startswith("#") else [""]:
        if (part and not (isinstance(found, dict) and part in found)) or not reference.startswith("#"):
            raise DataError(f"JsonSchemaConverter reads references within a schema only, not {reference}")
        found = found[part] if part else found
    return found
