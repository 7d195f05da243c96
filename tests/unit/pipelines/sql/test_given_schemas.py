"""Columns that come from schemas of the registry, and results that are written with one of them, given by its id."""

from __future__ import annotations

import json
from typing import Any

import pytest

from barnabas.client.serdes import Deserializer, Schema, Serializer, shared_registry
from barnabas.client.serdes.schema import SchemaReference
from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.runner import Bench, CaseRecord

SOURCE = "CREATE STREAM s (id STRING KEY, a INT, b STRING) WITH (kafka_topic='s', value_format='JSON');"


@pytest.fixture
def bench(sql_bench: Bench) -> Bench:
    return sql_bench


def registry(bench: Bench) -> Any:
    return shared_registry(str(bench.engine.settings["ksql.schema.registry.url"]))


def registered(bench: Bench, kind: str, schema: Any) -> int:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return int(registry(bench).register("o-value", Schema(text, kind)).id)


def written(bench: Bench, items: str, schema_id: int, form: str, value: Any) -> Any:
    bench.execute(
        f"{SOURCE} CREATE STREAM o WITH (kafka_topic='o', value_format='{form}', value_schema_id={schema_id}) "
        f"AS SELECT id, {items} FROM s;"
    )
    bench.pipe(CaseRecord("s", "k", value, 0))
    (record,) = bench.taken()
    return Deserializer(registry(bench)).decode(record.value)


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields)}


def test_null_in_a_field_that_holds_none_is_its_default(bench: Bench) -> None:
    schema = record(
        {"name": "a", "type": "int", "default": 7},
        {"name": "in", "type": record({"name": "b", "type": "string", "default": "none"}) | {"name": "In"}},
        {"name": "c", "type": ["null", "string"], "default": None},
    )
    given = registered(bench, "AVRO", schema)
    found = written(bench, "a, STRUCT(b := b) AS `in`, b AS c", given, "AVRO", {"a": None, "b": None})
    assert found == {"a": 7, "in": {"b": "none"}, "c": None}


def test_fields_inside_of_a_message_are_spelled_as_the_schema_has_them(bench: Bench) -> None:
    given = registered(
        bench,
        "PROTOBUF",
        'syntax = "proto3"; message M { In in = 1; repeated In ins = 2; } message In { int32 a = 1; }',
    )
    items = "STRUCT(a := a) AS `in`, ARRAY[STRUCT(a := a)] AS ins"
    assert written(bench, items, given, "PROTOBUF", {"a": 3}) == {"in": {"a": 3}, "ins": [{"a": 3}]}


def test_fields_inside_of_an_object_are_spelled_as_the_schema_has_them(bench: Bench) -> None:
    inner = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}
    optional = {"oneOf": [{"type": "null"}, inner]}
    schema = {"type": "object", "properties": {"in": optional, "ins": {"type": "array", "items": inner}}}
    given = registered(bench, "JSON", schema)
    items = "STRUCT(a := a) AS `in`, ARRAY[STRUCT(a := a)] AS ins"
    assert written(bench, items, given, "JSON_SR", {"a": 3}) == {"in": {"a": 3}, "ins": [{"a": 3}]}


@pytest.mark.parametrize(
    ("items", "told"),
    [
        ("b AS a", "The following value columns are changed or missing: [`A` STRING]"),
        ("a, b AS other", "The following value columns are changed or missing: [`OTHER` STRING]"),
    ],
)
def test_results_that_do_not_fit_are_refused_when_the_statement_is_made(bench: Bench, items: str, told: str) -> None:
    given = registered(bench, "AVRO", record({"name": "a", "type": "int"}, {"name": "b", "type": "double"}))
    with pytest.raises(SqlError) as caught:
        written(bench, items, given, "AVRO", {})
    assert str(caught.value).startswith(told)
    assert f"Schema {given} from the schema registry is [`a` INTEGER, `b` DOUBLE]" in str(caught.value)


