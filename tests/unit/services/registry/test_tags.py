"""Tags of records and fields: told, added, removed and handed on."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from barnabas.services.registry.errors import RegistryError
from barnabas.services.registry.routes import modify_tags, register, schema_of_id, schema_of_version
from barnabas.services.registry.service import Service
from barnabas.services.registry.tags import FIELD, RECORD, Entity, tags_of, with_tags

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


def test_a_record_is_found_by_its_bare_name() -> None:
    tagged = with_tags("AVRO", PERSON, {Entity("Address.city", FIELD): ["PII"]}, {})
    assert tags_of("AVRO", tagged) == {Entity("shop.Address.city", FIELD): ["PII"]}


@pytest.mark.parametrize(
    ("kind", "text"), [("AVRO", PERSON), ("JSON", ORDER), ("PROTOBUF", "message A {}"), ("AVRO", "{")]
)
def test_a_path_that_leads_nowhere_is_told(kind: str, text: str) -> None:
    with pytest.raises(RegistryError, match=r"No matching path .* found in the schema") as told:
        with_tags(kind, text, {Entity("does.not.exist", FIELD): ["PII"]}, {})
    assert told.value.code == 42201


def tagging(path: str, *tags: str, kind: str = RECORD) -> list[dict[str, Any]]:
    return [{"schemaEntity": {"entityPath": path, "entityType": kind}, "tags": list(tags)}]


PLAIN = record("R", {"name": "f1", "type": "string"})


async def told(registry: Service, version: str) -> tuple[dict[str, Any], str | None, Any]:
    answer = await schema_of_version(registry, call("GET", "test", version, tags="*"))
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
        of_id = await schema_of_id(registry, call("GET", str(answer["id"]), tags="A"))
        assert of_id["schemaTags"] == tagging("R", "A")
        assert "schemaTags" not in await schema_of_id(registry, call("GET", str(answer["id"]), tags="B"))

        wider = record("R", {"name": "f1", "type": "string"}, {"name": "f2", "type": "string", "default": ""})
        await register(registry, call("POST", "test", body={"schema": wider, "propagateSchemaTags": True}))
        assert (await told(registry, "4"))[2] == tagging("R", "A")

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
