"""Serializers and deserializers over a registry in this process."""

from __future__ import annotations

import datetime
import decimal
import json
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf import timestamp_pb2

from barnabas.client.errors import InvalidSetting
from barnabas.client.serdes import (
    Deserializer,
    Registry,
    RegistryRefused,
    RegistryUnreachable,
    Schema,
    SchemaReference,
    SerdeError,
    SerdeSettings,
    Serializer,
    codec_of,
    open_registry,
)
from barnabas.client.serdes.mock import drop_mock
from barnabas.client.serdes.registry import Transport

USER = {"type": "record", "name": "User", "namespace": "shop", "fields": [{"name": "name", "type": "string"}]}
WITH_AGE = {**USER, "fields": [*USER["fields"], {"name": "age", "type": "int", "default": -1}]}  # type: ignore[misc]
WITH_NEEDED_AGE = {**USER, "fields": [*USER["fields"], {"name": "age", "type": "int"}]}  # type: ignore[misc]
PROTO = """syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto";
enum Size { SMALL = 0; LARGE = 1; }
message Order { message Line { string sku = 1; bytes raw = 2; } int64 id = 1; repeated Line lines = 2;
  map<string, Line> by_name = 3; Size size = 4; google.protobuf.Timestamp at = 5; optional string note = 6; }
message Refund { int64 order = 1; }"""


