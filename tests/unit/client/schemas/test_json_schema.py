from __future__ import annotations

import json
import time
from typing import Any

import pytest

from barnabas.client.schemas import InvalidSchema, ResolvedReference, parse_schema
from barnabas.client.schemas.json_schema.diff import differences
from barnabas.client.schemas.json_schema.patterns import fits
from barnabas.client.schemas.json_schema.schema import JsonSchema


def found(old: Any, new: Any, *, all_of_them: bool = False) -> list[str]:
    before, after = JsonSchema(json.dumps(old)), JsonSchema(json.dumps(new))
    return [
        f"{each.kind} {each.path}"
        for each in differences(before.root, after.root)
        if all_of_them or not each.compatible
    ]


def thing(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **more}


STRING, INTEGER = {"type": "string"}, {"type": "integer"}
ARRAY = {"type": "array", "items": STRING}
MODERN = "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (STRING, INTEGER, ["TYPE_CHANGED #/"]),
        (INTEGER, {"type": "number"}, []),
        ({"type": "number"}, INTEGER, ["TYPE_NARROWED #/"]),
        (STRING, {"type": ["string", "null"]}, []),
        ({"type": ["string", "null"]}, STRING, ["TYPE_CHANGED #/"]),
        (STRING, STRING | {"maxLength": 3}, ["MAX_LENGTH_ADDED #/maxLength"]),
        (STRING | {"maxLength": 3}, STRING | {"maxLength": 4}, []),
        ({"enum": ["a"]}, {"enum": ["a", "b"]}, []),
        ({"enum": ["a", "b"]}, {"enum": ["a"]}, ["ENUM_ARRAY_NARROWED #/enum"]),
        (thing({}), thing({"a": STRING}), ["OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/a"]),
        (thing({}, additionalProperties=False), thing({"a": STRING}, additionalProperties=False), []),
        (
            thing({}, additionalProperties=False),
            thing({"a": STRING}, required=["a"], additionalProperties=False),
            ["REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/a"],
        ),
        (thing({"a": STRING}), thing({}), []),
        (
            thing({}, dependencies={"a": STRING}),
            thing({}, dependencies={"a": INTEGER}),
            ["TYPE_CHANGED #/dependencies/a"],
        ),
        ({"$schema": MODERN} | thing({}), {"$schema": MODERN} | thing({}, dependencies={"a": ["b"]}), []),
        (
            {"$schema": MODERN} | thing({}),
            {"$schema": MODERN} | thing({}, dependentRequired={"a": ["b"]}),
            ["DEPENDENCY_ARRAY_ADDED #/dependencies/a"],
        ),
        (thing({}), thing({}, dependentRequired={"a": ["b"]}), []),
        (thing({}), thing({}, unevaluatedProperties=False), []),
        ({"type": "array"}, {"type": "array", "prefixItems": [STRING], "unevaluatedItems": False}, []),
        ({"type": "array"}, {"type": "array", "items": False}, ["SCHEMA_ADDED #/items"]),
        ({"type": "array", "items": False}, ARRAY, []),
        (ARRAY, {"type": "array", "items": False}, ["TYPE_CHANGED #/items"]),
        ({"type": "array"}, {"type": "array", "items": True}, ["SCHEMA_ADDED #/items"]),
        ({"$schema": MODERN, "type": "array"}, {"$schema": MODERN, "type": "array", "items": True}, []),
        # A format is a demand on strings, in older drafts a schema of its own beside another type.
        (INTEGER, INTEGER | {"format": "int32"}, ["TYPE_CHANGED #/"]),
        (INTEGER | {"format": "int32"}, INTEGER, []),
        ({}, {"format": "date"}, ["TYPE_CHANGED #/"]),
        ({"format": "date"}, STRING | {"format": "date"}, []),
        (STRING, STRING | {"format": "date"}, []),
        (
            {"type": ["integer", "null"], "format": "x"},
            {"type": ["integer", "null"]},
            ["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"],
        ),
        ({"$schema": MODERN} | INTEGER, {"$schema": MODERN, "format": "int32"} | INTEGER, []),
        # One schema for all items leaves none over: what is said of additional ones counts only where it is a schema.
        (ARRAY, ARRAY | {"additionalItems": False}, []),
        (ARRAY | {"additionalItems": STRING}, ARRAY | {"additionalItems": False}, []),
        (
            ARRAY | {"additionalItems": False},
            ARRAY | {"additionalItems": STRING},
            ["ADDITIONAL_ITEMS_NARROWED #/additionalItems"],
        ),
        (
            {"type": "array"},
            {"type": "array", "additionalItems": False},
            ["ADDITIONAL_ITEMS_REMOVED #/additionalItems"],
        ),
        (
            thing({"a": STRING}, additionalProperties=False),
            thing({}, additionalProperties=False),
            ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/a"],
        ),
        (thing({"a": STRING}), thing({"a": STRING}, required=["a"]), ["REQUIRED_ATTRIBUTE_ADDED #/required/a"]),
        (
            thing({"a": STRING}),
            thing({"a": STRING | {"default": "x"}}, required=["a"]),
            [],
        ),
        (thing({"a": STRING}), thing({"a": STRING | {"default": None}}, required=["a"]), []),
        (
            thing({"a": STRING}, **{"$schema": MODERN}),
            thing({"a": STRING | {"default": None}}, required=["a"], **{"$schema": MODERN}),
            ["REQUIRED_ATTRIBUTE_ADDED #/required/a"],
        ),
        (
            thing({}, additionalProperties=STRING),
            thing({"a": STRING | {"default": None}}, required=["a"], additionalProperties=STRING),
            [],
        ),
        (
            thing({}, patternProperties={"^s": STRING}, additionalProperties=False),
            thing({"size": STRING}, patternProperties={"^s": STRING}, additionalProperties=False),
            [],
        ),
        (
            {"oneOf": [STRING, INTEGER]},
            {"oneOf": [STRING]},
            ["SUM_TYPE_NARROWED #/"],
        ),
        ({"oneOf": [STRING]}, {"oneOf": [INTEGER, STRING]}, []),
        ({"not": STRING}, {"not": {"type": ["string", "integer"]}}, ["NOT_TYPE_EXTENDED #/not"]),
        ({"type": "array", "items": STRING}, {"type": "array", "items": INTEGER}, ["TYPE_CHANGED #/items"]),
        ({"type": "array"}, {"type": "array", "uniqueItems": True}, ["UNIQUE_ITEMS_ADDED #/uniqueItems"]),
    ],
)
def test_what_a_change_means(old: Any, new: Any, expected: list[str]) -> None:
    assert found(old, new) == expected


