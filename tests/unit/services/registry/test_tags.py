"""Tags of records and fields: told, added, removed and handed on."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from barnabas.services.registry.errors import RegistryError
from barnabas.services.registry.routes import modify_tags, register, schema_of_id, schema_of_version
from barnabas.services.registry.service import Service
from barnabas.services.registry.tagged import FIELD, RECORD, Entity
from barnabas.services.registry.tags import tags_of, with_tags

from .test_service import call, primary, record

ADDRESS = {"type": "record", "name": "Address", "fields": [{"name": "city", "type": "string"}]}
PERSON = json.dumps(
    {
        "type": "record",
        "name": "Person",
        "namespace": "shop",
        "fields": [
            {"name": "name", "type": "string"},
            {"name": "home", "type": ["null", ADDRESS]},
            {"name": "others", "type": {"type": "map", "values": {"type": "array", "items": "Address"}}},
        ],
    }
)
ORDER = json.dumps(
    {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "buyer": {"type": "object", "properties": {"mail": {"type": "string"}}},
            "lines": {"type": "array", "items": {"type": "object", "properties": {"count": {"type": "integer"}}}},
        },
        "definitions": {"money": {"type": "object", "properties": {"cents": {"type": "integer"}}}},
    }
)


@pytest.mark.parametrize(
    ("kind", "text", "path", "entity"),
    [
        ("AVRO", PERSON, "shop.Person", RECORD),
        ("AVRO", PERSON, "shop.Person.name", FIELD),
        ("AVRO", PERSON, "shop.Address", RECORD),
        ("AVRO", PERSON, "shop.Address.city", FIELD),
        ("JSON", ORDER, "object", RECORD),
        ("JSON", ORDER, "object.id", FIELD),
        ("JSON", ORDER, "object.buyer.object.mail", FIELD),
        ("JSON", ORDER, "object.lines.array.object", RECORD),
        ("JSON", ORDER, "object.lines.array.object.count", FIELD),
        ("JSON", ORDER, "object.definitions.money.object.cents", FIELD),
    ],
)
def test_an_entity_is_found_by_its_path(kind: str, text: str, path: str, entity: str) -> None:
    wanted = Entity(path, entity)
    tagged = with_tags(kind, text, {wanted: ["PII", "SECRET"]}, {})
    assert tags_of(kind, tagged) == {wanted: ["PII", "SECRET"]}
    assert tags_of(kind, with_tags(kind, tagged, {}, {wanted: ["PII"]})) == {wanted: ["SECRET"]}
    assert json.loads(with_tags(kind, tagged, {}, {wanted: ["PII", "SECRET"]})) == json.loads(text)


CHOICES = json.dumps(
    {
        "type": "object",
        "properties": {
            "a": {
                "oneOf": [
                    {"type": "null"},
                    {"type": "object", "title": "z", "properties": {"x": {"type": "string"}}},
                    {"type": "object", "title": "b", "properties": {"y": {"type": "string"}}},
                ]
            },
            "b": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"properties": {"q": {}}}}]},
            "c": {"type": ["null", "object"], "properties": {"t": {"type": "integer"}}},
            "d": {"allOf": [{"type": "object", "properties": {"m": {"type": "string"}}}, {"required": ["m"]}]},
            "e": {"not": {"type": "object", "properties": {"n": {"type": "string"}}}},
            "g.h": {"type": "string"},
        },
        "definitions": {"S": {"oneOf": [{"type": "object", "properties": {"s": {"type": "string"}}}]}},
    }
)
BRANCHES = json.dumps(
    {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "if": {"properties": {"k": {"const": 1}}},
        "then": {"properties": {"th": {"type": "string"}}},
        "else": {"properties": {"el": {"type": "string"}}},
    }
)


@pytest.mark.parametrize(
    ("text", "asked", "path", "entity", "steps"),
    [
        # What Confluent's own JsonSchema (8.0) answers: alternatives are numbered by kind and title, not by place.
        (CHOICES, "", "object.a.oneof.1.object", RECORD, ("properties", "a", "oneOf", 2)),
        (CHOICES, "", "object.a.oneof.1.object.y", FIELD, ("properties", "a", "oneOf", 2, "properties", "y")),
        (CHOICES, "", "object.a.oneof.2.object.x", FIELD, ("properties", "a", "oneOf", 1, "properties", "x")),
        (
            CHOICES,
            "",
            "object.b.anyof.0.array.object.q",
            FIELD,
            ("properties", "b", "anyOf", 1, "items", "properties", "q"),
        ),
        (CHOICES, "", "object.c.anyof.1.object.t", FIELD, ("properties", "c", "properties", "t")),
        (CHOICES, "object.c.object.t", "object.c.anyof.1.object.t", FIELD, ("properties", "c", "properties", "t")),
        (CHOICES, "", "object.d.allof.0.object", RECORD, ("properties", "d", "allOf", 1)),
        (CHOICES, "", "object.d.allof.1.object.m", FIELD, ("properties", "d", "allOf", 0, "properties", "m")),
        (CHOICES, "", "object.e.not.object.n", FIELD, ("properties", "e", "not", "properties", "n")),
        (CHOICES, "", "object.g.h", FIELD, ("properties", "g.h")),
        (
            CHOICES,
            "",
            "object.definitions.S.oneof.0.object.s",
            FIELD,
            ("definitions", "S", "oneOf", 0, "properties", "s"),
        ),
        (BRANCHES, "", "allof.0.conditional.if.object.k", FIELD, ("if", "properties", "k")),
        (BRANCHES, "", "allof.0.conditional.then.object.th", FIELD, ("then", "properties", "th")),
        (BRANCHES, "", "allof.0.conditional.else.object", RECORD, ("else",)),
        (BRANCHES, "object.a", "allof.1.object.a", FIELD, ("properties", "a")),
    ],
)
def test_what_stands_in_alternatives_and_branches_has_tags(
    text: str, asked: str, path: str, entity: str, steps: tuple[str | int, ...]
) -> None:
    tagged = with_tags("JSON", text, {Entity(asked or path, entity): ["PII"]}, {})
    assert tags_of("JSON", tagged) == {Entity(path, entity): ["PII"]}
    node = json.loads(tagged)
    for step in steps:
        node = node[step]
    assert node.pop("confluent:tags") == ["PII"]
    assert json.loads(with_tags("JSON", tagged, {}, {Entity(path, entity): ["PII"]})) == json.loads(text)


PROTO = """syntax = "proto3";
package shop;

