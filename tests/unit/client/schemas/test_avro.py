from __future__ import annotations

import json
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.client.schemas import InvalidSchema, ResolvedReference, parse_schema
from barnabas.client.schemas.avro import compatibility
from barnabas.client.schemas.avro.schema import AvroSchema


def avro(tree: Any, *references: tuple[str, Any]) -> AvroSchema:
    return AvroSchema(json.dumps(tree), [ResolvedReference(name, json.dumps(each)) for name, each in references])


def record(*fields: dict[str, Any], name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


class TestCanonicalText:
    @pytest.mark.parametrize(
        ("given_tree", "text"),
        [
            ({"type": "string"}, '"string"'),
            ({"type": "string", "avro.java.string": "String"}, '{"type":"string","avro.java.string":"String"}'),
            (record(name="a.b.R"), '{"type":"record","name":"R","namespace":"a.b","fields":[]}'),
            (
                {"doc": "d", "fields": [], "name": "R", "type": "record", "aliases": ["x.S", "T"], "p": 1},
                '{"type":"record","name":"R","doc":"d","fields":[],"p":1,"aliases":["x.S","T"]}',
            ),
            (
                record(field("f", "double", default=1e10), field("g", "float", default=1e-5)),
                '{"type":"record","name":"R","fields":[{"name":"f","type":"double","default":1.0E10},'
                '{"name":"g","type":"float","default":1.0E-5}]}',
            ),
            (
                record(field("f", {"type": "enum", "name": "E", "symbols": ["A"], "default": "A"}), name="n.R"),
                '{"type":"record","name":"R","namespace":"n","fields":[{"name":"f","type":{"type":"enum","name":"E",'
                '"symbols":["A"],"default":"A"}}]}',
            ),
        ],
    )
    def test_is_as_avro_prints_it(self, given_tree: Any, text: str) -> None:
        assert avro(given_tree).canonical == text

    def test_referenced_types_are_named_and_spelled_out_when_resolved(self) -> None:
        used = record(field("id", "int"), name="shop.Customer")
        schema = avro(record(field("by", "shop.Customer"), name="shop.Order"), ("shop.Customer", used))
        assert '"type":"Customer"' in schema.canonical
        assert '"name":"id"' in schema.formatted("resolved")

    def test_normal_form_orders_properties_and_aliases(self) -> None:
        tree = {"type": "bytes", "z": 1, "scale": 2, "a": {"y": 1, "x": 2}, "precision": 4, "logicalType": "decimal"}
        assert avro(tree).normalized().canonical == (
            '{"type":"bytes","logicalType":"decimal","precision":4,"scale":2,"a":{"x":2,"y":1},"z":1}'
        )


@pytest.mark.parametrize(
    ("tree", "problem"),
    [
        ("unknown", "Undefined schema: unknown"),
        ({"type": {"type": "string"}}, "No type"),
        ({"type": "record", "name": "R"}, "Record has no fields"),
        (record(field("f", "int"), field("f", "int")), "Duplicate field f in record R"),
        (record(field("f", "int", default="x")), 'Invalid default for field f: "x" not a "int"'),
        (record(field("f-g", "int")), "Illegal character in: f-g"),
        (["int", "int"], "Duplicate in union:int"),
        (["int", ["null"]], "Nested union"),
        ({"type": "enum", "name": "E", "symbols": ["A", "A"]}, "Duplicate enum symbol: A"),
        ({"type": "fixed", "name": "F", "size": "1"}, "Invalid or no size"),
        (record(field("f", record()), name="R"), "Can't redefine: R"),
    ],
)
def test_what_is_no_schema_is_refused(tree: Any, problem: str) -> None:
    with pytest.raises(InvalidSchema, match="Invalid schema of type AVRO, details: ") as raised:
        parse_schema("AVRO", json.dumps(tree))
    assert problem in str(raised.value)


def test_depth_without_end_is_refused() -> None:
    with pytest.raises(InvalidSchema, match="nested too deeply"):
        parse_schema("AVRO", '{"type":"array","items":' * 100_000)


class TestReading:
    def test_a_reader_needs_a_default_for_what_was_not_written(self) -> None:
        assert avro(record(field("f", "int"))).unreadable(avro(record()), "new", "old") == [
            "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'f' at path '/fields/0' in the "
            "new schema has no default value and is missing in the old schema', additionalInfo:'f'}"
        ]
        assert avro(record(field("f", "int", default=1))).unreadable(avro(record()), "new", "old") == []

    def test_numbers_widen(self) -> None:
        assert avro("long").unreadable(avro("int"), "new", "old") == []
        assert avro("int").unreadable(avro("long"), "new", "old")[0].startswith("{errorType:'TYPE_MISMATCH'")

    def test_recursion_ends(self) -> None:
        tree = record(field("next", ["null", "R"], default=None), field("v", "int"))
        assert avro(tree).unreadable(avro(tree), "new", "old") == []

    def test_an_alias_stands_for_the_old_name(self) -> None:
        assert (
            avro(record(field("b", "int", aliases=["a"]))).unreadable(avro(record(field("a", "int"))), "n", "o") == []
        )


def union(branches: int, name: str, fields: int = 20) -> AvroSchema:
    listed = [field(f"{name}{number}", "int") for number in range(fields)]
    return avro([record(*listed, name=f"R{number}") for number in range(branches)])


class TestLargeUnions:
    def test_are_compared_by_name_and_found_the_same(self, monkeypatch: pytest.MonkeyPatch) -> None:
        new, old = union(12, "y"), union(12, "x")
        exact = new.unreadable(old, "new", "old")
        monkeypatch.setattr(compatibility, "STEPS_MAX", 100)
        assert new.unreadable(old, "new", "old") == exact
        assert len(exact) == 12
        assert union(12, "x").unreadable(old, "new", "old") == []

    def test_of_a_thousand_records_read_themselves(self) -> None:
        assert union(1_000, "x", 5).unreadable(union(1_000, "x", 5), "new", "old") == []

    def test_without_measure_are_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(compatibility, "STEPS_MAX", 100)
        monkeypatch.setattr(compatibility, "MANY_STEPS_MAX", 1_000)
        (said,) = union(100, "x").unreadable(union(100, "y"), "new", "old")
        assert "too complex" in said


PRIMITIVES = st.sampled_from(["null", "boolean", "int", "long", "float", "double", "bytes", "string"])
TYPES = st.recursive(
    PRIMITIVES,
    lambda inner: st.one_of(
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(lambda values: {"type": "map", "values": values}, inner),
        st.lists(PRIMITIVES, min_size=1, max_size=3, unique=True),
    ),
    max_leaves=4,
)
DEFAULTS = {"int": 1, "long": 1, "string": "s", "boolean": True, "double": 1.5, "null": None}
FIELDS = st.lists(st.tuples(st.sampled_from("abcd"), TYPES, st.booleans()), max_size=4, unique_by=lambda each: each[0])


@st.composite
def records(draw: st.DrawFn) -> dict[str, Any]:
    fields = []
    for name, kind, with_default in draw(FIELDS):
        default = {"default": DEFAULTS[kind]} if with_default and isinstance(kind, str) and kind in DEFAULTS else {}
        fields.append({"name": name, "type": kind} | default)
    return record(*fields)


@given(records())
def test_a_schema_reads_itself(tree: dict[str, Any]) -> None:
    assert avro(tree).unreadable(avro(tree), "new", "old") == []
    assert avro(json.loads(avro(tree).canonical)).canonical == avro(tree).canonical


@given(records(), records(), st.integers(0, 10_000))
def test_what_counts_as_readable_fastavro_reads(written: dict[str, Any], reader: dict[str, Any], seed: int) -> None:
    import io
    from random import Random

    if avro(reader).unreadable(avro(written), "new", "old"):
        return
    value = {each["name"]: value_of(each["type"], Random(seed)) for each in written["fields"]}
    data = io.BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(written), value)
    data.seek(0)
    read = fastavro.schemaless_reader(data, fastavro.parse_schema(written), fastavro.parse_schema(reader))
    assert isinstance(read, dict)
    assert set(read) == {each["name"] for each in reader["fields"]}


def value_of(kind: Any, random: Any) -> Any:
    if isinstance(kind, list):
        return value_of(random.choice(kind), random)
    if isinstance(kind, dict) and kind["type"] == "array":
        return [value_of(kind["items"], random) for _ in range(random.randint(0, 2))]
    if isinstance(kind, dict):
        return {key: value_of(kind["values"], random) for key in "kl"[: random.randint(0, 2)]}
    return {
        "null": None,
        "boolean": True,
        "int": 1,
        "long": 2,
        "float": 0.5,
        "double": 0.25,
        "bytes": b"x",
        "string": "y",
    }[kind]
