"""Schemas of every depth: what is parsed can be printed and compared anywhere; what is deeper is refused."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from barnabas.client.schemas import InvalidSchema, ResolvedReference, parse_schema
from barnabas.client.schemas.nesting import JSON_LEVELS_MAX, is_too_deep

FRAMES_ABOVE = 150  # of a server and its threads

SHAPES: dict[str, tuple[str, Callable[[int], str]]] = {
    "records": (
        "AVRO",
        lambda n: (
            "".join(f'{{"type":"record","name":"R{at}","fields":[{{"name":"f","type":' for at in range(n))
            + '"int"'
            + "}]}" * n
        ),
    ),
    "arrays": ("AVRO", lambda n: '{"type":"array","items":' * n + '"int"' + "}" * n),
    "unions": ("AVRO", lambda n: '["null",{"type":"map","values":' * n + '"int"' + "}]" * n),
    "properties": ("JSON", lambda n: '{"properties":{"a":' * n + "{}" + "}}" * n),
    "all of": ("JSON", lambda n: '{"allOf":[' * n + "{}" + "]}" * n),
    "items": ("JSON", lambda n: '{"items":' * n + "{}" + "}" * n),
    "unknown words": ("JSON", lambda n: '{"x":' * n + "{}" + "}" * n),
    "lists": ("JSON", lambda n: '{"enum":[' + "[" * n + "]" * n + "]}"),
    "messages": (
        "PROTOBUF",
        lambda n: 'syntax="proto3";' + "".join(f"message A{at} {{ A{at} x = 1; " for at in range(n)) + "}" * n,
    ),
    "options": ("PROTOBUF", lambda n: 'syntax="proto3"; option (x) = {a: ' + "{a: " * n + "1" + "}" * n + "};"),
}


def deep_in_calls(frames: int, work: Callable[[], None]) -> None:
    if frames:
        deep_in_calls(frames - 1, work)
    else:
        work()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_schema_is_refused_or_works_everywhere(shape: str) -> None:
    kind, text_of = SHAPES[shape]
    accepted = []

    def attempt(levels: int) -> None:
        text = text_of(levels)
        try:
            schema, other = parse_schema(kind, text), parse_schema(kind, text)
        except InvalidSchema as error:
            assert "nested too deeply" in str(error)  # noqa: PT017
            return
        assert schema.normalized().canonical
        assert parse_schema(kind, schema.canonical).equivalent(other)
        schema.unreadable(other, "new", "old")
        for form in ("resolved", "serialized", "ignore_extensions"):
            assert schema.formatted(form)
        accepted.append(levels)

    for levels in (60, 83, 84, 99, 100, 101, 124, 125, 200, 249, 250, 251, 400, 10_000):
        deep_in_calls(FRAMES_ABOVE, lambda levels=levels: attempt(levels))  # type: ignore[misc]
    assert 60 in accepted
    assert accepted[-1] < 260


def test_schemas_that_refer_to_each_other_in_a_long_row() -> None:
    def record(at: int, kind: str) -> str:
        return json.dumps({"type": "record", "name": f"R{at}", "fields": [{"name": "f", "type": kind}]})

    def row(length: int) -> list[ResolvedReference]:
        return [ResolvedReference(f"R{at}", record(at, f"R{at - 1}" if at else "int")) for at in range(length)]

    assert '"R0"' in parse_schema("AVRO", record(70, "R69"), row(70)).formatted("resolved")
    with pytest.raises(InvalidSchema, match="nested too deeply with the schemas it refers to"):
        parse_schema("AVRO", record(600, "R599"), row(600))


def test_brackets_in_strings_nest_nothing() -> None:
    assert not is_too_deep(json.dumps({"doc": "[{" * 10_000, "more": '\\"[' * 1_000}))
    assert not is_too_deep("[]" * 1_000)
    assert not is_too_deep("[" * JSON_LEVELS_MAX)
    assert is_too_deep("[" * (JSON_LEVELS_MAX + 1))
