"""Real clients over logins, TLS and access control.

One node with a plain listener for the administrator, one for SASL, one for TLS and one for both.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiokafka
import kafka
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from barnabas.client.key_stores import read_key_store
from barnabas.testing import Node

PASSWORDS = {"anna": "anna-secret", "bob": "bob-secret"}
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
Settings = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key store of the node and one of a client, made by keytool as the courses make them."""
    directory = tmp_path_factory.mktemp("stores")
    try:
        for name, alias in (("server", "localhost"), ("client", "anna")):
            subprocess.run(
                [
                    *("keytool", "-genkeypair", "-keystore", str(directory / f"{name}.jks"), "-storetype", "JKS"),
                    *("-alias", alias, "-validity", "180", "-keyalg", "RSA", "-storepass", "changeit"),
                    *("-keypass", "changeit", "-dname", f"CN={alias},OU=Plant,O=Works"),
                    *("-ext", "SAN=DNS:localhost,IP:127.0.0.1"),
                ],
                check=True,
                capture_output=True,
            )
    except FileNotFoundError:
        pytest.skip("keytool of a JDK is not on the path")
    for name in ("server", "client"):
        store = read_key_store((directory / f"{name}.jks").read_bytes(), "changeit")
        (directory / f"{name}.pem").write_text("\n".join(store.chain))
        (directory / f"{name}.key").write_text(store.private_key or "")
    return directory


@pytest.fixture(scope="module")
def node(stores: Path) -> Iterator[Node]:
    users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
    jaas = f"{PLAIN_MODULE} required {users};"
    config = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,SASL_SSL://127.0.0.1:0,"
        "CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,"
        "CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
        "listener.name.sasl_ssl.plain.sasl.jaas.config": jaas,
        "ssl.keystore.location": str(stores / "server.jks"),
        "ssl.keystore.password": "changeit",
        "ssl.key.password": "changeit",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(stores / "client.pem"),
        "listener.name.ssl.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=([a-z]*),.*$/$1/L,DEFAULT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:root",
    }
    with Node(config) as node:
        yield node


@pytest.fixture(scope="module")
def admin(node: Node) -> AdminClient:
    return AdminClient({"bootstrap.servers": f"127.0.0.1:{node.ports['PLAINTEXT']}"})


@pytest.fixture(scope="module")
def topic(admin: AdminClient) -> str:
    admin.create_topics([NewTopic("orders", 1)])["orders"].result(10)
    everything = [
        (ResourceType.TOPIC, "orders", AclOperation.WRITE),
        (ResourceType.TOPIC, "orders", AclOperation.READ),
        (ResourceType.GROUP, "readers", AclOperation.READ),
    ]
    entries = [
        AclBinding(kind, name, ResourcePatternType.LITERAL, "User:anna", "*", operation, AclPermissionType.ALLOW)
        for kind, name, operation in everything
    ]
    for future in admin.create_acls(entries).values():
        future.result(10)
    return "orders"


def sasl(node: Node, user: str = "anna", password: str | None = None, mechanism: str = "PLAIN") -> dict[str, Any]:
    return {
        "bootstrap.servers": f"127.0.0.1:{node.ports['SASL_PLAINTEXT']}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": PASSWORDS[user] if password is None else password,
    }


