"""Columns of records with schemas, without Spark: whole batches by columns, and row by row where that is needed."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from fastavro import parse_schema
from fastavro.utils import generate_one

from barnabas.client.serdes import Schema, Serializer, open_registry
from barnabas.client.serdes.mock import drop_mock
from barnabas.pipelines.spark.option_values import OptionError
from barnabas.pipelines.spark.registry.arrow_types import of_avro
from barnabas.pipelines.spark.registry.decoding import Decoding, Encoding

FLAT: dict[str, Any] = {
    "type": "record",
    "name": "Flat",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "raw", "type": "bytes"},
        {"name": "d", "type": "double"},
        {"name": "f", "type": "float"},
        {"name": "b", "type": "boolean"},
        {"name": "i", "type": "int"},
        {"name": "l", "type": ["null", "long"]},
        {"name": "fixed", "type": {"type": "fixed", "name": "Four", "size": 4}},
        {"name": "suit", "type": {"type": "enum", "name": "Suit", "symbols": ["HEARTS", "SPADES"]}},
        {"name": "in", "type": ["null", {"type": "record", "name": "In", "fields": [{"name": "x", "type": "long"}]}]},
    ],
}


_numbers = itertools.count()


@pytest.fixture
def registry() -> Iterator[Any]:
    name = f"columns-{next(_numbers)}"
    yield open_registry(f"mock://{name}")
    drop_mock(name)


def decoding(registry: Any, schema: Any, schema_id: int = 1, kind: str = "AVRO") -> Decoding:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return Decoding(registry.url, {}, Schema(text, kind), schema_id)


def test_columns_and_rows_read_the_same(registry: Any) -> None:
    serializer = Serializer(registry, Schema(json.dumps(FLAT)))
    parsed = parse_schema(FLAT)
    data = [serializer.encode("t", generate_one(parsed)) for _ in range(300)]
    decoder = decoding(registry, FLAT)
    quick = decoder._by_columns(data)
    assert quick is not None
    slow, errors = decoder._by_rows(data)
    assert quick.equals(slow)
    assert errors.null_count == 300


def test_one_bad_record_spoils_no_other(registry: Any) -> None:
    data = Serializer(registry, Schema(json.dumps(FLAT))).encode("t", generate_one(parse_schema(FLAT)))
    assert data is not None
    read = decoding(registry, FLAT).decode(pa.array([data, data[:-1], None, b"plain", data])).to_pylist()
    assert [None if row is None else row["error"] is None for row in read] == [True, False, None, False, True]
    assert read[0]["record"] == read[4]["record"] is not None


@pytest.mark.parametrize("cut", range(1, 12))
def test_records_that_end_too_early_are_found(registry: Any, cut: int) -> None:
    data = Serializer(registry, Schema(json.dumps(FLAT))).encode("t", generate_one(parse_schema(FLAT)))
    assert data is not None
    (row,) = decoding(registry, FLAT).decode(pa.array([data[: max(len(data) - cut, 5)]])).to_pylist()
    assert row["error"] is not None


def test_older_records_get_the_defaults_of_the_wanted_schema(registry: Any) -> None:
    old = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    new = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "int", "default": 7}],
    }
    data = Serializer(registry, Schema(json.dumps(old))).encode("t", {"a": 1})
    (row,) = decoding(registry, new, schema_id=2).decode(pa.array([data])).to_pylist()
    assert row == {"record": {"a": 1, "b": 7}, "error": None}


def test_json_and_protobuf(registry: Any) -> None:
    numbers = {"type": "array", "items": {"type": "number"}}
    tree = {"type": "object", "properties": {"n": {"type": "integer"}, "any": {}, "list": numbers}}
    schema = json.dumps(tree)
    data = Serializer(registry, Schema(schema, "JSON")).encode("j", {"n": 1, "any": {"a": [1]}, "list": [1, 2.5]})
    (row,) = decoding(registry, schema, kind="JSON").decode(pa.array([data])).to_pylist()
    assert row["record"] == {"n": 1, "any": '{"a": [1]}', "list": [1.0, 2.5]}
    proto = """syntax = "proto3"; message M { int64 id = 1; map<string, int32> m = 2; repeated string s = 3;
        optional bool o = 4; }"""
    value = {"id": 5, "m": {"a": 1}, "s": ["x"]}
    data = Serializer(registry, Schema(proto, "PROTOBUF")).encode("p", value)
    (row,) = decoding(registry, proto, 2, "PROTOBUF").decode(pa.array([data])).to_pylist(maps_as_pydicts="strict")
    assert row["record"] == {**value, "o": None}
    encoding = Encoding(Schema(proto, "PROTOBUF"), [], b"\0\0\0\0\2\0", "")
    structs = decoding(registry, proto, 2, "PROTOBUF").decode(pa.array([data])).field("record")
    assert encoding.encode(structs).to_pylist() == [data]


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}, "holds itself"),
        ({"type": "record", "name": "R", "fields": [{"name": "r", "type": ["int", "string"]}]}, "several types"),
    ],
)
def test_types_that_spark_does_not_have_are_refused(schema: Any, said: str) -> None:
    from barnabas.client.schemas.avro.schema import AvroSchema

    with pytest.raises(OptionError, match=said):
        of_avro(AvroSchema(json.dumps(schema)).root)
