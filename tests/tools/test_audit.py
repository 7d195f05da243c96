"""The audit's topic as a real client reads it, and `barnabas acl learn`, whose entries suffice and are needed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from barnabas.testing import Node
from tests.support.waiting import wait_until

from .clusters import our_tool

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """Everybody may do what no entry is about; the administrator's listener is the plain one."""
    config = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{PLAIN} required user_anna="a" user_bob="b";',
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": "true",
        "barnabas.audit.topic": "audit",
        "barnabas.audit.allowed": "true",
    }
    with Node(config) as node:
        yield node


def login(node: Node, user: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": f"127.0.0.1:{node.ports['SASL_PLAINTEXT']}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": user[0],
    }


def tool(node: Node, name: str, *arguments: str) -> str:
    server = ["--bootstrap-server", f"127.0.0.1:{node.ports['PLAINTEXT']}"]
    given = [*server, *arguments] if name != "barnabas" else [arguments[0], *server, *arguments[1:]]
    stdout, stderr, code = our_tool(name, given, "")
    assert code == 0, stderr
    return stdout


def write(node: Node, user: str) -> KafkaError | None:
    told: list[KafkaError | None] = []
    producer = Producer(login(node, user) | {"message.timeout.ms": 30_000})
    producer.produce("orders", b"x", on_delivery=lambda error, _: told.append(error))
    producer.flush(30)
    return told[0]


def read(node: Node, user: str) -> bytes:
    consumer = Consumer(login(node, user) | {"group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    try:
        message = consumer.poll(30)
        assert message is not None
        if message.error() is not None:
            raise KafkaException(message.error())
        return bytes(message.value() or b"")
    finally:
        consumer.close()


def audit(node: Node) -> list[dict[str, Any]]:
    consumer = Consumer({"bootstrap.servers": f"127.0.0.1:{node.ports['PLAINTEXT']}", "group.id": "auditors"})
    consumer.assign([TopicPartition("audit", 0, 0)])
    _, end = consumer.get_watermark_offsets(TopicPartition("audit", 0), 30)
    messages = consumer.consume(end, 30) if end else []
    consumer.close()
    return [json.loads(message.value() or b"") for message in messages if message.error() is None]


def test_what_anna_did_is_learned_and_suffices(node: Node) -> None:
    tool(node, "kafka-topics", "--create", "--topic", "orders", "--partitions", "1")
    assert write(node, "anna") is None
    assert read(node, "anna") == b"x"
    learning = ("acl", "learn", "--audit-topic", "audit", "--principal", "User:anna")
    wait_until(lambda: any(line.get("type") == "GROUP" for line in audit(node)), "the audit has the group's right")
    learned = tool(node, "barnabas", *learning).splitlines()
    entries = "kafka-acls --add --allow-principal User:anna --operation"
    assert learned[:3] == [
        f"{entries} Read --topic orders",
        f"{entries} Write --topic orders",
        f"{entries} Read --group readers",
    ]
    for line in learned:
        tool(node, "kafka-acls", *line.split()[1:])
    assert write(node, "anna") is None
    assert read(node, "anna") == b"x"
    error = write(node, "bob")  # there are entries now, and none is for bob
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    wait_until(lambda: any(line["event"] == "denied" for line in audit(node)), "the audit has the denial")
    lines = audit(node)
    denied = next(line for line in lines if line["event"] == "denied")
    assert (denied["principal"], denied["type"], denied["name"]) == ("User:bob", "TOPIC", "orders")
    done = {(line["api"], *line["names"]) for line in lines if line["event"] == "administration"}
    assert {("CreateTopics", "orders"), ("CreateAcls", "User:anna READ TOPIC orders")} <= done
