"""The service between requests and a topic that takes its time."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request

from barnabas.client.records import ConsumerRecord
from barnabas.client.schemas.avro.schema import AvroSchema
from barnabas.services.registry import forwarding, http, routes, service
from barnabas.services.registry.errors import RegistryError
from barnabas.services.registry.forwarding import NotPrimary
from barnabas.services.registry.http import Call
from barnabas.services.registry.records import Record, StoredSchema
from barnabas.services.registry.routes import delete_subject, register, schema_of_version
from barnabas.services.registry.service import Service
from barnabas.services.registry.settings import RegistrySettings


class SlowTopic:
    """Records are there when the loop has gone round a few times."""

    def __init__(self) -> None:
        self.service: Service | None = None
        self.records: list[ConsumerRecord] = []

    async def append(self, records: Sequence[Record]) -> int:
        for _ in range(3):
            await asyncio.sleep(0)
        assert self.service is not None
        taken = []
        for each in records:
            key, value = each.encode()
            offset = len(self.records)
            taken.append(ConsumerRecord("_schemas", 0, offset, 1, 0, key, value, []))
            self.records.append(taken[-1])
        self.service._take(taken, len(self.records))
        return len(self.records) - 1

    def end_offset(self) -> int:
        return len(self.records)


def primary() -> Service:
    settings = RegistrySettings.from_properties({"kafkastore.bootstrap.servers": "127.0.0.1:9"})
    made = Service(settings, 8081)
    topic = SlowTopic()
    topic.service = made
    made.topic = topic  # type: ignore[assignment]
    made.primary, made._ready = made.identity, True
    made._elector = SimpleNamespace(lease_until=float("inf"))  # type: ignore[assignment]
    return made


def call(method: str, *parameters: str, body: Any = None, **query: str) -> Call:
    data = b"" if body is None else json.dumps(body).encode()
    asked = {name: [value] for name, value in query.items()}
    return Call(method, [], asked, {}, data, "/", list(parameters))


def record(name: str, *fields: Any) -> str:
    return json.dumps({"type": "record", "name": name, "fields": list(fields)})


def test_nobody_refers_to_what_is_being_deleted() -> None:
    async def story() -> tuple[Any, Any]:
        registry = primary()
        await register(registry, call("POST", "used", body={"schema": record("A")}))
        uses = {
            "schema": record("B", {"name": "a", "type": "A"}),
            "references": [{"name": "A", "subject": "used", "version": 1}],
        }
        return await asyncio.gather(
            register(registry, call("POST", "user", body=uses)),
            delete_subject(registry, call("DELETE", "used")),
            return_exceptions=True,
        )

    registered, deleted = asyncio.run(story())
    assert registered["version"] == 1
    assert isinstance(deleted, RegistryError)
    assert deleted.code == 42206


def test_a_late_record_of_a_former_primary_is_undone_at_once() -> None:
    async def story() -> tuple[Service, SlowTopic]:
        registry = primary()
        topic: Any = registry.topic
        answer = await register(registry, call("POST", "s", body={"schema": '"int"'}))
        late = StoredSchema("s", 1, answer["id"], "AVRO", '"long"').record()
        await topic.append([late])
        for _ in range(10):
            await asyncio.sleep(0)
        return registry, topic

    registry, topic = asyncio.run(story())
    assert registry.state.refused == {}
    assert [json.loads(each.value or b"")["schema"] for each in topic.records] == ['"int"', '"long"', '"int"']
    stored = registry.state.version("s", 1)
    assert stored is not None
    assert stored.text == '"int"'


def test_who_was_cut_off_looks_again_before_an_id_is_denied() -> None:
    async def story() -> Any:
        registry = primary()
        topic: Any = registry.topic
        key, value = StoredSchema("s", 1, 7, "AVRO", '"int"').record().encode()
        topic.records.append(ConsumerRecord("_schemas", 0, 0, 1, 0, key, value, []))
        loop = asyncio.get_running_loop()

        def answered_again() -> int:
            loop.call_soon_threadsafe(registry._take, topic.records, 1)  # as the reader does when it is back
            return 1

        topic.end_offset = answered_again
        registry.primary, registry.reachable = None, False
        scope = {"type": "http", "method": "GET", "path": "/schemas/ids/7", "raw_path": b"/schemas/ids/7"}
        request = Request(scope | {"query_string": b"", "headers": []})
        return await http._answer(registry, routes.ROUTES, request)

    assert b'"schema":"\\"int\\""' in asyncio.run(story())


def test_schemas_are_compared_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some pairs take long; the event loop serves everybody."""
    where: list[str] = []
    compare = AvroSchema.unreadable

    def noted(self: AvroSchema, *given: Any) -> list[str]:
        where.append(threading.current_thread().name)
        return compare(self, *given)

    monkeypatch.setattr(AvroSchema, "unreadable", noted)

    async def story() -> None:
        registry = primary()
        field = {"name": "f", "type": "int"}
        assert (await register(registry, call("POST", "s", body={"schema": record("A")})))["version"] == 1
        body = {"schema": record("A", field | {"default": 1})}
        assert (await register(registry, call("POST", "s", body=body, normalize="true")))["version"] == 2
        for version in ((), ("1",)):
            asked = call("POST", "s", *version, body={"schema": record("A", field)})
            assert await routes.test_compatibility(registry, asked) == {"is_compatible": bool(not version)}

    asyncio.run(story())
    assert len(where) == 3
    assert all(name.startswith("registry-schemas") for name in where)


def test_changes_that_wait_for_the_primary_keep_nobody_from_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*_: Any, **__: Any) -> forwarding.Passed:
        time.sleep(1.0)
        raise NotPrimary(RegistryError(500, 50003, "it does not answer"))

    monkeypatch.setattr(service, "forward", silent)

    async def story() -> float:
        registry = primary()
        await register(registry, call("POST", "s", body={"schema": '"int"'}))
        registry.primary = registry.identity._replace(port=1)
        waiting = [
            asyncio.ensure_future(register(registry, call("POST", f"s{number}", body={"schema": '"int"'})))
            for number in range(50)
        ]
        await asyncio.sleep(0.05)
        began = time.monotonic()
        assert (await schema_of_version(registry, call("GET", "s", "latest")))["version"] == 1
        took_s = time.monotonic() - began
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        return took_s

    assert asyncio.run(story()) < 0.9