import "confluent/meta.proto";

message Order {
  option (confluent.message_meta).tags = "OLD";

  string id = 1;
  string mail = 2 [
    (confluent.field_meta) = {
      tags: [
        "PII",
        "X"
      ],
      doc: "a doc"
    },
    deprecated = true
  ];

  oneof pay {
    string card = 3;
    string iban = 4 [(confluent.field_meta).tags = "PII"];
  }

  message Line {
    int32 count = 1;
  }
}
"""
OLD = {
    Entity("Order", RECORD): ["OLD"],
    Entity("Order.iban", FIELD): ["PII"],
    Entity("Order.mail", FIELD): ["PII", "X"],
}


def test_a_proto_files_messages_and_fields_have_tags() -> None:
    assert tags_of("PROTOBUF", PROTO) == OLD
    added = {
        Entity("Order", RECORD): ["A", "OLD"],
        Entity("Order.Line.count", FIELD): ["C"],
        Entity("Order.pay.card", FIELD): ["CARD"],
        Entity("Order.iban", FIELD): ["I"],
    }
    tagged = with_tags("PROTOBUF", PROTO, added, {Entity("Order.mail", FIELD): ["PII"]})
    assert tags_of("PROTOBUF", tagged) == {
        Entity("Order", RECORD): ["OLD", "A"],
        Entity("Order.card", FIELD): ["CARD"],
        Entity("Order.iban", FIELD): ["PII", "I"],
        Entity("Order.mail", FIELD): ["X"],
        Entity("Order.Line.count", FIELD): ["C"],
    }
    # As Confluent's own ProtobufSchema (8.0) prints it.
    assert '  option (confluent.message_meta) = {\n    tags: [\n      "OLD",\n      "A"\n    ]\n  };\n' in tagged
    assert (
        "  string mail = 2 [\n    (confluent.field_meta) = {\n      tags: [\n"
        '        "X"\n      ],\n      doc: "a doc"\n    },\n    deprecated = true\n  ];\n'
    ) in tagged
    assert '    int32 count = 1 [(confluent.field_meta) = {\n      tags: [\n        "C"\n      ]\n    }];\n' in tagged


def test_a_proto_file_loses_its_tags_and_keeps_the_rest() -> None:
    bare = with_tags("PROTOBUF", PROTO, {}, OLD)
    assert tags_of("PROTOBUF", bare) == {}
    assert "tags" not in bare
    assert 'doc: "a doc"' in bare
    assert "string iban = 4;" in bare


@pytest.mark.parametrize(
    ("path", "entity", "told"),
    [
        ("Nope", RECORD, "Message with name 'Nope'"),
        ("shop.Order", RECORD, "Message with name 'Order'"),
        ("Order.nope", FIELD, "Field with name 'nope'"),
    ],
)
def test_a_message_that_is_not_there_is_told(path: str, entity: str, told: str) -> None:
    with pytest.raises(RegistryError, match=f"No matching {told} found in the schema"):
        with_tags("PROTOBUF", PROTO, {Entity(path, entity): ["PII"]}, {})


def test_a_deep_schema_is_no_servers_failure() -> None:
    deep = '{"properties":{"a":' * 50_000 + "{}" + "}}" * 50_000
    assert tags_of("JSON", deep) == {}
    with pytest.raises(RegistryError):
        with_tags("JSON", deep, {Entity("object", RECORD): ["PII"]}, {})


def test_a_record_is_found_by_its_bare_name() -> None:
    tagged = with_tags("AVRO", PERSON, {Entity("Address.city", FIELD): ["PII"]}, {})
    assert tags_of("AVRO", tagged) == {Entity("shop.Address.city", FIELD): ["PII"]}


@pytest.mark.parametrize(
    ("kind", "text"), [("AVRO", PERSON), ("JSON", ORDER), ("PROTOBUF", "message A {}"), ("AVRO", "{")]
)
def test_a_path_that_leads_nowhere_is_told(kind: str, text: str) -> None:
    with pytest.raises(RegistryError, match=r"No matching (path|Field with name) .* found in the schema") as told:
        with_tags(kind, text, {Entity("does.not.exist", FIELD): ["PII"]}, {})
    assert told.value.code == 42201


def tagging(path: str, *tags: str, kind: str = RECORD) -> list[dict[str, Any]]:
    return [{"schemaEntity": {"entityPath": path, "entityType": kind}, "tags": list(tags)}]


PLAIN = record("R", {"name": "f1", "type": "string"})


async def told(registry: Service, version: str) -> tuple[dict[str, Any], str | None, Any]:
    answer = await schema_of_version(registry, call("GET", "test", version, findTags="*"))
    number = (answer.get("metadata") or {}).get("properties", {}).get("confluent:version")
    return json.loads(answer["schema"]), number, answer.get("schemaTags")


def test_a_registration_adds_tags_removes_them_and_hands_them_on() -> None:
    async def story() -> None:
        registry = primary()
        await register(registry, call("POST", "test", body={"schema": PLAIN}))
        body: dict[str, Any] = {"schema": PLAIN, "version": 2, "schemaTagsToAdd": tagging("R", "A", "B")}
        await register(registry, call("POST", "test", body=body))
        tagged = json.loads(PLAIN) | {"confluent:tags": ["A", "B"]}
        assert await told(registry, "latest") == (tagged, "2", tagging("R", "A", "B"))

        body = {"schema": json.dumps(tagged), "schemaTagsToRemove": tagging("R", "B")}
        answer = await register(registry, call("POST", "test", body=body))
        assert await told(registry, "3") == (tagged | {"confluent:tags": ["A"]}, "3", tagging("R", "A"))
        of_id = await schema_of_id(registry, call("GET", str(answer["id"]), findTags="A"))
        assert of_id["schemaTags"] == tagging("R", "A")
        assert "schemaTags" not in await schema_of_id(registry, call("GET", str(answer["id"]), findTags="B"))

        wider = record("R", {"name": "f1", "type": "string"}, {"name": "f2", "type": "string", "default": ""})
        await register(registry, call("POST", "test", body={"schema": wider, "propagateSchemaTags": True}))
        assert (await told(registry, "4"))[2] == tagging("R", "A")

    asyncio.run(story())


def test_a_proto_files_tags_are_registered_and_handed_on() -> None:
    async def story() -> None:
        registry = primary()
        plain = 'syntax = "proto3";\nmessage R {\n  string f1 = 1;\n}\n'
        body: dict[str, Any] = {"schemaType": "PROTOBUF", "schema": plain}
        await register(registry, call("POST", "test", body=body))
        await register(
            registry, call("POST", "test", body=body | {"schemaTagsToAdd": tagging("R.f1", "A", kind=FIELD)})
        )
        wider = plain.replace("}", "  string f2 = 2;\n}")
        await register(registry, call("POST", "test", body=body | {"schema": wider, "propagateSchemaTags": True}))
        answer = await schema_of_version(registry, call("GET", "test", "latest", findTags="*"))
        assert (answer["version"], answer["schemaTags"]) == (3, tagging("R.f1", "A", kind=FIELD))
        await modify_tags(registry, call("POST", "test", "3", body={"tagsToRemove": tagging("R.f1", "A", kind=FIELD)}))
        answer = await schema_of_version(registry, call("GET", "test", "latest", findTags="*"))
        assert (answer["schema"].count("tags"), "schemaTags" in answer) == (0, False)

    asyncio.run(story())


def test_the_path_of_tags_makes_the_next_version() -> None:
    async def story() -> None:
        registry = primary()
        rules = [{"name": name, "type": "CEL", "kind": "CONDITION", "mode": "WRITE"} for name in ("one", "two")]
        await register(registry, call("POST", "test", body={"schema": PLAIN, "ruleSet": {"domainRules": rules}}))
        body: dict[str, Any] = {"newVersion": 2, "tagsToAdd": tagging(".R.f1", "PII", kind=FIELD)}
        body |= {"rulesToMerge": {"domainRules": [rules[0] | {"name": "three"}]}, "rulesToRemove": ["one"]}
        answer = await modify_tags(registry, call("POST", "test", "latest", body=body))
        assert (answer["id"], answer["version"]) == (2, 2)
        assert [rule["name"] for rule in answer["ruleSet"]["domainRules"]] == ["two", "three"]
        assert (await told(registry, "2"))[1:] == ("2", tagging("R.f1", "PII", kind=FIELD))

        assert (await modify_tags(registry, call("POST", "test", "1", body={"tagsToAdd": tagging("R", "A")})))[
            "id"
        ] == 3
        assert (await told(registry, "3"))[1:] == ("3", tagging("R", "A"))
        for version, wrong, code in (
            ("9", {}, 40402),
            ("x", {}, 42202),
            ("1", {"newVersion": 9, "tagsToAdd": tagging("R", "Z")}, 42201),
            ("1", {"tagsToAdd": tagging("R.f9", "Z", kind=FIELD)}, 42201),
            ("1", {"ruleSet": {}, "rulesToRemove": ["one"]}, 42210),
        ):
            with pytest.raises(RegistryError) as refused:
                await modify_tags(registry, call("POST", "test", version, body=wrong))
            assert refused.value.code == code, (version, wrong)

    asyncio.run(story())


def test_force_registers_what_is_not_compatible() -> None:
    async def story() -> None:
        registry = primary()
        await register(registry, call("POST", "test", body={"schema": PLAIN}))
        wider = {"schema": record("R", {"name": "f1", "type": "string"}, {"name": "f2", "type": "string"})}
        with pytest.raises(RegistryError) as refused:
            await register(registry, call("POST", "test", body=wider))
        assert refused.value.code == 409
        assert (await register(registry, call("POST", "test", body=wider, force="true")))["version"] == 2

    asyncio.run(story())


def test_what_is_imported_is_kept_as_it_comes() -> None:
    async def story() -> None:
        registry = primary()
        registry.state.modes["test"] = "IMPORT"
        registry.state.configs["test"] = {"normalize": True}
        schema = record("R", {"name": "f1", "type": "string", "z": "1", "a": "2"})
        body = {"schema": schema, "id": 7, "version": 1}
        await register(registry, call("POST", "test", body=body, normalize="true"))
        stored = await schema_of_version(registry, call("GET", "test", "1"))
        assert list(json.loads(stored["schema"])["fields"][0]) == ["name", "type", "z", "a"]

    asyncio.run(story())
