"""Laws of the seven levels, over random schemas of all three types."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from barnabas.client.schemas import ParsedSchema, parse_schema
from barnabas.services.registry.levels import Level, check

FIELDS = st.dictionaries(
    st.sampled_from("abcd"), st.tuples(st.sampled_from(["int", "long", "string"]), st.booleans()), max_size=4
)
JSON_TYPES = {"int": "integer", "long": "number", "string": "string"}
PROTO_TYPES = {"int": "int32", "long": "int64", "string": "string"}
NUMBERS = {name: number for number, name in enumerate("abcd", 1)}


def avro(fields: dict[str, tuple[str, bool]]) -> str:
    defaults: dict[str, Any] = {"int": 1, "long": 1, "string": "s"}
    listed = [
        {"name": name, "type": kind} | ({"default": defaults[kind]} if lenient else {})
        for name, (kind, lenient) in fields.items()
    ]
    return json.dumps({"type": "record", "name": "R", "fields": listed})


def json_schema(fields: dict[str, tuple[str, bool]]) -> str:
    properties = {name: {"type": JSON_TYPES[kind]} for name, (kind, _) in fields.items()}
    required = [name for name, (_, lenient) in fields.items() if not lenient]
    return json.dumps({"type": "object", "properties": properties, "required": required})


def protobuf(fields: dict[str, tuple[str, bool]]) -> str:
    listed = " ".join(
        f"{'repeated ' if lenient else ''}{PROTO_TYPES[kind]} {name} = {NUMBERS[name]};"
        for name, (kind, lenient) in fields.items()
    )
    return f'syntax = "proto3"; message R {{ {listed} }}'


WRITERS = {"AVRO": avro, "JSON": json_schema, "PROTOBUF": protobuf}


@st.composite
def histories(draw: st.DrawFn) -> tuple[ParsedSchema, list[ParsedSchema]]:
    """A new schema and some earlier ones, the latest first."""
    kind = draw(st.sampled_from(list(WRITERS)))
    new, *earlier = draw(st.lists(FIELDS, min_size=2, max_size=4))
    schemas = [parse_schema(kind, WRITERS[kind](each)) for each in (new, *earlier)]
    return schemas[0], schemas[1:]


def accepted(level: Level, new: ParsedSchema, earlier: list[ParsedSchema]) -> bool:
    return not check(level, new, ((at, lambda each=each: each) for at, each in enumerate(earlier)))  # type: ignore[misc]


@given(histories())
def test_a_schema_is_compatible_with_itself(history: tuple[ParsedSchema, list[ParsedSchema]]) -> None:
    new, _ = history
    assert all(accepted(level, new, [new, new]) for level in Level)


@given(histories())
def test_full_is_both_directions_and_each_is_the_other_seen_from_behind(
    history: tuple[ParsedSchema, list[ParsedSchema]],
) -> None:
    new, (old, *_) = history
    backward, forward = accepted(Level.BACKWARD, new, [old]), accepted(Level.FORWARD, new, [old])
    assert accepted(Level.FULL, new, [old]) == (backward and forward)
    assert accepted(Level.FORWARD, old, [new]) == backward
    assert accepted(Level.BACKWARD, old, [new]) == forward


@given(histories())
def test_a_transitive_level_is_the_plain_one_with_every_earlier_version(
    history: tuple[ParsedSchema, list[ParsedSchema]],
) -> None:
    new, earlier = history
    for name in ("BACKWARD", "FORWARD", "FULL"):
        plain, transitive = Level[name], Level[f"{name}_TRANSITIVE"]
        assert accepted(transitive, new, earlier) == all(accepted(plain, new, [each]) for each in earlier)
        assert accepted(plain, new, earlier) == accepted(plain, new, earlier[:1])
    assert accepted(Level.NONE, new, earlier)


@given(histories())
def test_no_level_accepts_another_type_of_schema(history: tuple[ParsedSchema, list[ParsedSchema]]) -> None:
    new, _ = history
    other = parse_schema("JSON" if new.type != "JSON" else "AVRO", "{}" if new.type != "JSON" else '"int"')
    assert not any(accepted(level, new, [other]) for level in Level if level is not Level.NONE)