def columns(bench: Bench, kind: str, text: str, other: str | None = None, more: str = "") -> dict[str, str]:
    references: tuple[SchemaReference, ...] = ()
    if other is not None:
        registry(bench).register("other", Schema(other, kind))
        references = (SchemaReference("other.proto" if kind == "PROTOBUF" else "other", "other", 1),)
    schema_id = int(registry(bench).register("c-value", Schema(text, kind, references)).id)
    form = "JSON_SR" if kind == "JSON" else kind
    bench.execute(f"CREATE STREAM c WITH (kafka_topic='c', value_format='{form}'{more.format(schema_id)});")
    return {one.name: str(one.kind) for one in bench.engine.metastore.source("C").columns}


MESSAGE = 'syntax = "proto3"; import "other.proto"; message M { Other at = 1; }'
OTHER_MESSAGE = 'syntax = "proto3"; message Other { int64 ms = 1; }'


@pytest.mark.parametrize(
    ("kind", "text", "other"),
    [
        ("PROTOBUF", MESSAGE, OTHER_MESSAGE),
        (
            "AVRO",
            json.dumps(record({"name": "at", "type": "other"})),
            json.dumps({"type": "record", "name": "other", "fields": [{"name": "ms", "type": "long"}]}),
        ),
        (
            "JSON",
            json.dumps({"type": "object", "properties": {"at": {"$ref": "other"}}}),
            json.dumps(
                {"type": "object", "properties": {"ms": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}}
            ),
        ),
    ],
    ids=["PROTOBUF", "AVRO", "JSON"],
)
def test_columns_come_from_what_a_schema_refers_to_as_well(bench: Bench, kind: str, text: str, other: str) -> None:
    assert columns(bench, kind, text, other) == {"AT": "STRUCT<`MS` BIGINT>"}


def test_columns_of_a_schema_that_is_named_by_its_id_are_spelled_as_there(bench: Bench) -> None:
    found = columns(bench, "PROTOBUF", MESSAGE, OTHER_MESSAGE, ", value_schema_id={}")
    assert found == {"at": "STRUCT<`ms` BIGINT>"}
    bench.execute("CREATE STREAM d WITH (value_format='JSON') AS SELECT `at`->`ms` AS ms FROM c;")


def test_a_decimal_of_protobuf_has_the_precision_that_its_schema_tells(bench: Bench) -> None:
    meta = '[(confluent.field_meta) = {params: [{key: "precision", value: "4"}, {key: "scale", value: "2"}]}]'
    text = (
        'syntax = "proto3"; import "confluent/meta.proto"; import "confluent/type/decimal.proto";'
        f"message M {{ confluent.type.Decimal a = 1 {meta}; confluent.type.Decimal b = 2; }}"
    )
    assert columns(bench, "PROTOBUF", text) == {"A": "DECIMAL(4, 2)", "B": "DECIMAL(64, 0)"}


def test_a_json_schema_that_holds_itself_is_refused(bench: Bench) -> None:
    text = json.dumps({"type": "object", "properties": {"next": {"$ref": "#"}}})
    with pytest.raises(SqlError, match="The JSON schema holds itself at #: name the columns"):
        columns(bench, "JSON", text)


@pytest.mark.parametrize("fields", [1, 2])
def test_a_record_that_is_not_wrapped_is_one_column(bench: Bench, fields: int) -> None:
    named = [{"name": f"f{at}", "type": ["null", "int"], "default": None} for at in range(fields)]
    found = columns(bench, "AVRO", json.dumps(record(*named)), more=", wrap_single_value=false")
    assert found == {"ROWVAL": f"STRUCT<{', '.join(f'`F{at}` INTEGER' for at in range(fields))}>"}
    bench.execute("CREATE STREAM d WITH (value_format='JSON') AS SELECT rowval->f0 AS a FROM c;")
    data = Serializer(registry(bench), schema=Schema(json.dumps(record(*named)), "AVRO")).encode(
        "c", {f"f{at}": 7 for at in range(fields)}
    )
    bench.pipe_bytes("c", None, data, 0)
    assert [one.value for one in bench.output()] == [{"A": 7}]
