"""Logins by Kerberos with a real key distribution centre: kafka-python, Java's tools, our own client and a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import kafka
import pytest

from barnabas.client.cluster import Cluster
from barnabas.client.errors import AuthenticationFailed
from barnabas.client.kerberos import GssapiExchange, KerberosLogin
from barnabas.client.settings import ClientSettings
from barnabas.testing import Node
from barnabas.testing.process import StartFailed
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.support import kdc, reference
from tests.support.kdc import REALM, Kdc
from tests.support.raw import RawClient

MODULE = "com.sun.security.auth.module.Krb5LoginModule"
OURS = CreatableTopic(name="ours", num_partitions=1, replication_factor=1)
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    if reason := kdc.available():
        pytest.skip(f"Kerberos cannot be tested here: {reason}")
    with Kdc(tmp_path_factory.mktemp("kdc")) as centre, pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRB5_CONFIG", str(centre.configuration))
        patch.setenv("KRB5RCACHEDIR", str(centre.directory))
        patch.setenv("KRB5CCNAME", f"FILE:{centre.directory}/nobody.cache")
        yield centre


def shown(node: Node) -> str:
    """The node's log."""
    return (node.data_dir.parent / "log").read_text()


@pytest.fixture(scope="module")
def service(realm: Kdc) -> Path:
    return realm.key_table("kafka/localhost")


@pytest.fixture(scope="module")
def anna(realm: Kdc) -> Path:
    return realm.key_table("anna")


@pytest.fixture(scope="module")
def node(realm: Kdc, service: Path) -> Iterator[Node]:
    """Brokers and controllers log in by Kerberos as well: there is no other listener."""
    login = f'{MODULE} required useKeyTab=true storeKey=true keyTab="{service}" principal="kafka/localhost@{REALM}";'
    with Node(node_settings(login)) as node:
        yield node


def node_settings(login: str) -> dict[str, str]:
    return {
        "listeners": "SASL_PLAINTEXT://localhost:0,CONTROLLER://localhost:0",
        "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": login,
        "listener.name.controller.gssapi.sasl.jaas.config": login,
        "sasl.kerberos.principal.to.local.rules": r"RULE:[2:$1.$2](.*\.localhost)s/kafka/node/,DEFAULT",
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:anna;User:node.localhost",
    }


def settings(node: Node, login: str, host: str = "localhost") -> ClientSettings:
    return ClientSettings.from_properties(
        {
            "bootstrap.servers": f"{host}:{node.ports['SASL_PLAINTEXT']}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "sasl.jaas.config": login,
        }
    )


def by_key_table(name: str, key_table: Path) -> str:
    return f'{MODULE} required useKeyTab=true storeKey=true keyTab="{key_table}" principal="{name}@{REALM}";'


def test_our_client_logs_in_by_a_key_table_and_by_the_tickets_of_kinit(node: Node, realm: Kdc, anna: Path) -> None:
    with Cluster(settings(node, by_key_table("anna", anna))) as cluster:
        created = cluster.ask_controller(CreateTopicsRequest(topics=[OURS]))
        assert [topic.error_code for topic in created.topics] == [0]
    cache = realm.ticket_cache("anna", anna)
    login = f'{MODULE} required useTicketCache=true ticketCache="{cache}";'
    with Cluster(settings(node, login)) as cluster:
        topics = cluster.ask(MetadataRequest(topics=None)).topics
        assert "ours" in {topic.name for topic in topics}


def test_kafka_python_writes_and_reads_what_it_wrote(node: Node, realm: Kdc, anna: Path) -> None:
    cache = realm.ticket_cache("anna", anna)
    login = {
        "bootstrap_servers": f"localhost:{node.ports['SASL_PLAINTEXT']}",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": "kafka",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRB5CCNAME", f"FILE:{cache}")
        producer = kafka.KafkaProducer(**login)
        written = producer.send("python", b"written by anna").get(30)
        producer.close()
        consumer = kafka.KafkaConsumer(**login, auto_offset_reset="earliest", consumer_timeout_ms=30_000)
        consumer.assign([kafka.TopicPartition("python", 0)])
        record = next(consumer)
        consumer.close()
    assert (record.offset, record.value) == (written.offset, b"written by anna")


def test_the_tools_of_java_log_in_and_an_unknown_right_is_denied(node: Node, realm: Kdc, tmp_path: Path) -> None:
    if reason := reference.available():
        pytest.skip(f"the reference is not available: {reason}")
    bob = realm.key_table("bob")
    config = tmp_path / "client.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\nsasl.kerberos.service.name=kafka\n"
        f"sasl.jaas.config={by_key_table('bob', bob)}\n"
    )
    server = f"localhost:{node.ports['SASL_PLAINTEXT']}"
    done = reference.run_tool(
        "kafka-topics",
        *("--bootstrap-server", server, "--command-config", config, "--create", "--topic", "of-bob"),
        jvm=(f"-Djava.security.krb5.conf={realm.configuration}",),
    )
    assert "TopicAuthorizationException" in done.stdout + done.stderr
    assert '"event":"denied","principal":"User:bob","host":"127.0.0.1","operation":"CREATE"' in shown(node)


def test_a_client_without_tickets_says_so_and_a_stranger_is_refused(node: Node, realm: Kdc, anna: Path) -> None:
    with pytest.raises(AuthenticationFailed, match=r"Kerberos at the service kafka failed: .*redentials"):
        Cluster(settings(node, f"{MODULE} required useTicketCache=true;")).ask(MetadataRequest(topics=None))
    token = GssapiExchange(KerberosLogin("kafka", f"anna@{REALM}", str(anna)), "localhost").first()
    with RawClient(node.ports["SASL_PLAINTEXT"]) as connection:
        assert connection.ask(SaslHandshakeRequest(mechanism="GSSAPI"), 1).error_code == 0
        forged = token[:-40] + bytes(40)
        refused = connection.ask(SaslAuthenticateRequest(auth_bytes=forged), 2)
    assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "invalid credentials with SASL mechanism GSSAPI" in refused.error_message
    assert "a login by GSSAPI on the listener SASL_PLAINTEXT was refused" in shown(node)


def test_a_node_without_its_key_says_so_and_does_not_start(realm: Kdc, anna: Path, tmp_path: Path) -> None:
    for login, sentence in (
        (f'{MODULE} required useKeyTab=true keyTab="{tmp_path}/none" principal="kafka/localhost";', "does not exist"),
        (
            f'{MODULE} required useKeyTab=true keyTab="{anna}" principal="kafka/localhost@{REALM}";',
            "has no key of kafka",
        ),
    ):
        with pytest.raises(StartFailed, match=sentence), Node(node_settings(login)):
            pass
