"""Whatever is sent, the answer is an error that fits, in bounded time, and the next request is served as ever."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.testing.registry import Registry

HEAD = b"POST /subjects/%s/versions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


@pytest.fixture(autouse=True)
def unharmed(api: Any, shared_registry: Registry) -> Iterator[None]:
    """While something bad goes on, and after it, others are served."""
    assert api.register("honest", '"string"')[0] == 200
    slowest, stop = [0.0], threading.Event()

    def ask() -> None:
        while not stop.wait(0.05):
            began = time.monotonic()
            assert api("GET", "/subjects/honest/versions/latest")[0] == 200
            slowest[0] = max(slowest[0], time.monotonic() - began)

    honest = threading.Thread(target=ask, daemon=True)
    honest.start()
    yield
    stop.set()
    honest.join(30)
    assert not honest.is_alive()
    assert slowest[0] < 10
    assert api("GET", "/schemas/ids/1")[0] == 200


def wide(fields: int) -> str:
    listed = [{"name": f"f{number}", "type": "string", "doc": "x" * 100} for number in range(fields)]
    return json.dumps({"type": "record", "name": "Wide", "fields": listed})


def test_a_body_above_the_limit(api: Any) -> None:
    status, body = api.register("large", '"' + "x" * 10_000_000 + '"')
    assert (status, body["error_code"]) == (413, 413)


def test_a_schema_that_no_record_can_hold(api: Any) -> None:
    status, body = api.register("large", wide(12_000))
    text = "Register operation failed because schema is too large"
    assert (status, body) == (422, {"error_code": 42209, "message": text})


def test_a_large_schema_that_fits(api: Any, subject: str) -> None:
    assert api.register(subject, wide(3_000))[0] == 200
    assert api("POST", f"/compatibility/subjects/{subject}/versions/latest", {"schema": wide(3_000)}) == (
        200,
        {"is_compatible": True},
    )


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        ("AVRO", '{"type":"array","items":' * 10_000 + '"int"' + "}" * 10_000),
        ("AVRO", '{"type":"array","items":' * 400 + '"int"' + "}" * 400),
        ("AVRO", "[" * 100_000),
        ("AVRO", '{"type":"fixed","name":"F","size":' + "9" * 100_000 + "}"),
        ("JSON", '{"not":' * 10_000 + "{}" + "}" * 10_000),
        ("JSON", '{"x":' * 600 + "{}" + "}" * 600),
        ("JSON", '{"maximum":1e1000000000}'),
        ("JSON", '{"$ref":"#/$ref"}'),
        ("JSON", '{"$ref":"file:///etc/passwd"}'),
        ("PROTOBUF", "message A {" * 10_000),
        ("PROTOBUF", "".join(f"message A{at} {{" for at in range(200)) + "}" * 200),
        ("PROTOBUF", "/*" * 50_000),
        ("PROTOBUF", 'syntax = "proto3"; import "missing.proto"; message A { B b = 1; }'),
        ("XML", "<a/>"),
        ("AVRO", ""),
    ],
)
def test_schemas_that_are_none(api: Any, kind: str, schema: str) -> None:
    status, body = api.register("bad", schema, schemaType=kind)
    assert (status, body["error_code"]) == (422, 42201), body
    assert len(body["message"]) < 2_000


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b'{"schema":1}',
        b'{"schema":"\\"int\\"","version":"1"}',
        b'{"schema":"\\"int\\"","id":99999999999}',
        b'{"schema":"\\"int\\"","references":{}}',
        b'{"schema":"\\"int\\"","references":[{"name":"a"}]}',
        b'{"schema":"\\"int\\"","metadata":[]}',
        b'{"schema":"\\"int\\"","ruleSet":{"domainRules":[{"name":"x","kind":"Z","type":"t"}]}}',
        b'{"a":' * 100_000,
        b"\xff\xfe",
    ],
)
def test_bodies_that_are_none(api: Any, body: bytes) -> None:
    status, answer = api("POST", "/subjects/bad/versions", body)
    assert status in (400, 422), answer
    assert isinstance(answer["error_code"], int)


def test_references_in_a_circle(api: Any, subject: str) -> None:
    """A version that refers to one that refers to an earlier version of the same subject."""

    def named(name: str, uses: str | None) -> dict[str, Any]:
        fields = [{"name": "x", "type": uses or "int", "default": 0}] if uses is None else [{"name": "x", "type": uses}]
        return {"type": "record", "name": name, "fields": fields}

    api("PUT", f"/config/{subject}-a", {"compatibility": "NONE"})
    assert api.register(f"{subject}-a", named("A", None))[0] == 200
    first = {"name": "A", "subject": f"{subject}-a", "version": 1}
    assert api.register(f"{subject}-b", named("B", "A"), references=[first])[0] == 200
    second = {"name": "B", "subject": f"{subject}-b", "version": 1}
    status, answer = api.register(f"{subject}-a", named("A2", "B"), references=[second])
    assert (status, answer.get("version")) == (200, 2), answer


def test_patterns_that_never_end(api: Any, subject: str) -> None:
    closed = {"type": "object", "patternProperties": {"^(a+)+$": {"type": "string"}}, "additionalProperties": False}
    assert api.register(subject, closed, schemaType="JSON")[0] == 200
    opened = closed | {"properties": {"a" * 60 + "!": {"type": "string"}}}
    began = time.monotonic()
    assert api.register(subject, opened, schemaType="JSON")[0] in (200, 409)
    assert time.monotonic() - began < 10


def union(name: str) -> list[dict[str, Any]]:
    fields = [{"name": f"{name}{number}", "type": "int"} for number in range(20)]
    return [{"type": "record", "name": f"R{number}", "fields": fields} for number in range(300)]


def choices(length_max: int) -> dict[str, Any]:
    """Each definition uses the next one twice: small, and compared by a number of steps that doubles each time."""
    definitions: dict[str, Any] = {
        f"d{number}": {"oneOf": [{"$ref": f"#/definitions/d{number + 1}"}, {"type": "array", "items": {"$ref": next_}}]}
        for number, next_ in ((each, f"#/definitions/d{each + 1}") for each in range(40))
    }
    definitions["d40"] = {"type": "string", "maxLength": length_max}
    return {"definitions": definitions, "$ref": "#/definitions/d0"}


@pytest.mark.parametrize(
    ("kind", "old", "new"), [("AVRO", union("x"), union("y")), ("JSON", choices(5), choices(4))], ids=["avro", "json"]
)
def test_schemas_that_take_long_to_compare(api: Any, subject: str, kind: str, old: Any, new: Any) -> None:
    assert api.register(subject, old, schemaType=kind)[0] == 200
    began = time.monotonic()
    status, body = api.register(subject, new, schemaType=kind)
    assert (status, body["error_code"]) == (409, 409)
    assert time.monotonic() - began < 20


def test_parameters_without_end(api: Any) -> None:
    query = "&".join(f"p{number}=1" for number in range(2_000))
    assert api("GET", f"/subjects?{query}") == (400, {"error_code": 400, "message": "HTTP 400 Bad Request"})


def test_half_and_slow_bodies(shared_registry: Registry, api: Any) -> None:
    for sent in (b"", b'{"schema"'):
        with socket.create_connection(("127.0.0.1", shared_registry.port), 10) as half:
            half.sendall(HEAD % (b"half", 1_000) + sent)
    slow = [socket.create_connection(("127.0.0.1", shared_registry.port), 10) for _ in range(50)]
    for each in slow:
        each.sendall(HEAD % (b"slow", 1_000) + b'{"sch')
    assert api("GET", "/subjects/honest/versions") == (200, [1])
    for each in slow:
        each.close()
    assert "half" not in api("GET", "/subjects")[1]


def test_what_is_not_http(shared_registry: Registry) -> None:
    for sent in (b"\x00" * 100, b"HELLO\r\n\r\n", b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", shared_registry.port), 10) as client:
            client.settimeout(10)
            try:
                client.sendall(sent)
                client.shutdown(socket.SHUT_WR)
                assert not client.recv(65_536).startswith(b"HTTP/1.1 200")
            except ConnectionError:
                pass