def test_what_differs_is_told_in_the_order_of_confluents_registry() -> None:
    """And in the same order in every process."""
    names = ["delta", "alpha", "charlie", "bravo"]
    old, new = thing(dict.fromkeys(names, STRING)), thing(dict.fromkeys(names, STRING), required=names)
    told = [f"#/required/{name}" for name in ("bravo", "alpha", "delta", "charlie")]
    assert found(old, new) == [f"REQUIRED_ATTRIBUTE_ADDED {path}" for path in told]


def test_definitions_to_which_nothing_refers_may_be_anything() -> None:
    text = {"definitions": {"$comment": "ours", "a": STRING, "b": 1}, **thing({"x": {"$ref": "#/definitions/a"}})}
    assert found(text, text) == []
    with pytest.raises(InvalidSchema):
        parse_schema("JSON", json.dumps({"$schema": MODERN, "$defs": {"b": 1}}))


def test_a_circle_of_references_ends() -> None:
    tree = thing({"next": {"$ref": "#"}, "value": STRING})
    assert found(tree, tree) == []
    changed = thing({"next": {"$ref": "#"}, "value": INTEGER})
    assert found(tree, changed) == ["TYPE_CHANGED #/properties/value"]


def test_two_schemas_that_refer_to_each_other() -> None:
    a = thing({"b": {"$ref": "b.json"}})
    b = thing({"a": {"$ref": "a.json"}})
    references = [ResolvedReference("a.json", json.dumps(a)), ResolvedReference("b.json", json.dumps(b))]
    assert JsonSchema(json.dumps(a), references).unreadable(JsonSchema(json.dumps(a), references), "new", "old") == []


@pytest.mark.parametrize("keyword", ["definitions", "$defs"])
def test_references_into_the_schema_and_into_others(keyword: str) -> None:
    tree = thing({"a": {"$ref": f"#/{keyword}/name"}, "b": {"$ref": f"other.json#/{keyword}/id"}})
    tree[keyword] = {"name": STRING}
    other = ResolvedReference("other.json", json.dumps({keyword: {"id": INTEGER}}))
    schema = JsonSchema(json.dumps(tree), [other])
    stricter = ResolvedReference("other.json", json.dumps({keyword: {"id": INTEGER | {"minimum": 0}}}))
    later = JsonSchema(json.dumps(tree), [stricter])
    assert later.unreadable(schema, "new", "old") == [
        '{errorType:"MINIMUM_ADDED", description:"The keyword at path \'#/properties/b/minimum\' in the new schema is '
        "not present in the old schema'}"
    ]


