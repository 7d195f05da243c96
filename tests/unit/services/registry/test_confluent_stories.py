"""Stories that Confluent's registry tells of versions in metadata and of reserved fields."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from barnabas.services.registry.errors import RegistryError
from barnabas.services.registry.records import CONFIG, MODE, Key, Record
from barnabas.services.registry.routes import (
    delete_mode,
    delete_subject,
    delete_version,
    get_config,
    get_mode,
    look_up,
    put_config,
    put_mode,
    register,
)

from .stage import Stage
from .test_service import call, primary

SCHEMA = '{"type":"record","name":"myrecord","fields":[{"name":"f1","type":"string"}]}'


def test_versions_that_are_asked_for() -> None:
    async def story() -> None:
        registry = primary()

        async def registered(**more: Any) -> tuple[int, int]:
            answer = await register(registry, call("POST", "test", body={"schema": SCHEMA, **more}))
            return answer["id"], answer["version"]

        def latest() -> str | None:
            stored = registry.state.latest("test")
            assert stored is not None
            found: str | None = (stored.metadata or {}).get("properties", {}).get("confluent:version")
            return found

        async def looked_up(metadata: Any = None) -> int:
            body = {"schema": SCHEMA} | ({} if metadata is None else {"metadata": metadata})
            answer = await look_up(registry, call("POST", "test", body=body))
            version: int = answer["version"]
            return version

        def named(version: str) -> dict[str, Any]:
            return {"properties": {"confluent:version": version}}

        assert await registered() == (1, 1)
        assert latest() is None
        assert await registered(version=-1) == (1, 1)
        assert await registered(version=2) == (2, 2)
        assert await registered(version=-1) == (2, 2)
        assert latest() == "2"
        assert await looked_up() == 1
        assert await looked_up(named("1")) == 1
        assert await looked_up(named("2")) == 2
        await delete_version(registry, call("DELETE", "test", "1"))
        assert await looked_up() == 2
        assert await registered() == (2, 2)
        assert latest() == "2"
        assert await registered(version=3) == (3, 3)
        assert await registered(version=-1) == (3, 3)
        assert latest() == "3"
        with pytest.raises(RegistryError) as refused:
            await registered(version=3)
        assert refused.value.code == 42201
        assert await registered(version=4) == (4, 4)
        assert await looked_up() == 4
        assert await registered(metadata=named("-1")) == (5, 5)
        assert latest() == "5"
        assert await registered(metadata=named("2")) == (2, 2)
        assert await registered(metadata=named("3")) == (3, 3)
        assert await registered(metadata=named("0")) == (6, 6)
        assert latest() == "6"
        assert await registered(metadata={}) == (6, 6)

    asyncio.run(story())


def record(*names: str) -> str:
    fields = ",".join(f'{{"name":"{name}","type":"string","default":"d"}}' for name in names)
    return f'{{"type":"record","name":"myrecord","fields":[{fields}]}}'


TYPES = {
    "AVRO": record,
    "JSON": lambda *names: '{"type":"object","properties":{' + ",".join(f'"{name}":{{}}' for name in names) + "}}",
    "PROTOBUF": lambda *names: (
        'syntax = "proto3"; message M { oneof one { '
        + " ".join(f"string {name} = {ord(name)};" for name in names)
        + " } }"
    ),
}


@pytest.mark.parametrize("kind", list(TYPES))
def test_reserved_fields_are_neither_used_nor_given_up(kind: str) -> None:
    stage = Stage()

    def messages(text: str, reserved: str) -> str | None:
        more: dict[str, Any] = {"type": kind, "metadata": {"properties": {"confluent:reserved": reserved}}}
        try:
            stage.register("s", text, **more)
        except RegistryError as error:
            return error.message
        return None

    schema = TYPES[kind]
    stage.write(Record(Key(CONFIG), {"compatibilityLevel": "NONE", "validateFields": True}))
    refused = messages(schema("f", "g"), "f, h")
    assert refused is not None
    assert refused.endswith(
        "details: [The new schema has field that conflicts with the reserved field f., "
        "{validateFields: 'true', compatibility: 'NONE'}]"
    )
    stage.write(Record(Key(CONFIG, "s"), {"subject": "s", "compatibilityLevel": "NONE", "validateFields": False}))
    assert messages(schema("f", "g"), "f") is None
    stage.write(Record(Key(CONFIG, "s"), None))
    refused = messages(schema("g"), "h")
    assert refused is not None
    assert "The new schema has reserved field f removed from its metadata which is present in the old" in refused
    assert messages(schema("g"), "f,h") is None


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("JSON", '{"type":"object","properties":{"$$a":{"type":"string"}}}'),
        ("PROTOBUF", 'syntax = "proto3"; message A { int32 a = 1; int32 a = 2; }'),
    ],
)
def test_fields_are_validated_where_the_configuration_says_so(kind: str, text: str) -> None:
    stage = Stage()
    assert stage.register("before", text, type=kind).version == 1
    stage.write(Record(Key(CONFIG), {"compatibilityLevel": "NONE", "validateFields": True}))
    with pytest.raises(RegistryError) as refused:
        stage.register("s", text, type=kind)
    assert refused.value.code == 42201
    stage.write(Record(Key(MODE, "s"), {"subject": "s", "mode": "IMPORT"}))
    assert stage.register("s", text, type=kind, id=7, version=1).id == 7  # what is imported is taken as it is


def test_a_mode_that_overrides_all_is_told_where_the_global_one_is_asked_for() -> None:
    async def story() -> None:
        registry = primary()
        registry.state.replay(Key(MODE, "s"), {"subject": "s", "mode": "READWRITE"}, 0)
        assert await get_mode(registry, call("GET", "s")) == {"mode": "READWRITE"}
        with pytest.raises(RegistryError) as missing:
            await get_mode(registry, call("GET", "other"))
        assert missing.value.code == 40409
        registry.state.replay(Key(MODE), {"mode": "READONLY_OVERRIDE"}, 0)
        for subject in ("s", "other"):
            told = await get_mode(registry, call("GET", subject, defaultToGlobal="true"))
            assert told == {"mode": "READONLY_OVERRIDE"}
        assert await get_mode(registry, call("GET", "s")) == {"mode": "READWRITE"}
        with pytest.raises(RegistryError) as unset:
            await get_mode(registry, call("GET", "other"))
        assert unset.value.code == 40409
        with pytest.raises(RegistryError) as refused:
            await register(registry, call("POST", "s", body={"schema": SCHEMA}))
        assert refused.value.code == 42205

    asyncio.run(story())


class Client:
    """Asks the handlers, and notes codes where they refuse."""

    def __init__(self) -> None:
        self.registry = primary()

    async def registered(self, subject: str, **more: Any) -> tuple[int, int] | int:
        try:
            answer = await register(self.registry, call("POST", subject, body={"schema": SCHEMA, **more}))
        except RegistryError as error:
            return error.code
        return answer["id"], answer["version"]

    async def mode(self, mode: str | None, *subject: str, **query: str) -> Any:
        try:
            return await put_mode(self.registry, call("PUT", *subject, body={"mode": mode}, **query))
        except RegistryError as error:
            return error.code

    async def deleted(self, subject: str) -> Any:
        return await delete_subject(self.registry, call("DELETE", subject))


def test_modes_and_imports() -> None:
    async def story() -> None:
        client = Client()
        assert await client.registered("s", id=1, version=1) == 42205  # not in import mode
        assert await client.registered("s") == (1, 1)
        assert await client.mode("IMPORT") == 42205  # there is a subject
        assert await client.mode("IMPORT", "s", force="true") == {"mode": "IMPORT"}
        assert await client.mode(None, "s") == {"mode": None}
        assert await client.deleted("s") == [1]
        assert await client.mode("IMPORT") == {"mode": "IMPORT"}
        assert await client.registered("new") == 42205  # without an id
        assert await client.registered("s", id=2, version=1) == (2, 1)  # another id than before the deletion
        assert await client.registered("s") == (2, 1)  # what is there needs no id
        assert await client.registered("s", id=2, version=2) == (2, 2)
        assert await client.registered("s", id=2, version=1) == (2, 1)
        assert await client.deleted("s") == [1, 2]
        assert await client.registered("s", id=2, version=1) == (2, 1)
        assert await client.registered("t", id=2, version=1, schema='"int"') == 42205  # the id is another schema's
        assert await client.mode(None) == {"mode": None}
        assert await client.registered("u", schema='"long"') == (3, 1)

    asyncio.run(story())


def test_a_context_with_subjects_has_no_versions_to_delete() -> None:
    async def story() -> tuple[Any, Any]:
        registry = primary()
        await register(registry, call("POST", ":.c:s", body={"schema": SCHEMA}))
        return await delete_subject(registry, call("DELETE", ":.c:")), registry.state.latest(":.c:s")

    deleted, kept = asyncio.run(story())
    assert deleted == []
    assert kept is not None


def test_an_alias_that_is_cleared_is_not_shown() -> None:
    async def story() -> Any:
        registry = primary()
        await put_config(registry, call("PUT", "s", body={"alias": "t", "compatibility": "FULL"}))
        await put_config(registry, call("PUT", "s", body={"alias": ""}))
        return await get_config(registry, call("GET", "s"))

    assert asyncio.run(story()) == {"compatibilityLevel": "FULL"}


def test_the_mode_of_all_is_told_when_it_is_deleted_with_those_below() -> None:
    async def story() -> list[Any]:
        registry = primary()
        asked = [call("DELETE", recursive="true"), call("DELETE", "s", recursive="true"), call("DELETE")]
        return [await delete_mode(registry, each) for each in asked]

    assert asyncio.run(story()) == [{"mode": "READWRITE"}, {}, {"mode": "READWRITE"}]
