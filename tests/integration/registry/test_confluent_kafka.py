"""confluent-kafka's client and serializers of all three types, over a registry and a node of ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient, SchemaRegistryError
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from barnabas.testing.registry import Registry
from tests.support.service_cluster import ServiceCluster

USER = {
    "type": "record",
    "name": "User",
    "fields": [{"name": "name", "type": "string"}, {"name": "age", "type": "int"}],
}


@pytest.fixture
def client(shared_registry: Registry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": shared_registry.url}) as client:
        yield client


def through_kafka(kafka: ServiceCluster, topic: str, value: bytes) -> bytes:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(topic, value)
    assert producer.flush(30) == 0
    consumer = Consumer(
        {"bootstrap.servers": kafka.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe([topic])
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        read: bytes = message.value()
        return read
    finally:
        consumer.close()


def test_avro(client: SchemaRegistryClient, kafka: ServiceCluster, subject: str) -> None:
    context = SerializationContext(subject, MessageField.VALUE)
    serializer = AvroSerializer(client, json.dumps(USER))
    data = serializer({"name": "anna", "age": 41}, context)
    read = through_kafka(kafka, subject, data)
    assert read[:1] == b"\0"
    assert AvroDeserializer(client)(read, context) == {"name": "anna", "age": 41}


def test_json(client: SchemaRegistryClient, kafka: ServiceCluster, subject: str) -> None:
    context = SerializationContext(subject, MessageField.VALUE)
    schema = json.dumps({"title": "User", "type": "object", "properties": {"name": {"type": "string"}}})
    data = JSONSerializer(schema, client)({"name": "anna"}, context)
    assert JSONDeserializer(schema)(through_kafka(kafka, subject, data), context) == {"name": "anna"}


def user_class() -> Any:
    """What protoc would make of a file with a map and an import."""
    file = descriptor_pb2.FileDescriptorProto(name="test/user.proto", package="test", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    user = file.message_type.add(name="User")
    user.field.add(name="name", number=1, type=9, label=1)
    user.field.add(name="age", number=2, type=11, label=3, type_name=".test.User.AgeEntry")
    user.field.add(name="born", number=3, type=11, label=1, type_name=".google.protobuf.Timestamp")
    entry = user.nested_type.add(name="AgeEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=9, label=1)
    entry.field.add(name="value", number=2, type=5, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("test.User"))


@pytest.fixture
def reader(shared_registry: Registry) -> Iterator[SchemaRegistryClient]:
    """Another process would have one of its own: a client keeps what it has registered in the form it has seen."""
    with SchemaRegistryClient({"url": shared_registry.url}) as client:
        yield client


@pytest.mark.filterwarnings("ignore")
def test_protobuf(
    client: SchemaRegistryClient, reader: SchemaRegistryClient, kafka: ServiceCluster, subject: str
) -> None:
    context = SerializationContext(subject, MessageField.VALUE)
    kind = user_class()
    message = kind(name="anna", age={"years": 41})
    message.born.FromSeconds(1)
    serializer = ProtobufSerializer(kind, client, {"use.deprecated.format": False})
    data = serializer(message, context)
    deserializer = ProtobufDeserializer(kind, {"use.deprecated.format": False}, reader)
    assert deserializer(through_kafka(kafka, subject, data), context) == message
    stored = client.get_latest_version(f"{subject}-value")
    assert stored.schema.schema_type == "PROTOBUF"
    assert "repeated .test.User.AgeEntry age = 2" in stored.schema.schema_str
    again = ProtobufSerializer(kind, client, {"use.deprecated.format": False, "auto.register.schemas": False})
    assert again(message, context)[:5] == data[:5]


@pytest.mark.filterwarnings("ignore")
def test_protobuf_with_a_reference(client: SchemaRegistryClient, subject: str) -> None:
    used = 'syntax = "proto3"; package shop; message Customer { int64 id = 1; }'
    client.register_schema(f"{subject}-used", Schema(used, "PROTOBUF"))
    text = 'syntax = "proto3"; import "shop/customer.proto"; message Order { shop.Customer by = 1; }'
    reference = SchemaReference("shop/customer.proto", f"{subject}-used", 1)
    schema_id = client.register_schema(subject, Schema(text, "PROTOBUF", [reference]))
    assert client.get_schema(schema_id).references == [reference]


def test_the_client_asks_for_everything_it_can(client: SchemaRegistryClient, subject: str) -> None:
    schema = Schema(json.dumps(USER | {"doc": subject}), "AVRO")
    schema_id = client.register_schema(subject, schema)
    assert client.get_schema(schema_id).schema_str is not None
    assert client.lookup_schema(subject, schema).version == 1
    assert subject in client.get_subjects()
    assert client.get_versions(subject) == [1]
    assert client.get_latest_version(subject).schema_id == schema_id
    assert client.test_compatibility(subject, schema)
    assert client.set_compatibility(subject, "FULL")["compatibility"] == "FULL"
    assert client.get_compatibility(subject) == "FULL"
    narrowed: dict[str, Any] = USER | {"fields": [{"name": "name", "type": "bytes"}, {"name": "age", "type": "string"}]}
    with pytest.raises(SchemaRegistryError) as refused:
        client.register_schema(subject, Schema(json.dumps(narrowed), "AVRO"))
    assert refused.value.http_status_code == 409
    assert client.delete_subject(subject) == [1]
    assert client.delete_subject(subject, permanent=True) == [1]
    with pytest.raises(SchemaRegistryError) as missing:
        client.get_versions(subject)
    assert (missing.value.http_status_code, missing.value.error_code) == (404, 40401)