def test_text_is_kept_to_the_digit_and_in_order() -> None:
    text = '{ "b": 1.10, "a": [1e5, 12345678901234567890, true, null], "title": "é" }'
    assert JsonSchema(text).canonical == '{"b":1.10,"a":[1E+5,12345678901234567890,true,null],"title":"é"}'
    assert JsonSchema(text).normalized().canonical == (
        '{"a":[1E+5,12345678901234567890,true,null],"b":1.10,"title":"é"}'
    )


@pytest.mark.parametrize(
    "text",
    [
        "12",
        "[]",
        "{",
        '{"type":"nothing"}',
        '{"properties":[]}',
        '{"maxLength":"3"}',
        '{"items":3}',
        '{"$ref":"#/definitions/missing"}',
        '{"$ref":"http://127.0.0.1:9/elsewhere.json"}',
        '{"maximum":1e999999999}',
        '{"type":"string","pattern":"["}',
        '{"patternProperties":{"(a":{}}}',
    ],
)
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema, match="Invalid schema of type JSON, details: "):
        parse_schema("JSON", text)


DRAFTS = {
    4: "http://json-schema.org/draft-04/schema#",
    6: "http://json-schema.org/draft-06/schema#",
    7: "http://json-schema.org/draft-07/schema#",
    2019: "https://json-schema.org/draft/2019-09/schema",
    2020: MODERN,
}
OLDER, NEWER, ALL = {4, 6, 7}, {2019, 2020}, {4, 6, 7, 2019, 2020}


@pytest.mark.parametrize(
    ("written", "taken_in"),
    [
        # As Confluent's registry 8.0 answers, but where a draft itself allows it (lists of items in 2019-09).
        ({"title": 1}, set()),
        ({"description": ["a"]}, set()),
        ({"format": None}, set()),
        ({"$ref": 1}, set()),
        ({"type": None}, set()),
        ({"required": True}, set()),
        ({"required": ["a", 1]}, set()),
        ({"uniqueItems": "yes"}, set()),
        ({"minimum": None}, set()),
        ({"multipleOf": 0}, NEWER),
        ({"minLength": 1.5}, NEWER),
        ({"maxItems": 2**31}, NEWER),
        ({"exclusiveMinimum": True}, {4}),
        ({"exclusiveMaximum": 3}, {6, 7, 2019, 2020}),
        ({"items": [STRING]}, {4, 6, 7, 2019}),
        ({"items": True}, {6, 7, 2019, 2020}),
        ({"items": None}, set()),
        ({"dependencies": {"a": [1]}}, NEWER),
        ({"dependencies": {"a": True}}, {6, 7, 2019, 2020}),
        ({"dependentRequired": {"a": {}}}, OLDER),
        ({"allOf": []}, ALL),
        ({"anyOf": []}, ALL),
        ({"oneOf": []}, ALL),
        ({"id": 1}, {6, 7, 2019, 2020}),
        ({"$id": 1}, {4, 2019, 2020}),
        ({"properties": {"$id": 1}}, {6, 7}),
        ({"readOnly": "yes"}, {4, 6}),
        ({"deprecated": "yes"}, OLDER),
        ({"$defs": []}, OLDER),
        ({"if": 1}, {4, 6}),
        ({"then": 1}, {4, 6, 2019, 2020}),
        ({"contains": 1}, {4}),
        ({"propertyNames": 1}, {4}),
        ({"additionalItems": 1}, NEWER),
        ({"minContains": "x"}, ALL),
        ({"prefixItems": 1}, OLDER),
        ({"$dynamicRef": "#nowhere"}, OLDER),
    ],
)
def test_what_stands_under_a_keyword_is_what_the_draft_wants(written: dict[str, Any], taken_in: set[int]) -> None:
    taken = set()
    for draft, name in DRAFTS.items():
        answers = set()
        for tree in (written, thing({"inside": written})):
            try:
                parse_schema("JSON", json.dumps({"$schema": name} | tree))
                answers.add(True)
            except InvalidSchema:
                answers.add(False)
        assert len(answers) == 1, draft
        taken |= {draft} if answers == {True} else set()
    assert taken == taken_in


