"""Made-up records of a schema's file, as ksqlDB's data generator takes them."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.errors import UsageError
from barnabas.cli.sql.datagen import generated, schema_in, schema_maker
from barnabas.cli.sql.patterns import text_of
from barnabas.cli.tools.ksql_datagen import codecs_for


def rows(path: Path, *fields: str, count: int = 40) -> list[dict[str, Any]]:
    text = f'{{"type": "record", "name": "r", "fields": [\n// "a" comment\n{", ".join(fields)}]}}'
    (path / "a.avro").write_text(text)
    return [row for _, row in generated(schema_maker(schema_in(str(path / "a.avro"))), 1, count)]


def field(kind: Any, **properties: Any) -> str:
    return json.dumps({"name": "a", "type": {"type": kind, "arg.properties": properties}})


@pytest.mark.parametrize(
    "pattern",
    [
        "User_[1-9]{0,1}",
        "Region_[1-9]?",
        "Item_[1-9][0-9]{0,2}",
        "(cat|dog)-\\d{3}",
        "[^a-z]+",
        "x*y+z",
        "[a-c\\-_]{2,}",
        "(?:a|b(c|d)){2}",
        "^fixed\\.txt$",
        ".{4}",
    ],
)
def test_texts_fit_their_pattern(pattern: str) -> None:
    random_ = random.Random(1)
    found = {text_of(pattern, random_) for _ in range(50)}
    assert all(re.fullmatch(pattern, one) for one in found)
    assert len(found) > 1 or pattern.startswith("^fixed")


@pytest.mark.parametrize("pattern", ["[a", "(a", "a)", "[]"])
def test_a_pattern_that_is_none_is_told(pattern: str) -> None:
    with pytest.raises(UsageError, match=r"^regex "):
        text_of(pattern, random.Random(1))


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({"start": 5}, [5, 6, 7, 8]),
        ({"start": 1, "step": 10}, [1, 11, 21, 31]),
        ({"start": 0, "restart": 3}, [0, 1, 2, 0]),
        ({"start": 3, "restart": 0}, [3, 2, 1, 3]),
        ({"start": 0, "restart": 10, "step": 4, "initial": 6}, [6, 0, 4, 8]),
    ],
)
def test_numbers_count_and_begin_again(tmp_path: Path, settings: dict[str, int], wanted: list[int]) -> None:
    assert [row["a"] for row in rows(tmp_path, field("long", iteration=settings), count=4)] == wanted


def test_options_are_for_arrays_and_maps_too(tmp_path: Path) -> None:
    options = [["a", "b"], ["c"]]
    array = json.dumps(
        {"name": "a", "type": {"type": "array", "items": "string", "arg.properties": {"options": options}}}
    )
    assert {tuple(row["a"]) for row in rows(tmp_path, array)} == {("a", "b"), ("c",)}


def test_lengths_odds_times_and_types_that_are_named(tmp_path: Path) -> None:
    texts = {len(row["a"]) for row in rows(tmp_path, field("string", length={"min": 2, "max": 4}))}
    assert texts == {2, 3}
    assert all(row["a"] for row in rows(tmp_path, field("boolean", odds=1.0)))
    (made,) = rows(tmp_path, '{"name": "a", "type": {"type": "long", "format_as_time": "unix_long"}}', count=1)
    assert made["a"] > 1_700_000_000_000
    (made,) = rows(tmp_path, '{"name": "a", "type": {"type": "string", "format_as_time": "yyyy-MM-dd"}}', count=1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", made["a"])
    enum = '{"name": "a", "type": {"type": "enum", "name": "e", "symbols": ["X"]}}'
    (made,) = rows(tmp_path, enum, '{"name": "b", "type": ["null", "e"]}', count=1)
    assert made == {"a": "X", "b": "X"}


def test_types_are_those_of_the_schema(tmp_path: Path) -> None:
    array = '{"name": "a", "type": {"type": "array", "items": "int"}}, // a comment\n'
    map_ = '{"name": "b", "type": {"type": "map", "values": "double"}}'
    made = rows(tmp_path, array + map_, '{"name": "c", "type": "int"}', count=30)
    schema = schema_in(str(tmp_path / "a.avro"))
    made.sort(key=lambda row: len(row["a"]) + len(row["b"]))  # the first one has the fewest
    key, value = codecs_for(made[0], "c", "t", "JSON", {}, schema)
    assert [str(kind) for _, kind in value.columns] == ["ARRAY<INTEGER>", "MAP<STRING, DOUBLE>", "INTEGER"]
    assert [json.loads(value.encode(list(row.values())) or b"") for row in made] == made
    assert key.encode([7]) == b"\0\0\0\7"


@pytest.mark.parametrize("fields", ['{"name": "a", "type": "nothing"}', '{"type": "int"}', "{", "3"])
def test_a_schema_that_is_none_is_told(tmp_path: Path, fields: str) -> None:
    with pytest.raises(UsageError, match="is no Avro schema: "):
        rows(tmp_path, fields)
