"""Columns of records with schemas, without Spark: whole batches by columns, and row by row where that is needed."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from fastavro import parse_schema
from fastavro.utils import generate_one

from barnabas.client.serdes import Schema, Serializer, open_registry
from barnabas.client.serdes.framing import PREFIX
from barnabas.client.serdes.mock import drop_mock
from barnabas.pipelines.spark.option_values import OptionError
from barnabas.pipelines.spark.registry.arrow_types import of_avro
from barnabas.pipelines.spark.registry.decoding import Decoding, Encoding
from barnabas.pipelines.spark.registry.values import NO_SCHEMA, Values

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


def by_columns(decoder: Decoding, prefix: bytes, rows: list[bytes | None]) -> pa.Array | None:
    values = Values(pa.array(rows, pa.binary()))
    return decoder._by_columns(prefix, values, values.by_schema()[prefix])


def test_columns_and_rows_read_the_same(registry: Any) -> None:
    serializer = Serializer(registry, Schema(json.dumps(FLAT)))
    parsed = parse_schema(FLAT)
    data = [serializer.encode("t", generate_one(parsed)) for _ in range(300)]
    decoder = decoding(registry, FLAT)
    quick = by_columns(decoder, PREFIX.pack(0, 1), data)
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


DEEP: dict[str, Any] = {
    "type": "record",
    "name": "Deep",
    "fields": [
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "sizes", "type": ["null", {"type": "map", "values": ["null", "double"]}]},
        {"name": "grid", "type": {"type": "array", "items": {"type": "array", "items": "int"}}},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Line",
                    "fields": [{"name": "sku", "type": "string"}, {"name": "pieces", "type": ["null", "long"]}],
                },
            },
        },
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "seen", "type": ["null", {"type": "long", "logicalType": "local-timestamp-micros"}]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "uuid", "type": {"type": "string", "logicalType": "uuid"}},
    ],
}


def deep(random: Random) -> dict[str, Any]:
    return {
        "tags": ["t" * random.randrange(90) for _ in range(random.randrange(5))],
        "sizes": random.choice([None, {str(each): random.choice([None, 1.5]) for each in range(random.randrange(4))}]),
        "grid": [[random.getrandbits(20) for _ in range(random.randrange(3))] for _ in range(random.randrange(4))],
        "lines": [{"sku": "x", "pieces": random.choice([None, -5, 1 << 40])} for _ in range(random.randrange(3))],
        "day": date(1900, 1, 1) + timedelta(days=random.randrange(99_999)),
        "at": datetime(1960, 1, 1, tzinfo=UTC) + timedelta(milliseconds=random.getrandbits(42)),
        "seen": random.choice([None, datetime(2026, 1, 1) + timedelta(microseconds=random.getrandbits(30))]),
        "price": Decimal(random.randrange(-(10**12), 10**12)).scaleb(-2),
        "uuid": str(UUID(int=random.getrandbits(128))),
    }


def test_arrays_maps_and_logical_types_are_read_by_columns(registry: Any) -> None:
    random = Random(5)
    serializer = Serializer(registry, Schema(json.dumps(DEEP)))
    data = [serializer.encode("t", deep(random)) for _ in range(400)]
    decoder = decoding(registry, DEEP)
    quick = by_columns(decoder, PREFIX.pack(0, 1), data)
    assert quick is not None
    slow, errors = decoder._by_rows(data)
    assert errors.null_count == 400
    assert quick.to_pylist() == slow.to_pylist()
    assert quick.equals(slow)


def test_arrays_in_blocks_with_their_sizes(registry: Any) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "array", "items": "int"}}]}
    registry.register("t-value", Schema(json.dumps(schema)))
    prefix = PREFIX.pack(0, 1)
    # a block of two with its size, a block of one, the end; then an empty array; then one block of three
    data = [prefix + bytes((3, 4, 2, 4, 2, 6, 0)), prefix + b"\0", prefix + bytes((6, 2, 4, 6, 0))]
    read = by_columns(decoding(registry, schema), prefix, data)
    assert read is not None
    assert read.to_pylist() == [
        {"a": [1, 2, 3]},
        {"a": []},
        {"a": [1, 2, 3]},
    ]


@pytest.mark.parametrize(
    "body",
    [
        bytes((0xFE, 0xFF, 0xFF, 0xFF, 0x0F)),  # more items than there are bytes
        bytes((0xFF,) * 9 + (0x01, 0)),  # the least of all numbers, which has no positive
        bytes((2, 2)),  # no last block
    ],
)
def test_arrays_that_lie_are_told(registry: Any, body: bytes) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "array", "items": "int"}}]}
    registry.register("t-value", Schema(json.dumps(schema)))
    (row,) = decoding(registry, schema).decode(pa.array([PREFIX.pack(0, 1) + body])).to_pylist()
    assert row["record"] is None
    assert row["error"]


OLD = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "gone", "type": "string"},
        {"name": "a", "type": "int"},
        {"name": "f", "type": "float"},
        {"name": "text", "type": "bytes"},
        {"name": "may", "type": "long"},
        {"name": "list", "type": {"type": "array", "items": "int"}},
        {"name": "map", "type": ["null", {"type": "map", "values": "float"}]},
        {"name": "suit", "type": {"type": "enum", "name": "Suit", "symbols": ["HEARTS", "SPADES"]}},
        {"name": "in", "type": ["null", {"type": "record", "name": "In", "fields": [{"name": "x", "type": "int"}]}]},
    ],
}
NEW = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "suit", "type": {"type": "enum", "name": "Suit", "symbols": ["CLUBS", "SPADES", "HEARTS"]}},
        {"name": "map", "type": ["null", {"type": "map", "values": "double"}]},
        {"name": "a", "type": "double"},
        {"name": "added", "type": ["null", "string"], "default": None},
        {"name": "level", "type": "long", "default": 7},
        {"name": "f", "type": ["null", "double"]},
        {"name": "text", "type": "string"},
        {"name": "may", "type": ["null", "long"]},
        {"name": "list", "type": {"type": "array", "items": "long"}},
        {
            "name": "in",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "In",
                    "fields": [{"name": "x", "type": "long"}, {"name": "y", "type": "string", "default": "why"}],
                },
            ],
        },
    ],
}


def old(random: Random) -> dict[str, Any]:
    return {
        "gone": "g" * random.randrange(9),
        "a": random.randrange(-99, 99),
        "f": 0.5 * random.randrange(9),
        "text": b"t" * random.randrange(5),
        "may": random.getrandbits(40),
        "list": [random.getrandbits(9) for _ in range(random.randrange(4))],
        "map": random.choice([None, {}, {"a": 0.5, "b": 2.0}]),
        "suit": random.choice(["HEARTS", "SPADES"]),
        "in": random.choice([None, {"x": random.getrandbits(9)}]),
    }


def test_records_of_an_older_schema_are_read_by_columns(registry: Any) -> None:
    random = Random(6)
    serializer = Serializer(registry, Schema(json.dumps(OLD)))
    data = [serializer.encode("t", old(random)) for _ in range(200)]
    decoder = decoding(registry, NEW, schema_id=2)
    quick = by_columns(decoder, PREFIX.pack(0, 1), data)
    assert quick is not None
    slow, errors = decoder._by_rows(data)
    assert errors.null_count == 200
    assert quick.to_pylist() == slow.to_pylist()


def test_versions_and_tombstones_in_one_batch_keep_their_places(registry: Any) -> None:
    first = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    second = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "int", "default": 7}],
    }
    one, two = (Serializer(registry, Schema(json.dumps(each))) for each in (first, second))
    data = [one.encode("t", {"a": 1}), None, two.encode("t", {"a": 2, "b": 8}), b"no", one.encode("t", {"a": 3}), None]
    read = decoding(registry, second, schema_id=2).decode(pa.array(data, pa.binary())).to_pylist()
    assert [row and row["record"] for row in read] == [
        {"a": 1, "b": 7},
        None,
        {"a": 2, "b": 8},
        None,
        {"a": 3, "b": 7},
        None,
    ]
    assert [place for place, row in enumerate(read) if row and row["error"]] == [3]


def test_a_null_where_the_reader_wants_a_value_spoils_its_record_only(registry: Any) -> None:
    writer, reader = (
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]} for kind in (["null", "int"], "int")
    )
    serializer = Serializer(registry, Schema(json.dumps(writer)))
    data = [serializer.encode("t", {"a": each}) for each in (1, None, 2)]
    read = decoding(registry, reader, schema_id=9).decode(pa.array(data)).to_pylist()
    assert [row["record"] for row in read] == [{"a": 1}, None, {"a": 2}]
    assert read[1]["error"]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()], ids=str)
def test_values_are_grouped_where_they_lie(kind: pa.DataType) -> None:
    one, two = PREFIX.pack(0, 1), PREFIX.pack(0, 0xFFFFFFFF)
    rows = [b"cut off", one + b"a", None, two, b"\0\0\0\0", one, b"", two + b"bb", b"cut off"]
    values = Values(pa.array(rows, kind)[1:-1])
    found = {prefix: places.tolist() for prefix, places in values.by_schema().items()}
    assert found == {NO_SCHEMA: [1, 3, 5], one: [0, 4], two: [2, 6]}
    assert values.rows(found[NO_SCHEMA]) == [None, b"\0\0\0\0", b""]
    assert [bytes(values.data[values.starts[each] : values.ends[each]]) for each in found[two]] == [two, two + b"bb"]


@pytest.mark.parametrize("rows", [[], [None], [None, None], [b""]], ids=str)
def test_batches_without_a_record(registry: Any, rows: list[bytes | None]) -> None:
    Serializer(registry, Schema(json.dumps(FLAT))).encode("t", generate_one(parse_schema(FLAT)))
    for kind in (pa.binary(), pa.large_binary()):
        read = decoding(registry, FLAT).decode(pa.array(rows, kind)).to_pylist()
        assert [row is None for row in read] == [row is None for row in rows]