def round_trip(settings: dict[str, Any], topic: str, value: bytes) -> None:
    errors: list[KafkaError | None] = []
    producer = Producer(settings)
    producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(15) == 0
    assert errors == [None]
    consumer = Consumer({**settings, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None and message.error() is None and message.value() == value:
                return
        raise AssertionError("the record did not come back")
    finally:
        consumer.close()


def failure(settings: dict[str, Any]) -> str:
    """What a client is told that cannot get in."""
    told: list[str] = []
    client = AdminClient({**settings, "error_cb": lambda error: told.append(error.str())})
    with pytest.raises(KafkaException):
        client.list_topics(timeout=3)
    client.poll(0.1)
    return " ".join(told)


def test_a_login_with_plain(node: Node, topic: str) -> None:
    round_trip(sasl(node), topic, b"plain")


@pytest.mark.parametrize("mechanism", [ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512])
def test_a_login_with_scram(node: Node, admin: AdminClient, topic: str, mechanism: ScramMechanism) -> None:
    info = ScramCredentialInfo(mechanism, 4096)
    upsertion = UserScramCredentialUpsertion("anna", info, b"scram-secret")
    for future in admin.alter_user_scram_credentials([upsertion]).values():
        future.result(10)
    name = mechanism.name.replace("_", "-")
    round_trip(sasl(node, "anna", "scram-secret", name), topic, name.encode())
    assert "invalid credentials" in failure(sasl(node, "anna", "wrong", name))
    assert "invalid credentials" in failure(sasl(node, "bob", "scram-secret", name))


def test_a_wrong_password_gets_nobody_in(node: Node) -> None:
    assert "Invalid username or password" in failure(sasl(node, "anna", "wrong"))


def test_a_mechanism_that_is_not_enabled_is_refused_with_those_that_are(node: Node) -> None:
    with socket.create_connection(("127.0.0.1", node.ports["SASL_PLAINTEXT"]), timeout=10) as raw:
        raw.sendall(frame(17, 1, struct.pack(">h", 6) + b"GSSAPI"))
        received = b""
        while data := raw.recv(1000):
            received += data
    assert received[8:10] == struct.pack(">h", 33)
    assert b"SCRAM-SHA-512" in received


def tls(node: Node, stores: Path, listener: str = "SSL") -> dict[str, Any]:
    return {
        "bootstrap.servers": f"127.0.0.1:{node.ports[listener]}",
        "security.protocol": listener,
        "ssl.ca.location": str(stores / "server.pem"),
    }


def test_a_client_certificate_is_a_principal(node: Node, stores: Path, topic: str) -> None:
    own = {"ssl.certificate.location": str(stores / "client.pem"), "ssl.key.location": str(stores / "client.key")}
    round_trip(tls(node, stores) | own, topic, b"tls")


def test_without_the_certificate_that_is_required_nobody_gets_in(node: Node, stores: Path) -> None:
    assert failure(tls(node, stores))


def test_a_login_within_tls(node: Node, stores: Path, topic: str) -> None:
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "anna", "sasl.password": PASSWORDS["anna"]}
    round_trip(tls(node, stores, "SASL_SSL") | login, topic, b"both")


def test_who_has_no_entry_may_not(node: Node, topic: str) -> None:
    errors: list[KafkaError | None] = []
    producer = Producer(sasl(node, "bob"))
    producer.produce(topic, b"bob", on_delivery=lambda error, _: errors.append(error))
    producer.flush(10)
    assert errors[0] is not None
    assert errors[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    described = AdminClient(sasl(node, "bob")).list_topics(timeout=10)
    assert topic not in described.topics


def test_entries_are_described_and_deleted_by_those_who_may(node: Node, admin: AdminClient, topic: str) -> None:
    wanted = AclBindingFilter(
        ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    found = admin.describe_acls(wanted).result(10)
    assert {entry.operation for entry in found} == {AclOperation.WRITE, AclOperation.READ}
    refused = AdminClient(sasl(node, "anna"))
    assert refused.describe_acls(wanted).result(10) == []  # librdkafka does not tell the error
    own = AclBinding(
        ResourceType.TOPIC,
        "x",
        ResourcePatternType.LITERAL,
        "User:anna",
        "*",
        AclOperation.ALL,
        AclPermissionType.ALLOW,
    )
    with pytest.raises(KafkaException, match="CLUSTER_AUTHORIZATION_FAILED"):
        refused.create_acls([own])[own].result(10)
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        refused.create_topics([NewTopic("others", 1)])["others"].result(10)
    entry = AclBinding(
        ResourceType.TOPIC,
        "gone",
        ResourcePatternType.PREFIXED,
        "User:x",
        "*",
        AclOperation.ALL,
        AclPermissionType.DENY,
    )
    admin.create_acls([entry])[entry].result(10)
    of_gone = AclBindingFilter(
        ResourceType.TOPIC, "gone", ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    assert admin.delete_acls([of_gone])[of_gone].result(10) == [entry]
    assert admin.describe_acls(of_gone).result(10) == []


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_other_clients_log_in_too(node: Node, admin: AdminClient, topic: str, mechanism: str) -> None:
    upsertion = UserScramCredentialUpsertion(
        "anna", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), PASSWORDS["anna"].encode()
    )
    for future in admin.alter_user_scram_credentials([upsertion]).values():
        future.result(10)
    servers = f"127.0.0.1:{node.ports['SASL_PLAINTEXT']}"
    producer = kafka.KafkaProducer(
        bootstrap_servers=servers,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_plain_username="anna",
        sasl_plain_password=PASSWORDS["anna"],
        enable_idempotence=False,
    )
    assert producer.send(topic, b"kafka-python").get(15).offset >= 0
    producer.close()

    async def send() -> int:
        client = aiokafka.AIOKafkaProducer(
            bootstrap_servers=servers,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username="anna",
            sasl_plain_password=PASSWORDS["anna"],
        )
        async with client:
            return (await client.send_and_wait(topic, b"aiokafka")).offset

    assert asyncio.run(send()) >= 0


def frame(api_key: int, version: int, body: bytes) -> bytes:
    header = struct.pack(">hhih", api_key, version, 7, -1)
    return struct.pack(">i", len(header + body)) + header + body


@pytest.mark.parametrize(
    "sent",
    [
        frame(3, 1, struct.pack(">i", -1)),  # Metadata
        frame(36, 0, struct.pack(">i", 3) + b"abc") + frame(3, 1, struct.pack(">i", -1)),
        struct.pack(">i", 600_000) + b"x" * 1000,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 200,  # the beginning of TLS
        struct.pack(">i", 1) + b"x",
    ],
)
def test_before_a_login_nothing_else_is_answered(node: Node, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", node.ports["SASL_PLAINTEXT"]), timeout=10) as raw:
        raw.sendall(sent)
        raw.shutdown(socket.SHUT_WR)
        received = b""
        while data := raw.recv(65536):
            received += data
    # At most that a login has not begun (ILLEGAL_SASL_STATE, 34).
    assert received == b"" or received[8:10] == struct.pack(">h", 34)


def test_the_bytes_of_a_login_may_come_without_headers(node: Node) -> None:
    """As clients send them after version 0 of the handshake."""
    with socket.create_connection(("127.0.0.1", node.ports["SASL_PLAINTEXT"]), timeout=10) as raw:
        raw.sendall(frame(17, 0, struct.pack(">h", 5) + b"PLAIN"))
        assert raw.recv(1000)[8:10] == b"\0\0"
        token = b"\0anna\0" + PASSWORDS["anna"].encode()
        raw.sendall(struct.pack(">i", len(token)) + token)
        assert raw.recv(1000) == b"\0\0\0\0"
        raw.sendall(frame(18, 0, b""))
        assert raw.recv(1000)[4:8] == struct.pack(">i", 7)


@pytest.mark.parametrize("interruption", [(18, 0, b""), (17, 1, struct.pack(">h", 5) + b"PLAIN")])
def test_a_login_that_has_begun_is_not_interrupted(node: Node, interruption: tuple[int, int, bytes]) -> None:
    """As Apache Kafka: what is not SaslAuthenticate is answered with ILLEGAL_SASL_STATE (34), and closed."""
    with socket.create_connection(("127.0.0.1", node.ports["SASL_PLAINTEXT"]), timeout=10) as raw:
        raw.sendall(frame(17, 1, struct.pack(">h", 5) + b"PLAIN"))
        assert raw.recv(1000)[8:10] == b"\0\0"
        raw.sendall(frame(*interruption))
        received = b""
        while data := raw.recv(1000):
            received += data
    assert received[8:10] == struct.pack(">h", 34)


def test_plaintext_on_a_tls_port_and_the_reverse_are_closed(node: Node) -> None:
    with socket.create_connection(("127.0.0.1", node.ports["SSL"]), timeout=10) as raw:
        raw.sendall(frame(18, 0, b""))
        try:
            while raw.recv(1000):
                pass
        except ConnectionResetError:
            pass
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", node.ports["PLAINTEXT"]), timeout=10) as raw, pytest.raises(OSError):
        context.wrap_socket(raw)
