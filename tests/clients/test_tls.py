"""Key stores that are exchanged while the node runs, PEM in the settings, encrypted keys, and names in certificates."""

from __future__ import annotations

import socket
import ssl
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
from cryptography.x509.oid import NameOID

from barnabas.client.certificates import make_certificates
from barnabas.client.connection import Connection
from barnabas.client.errors import AuthenticationFailed
from barnabas.client.exchange import request_frame
from barnabas.client.settings import ClientSettings
from barnabas.testing import Node
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.reference_batches import crafted_batch
from tests.support.waiting import wait_until

LISTENERS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
}


def shown(node: Node) -> str:
    return ssl.get_server_certificate(("127.0.0.1", node.ports["SSL"]), timeout=20).strip()


def first_certificate(file: Path) -> str:
    return ssl.DER_cert_to_PEM_cert(
        x509.load_pem_x509_certificates(file.read_bytes())[0].public_bytes(Encoding.DER)
    ).strip()


def alter(node: Node, **changes: str) -> None:
    entries = [
        ConfigEntry(f"listener.name.ssl.{key.replace('_', '.')}", value, incremental_operation=AlterConfigOpType.SET)
        for key, value in changes.items()
    ]
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{node.ports['PLAINTEXT']}"})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(20)


def test_a_key_store_is_exchanged_while_the_node_runs(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for directory in (old, new):
        make_certificates(directory, ["localhost", "127.0.0.1"], [], password="changeit", days=2)
    stores = {"ssl.keystore.location": str(old / "server.p12"), "ssl.keystore.password": "changeit"}
    with Node(LISTENERS | stores) as node:
        assert shown(node) == first_certificate(old / "server.pem")
        with connection(node, old / "ca.pem") as before:
            alter(
                node,
                ssl_keystore_location=str(new / "server.jks"),
                ssl_keystore_password="changeit",
                ssl_key_password="changeit",
            )
            limit = time.monotonic() + 30
            while shown(node) != first_certificate(new / "server.pem"):
                assert time.monotonic() < limit
            assert not before.closed  # who is connected stays
        with pytest.raises(AuthenticationFailed):
            connection(node, old / "ca.pem")
        connection(node, new / "ca.pem").close()
        with pytest.raises(KafkaException, match="which cannot be read"):
            alter(node, ssl_keystore_location=str(tmp_path / "nowhere.jks"))
        with pytest.raises(KafkaException, match="INVALID_REQUEST"):
            alter(node, ssl_keystore_password="wrong")
        assert shown(node) == first_certificate(new / "server.pem")  # what cannot be read changes nothing


def test_a_new_certificate_keeps_the_names_of_the_old_one_unless_others_are_allowed(tmp_path: Path) -> None:
    """As in Apache Kafka: clients would no longer find the host that they asked for."""
    old, more, other = (tmp_path / name for name in ("old", "more", "other"))
    for directory, hosts in ((old, ["localhost"]), (more, ["localhost", "127.0.0.1"]), (other, ["elsewhere"])):
        make_certificates(directory, hosts, [], password="changeit", days=2)
    stores = {"ssl.keystore.location": str(old / "server.p12"), "ssl.keystore.password": "changeit"}
    with Node(LISTENERS | stores) as node:
        with pytest.raises(KafkaException, match=r"do(es)? not match"):
            alter(node, ssl_keystore_location=str(other / "server.p12"), ssl_keystore_password="changeit")
        assert shown(node) == first_certificate(old / "server.pem")
        alter(node, ssl_keystore_location=str(more / "server.p12"), ssl_keystore_password="changeit")
        wait_until(lambda: shown(node) == first_certificate(more / "server.pem"), limit_s=20)
    allowed = {"ssl.allow.dn.changes": "true", "ssl.allow.san.changes": "true"}
    with Node(LISTENERS | stores | allowed) as node:
        alter(node, ssl_keystore_location=str(other / "server.p12"), ssl_keystore_password="changeit")
        wait_until(lambda: shown(node) == first_certificate(other / "server.pem"), limit_s=20)


def connection(node: Node, authority: Path, host: str = "127.0.0.1") -> Connection:
    properties = {
        "bootstrap.servers": f"{host}:{node.ports['SSL']}",
        "security.protocol": "SSL",
        "ssl.truststore.location": str(authority),
        "ssl.truststore.type": "PEM",
    }
    return Connection((host, node.ports["SSL"]), ClientSettings.from_properties(properties))


def test_an_encrypted_key_in_the_settings_and_a_name_without_alternatives(tmp_path: Path) -> None:
    """A certificate with nothing but a common name, as the courses make them, is that host's."""
    key = generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC) - timedelta(minutes=1)
    signed = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1))
    certificate = signed.sign(key, SHA256()).public_bytes(Encoding.PEM).decode()
    (tmp_path / "ca.pem").write_text(certificate)
    encrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"key-secret")).decode()
    pem = {
        "listener.name.ssl.ssl.keystore.type": "PEM",
        "listener.name.ssl.ssl.keystore.key": encrypted.replace("\n", " "),
        "listener.name.ssl.ssl.keystore.certificate.chain": certificate.replace("\n", " "),
        "listener.name.ssl.ssl.key.password": "key-secret",
    }
    listeners = {"listeners": LISTENERS["listeners"].replace("SSL://127.0.0.1", "SSL://localhost")}
    with Node(LISTENERS | listeners | pem) as node:
        connection(node, tmp_path / "ca.pem", "localhost").close()
        with pytest.raises(AuthenticationFailed, match="is not trusted"):
            connection(node, tmp_path / "ca.pem", "127.0.0.1")


@pytest.mark.parametrize("takes_leave", [True, False], ids=["with close_notify", "without"])
def test_what_a_client_without_acks_sent_before_it_closed_is_kept(tmp_path: Path, takes_leave: bool) -> None:
    """Such a client never hears of a record that was dropped."""
    frames = 3000
    make_certificates(tmp_path, ["localhost", "127.0.0.1"], [], password="changeit", days=2)
    stores = {"ssl.keystore.location": str(tmp_path / "server.p12"), "ssl.keystore.password": "changeit"}
    batch = crafted_batch([(None, b"x" * 100)])
    topic = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch)])
    produce = request_frame(ProduceRequest(acks=0, timeout_ms=1000, topic_data=[topic]), 9, 1, "raw")
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    with Node(LISTENERS | stores) as node:
        node.create_topic("t")
        for _ in range(5):
            plain = socket.create_connection(("127.0.0.1", node.ports["SSL"]), timeout=20)
            with context.wrap_socket(plain, server_hostname="localhost") as tls:
                tls.sendall(produce * frames)
                if takes_leave:
                    tls.unwrap().close()
                else:
                    tls.shutdown(socket.SHUT_WR)
                    with suppress(ConnectionError):
                        while tls.recv(65536):
                            pass
        consumer = Consumer({"bootstrap.servers": f"127.0.0.1:{node.ports['PLAINTEXT']}", "group.id": "g"})
        written = TopicPartition("t", 0)
        try:
            wait_until(lambda: consumer.get_watermark_offsets(written, timeout=20)[1] == 5 * frames, limit_s=20)
        finally:
            consumer.close()
        assert "eof_received" not in node.log()
