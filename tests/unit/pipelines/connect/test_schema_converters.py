"""ProtobufConverter and JsonSchemaConverter: what goes through the registry comes back, and what is registered."""

from __future__ import annotations

import decimal
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from barnabas.client.serdes import Schema as Registered
from barnabas.client.serdes import Serializer, open_registry
from barnabas.pipelines.connect.data.schema import (
    BOOLEAN,
    BYTES,
    DATE_SCHEMA,
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    OPTIONAL_STRING,
    STRING,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    Struct,
    array,
    decimal_schema,
    map_of,
    single,
    struct,
)
from barnabas.pipelines.connect.errors import DataError
from barnabas.pipelines.connect.plugins import make_converter

PROTOBUF = "io.confluent.connect.protobuf.ProtobufConverter"
JSON_SCHEMA = "io.confluent.connect.json.JsonSchemaConverter"
INNER = struct([("x", INT64)], name="shop.Inner")
ALL = struct(
    [
        ("byte", INT8), ("long", INT64), ("float", FLOAT32), ("double", FLOAT64), ("flag", BOOLEAN), ("text", STRING),
        ("maybe", OPTIONAL_STRING), ("data", BYTES), ("price", decimal_schema(2)), ("day", DATE_SCHEMA),
        ("hour", TIME_SCHEMA), ("at", TIMESTAMP_SCHEMA), ("list", array(INT64)), ("map", map_of(STRING, INT64)),
        ("inner", INNER),
    ],
    name="shop.Order",
)  # fmt: skip
VALUES: dict[str, Any] = {
    "byte": 1, "long": 2**40, "float": single(0.5), "double": 1.25, "flag": True, "text": "é", "maybe": None,
    "data": b"\x00", "price": decimal.Decimal("-1.25"), "day": datetime(2024, 3, 1, tzinfo=UTC),
    "hour": datetime(1970, 1, 1, 10, 30, tzinfo=UTC), "at": datetime(2024, 3, 1, 10, 30, 1, tzinfo=UTC),
    "list": [1, 2], "map": {"a": 1},
}  # fmt: skip


def settings(name: str) -> dict[str, str]:
    return {"schema.registry.url": f"mock://{name}"}


def registered(name: str, subject: str) -> str:
    return open_registry(f"mock://{name}", {}).latest(subject).schema.text


def plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return {name: plain(each) for name, each in value.values.items()}
    return value


@pytest.mark.parametrize("name", [PROTOBUF, JSON_SCHEMA])
def test_every_type_comes_back_as_it_went(name: str) -> None:
    value = Struct(ALL, {**VALUES, "inner": Struct(INNER, {"x": 7})})
    data = make_converter(name, settings(name)).to_bytes("orders", ALL, value)
    found = make_converter(name, settings(name)).to_connect("orders", data)
    assert plain(found.value) == {**VALUES, "inner": {"x": 7}}
    assert found.schema is not None
    assert [each.schema.type for each in found.schema.fields] == [each.schema.type for each in ALL.fields]
    assert [each.schema.name for each in found.schema.fields][8:12] == [each.schema.name for each in ALL.fields][8:12]
    if name == JSON_SCHEMA:
        assert found.schema == ALL
    again = make_converter(name, settings(name)).to_bytes("again", found.schema, found.value)
    assert make_converter(name, settings(name)).to_connect("again", again).value == found.value


def test_the_json_schema_is_the_one_confluent_registers() -> None:
    schema = struct([("id", INT32), ("name", OPTIONAL_STRING), ("price", decimal_schema(2))], name="shop.Small")
    value = Struct(schema, {"id": 1, "name": None, "price": decimal.Decimal("1.50")})
    data = make_converter(JSON_SCHEMA, settings("text")).to_bytes("small", schema, value)
    assert data is not None
    assert json.loads(data[5:]) == {"id": 1, "name": None, "price": 1.5}
    assert json.loads(registered("text", "small-value")) == {
        "type": "object",
        "title": "shop.Small",
        "properties": {
            "id": {"type": "integer", "connect.index": 0, "connect.type": "int32"},
            "name": {"connect.index": 1, "oneOf": [{"type": "null"}, {"type": "string"}]},
            "price": {
                "type": "number",
                "title": "org.apache.kafka.connect.data.Decimal",
                "connect.index": 2,
                "connect.version": 1,
                "connect.type": "bytes",
                "connect.parameters": {"scale": "2"},
            },
        },
    }


