"""Columns give what the records one by one give, or are not taken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from barnabas.pipelines.connect.connectors.files import FileStreamSource, lines_column
from barnabas.pipelines.connect.connectors.storage import arrow
from barnabas.pipelines.connect.converters.converter import StringConverter
from barnabas.pipelines.connect.converters.json import JsonConverter
from barnabas.pipelines.connect.data.schema import STRING
from barnabas.pipelines.connect.errors import DataError

LINES = [
    b"one\ntwo\n",
    b"\n\n",
    b"with\rreturn\r\n\r\n\rx\n",
    "späť \U0001f600\n".encode(),
    b"broken \xff\xfe utf\nok\n",
]
FIELDS = [
    {"type": "int64", "optional": False, "field": "id"},
    {"type": "int16", "optional": True, "field": "small"},
    {"type": "string", "optional": True, "field": "name"},
    {"type": "double", "optional": True, "field": "price"},
    {"type": "boolean", "optional": True, "field": "flag"},
    {"type": "int64", "optional": True, "name": "org.apache.kafka.connect.data.Timestamp", "field": "at"},
]
SCHEMA = {"type": "struct", "optional": False, "fields": FIELDS}


@pytest.mark.parametrize("data", LINES)
def test_lines_as_a_column_are_the_lines_as_records(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(data + b"unfinished")
    source = FileStreamSource({"file": str(path), "topic": "t"})
    source.start({})
    records = list(source.poll())
    source.start({})
    column = source.poll_column()
    assert column is not None
    assert [each.decode() for each in column.values.to_pylist()] == [record.value for record in records]
    assert column.source_offset == records[-1].source_offset


@pytest.mark.parametrize("schemas", ["true", "false"])
@pytest.mark.parametrize("data", [*LINES, b'say "hi" \\ \t\n'])
def test_a_column_of_texts_is_written_as_the_texts_are(schemas: str, data: bytes) -> None:
    values = lines_column(data)
    for converter in (JsonConverter({"schemas.enable": schemas}, is_key=False), StringConverter({}, is_key=False)):
        write = converter.column_writer(STRING)
        assert write is not None
        one_by_one = [converter.to_bytes("t", STRING, each.decode()) for each in values.to_pylist()]
        assert write(values).to_pylist() == one_by_one


def read_both(converter: JsonConverter, values: list[bytes]) -> tuple[Any, Any]:
    """As one column, and as records; None where the column is not taken."""
    read = converter.column_reader()
    assert read is not None
    found = read(pa.array(values, pa.binary()))
    records = [converter.to_connect("t", value) for value in values]
    schema = records[0].schema
    rows = [record.value for record in records]
    table = arrow.inferred_table(rows) if schema is None else arrow.table(schema, rows)
    return None if found is None else found[1].to_pylist(), table.to_pylist()


@pytest.mark.parametrize(
    "trees",
    [
        [{"id": 1, "name": "a"}, {"id": 2, "name": None, "more": [1, 2.5]}],
        [{"a": {"b": {"c": 1}}}, {"a": {"b": {"c": None}}}],
        [{"x": 1}, {"x": 2.5}],
        [{"x": "späť"}, {"x": 'quote " and \\ and \n'}],
        [{"x": True}, {"x": False}, {}],
    ],
)
def test_a_column_of_json_objects_is_read_as_they_are(trees: list[Any]) -> None:
    column, records = read_both(JsonConverter({"schemas.enable": "false"}, is_key=False),
                                [json.dumps(tree, indent=1).encode() for tree in trees])  # fmt: skip
    assert column is not None
    assert column == records


@pytest.mark.parametrize(
    "values",
    [
        [b'{"t":"2026-01-01 10:00:00"}'],  # a text that Arrow would take for a time
        [b'{"n":9223372036854775808}'],  # Java wraps it
        [b'{"n":{"m":[123456789012345678901234567890]}}'],
    ],
)
def test_what_arrow_reads_in_another_way_is_left_to_the_records(values: list[bytes]) -> None:
    column, records = read_both(JsonConverter({"schemas.enable": "false"}, is_key=False), values)
    assert column is None
    assert records


@pytest.mark.parametrize(
    "values",
    [[b'{"a":1}{"a":2}', b""], [b'{"a":1}', b'{"a":1'], [b"[1]"], [b'{"a":1,"a":2}'], [b'{"a":"\xff"}'], [b""]],
)
def test_a_column_with_a_bad_value_is_not_taken(values: list[bytes]) -> None:
    read = JsonConverter({"schemas.enable": "false"}, is_key=False).column_reader()
    assert read is not None
    assert read(pa.array(values, pa.binary())) is None
    assert read(pa.array([b'{"a":1}', None], pa.binary())) is None


def enveloped(payload: Any, schema: Any = SCHEMA) -> bytes:
    return json.dumps({"schema": schema, "payload": payload}).encode()


def test_a_column_of_json_with_one_schema_is_read_as_the_records_are() -> None:
    payloads = [
        {"id": 1, "small": 3, "name": "a", "price": 1.5, "flag": True, "at": 1_700_000_000_123},
        {"id": 2, "small": None, "name": None, "price": 2, "flag": None, "at": None, "unknown": 1},
    ]
    column, records = read_both(JsonConverter({}, is_key=False), [enveloped(each) for each in payloads])
    assert column is not None
    assert column == records


@pytest.mark.parametrize(
    "payload", [{"id": 1.5}, {"id": 1, "small": 70_000}, {"id": 1, "name": 7}, {"id": "x"}, {"id": 1, "flag": "yes"}]
)
def test_lenient_conversions_of_json_with_a_schema_are_left_to_the_records(payload: Any) -> None:
    column, records = read_both(JsonConverter({}, is_key=False), [enveloped({"id": 7}), enveloped(payload)])
    assert column is None
    assert len(records) == 2


def test_json_with_two_schemas_or_without_a_needed_value_is_left_to_the_records() -> None:
    converter = JsonConverter({}, is_key=False)
    read = converter.column_reader()
    assert read is not None
    other = {"type": "struct", "optional": False, "fields": FIELDS[:1]}
    assert read(pa.array([enveloped({"id": 1}), enveloped({"id": 1}, other)])) is None
    assert read(pa.array([enveloped({"id": 1}), enveloped({"name": "no id"})])) is None
    with pytest.raises(DataError, match="Invalid null value for required"):
        converter.to_connect("t", enveloped({"name": "no id"}))


def test_a_field_that_only_a_later_map_has_is_written_too() -> None:
    assert arrow.inferred_table([{"a": 1}, {"b": 2}]).to_pylist() == [{"a": 1, "b": None}, {"a": None, "b": 2}]