class Counting:
    """A transport that says how often it was asked."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.asked: list[str] = []

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        self.asked.append(f"{method} {path}")
        return self._inner.ask(method, path, body)

    def close(self) -> None:
        self._inner.close()


@pytest.fixture
def counting() -> Counting:
    from barnabas.client.serdes.mock import MockRegistry

    return Counting(MockRegistry())


@pytest.fixture
def registry(counting: Counting) -> Registry:
    return Registry(counting, url="mock://here")


@pytest.fixture
def mock_name() -> Iterator[str]:
    yield "test-serdes"
    drop_mock("test-serdes")


def avro(tree: Any) -> Schema:
    return Schema(json.dumps(tree))


def test_the_registry_is_asked_once_and_not_for_every_record(registry: Registry, counting: Counting) -> None:
    serializer, deserializer = Serializer(registry, avro(USER)), Deserializer(registry)
    for name in ("anna", "bert", "carl"):
        data = serializer.encode("users", {"name": name})
        assert data is not None
        assert data[:5] == b"\0\0\0\0\1"
        assert deserializer.decode(data) == {"name": name}
    assert counting.asked == ["POST /subjects/users-value/versions", "GET /schemas/ids/1"]


def test_tombstones_stay_tombstones(registry: Registry, counting: Counting) -> None:
    assert Serializer(registry, avro(USER)).encode("users", None) is None
    assert Deserializer(registry).decode(None) is None
    assert counting.asked == []


@pytest.mark.parametrize(
    ("strategy", "is_key", "subject"),
    [
        ("TopicNameStrategy", False, "users-value"),
        ("TopicNameStrategy", True, "users-key"),
        ("RecordNameStrategy", False, "shop.User"),
        ("TopicRecordNameStrategy", True, "users-shop.User"),
    ],
)
def test_subjects_follow_the_strategy(registry: Registry, strategy: str, is_key: bool, subject: str) -> None:
    name = "key" if is_key else "value"
    settings = SerdeSettings.from_properties(
        {f"{name}.subject.name.strategy": f"io.confluent.kafka.serializers.subject.{strategy}"}, is_key=is_key
    )
    Serializer(registry, avro(USER), settings, is_key=is_key).encode("users", {"name": "anna"})
    assert registry.subjects() == [subject]


def test_without_registration_an_unknown_schema_is_refused(registry: Registry) -> None:
    settings = SerdeSettings.from_properties({"auto.register.schemas": "false"})
    with pytest.raises(RegistryRefused, match="Subject 'users-value' not found"):
        Serializer(registry, avro(USER), settings).encode("users", {"name": "anna"})
    registry.register("users-value", avro(USER))
    assert Serializer(registry, avro(USER), settings).encode("users", {"name": "anna"})


def test_the_latest_version_or_a_given_id_is_used(registry: Registry) -> None:
    registry.register("users-value", avro(USER))
    registry.register("users-value", avro(WITH_AGE))
    latest = Serializer(registry, None, SerdeSettings(use_latest=True)).encode("users", {"name": "anna", "age": 3})
    assert latest is not None
    assert latest[:5] == b"\0\0\0\0\2"
    by_id = Serializer(registry, None, SerdeSettings(use_id=1)).encode("users", {"name": "anna"})
    assert by_id is not None
    assert by_id[:5] == b"\0\0\0\0\1"
    with pytest.raises(SerdeError, match="A schema is needed"):
        Serializer(registry)


def test_a_reader_schema_sees_its_defaults(registry: Registry) -> None:
    data = Serializer(registry, avro(USER)).encode("users", {"name": "anna"})
    assert Deserializer(registry, reader=avro(WITH_AGE)).decode(data) == {"name": "anna", "age": -1}
    with pytest.raises(SerdeError, match="do not go together"):
        Deserializer(registry, reader=avro(WITH_NEEDED_AGE)).decode(data)


def test_a_schema_that_breaks_readers_is_refused(registry: Registry) -> None:
    registry.register("users-value", avro(USER))
    with pytest.raises(RegistryRefused, match="READER_FIELD_MISSING_DEFAULT_VALUE"):
        registry.register("users-value", avro(WITH_NEEDED_AGE))
    assert registry.register("users-value", avro(WITH_AGE)).version == 2


def test_avro_logical_types_are_pythons(registry: Registry) -> None:
    schema = {
        "type": "record",
        "name": "Payment",
        "fields": [
            {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        ],
    }
    payment = {"amount": decimal.Decimal("12.34"), "at": datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)}
    data = Serializer(registry, avro(schema)).encode("payments", payment)
    assert Deserializer(registry).decode(data) == payment
    assert Deserializer(registry, logical_types=False).decode(data) == {"amount": b"\x04\xd2", "at": 1767312000000}


def test_avro_references_are_followed(registry: Registry) -> None:
    registry.register("user", avro(USER))
    order = {"type": "record", "name": "Order", "fields": [{"name": "by", "type": "shop.User"}]}
    schema = Schema(json.dumps(order), "AVRO", (SchemaReference("shop.User", "user", 1),))
    data = Serializer(registry, schema).encode("orders", {"by": {"name": "anna"}})
    assert data is not None
    assert Deserializer(registry).decode(data) == {"by": {"name": "anna"}}
    assert Deserializer(registry).decode_json(data) == {"by": {"name": "anna"}}


def test_json_is_checked_on_both_sides(registry: Registry) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    serializer = Serializer(registry, Schema(json.dumps(schema), "JSON"))
    data = serializer.encode("numbers", {"n": 5})
    assert data == b'\0\0\0\0\1{"n":5}'
    assert Deserializer(registry).decode(data) == {"n": 5}
    with pytest.raises(SerdeError, match='at /n: "5" is not of type "integer"'):
        serializer.encode("numbers", {"n": "5"})
    with pytest.raises(SerdeError, match='"n" is a required property'):
        Deserializer(registry).decode(b"\0\0\0\0\1{}")
    with pytest.raises(SerdeError, match="not JSON"):
        Deserializer(registry).decode(b"\0\0\0\0\1{")


def test_json_references_are_followed_and_nothing_is_fetched(registry: Registry) -> None:
    registry.register("user", Schema('{"type": "object", "properties": {"name": {"type": "string"}}}', "JSON"))
    text = '{"type": "object", "properties": {"by": {"$ref": "user.json"}}}'
    schema = Schema(text, "JSON", (SchemaReference("user.json", "user", 1),))
    serializer = Serializer(registry, schema)
    assert serializer.encode("orders", {"by": {"name": "anna"}})
    with pytest.raises(SerdeError, match="at /by/name"):
        serializer.encode("orders", {"by": {"name": 1}})
    with pytest.raises(SerdeError, match="not valid"):
        codec_of(Schema('{"$ref": "http://127.0.0.1:9/never.json"}', "JSON"))


def test_a_pattern_cannot_run_for_years() -> None:
    codec = codec_of(Schema('{"type": "string", "pattern": "^(a+)+$"}', "JSON"))
    with pytest.raises(SerdeError, match="does not match"):
        codec.encode("a" * 5_000 + "!")


def test_protobuf_messages_are_dicts(registry: Registry) -> None:
    order = {
        "id": 1 << 60,
        "lines": [{"sku": "a", "raw": b"\xff"}],
        "by_name": {"first": {"sku": "b", "raw": b""}},
        "size": "LARGE",
        "at": datetime.datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=datetime.UTC),
    }
    data = Serializer(registry, Schema(PROTO, "PROTOBUF")).encode("orders", order)
    assert data is not None
    assert data[:6] == b"\0\0\0\0\1\0"
    assert Deserializer(registry).decode(data) == order
    assert Deserializer(registry).decode_json(data) == {
        "id": str(1 << 60),
        "lines": [{"sku": "a", "raw": "/w=="}],
        "by_name": {"first": {"sku": "b", "raw": ""}},
        "size": "LARGE",
        "at": "2026-01-02T03:04:05.678Z",
    }


@pytest.mark.parametrize(
    ("message", "value", "path"),
    [("Refund", {"order": 7}, b"\x02\x02"), ("Order.Line", {"sku": "a", "raw": b"b"}, b"\x04\x00\x00")],
)
def test_protobuf_says_which_message_it_is(registry: Registry, message: str, value: Any, path: bytes) -> None:
    data = Serializer(registry, Schema(PROTO, "PROTOBUF"), message=message).encode("orders", value)
    assert data is not None
    assert data[5:].startswith(path)
    assert Deserializer(registry).decode(data) == value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"nothing": 1}, "shop.Order has no field nothing"),
        ({"id": "x"}, "id does not fit shop.Order.id"),
        ({"lines": {}}, "lines should be a list"),
        ({"lines": [{"sku": 1}]}, r"lines\[0\].sku does not fit"),
        ({"size": "HUGE"}, "shop.Size has no value HUGE"),
        (5, "should be a dict for shop.Order"),
        (timestamp_pb2.Timestamp(), "A shop.Order is wanted, not a google.protobuf.Timestamp"),
    ],
)
def test_protobuf_says_what_does_not_fit(value: Any, said: str) -> None:
    with pytest.raises(SerdeError, match=said):
        codec_of(Schema(PROTO, "PROTOBUF")).encode(value)


def test_ids_may_travel_in_headers(registry: Registry) -> None:
    name = "io.confluent.kafka.serializers.schema.id.HeaderSchemaIdSerializer"
    settings = SerdeSettings.from_properties({"value.schema.id.serializer": name})
    headers: list[tuple[str, bytes | None]] = [("trace", b"1")]
    data = Serializer(registry, avro(USER), settings).encode("users", {"name": "anna"}, headers)
    assert data == b"\x08anna"
    assert headers[1][0] == "__value_schema_id"
    assert Deserializer(registry).decode(data, headers) == {"name": "anna"}
    with pytest.raises(SerdeError, match="no headers to put it into"):
        Serializer(registry, avro(USER), settings).encode("users", {"name": "anna"})


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0\0\0", b"plain text", b"\x01short"])
def test_bytes_of_nobodys_schema_are_refused(registry: Registry, data: bytes) -> None:
    with pytest.raises(SerdeError, match="do not begin with the id of a schema"):
        Deserializer(registry).decode(data)


def test_half_a_record_is_refused(registry: Registry) -> None:
    for schema, value in ((avro(USER), {"name": "anna"}), (Schema(PROTO, "PROTOBUF"), {"lines": [{"sku": "abc"}]})):
        registry.ask("PUT", "/config", {"compatibility": "NONE"})
        data = Serializer(registry, schema).encode("users", value)
        assert data is not None
        with pytest.raises(SerdeError, match="The bytes are not"):
            Deserializer(registry).decode(data[:-1])


def test_an_unknown_id_is_the_registrys_error(registry: Registry) -> None:
    with pytest.raises(RegistryRefused) as caught:
        Deserializer(registry).decode(b"\0\0\0\0\x63x")
    assert caught.value.code == 40403


def test_mocks_of_one_name_are_one(mock_name: str) -> None:
    data = Serializer(open_registry(f"mock://{mock_name}"), avro(USER)).encode("users", {"name": "anna"})
    assert Deserializer(open_registry(f"mock://{mock_name}")).decode(data) == {"name": "anna"}


def test_nobody_answers() -> None:
    with pytest.raises(RegistryUnreachable, match=r"No schema registry answers at http://127\.0\.0\.1:1"):
        open_registry("http://user:secret@127.0.0.1:1").subjects()


@pytest.mark.parametrize("url", ["", "localhost:8081", "ftp://x"])
def test_addresses_that_make_no_sense(url: str) -> None:
    with pytest.raises(InvalidSetting, match=r"schema\.registry\.url"):
        open_registry(url)


@pytest.mark.parametrize(
    "text", [b"1e400", b"[NaN]", b"123456789012345678901234567890", b'"\\ud800"', b"\xef\xbb\xbf1"]
)
def test_json_of_other_writers_is_read_as_python_reads_it(text: bytes) -> None:
    codec = codec_of(Schema("{}", "JSON"))
    try:
        read = codec.decode(text)
    except SerdeError as error:
        assert "cannot be written as JSON" in str(error)  # what no schema speaks of  # noqa: PT017
    else:
        assert read == json.loads(text)


def test_what_is_no_json_before_it_is_written_is_checked_as_it_is_written() -> None:
    codec = codec_of(
        Schema('{"type": "object", "properties": {"at": {"type": "string"}, "list": {"maxItems": 2}}}', "JSON")
    )
    assert codec.encode({"at": datetime.date(2026, 1, 2), "list": (1, 2)}) == b'{"at":"2026-01-02","list":[1,2]}'
    with pytest.raises(SerdeError, match="does not fit the JSON schema at /list"):
        codec.encode({"at": datetime.date(2026, 1, 2), "list": (1, 2, 3)})