def test_the_proto_file_is_the_one_confluent_registers() -> None:
    schema = struct([("id", INT32), ("at", TIMESTAMP_SCHEMA), ("tags", array(STRING))], name="shop.Small")
    value = Struct(schema, {"id": 1, "at": VALUES["at"], "tags": ["a"]})
    data = make_converter(PROTOBUF, settings("proto")).to_bytes("small", schema, value)
    assert data is not None
    assert data[5:6] == b"\x00", "the first message of the file"
    expected = """syntax = "proto3";
        package shop;
        import "google/protobuf/timestamp.proto";
        message Small {
          int32 id = 1;
          google.protobuf.Timestamp at = 2;
          repeated string tags = 3;
        }"""
    assert registered("proto", "small-value").split() == expected.split()


def test_messages_of_others_are_read_with_enums_and_oneofs() -> None:
    text = """syntax = "proto3"; package shop;
      enum Size { SMALL = 0; LARGE = 1; }
      message Order { string id = 1; Size size = 2; oneof paid { string card = 3; int32 cash = 4; }
        optional int32 rating = 5; }"""
    registry = open_registry("mock://others", {})
    serializer = Serializer(registry, Registered(text, "PROTOBUF"))
    converter = make_converter(PROTOBUF, settings("others"))
    found = converter.to_connect("t", serializer.encode("t", {"id": "a", "size": "LARGE", "cash": 5}))
    assert plain(found.value) == {"id": "a", "size": "LARGE", "paid_0": {"card": None, "cash": 5}, "rating": None}
    found = converter.to_connect("t", serializer.encode("t", {"id": "b", "rating": 0}))
    assert plain(found.value) == {"id": "b", "size": "SMALL", "paid_0": None, "rating": 0}


def test_json_schemas_of_others_are_read() -> None:
    tree = {
        "type": "object",
        "properties": {"n": {"type": ["null", "number"]}, "e": {"enum": ["a", "b"]}, "r": {"$ref": "#/definitions/R"}},
        "definitions": {"R": {"type": "object", "properties": {"x": {"type": "integer"}}}},
    }
    serializer = Serializer(open_registry("mock://json", {}), Registered(json.dumps(tree), "JSON"))
    converter = make_converter(JSON_SCHEMA, settings("json"))
    found = converter.to_connect("t", serializer.encode("t", {"n": 1.5, "e": "b", "r": {"x": 3}}))
    assert plain(found.value) == {"n": 1.5, "e": "b", "r": {"x": 3}}


@pytest.mark.parametrize("name", [PROTOBUF, JSON_SCHEMA])
def test_bad_input_is_a_data_error(name: str) -> None:
    converter = make_converter(name, settings(name))
    with pytest.raises(DataError, match="needs a schema"):
        converter.to_bytes("t", None, {"a": 1})
    for data in (b"", b"\x01abc", b"\x00\x00\x00\x00\x63"):
        with pytest.raises(DataError):
            converter.to_connect("t", data)
    assert converter.to_bytes("t", STRING, None) is None
    assert converter.to_connect("t", None).value is None


@pytest.mark.parametrize("name", [PROTOBUF, JSON_SCHEMA])
@pytest.mark.parametrize(("schema", "value"), [(STRING, "text"), (INT64, 5)])
def test_values_that_are_no_structs(name: str, schema: Schema, value: Any) -> None:
    converter = make_converter(name, settings(f"{name}-{schema.type}"))
    found = converter.to_connect("t", converter.to_bytes("t", schema, value))
    assert (plain(found.value)["value"] if name == PROTOBUF else found.value) == value
