"""Columns that come from a registry's schema, and what is kept of them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from barnabas.client.serdes import Schema, shared_registry
from barnabas.client.serdes.mock import drop_mock
from barnabas.pipelines.sql.definitions import spelled_out
from barnabas.pipelines.sql.engine import Engine
from barnabas.pipelines.sql.language import tree
from barnabas.pipelines.sql.language.statements import parse_statement
from barnabas.pipelines.sql.metastore import DataSource

REGISTRY = "mock://definitions"
COLUMNS = "`V` INTEGER, `HOME` STRUCT<`STREET` STRING>"


def avro(*names: str) -> Schema:
    home = {"type": "record", "name": "Home", "fields": [{"name": "street", "type": "string"}]}
    kinds = {"v": {"type": "int"}, "home": {"type": home}, "more": {"type": "long", "default": 0}}
    return Schema(json.dumps({"type": "record", "name": "R", "fields": [{"name": n} | kinds[n] for n in names]}))


@pytest.fixture
def first_id() -> Iterator[int]:
    """Of the schema before the latest."""
    registry = shared_registry(REGISTRY)
    first = registry.register("t-value", avro("v", "home"))
    yield first.id
    drop_mock(REGISTRY.removeprefix("mock://"))


def applied(text: str, registry: str | None = REGISTRY) -> tuple[tree.CreateSource, DataSource]:
    statement = parse_statement(text)
    assert isinstance(statement, tree.CreateSource)
    source = Engine(settings={"ksql.schema.registry.url": registry}).apply(statement, 1).source
    assert source is not None
    return statement, source


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        (
            "CREATE STREAM s WITH (KAFKA_TOPIC='t', VALUE_FORMAT='AVRO');",
            f"CREATE STREAM `S` ({COLUMNS}) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='AVRO');",
        ),
        (
            "CREATE SOURCE TABLE `it's` (id STRING PRIMARY KEY) WITH (KAFKA_TOPIC='t', FORMAT='AVRO');",
            f"CREATE SOURCE TABLE `it's` (`ID` STRING PRIMARY KEY, {COLUMNS}) WITH (KAFKA_TOPIC='t', FORMAT='AVRO');",
        ),
        (
            "CREATE STREAM s (id STRING KEY, h BYTES HEADER('it''s')) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='AVRO');",
            f"CREATE STREAM `S` (`ID` STRING KEY, {COLUMNS}, `H` BYTES HEADER('it''s'))"
            " WITH (KAFKA_TOPIC='t', VALUE_FORMAT='AVRO');",
        ),
    ],
)
def test_columns_of_a_schema_are_kept_though_it_changes_and_the_registry_is_gone(
    first_id: int, text: str, spelled: str
) -> None:
    statement, source = applied(text)
    assert spelled_out(statement, source) == spelled
    shared_registry(REGISTRY).register("t-value", avro("v", "home", "more"))
    _, again = applied(spelled, "http://127.0.0.1:1")
    assert again.columns == source.columns


def test_a_statement_with_all_its_columns_is_kept_as_it_was_written(first_id: int) -> None:
    statement, source = applied("CREATE  STREAM s(V INT) WITH (kafka_topic='t', value_format='AVRO');")
    assert spelled_out(statement, source) == statement.text


def test_columns_are_those_of_the_schema_that_is_named(first_id: int) -> None:
    registry = shared_registry(REGISTRY)
    registry.register("t-value", avro("v", "home", "more"))
    named = f"CREATE STREAM s WITH (kafka_topic='t', value_format='AVRO', value_schema_id={first_id});"
    assert [one.name for one in applied(named)[1].columns] == ["v", "home"]  # as ksqlDB keeps them
    latest = "CREATE STREAM s WITH (kafka_topic='t', value_format='AVRO');"
    assert [one.name for one in applied(latest)[1].columns] == ["V", "HOME", "MORE"]
