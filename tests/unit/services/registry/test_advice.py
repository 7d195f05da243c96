"""What helps: told for programs, out of the messages for people."""

from __future__ import annotations

import json
from typing import Any

import pytest

from barnabas.client.schemas import parse_schema
from barnabas.services.registry.advice import advice, explained


def unreadable(kind: str, old: Any, new: Any) -> list[dict[str, Any]]:
    texts = [each if isinstance(each, str) else json.dumps(each) for each in (old, new)]
    before, after = (parse_schema(kind, text) for text in texts)
    return explained([*after.unreadable(before, "new", "old"), "{oldSchemaVersion: 1}", "{oldSchema: '...'}"])


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields)}


def test_a_field_without_a_default() -> None:
    old = record({"name": "a", "type": "int"})
    (found,) = unreadable("AVRO", old, record({"name": "a", "type": "int"}, {"name": "b", "type": "int"}))
    assert (found["rule"], found["path"], found["detail"]) == ("READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/1", "b")
    assert found["suggestion"].startswith("Give the field 'b' a default")


@pytest.mark.parametrize(
    ("kind", "old", "new", "rule", "path"),
    [
        (
            "AVRO",
            record({"name": "a", "type": "long"}),
            record({"name": "a", "type": "int"}),
            "TYPE_MISMATCH",
            "/fields/0/type",
        ),
        (
            "JSON",
            {"type": "object", "properties": {"n": {"type": "integer"}}},
            {"type": "object", "properties": {"n": {"type": "string"}}},
            "TYPE_CHANGED",
            "#/properties/n",
        ),
        (
            "PROTOBUF",
            'syntax = "proto3"; message M { int32 a = 1; }',
            'syntax = "proto3"; message M { string a = 1; }',
            "FIELD_SCALAR_KIND_CHANGED",
            "#/M/1",
        ),
    ],
)
def test_every_language(kind: str, old: Any, new: Any, rule: str, path: str) -> None:
    (found,) = unreadable(kind, old, new)
    assert (found["rule"], found["path"]) == (rule, path)
    assert found["suggestion"].endswith((".", "null}."))


def test_every_rule_has_a_sentence() -> None:
    assert advice("MAX_LENGTH_DECREASED", "") == "Keep the former limit, or a higher one."
    assert advice("NEVER_HEARD_OF", "") != ""
    (other,) = explained(["Incompatible because of different schema type"])
    assert other["rule"] == "OTHER"