def test_beside_a_reference_older_drafts_look_at_what_describes_alone() -> None:
    parse_schema("JSON", json.dumps({"definitions": {"a": STRING}, "$ref": "#/definitions/a", "minLength": "x"}))
    with pytest.raises(InvalidSchema, match="#/title: expected type: String, found: 1"):
        parse_schema("JSON", json.dumps({"definitions": {"a": STRING}, "$ref": "#/definitions/a", "title": 1}))


def test_a_referenced_schema_is_read_by_the_older_draft_that_it_names() -> None:
    other = {"$schema": DRAFTS[4], "type": "integer", "minimum": 0, "exclusiveMinimum": True}
    schema = json.dumps(thing({"a": {"$ref": "other.json"}}))
    JsonSchema(schema, [ResolvedReference("other.json", json.dumps(other))])
    with pytest.raises(InvalidSchema, match="exclusiveMinimum"):
        JsonSchema(schema, [ResolvedReference("other.json", json.dumps(other | {"$schema": DRAFTS[7]}))])


def test_a_choice_of_nothing_is_compared() -> None:
    assert found({"oneOf": [STRING]}, {"oneOf": []}) == ["SUM_TYPE_NARROWED #/"]
    assert found({"oneOf": []}, {"oneOf": [STRING]}) == []
    assert found({"allOf": [STRING]}, {"allOf": []}) == []


def test_keywords_of_other_drafts_do_not_change_what_a_schema_is() -> None:
    for draft, alien in ((7, {"prefixItems": [STRING]}), (4, {"const": 1}), (6, {"if": STRING}), (2020, {"then": {}})):
        name = {"$schema": DRAFTS[draft]}
        assert found(name | INTEGER, name | INTEGER | alien) == [], draft


def test_depth_without_end_is_refused() -> None:
    with pytest.raises(InvalidSchema, match="nested too deeply"):
        parse_schema("JSON", '{"not":' * 100_000)
    with pytest.raises(InvalidSchema, match="nested too deeply"):
        parse_schema("JSON", '{"not":' * 900 + "{}" + "}" * 900)


def test_patterns_that_would_take_years_fit_nothing() -> None:
    began = time.monotonic()
    for pattern in ("^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "a*a*a*a*a*a*b", "(.*)*x", r"(a)\1*", "(?=a+)+b"):
        assert not fits(pattern, "a" * 400 + "!")
    assert time.monotonic() - began < 1
    assert fits("^x-[a-z]+$", "x-mas")
    assert not fits("^x-", "y")
    assert not fits("(", "(")


def test_a_pattern_that_one_dialect_reads_is_taken() -> None:
    for pattern in (r"^(?!a)b$", r"(?<=a)b", r"\\p{L}+", r"(?<n>a)\\k<n>", "a{2000}", "a*+", "[[a-c]&&[b-d]]", r"\\cJ"):
        parse_schema("JSON", f'{{"type":"string","pattern":"{pattern}"}}')


def messages(written: Any, read: Any) -> list[str]:
    dialect = {"$schema": MODERN}
    reader = JsonSchema(json.dumps(dialect | read))
    return [each.split('"')[1] for each in reader.unreadable(JsonSchema(json.dumps(dialect | written)), "new", "old")]


def test_contains_asks_for_one_element_where_nothing_else_is_said() -> None:
    array = {"type": "array"}
    assert messages(array, array | {"contains": STRING}) == ["MIN_CONTAINS_ADDED"]
    assert messages(array | {"contains": STRING, "minContains": 1}, array | {"contains": STRING}) == []
    assert messages(array, array | {"minContains": 3, "maxContains": 5}) == []


def test_properties_without_one_are_no_demand() -> None:
    assert messages({"type": "string"}, {"properties": {}}) == []
    assert messages({"type": "string"}, {"type": "object", "properties": {}}) == ["TYPE_CHANGED"]


def test_a_comparison_that_explodes_is_given_up() -> None:
    schema = JsonSchema(json.dumps(shared(40)))
    message = schema.unreadable(JsonSchema(json.dumps(shared(40))), "new", "old")
    assert "too complex" in message[0]


def shared(depth: int) -> dict[str, Any]:
    """Small as a text, large as a tree: every level is used twice."""
    definitions: dict[str, Any] = {"d0": STRING}
    for level in range(1, depth):
        below = {"$ref": f"#/definitions/d{level - 1}"}
        definitions[f"d{level}"] = thing({"left": below, "right": below})
    return {"$ref": f"#/definitions/d{depth - 1}", "definitions": definitions}
