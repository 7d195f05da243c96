"""The registry over TLS and behind passwords, asked by Confluent's client."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from barnabas.client.certificates import make_certificates
from barnabas.testing import Node
from barnabas.testing.registry import Registry
from barnabas.testing.reserved_port import ReservedPort

SCHEMA = Schema('{"type": "string"}', "AVRO")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("secured")
    make_certificates(directory, ["localhost", "127.0.0.1"], [], password="changeit", days=2)
    (directory / "users").write_text("anna: anna-secret,admin\ncarl: carl-secret,read\n")
    return directory


@pytest.fixture(scope="module")
def url(kafka: Node, directory: Path) -> Iterator[str]:
    port = ReservedPort()
    config = {
        "listeners": f"https://127.0.0.1:{port.number}",
        "ssl.keystore.location": directory / "server.p12",
        "ssl.keystore.password": "changeit",
        "authentication.method": "BASIC",
        "authentication.users.file": directory / "users",
        "kafkastore.topic": "_secured_schemas",
        "schema.registry.group.id": "secured",
    }
    try:
        with Registry(kafka.bootstrap_servers, config):
            yield f"https://127.0.0.1:{port.number}"
    finally:
        port.release()


def client(url: str, directory: Path, user: str) -> SchemaRegistryClient:
    return SchemaRegistryClient(
        {"url": url, "ssl.ca.location": str(directory / "ca.pem"), "basic.auth.user.info": user}
    )


def test_who_has_a_password_registers_and_reads(url: str, directory: Path) -> None:
    with client(url, directory, "anna:anna-secret") as writer, client(url, directory, "carl:carl-secret") as reader:
        schema_id = writer.register_schema("a-value", SCHEMA)
        assert reader.get_schema(schema_id).schema_str == '"string"'
        with pytest.raises(SchemaRegistryError) as refused:
            reader.register_schema("b-value", SCHEMA)
        assert refused.value.http_status_code == 403


@pytest.mark.parametrize("path", ["/subjects", "/schemas/ids/1", "/metrics", "/"])
def test_without_a_password_nothing_is_told(url: str, directory: Path, path: str) -> None:
    host = url.removeprefix("https://")
    context = ssl.create_default_context(cafile=str(directory / "ca.pem"))
    connection = http.client.HTTPSConnection(host, timeout=30, context=context)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        assert (answer.status, answer.headers["www-authenticate"]) == (401, 'basic realm=""')
        answer.read()
    finally:
        connection.close()
