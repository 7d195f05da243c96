"""Our serializers and confluent-kafka's over one registry: each reads what the other wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from barnabas.client.serdes import Deserializer, Registry, Schema, SerdeSettings, Serializer, open_registry
from barnabas.testing.registry import Registry as RegistryProcess

USER = json.dumps({"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]})
USER_JSON = json.dumps({"title": "User", "type": "object", "properties": {"name": {"type": "string"}}})
USER_PROTO = 'syntax = "proto3"; package t; message Other { int32 x = 1; } message User { string name = 1; }'
ANNA = {"name": "annabella"}


@pytest.fixture
def theirs(shared_registry: RegistryProcess) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": shared_registry.url}) as client:
        yield client


@pytest.fixture
def ours(shared_registry: RegistryProcess) -> Iterator[Registry]:
    registry = open_registry(shared_registry.url)
    yield registry
    registry.close()


def user_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="user.proto", package="t", syntax="proto3")
    file.message_type.add(name="Other").field.add(name="x", number=1, type=5, label=1)
    file.message_type.add(name="User").field.add(name="name", number=1, type=9, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.User"))


def test_avro_both_ways(ours: Registry, theirs: SchemaRegistryClient, subject: str) -> None:
    context = SerializationContext(subject, MessageField.VALUE)
    data = Serializer(ours, Schema(USER)).encode(subject, ANNA)
    assert AvroDeserializer(theirs)(data, context) == ANNA
    assert AvroSerializer(theirs, USER)(ANNA, context) == data
    assert Deserializer(ours).decode(data) == ANNA


def test_json_both_ways(ours: Registry, theirs: SchemaRegistryClient, subject: str) -> None:
    context = SerializationContext(subject, MessageField.VALUE)
    data = Serializer(ours, Schema(USER_JSON, "JSON")).encode(subject, ANNA)
    assert JSONDeserializer(USER_JSON)(data, context) == ANNA
    assert Deserializer(ours).decode(JSONSerializer(USER_JSON, theirs)(ANNA, context)) == ANNA


def test_protobuf_both_ways(ours: Registry, theirs: SchemaRegistryClient, subject: str) -> None:
    context = SerializationContext(subject, MessageField.VALUE)
    user = user_class()
    data = Serializer(ours, Schema(USER_PROTO, "PROTOBUF"), message="User").encode(subject, ANNA)
    read = ProtobufDeserializer(user, {"use.deprecated.format": False})(data, context)
    assert read is not None
    assert read.name == "annabella"
    written = ProtobufSerializer(user, theirs, {"use.deprecated.format": False})(user(name="bert"), context)
    assert Deserializer(ours).decode(written) == {"name": "bert"}
    assert (
        Serializer(ours, Schema(USER_PROTO, "PROTOBUF"), message="User").encode(subject, user(name="annabella")) == data
    )


def test_ids_in_headers_both_ways(ours: Registry, theirs: SchemaRegistryClient, subject: str) -> None:
    headers: list[tuple[str, bytes | None]] = []
    data = Serializer(ours, Schema(USER), SerdeSettings(id_in_header=True)).encode(subject, ANNA, headers)
    context = SerializationContext(subject, MessageField.VALUE, headers)
    assert AvroDeserializer(theirs)(data, context) == ANNA
    their_headers: list[Any] = []
    writing = SerializationContext(subject, MessageField.VALUE, their_headers)
    serializer = AvroSerializer(theirs, USER, conf={"schema.id.serializer": header_schema_id_serializer})
    written = serializer(ANNA, writing)
    assert (written, their_headers) == (data, headers)
    assert Deserializer(ours).decode(written, their_headers) == ANNA


def test_a_context_of_its_own(ours: Registry, subject: str) -> None:
    """Ids of other contexts are asked for with a subject of theirs."""
    registered = ours.register(f":.there:{subject}", Schema(USER))
    assert (
        ours.by_id(registered.id, f":.there:{subject}").schema.text == '{"type":"record","name":"User",'
        '"fields":[{"name":"name","type":"string"}]}'
    )
