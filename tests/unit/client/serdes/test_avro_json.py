"""Avro's JSON encoding, compared with fastavro's reader and writer of it."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from fastavro.utils import generate_one

from barnabas.client.serdes import Schema, SerdeError
from barnabas.client.serdes.avro import AvroCodec

EVERYTHING: dict[str, Any] = {
    "type": "record",
    "name": "All",
    "namespace": "x.y",
    "fields": [
        {"name": "n", "type": "null"},
        {"name": "b", "type": "boolean"},
        {"name": "i", "type": "int"},
        {"name": "l", "type": "long"},
        {"name": "d", "type": "double"},
        {"name": "s", "type": "string"},
        {"name": "raw", "type": "bytes"},
        {"name": "fixed", "type": {"type": "fixed", "name": "Four", "size": 4}},
        {"name": "suit", "type": {"type": "enum", "name": "Suit", "symbols": ["HEARTS", "SPADES"]}},
        {"name": "list", "type": {"type": "array", "items": ["null", "long", "string"]}},
        {"name": "map", "type": {"type": "map", "values": {"type": "array", "items": "int"}}},
        {"name": "other", "type": ["null", "Four", "Suit"]},
    ],
}


def codec(schema: Any) -> AvroCodec:
    return AvroCodec(Schema(json.dumps(schema)), logical_types=False)


def test_it_is_what_fastavro_reads_and_writes() -> None:
    ours, theirs = codec(EVERYTHING), fastavro.parse_schema(EVERYTHING)
    for _ in range(50):
        value = generate_one(theirs)
        binary = io.BytesIO()
        fastavro.schemaless_writer(binary, theirs, value)
        text = io.StringIO()
        fastavro.json_writer(text, theirs, [value])
        tree = json.loads(text.getvalue())
        assert ours.to_json(binary.getvalue()) == tree
        assert ours.from_json(tree) == binary.getvalue()


def test_a_type_may_hold_itself() -> None:
    tree = codec({"type": "record", "name": "T", "fields": [{"name": "next", "type": ["null", "T"]}]})
    nested = {"next": {"T": {"next": {"T": {"next": None}}}}}
    assert tree.to_json(tree.from_json(nested)) == nested
    assert tree.decode(tree.from_json(nested)) == {"next": {"next": {"next": None}}}


def test_unions_name_their_branch_as_the_courses_write_it() -> None:
    sensor = codec({"type": "record", "name": "S", "fields": [{"name": "value", "type": ["null", "long"]}]})
    assert sensor.decode(sensor.from_json({"value": {"long": 999}})) == {"value": 999}
    assert sensor.to_json(sensor.from_json({"value": None})) == {"value": None}


def test_a_field_that_is_left_out_takes_its_default() -> None:
    fields = [
        {"name": "a", "type": "int", "default": 7},
        {"name": "b", "type": ["null", "string"], "default": None},
        {"name": "c", "type": ["string", "null"], "default": "x"},
        {"name": "d", "type": {"type": "array", "items": "int"}, "default": []},
    ]
    with_defaults = codec({"type": "record", "name": "D", "fields": fields})
    assert with_defaults.to_json(with_defaults.from_json({})) == {"a": 7, "b": None, "c": {"string": "x"}, "d": []}


def test_numbers_that_json_does_not_have_are_strings() -> None:
    assert codec("double").to_json(codec("double").from_json("NaN")) == "NaN"
    assert codec("float").to_json(codec("float").from_json("-Infinity")) == "-Infinity"
    assert codec("float").to_json(codec("float").from_json(0.1)) == 0.1


@pytest.mark.parametrize(
    ("schema", "tree", "said"),
    [
        ("int", 1 << 31, "too large for Avro's int"),
        ("int", True, "should be int, not true"),
        ("long", 1.5, "should be long, not 1.5"),
        ("string", 1, "should be string, not 1"),
        ("bytes", "ā", "no byte"),
        ("boolean", None, "should be boolean, not null"),
        (["null", "long"], 5, 'should be one of null, {"long": ...}, not 5'),
        (["null", "long"], {"int": 5}, 'should be one of null, {"long": ...}, not {"int": 5}'),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B", 'should be one of A, not "B"'),
        ({"type": "fixed", "name": "F", "size": 2}, "abc", "should have 2 bytes, and has 3"),
        ({"type": "array", "items": "int"}, {}, "should be an array"),
        ({"type": "array", "items": "int"}, [1, "x"], r"\[1\] should be int"),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}, {}, "field a is missing"),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}, {"b": 1}, "has no field b"),
    ],
)
def test_what_does_not_fit_is_told_in_a_sentence(schema: Any, tree: Any, said: str) -> None:
    with pytest.raises(SerdeError, match=said):
        codec(schema).from_json(tree)


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ("string", b"\x0aab"),
        ("string", b"\x02\xff"),
        ("long", b"\xff" * 11),
        ("int", b"\x02\x02"),
        (["null", "int"], b"\x08"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02"),
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ({"type": "array", "items": "string"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ({"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}, b"\x00"),
    ],
)
def test_hostile_bytes_are_refused_in_bounded_time(schema: Any, data: bytes) -> None:
    with pytest.raises(SerdeError):
        codec(schema).to_json(data)
