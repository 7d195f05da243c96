"""The API v2 but for consumers, as curl and the courses use it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from barnabas.client.consumer import AssignedConsumer
from barnabas.client.settings import ClientSettings
from tests.integration.rest.conftest import Api, Stage

SENSOR = '{"type":"record","name":"S","fields":[{"name":"id","type":"string"},{"name":"v","type":["null","long"]}]}'


def stored(stage: Stage, topic: str, count: int) -> list[tuple[bytes | None, bytes | None]]:
    settings = ClientSettings.from_properties({}, bootstrap_servers=stage.node.bootstrap_servers)
    with AssignedConsumer(settings) as consumer:
        consumer.assign({(topic, 0): -2})
        found: list[tuple[bytes | None, bytes | None]] = []
        while len(found) < count:
            found += [(each.key, each.value) for each in consumer.poll(60_000)]
        return found


def test_what_the_courses_look_at(stage: Stage, api: Api) -> None:
    topic = stage.new_topic(2, **{"cleanup.policy": "compact"})
    assert topic in api("GET", "/topics")[1]
    assert api("GET", "/brokers") == (200, {"brokers": [1]})
    status, described = api("GET", f"/topics/{topic}")
    assert (status, described["name"], described["configs"]["cleanup.policy"]) == (200, topic, "compact")
    replicas = [{"broker": 1, "leader": True, "in_sync": True}]
    partitions = [{"partition": index, "leader": 1, "replicas": replicas} for index in range(2)]
    assert described["partitions"] == partitions
    assert api("GET", f"/topics/{topic}/partitions") == (200, partitions)
    assert api("GET", f"/topics/{topic}/partitions/1") == (200, partitions[1])
    assert api("GET", f"/topics/{topic}/partitions/1/offsets") == (200, {"beginning_offset": 0, "end_offset": 0})
    assert api("GET", "/") == (200, {})


def test_json_and_binary_are_produced(stage: Stage, api: Api) -> None:
    topic = stage.new_topic()
    offsets = [{"partition": 0, "offset": at, "error_code": None, "error": None} for at in range(4)]
    answer = {"key_schema_id": None, "value_schema_id": None}
    assert api.produce(topic, "json", {"foo": "bär"}, [1]) == (200, {"offsets": offsets[:2], **answer})
    records = {"records": [{"key": "a2V5", "value": "S2Fma2E=", "partition": 0}]}
    binary = {"Content_Type": "application/vnd.kafka.binary.v2+json"}
    assert api("POST", f"/topics/{topic}", records, **binary) == (200, {"offsets": offsets[2:3], **answer})
    tombstone = {"records": [{"key": "a2V5", "value": None}]}
    assert api("POST", f"/topics/{topic}/partitions/0", tombstone)[1]["offsets"] == offsets[3:]
    assert stored(stage, topic, 4) == [
        (None, '{"foo":"bär"}'.encode()),
        (None, b"[1]"),
        (b"key", b"Kafka"),
        (b"key", None),
    ]


@pytest.mark.parametrize(
    ("form", "schema", "value"),
    [
        ("avro", SENSOR, {"id": "t1", "v": {"long": 999}}),
        ("jsonschema", '{"type":"object","properties":{"n":{"type":"integer"}}}', {"n": 5}),
        ("protobuf", 'syntax = "proto3"; message R { string id = 1; }', {"id": "t1"}),
    ],
)
def test_records_with_schemas(stage: Stage, api: Api, form: str, schema: str, value: Any) -> None:
    topic = stage.new_topic()
    status, first = api.produce(topic, form, value, value_schema=schema)
    assert status == 200
    schema_id = first["value_schema_id"]
    assert api.produce(topic, form, value, value_schema_id=schema_id)[1]["value_schema_id"] == schema_id
    data = stored(stage, topic, 2)[0][1]
    assert data is not None
    assert data[:5] == b"\0" + schema_id.to_bytes(4, "big")
    assert stored(stage, topic, 2)[1][1] == data


def test_a_key_and_a_value_with_schemas(stage: Stage, api: Api) -> None:
    topic = stage.new_topic()
    body = {
        "key_schema": '"int"',
        "value_schema": SENSOR,
        "records": [{"key": 5, "value": {"id": "a", "v": None}}, {"key": 5, "value": None}],
    }
    status, answer = api("POST", f"/topics/{topic}", body, Content_Type="application/vnd.kafka.avro.v2+json")
    assert status == 200
    assert None not in (answer["key_schema_id"], answer["value_schema_id"])
    assert stored(stage, topic, 2)[1][1] is None


@pytest.mark.parametrize(
    ("path", "body", "kind", "status", "code"),
    [
        ("/topics/{topic}", {"records": []}, "json", 422, 422),
        ("/topics/{topic}", {}, "json", 422, 422),
        ("/topics/{topic}", b"", "json", 422, 422),
        ("/topics/{topic}", b"{", "json", 400, 400),
        ("/topics/{topic}", {"records": [5]}, "json", 422, 422),
        ("/topics/{topic}", {"records": [{"value": 5, "headers": []}]}, "json", 422, 422),
        ("/topics/{topic}", {"records": [{"value": 5}], "schema": "{}"}, "json", 422, 422),
        ("/topics/{topic}", {"records": [{"value": "!"}]}, "binary", 422, 42203),
        ("/topics/{topic}", {"records": [{"value": 5}]}, "binary", 422, 42203),
        ("/topics/{topic}", {"records": [{"value": 5, "partition": -1}]}, "json", 422, 422),
        ("/topics/{topic}", {"records": [{"value": {}}]}, "avro", 422, 42202),
        ("/topics/{topic}", {"records": [{"key": 5}], "value_schema": '"int"'}, "avro", 422, 42201),
        ("/topics/{topic}", {"records": [{"value": {}}], "value_schema": "{"}, "avro", 422, 42205),
        ("/topics/{topic}", {"records": [{"value": 5}], "value_schema": '"string"'}, "avro", 422, 42203),
        ("/topics/{topic}", {"records": [{"value": 5}], "value_schema_id": 99999}, "avro", 404, 40403),
        ("/topics/{topic}", {"records": [{"value": 5}]}, "xml", 415, 415),
        ("/topics/{topic}/partitions/7", {"records": [{"value": 5}]}, "json", 404, 40402),
        ("/topics/{topic}/partitions/x", {"records": [{"value": 5}]}, "json", 404, 40402),
        ("/topics/no%2Fname", {"records": [{"value": 5}]}, "json", 404, 40401),
    ],
)
def test_what_is_wrong_is_told(stage: Stage, api: Api, path: str, body: Any, kind: str, status: int, code: int) -> None:
    topic = stage.new_topic()
    content = f"application/vnd.kafka.{kind}.v2+json"
    got, answer = api("POST", path.format(topic=topic), body, Content_Type=content)
    assert (got, answer["error_code"]) == (status, code), answer
    assert api("GET", f"/topics/{topic}/partitions/0/offsets")[1]["end_offset"] == 0


def test_a_record_that_the_broker_refuses_is_told_alone_and_at_once(stage: Stage, api: Api) -> None:
    """A null key on a compacted topic; others take two minutes to say so."""
    topic = stage.new_topic(**{"cleanup.policy": "compact"})
    status, answer = api("POST", f"/topics/{topic}", {"records": [{"value": "YQ=="}]})
    (outcome,) = answer["offsets"]
    assert (status, outcome["error_code"], outcome["offset"]) == (200, 50002, None)
    assert outcome["error"]


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/topics/never-made", 404, 40401),
        ("GET", "/topics/never-made/partitions", 404, 40401),
        ("GET", "/nothing/here", 404, 404),
        ("PUT", "/topics", 405, 405),
        ("GET", "/consumers/g/instances/nobody/records", 404, 40403),
    ],
)
def test_what_is_not_there(api: Api, method: str, path: str, status: int, code: int) -> None:
    got, answer = api(method, path)
    assert (got, answer["error_code"]) == (status, code)


def test_types_that_nobody_can_give(api: Api) -> None:
    assert api("GET", "/topics", Accept="text/html") == (406, {"error_code": 406, "message": "HTTP 406 Not Acceptable"})


def test_a_body_above_the_limit_is_refused_and_the_next_one_taken(stage: Stage, api: Api) -> None:
    topic = stage.new_topic()
    large = json.dumps({"records": [{"value": "x" * (17 * 1024 * 1024)}]}).encode()
    assert api.produce(topic, "json", "small")[0] == 200
    try:
        status, _ = api("POST", f"/topics/{topic}", large)
        assert status == 413
    except (BrokenPipeError, ConnectionResetError):
        pass  # it was hung up on us, which is as good
    assert api.produce(topic, "json", "small")[0] == 200


def test_deeply_nested_json_is_refused(stage: Stage, api: Api) -> None:
    topic = stage.new_topic()
    body = b'{"records":[{"value":' + b"[" * 100_000 + b"]" * 100_000 + b"}]}"
    status, answer = api("POST", f"/topics/{topic}", body, Content_Type="application/vnd.kafka.json.v2+json")
    assert (status, answer["message"]) == (400, "The body is not JSON.")
