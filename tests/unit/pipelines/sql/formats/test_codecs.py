"""Rows to the bytes of each format and back."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from barnabas.client.serdes.mock import drop_mock
from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.formats.codecs import check_format, codec_of
from barnabas.pipelines.sql.formats.json import JsonCodec
from barnabas.pipelines.sql.metastore import FormatInfo, SourceColumn
from barnabas.pipelines.sql.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DOUBLE,
    INTEGER,
    STRING,
    TIMESTAMP,
    SqlType,
    array,
    decimal,
    map_of,
    struct,
)
from barnabas.pipelines.streams.serdes import SerdeError

PLAIN: list[tuple[str, SqlType, Any]] = [
    ("A", STRING, 'say "hi", you'),
    ("B", INTEGER, -7),
    ("C", BIGINT, 2**40),
    ("D", DOUBLE, 2.5),
    ("E", BOOLEAN, True),
    ("F", TIMESTAMP, 1_700_000_000_000),
    ("G", decimal(6, 2), Decimal("12.30")),
]
NESTED: list[tuple[str, SqlType, Any]] = [
    ("H", array(INTEGER), [1, 2]),
    ("I", map_of(STRING, BIGINT), {"x": 1}),
    ("J", struct(("K", STRING)), {"K": "v"}),
]


@pytest.fixture(autouse=True)
def _registry() -> Iterator[None]:
    yield
    drop_mock("codecs")


def coded(name: str, columns: list[tuple[str, SqlType, Any]]) -> tuple[Any, Any]:
    info = FormatInfo(name, (("REGISTRY", "mock://codecs"),))
    listed = [SourceColumn(column, kind) for column, kind, _ in columns]
    codec = pickle.loads(pickle.dumps(codec_of(info, listed, key=False, topic=name)))
    values = [value for _, _, value in columns]
    return codec.decode(codec.encode(values)), tuple(values)


@pytest.mark.parametrize("name", ["JSON", "AVRO", "JSON_SR", "PROTOBUF", "PROTOBUF_NOSR"])
def test_a_row_comes_back_as_it_went(name: str) -> None:
    found, given = coded(name, PLAIN + NESTED)
    assert found == given


def test_a_delimited_row_comes_back_as_it_went() -> None:
    found, given = coded("DELIMITED", PLAIN)
    assert found == given


@pytest.mark.parametrize("name", ["JSON", "AVRO", "JSON_SR", "DELIMITED"])
def test_nulls_come_back_as_nulls(name: str) -> None:
    found, given = coded(name, [(column, kind, None) for column, kind, _ in PLAIN])
    assert found == given


def test_protobuf_without_a_registry_is_the_message_alone() -> None:
    columns = [SourceColumn("A", STRING), SourceColumn("B", INTEGER)]
    codec = codec_of(FormatInfo("PROTOBUF_NOSR"), columns, key=False)
    assert codec.encode(["x", 7]) == b"\x0a\x01x\x10\x07"
    assert codec.decode(b"\x0a\x01x\x10\x07") == ("x", 7)
    with pytest.raises(SerdeError):
        codec.decode(b"\x0a\xff")
    single = codec_of(FormatInfo("PROTOBUF_NOSR"), columns[:1], key=True)
    assert single.encode(["x"]) == b"\x0a\x01x"


def test_columns_are_inferred_from_a_protobuf_schema() -> None:
    from barnabas.client.serdes import Schema, shared_registry
    from barnabas.pipelines.sql.formats.inference import columns_from_registry

    text = """syntax = "proto3";
    message Order { int32 id = 1; string name = 2; repeated Item items = 3; map<string, double> prices = 4;
      message Item { int64 at = 1; bytes raw = 2; bool ok = 3; uint32 count = 4; } }"""
    shared_registry("mock://inferred").register("orders-value", Schema(text, "PROTOBUF"))
    found = columns_from_registry("orders-value", {"ksql.schema.registry.url": "mock://inferred"}, "VALUE")
    item = struct(("AT", BIGINT), ("RAW", BYTES), ("OK", BOOLEAN), ("COUNT", BIGINT))
    assert [(one.name, one.kind) for one in found] == [
        ("ID", INTEGER),
        ("NAME", STRING),
        ("ITEMS", array(item)),
        ("PRICES", map_of(STRING, DOUBLE)),
    ]


def test_a_type_of_connects_counts_only_beside_the_json_type_that_it_narrows() -> None:
    from barnabas.pipelines.sql.formats.inference import json_kind

    assert json_kind({"type": "integer", "connect.type": "int32"}) == INTEGER
    assert json_kind({"type": "string", "connect.type": "bytes"}) == BYTES
    assert json_kind({"type": "string", "connect.type": "int32"}) == STRING


def test_json_is_read_whatever_the_case_of_its_names_and_a_bigint_may_be_text() -> None:
    codec = codec_of(FormatInfo("JSON"), [SourceColumn("A", BIGINT), SourceColumn("B", STRING)], key=False)
    assert codec.decode(b'{"a": "12", "b": {"x": 1}}') == (12, '{"x":1}')
    assert codec.decode(b'{"A": 1, "a": 2}') == (1, None)


@pytest.mark.parametrize("data", [b"no json", b"[1]", b'{"A": "x"}', b'{"A": true}', b"\xff"])
def test_what_is_no_row_is_told(data: bytes) -> None:
    codec = codec_of(FormatInfo("JSON"), [SourceColumn("A", INTEGER)], key=False)
    with pytest.raises(SerdeError):
        codec.decode(data)


def test_a_format_refuses_what_it_cannot_hold() -> None:
    with pytest.raises(SqlError, match="only supports a single field"):
        check_format("kafka", [SourceColumn("A", INTEGER), SourceColumn("B", INTEGER)], "key")
    with pytest.raises(SqlError, match="does not support type 'ARRAY'"):
        check_format("delimited", [SourceColumn("A", array(INTEGER))], "value")
    with pytest.raises(SqlError, match="Unknown format: jsn"):
        check_format("jsn", [], "value")


def test_json_that_is_not_as_the_record_before_is_read_all_the_same() -> None:
    """Columns of plain types are read by a quicker way, which leaves to the other what is not just so."""
    columns = (("ID", BIGINT), ("V", INTEGER), ("D", DOUBLE), ("S", STRING))
    given = [
        b'{"id":1,"v":2,"d":1,"s":"x"}',
        b'{"id":"17","v":2.9,"d":"1.5","s":5}',
        b'{"ID":1,"v":null,"S":"y","d":-0.0,"other":[1]}',
        b'{"Id":9223372036854775807,"v":-2147483648}',
        b"null",
        b'{"id":1,"ID":2,"v":3,"V":4,"d":0.5,"s":"z"}',
    ]
    wanted = [(1, 2, 1.0, "x"), (17, 2, 1.5, "5"), (1, None, -0.0, "y"), (2**63 - 1, -(2**31), None, None)]
    wanted += [(None,) * 4, (2, 4, 0.5, "z")]
    assert [JsonCodec(columns).decode(one) for one in given] == wanted
    one_after_the_other = JsonCodec(columns)
    assert one_after_the_other.decode_all(given) == wanted
    assert one_after_the_other.decode_all(given[2:] * 100) == wanted[2:] * 100
    assert one_after_the_other.decode_all(given) == wanted
    for wrong in (b'{"id":9223372036854775808}', b'{"id":1,"v":2147483648}', b'{"id":true}', b"[1]", b'{"id":1'):
        for decode in (JsonCodec(columns).decode, one_after_the_other.decode):
            with pytest.raises(SerdeError):
                decode(wrong)


@pytest.mark.parametrize("seed", range(20))
def test_rows_made_of_json_in_one_step_are_those_of_its_records(seed: int) -> None:
    """Other spellings, columns that are missing or twice there, values that are converted."""
    pick = random.Random(seed)
    columns = (("ID", BIGINT), ("KIND", STRING), ("AMOUNT", DOUBLE))
    names = pick.choice([("id", "kind", "amount"), ("ID", "KIND", "AMOUNT"), ("Id", "kind", "AMOUNT")])
    data = []
    for number in range(20):
        kinds = ["x", None, 5] if seed % 3 == 0 else ["x", None]
        values = (pick.choice([number, None, "7"]), pick.choice(kinds), pick.choice([1.5, 2]))
        row: dict[str, Any] = dict(zip(names, values, strict=True))
        if seed % 4 == 0 and pick.random() < 0.2:
            del row[names[0]]
        if seed % 5 == 0 and pick.random() < 0.2:
            row["ID"] = 99
        data.append(json.dumps(row).encode())
    codec, keys, times = JsonCodec(columns), ["k"] * len(data), list(range(len(data)))
    wanted = [("k", *JsonCodec(columns)._decode(one), time, None, None) for one, time in zip(data, times, strict=True)]
    for _ in range(5):  # spellings are learned, and what does not pay is given up
        assert codec.decode_rows(keys, data, times, single=True) == wanted
        assert codec.decode_rows([("k",)] * len(data), data, times, single=False) == wanted


def test_the_first_batch_tells_how_columns_are_spelled() -> None:
    codec = JsonCodec((("ID", BIGINT), ("KIND", STRING)))
    data = [b'{"id":%d,"kind":"a"}' % one for one in range(3)]
    assert codec.decode_rows("xyz", data, [0, 1, 2], single=True)[2] == ("z", 2, "a", 2, None, None)
    assert codec._not_whole == 0


def test_a_column_that_nobody_looks_at_is_checked_all_the_same() -> None:
    codec = pickle.loads(pickle.dumps(JsonCodec((("ID", BIGINT), ("KIND", STRING)), idle=[1])))
    data = [b'{"id":1,"kind":"a"}', b'{"id":2,"kind":"b"}']
    assert codec.decode_rows("xy", data, [5, 6], single=True) == [
        ("x", 1, None, 5, None, None),
        ("y", 2, None, 6, None, None),
    ]
    with pytest.raises(SerdeError):
        JsonCodec((("KIND", STRING), ("ID", BIGINT)), idle=[1]).decode_rows(
            "x", [b'{"KIND":"a","ID":"b"}'], [5], single=True
        )


@pytest.mark.parametrize(
    "kind",
    [
        b'"a"',
        b'"\xc3\xa4"',
        b"null",
        b"7",
        b'{"a":[1,"b"]}',
        b'"\xff"',
        b'"\xc3"',
        b'"\\q"',
        b'"\\ud800"',
        b"[1,2",
        b"nul",
        b"",
    ],
)
@pytest.mark.parametrize("member", [b'"KIND":', b'"kind":'])
def test_a_text_that_nobody_looks_at_is_passed_over_and_checked(kind: bytes, member: bytes) -> None:
    columns = (("ID", BIGINT), ("KIND", STRING))
    good = [b'{"ID":%d,%s"a"}' % (one, member) for one in range(3)]
    data = [*good[:2], b'{"ID":9,%s%s}' % (member, kind), good[2]]
    for codec in (JsonCodec(columns, idle=[1]), pickle.loads(pickle.dumps(JsonCodec(columns, idle=[1])))):
        codec.decode_rows("xyz", good, [0, 1, 2], single=True)  # spellings are learned
        try:
            found = [one[1] for one in codec.decode_rows("wxyz", data, [0, 1, 2, 3], single=True)]
        except SerdeError:
            found = []
        try:
            wanted = [JsonCodec(columns)._decode(one)[0] for one in data]
        except SerdeError:
            wanted = []
        assert found == wanted


def test_names_of_columns_that_json_escapes() -> None:
    codec = JsonCodec((('a"b', BIGINT), ("c\\d", STRING)))
    (data,) = codec.encode_all([(1, "x")])
    assert data == b'{"a\\"b":1,"c\\\\d":"x"}'
    assert codec.decode(data) == (1, "x")
    assert codec.decode_rows("k", [data], [7], single=True) == [("k", 1, "x", 7, None, None)]
