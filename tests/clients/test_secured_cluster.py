"""Three nodes whose listeners are all secured: clients, brokers among each other, and the quorum use TLS and log in."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from barnabas.client.certificates import make_certificates
from barnabas.client.connection import Connection
from barnabas.client.errors import ClientError
from barnabas.client.exchange import request_frame
from barnabas.client.settings import ClientSettings
from barnabas.testing import Cluster
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.wire.records.principal import DefaultPrincipalData

PASSWORDS = {"node": "node-secret", "anna": "anna-secret"}
CLUSTER_AUTHORIZATION_FAILED = 31


def login(user: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'a.b.PlainLoginModule required username="{user}" password="{PASSWORDS[user]}";',
    }


class SecuredCluster(Cluster):
    def __init__(self, certificates: Path) -> None:
        users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
        jaas = f'a.b.PlainLoginModule required username="node" password="node-secret" {users};'
        self.tls = {"ssl.truststore.location": str(certificates / "ca.pem"), "ssl.truststore.type": "PEM"}
        config = {
            "listener.security.protocol.map": "PLAINTEXT:SASL_SSL,CONTROLLER:SASL_SSL",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.plaintext.plain.sasl.jaas.config": jaas,
            "listener.name.controller.plain.sasl.jaas.config": jaas,
            "ssl.keystore.location": str(certificates / "server.p12"),
            "ssl.keystore.password": "changeit",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:node",
            "group.initial.rebalance.delay.ms": "0",
        }
        super().__init__(3, config=config | self.tls)

    def settings(self, user: str, address: tuple[str, int]) -> ClientSettings:
        properties = {"bootstrap.servers": f"{address[0]}:{address[1]}"} | login(user) | self.tls
        return ClientSettings.from_properties(properties)

    def _connection(self, address: tuple[str, int], user: str = "node") -> Connection:
        return Connection(address, self.settings(user, address))

    def controller_as(self, user: str) -> Connection:
        return self._connection(("127.0.0.1", self._port(self.controller_id(), "CONTROLLER")), user)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certificates")
    make_certificates(directory, ["localhost", "127.0.0.1"], [], password="changeit", days=2)
    return directory


@pytest.fixture(scope="module")
def cluster(certificates: Path) -> Iterator[SecuredCluster]:
    with SecuredCluster(certificates) as running:
        yield running


def confluent(cluster: SecuredCluster, user: str, certificates: Path) -> dict[str, Any]:
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": PASSWORDS[user],
        "ssl.ca.location": str(certificates / "ca.pem"),
    }


def test_records_are_replicated_and_survive_a_broker(cluster: SecuredCluster, certificates: Path) -> None:
    cluster.create_topic("orders", partitions=3, replication_factor=3, config={"min.insync.replicas": 2})
    errors: list[Any] = []
    producer = Producer(confluent(cluster, "node", certificates) | {"acks": "all"})
    for number in range(30):
        producer.produce("orders", b"%d" % number, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert errors == [None] * 30
    victim = next(each for each in cluster.broker_ids if each != cluster.controller_id())
    cluster.stop(victim)
    for number in range(30):
        producer.produce("orders", b"%d" % number, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert errors == [None] * 60
    cluster.start(victim)
    request = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
    limit = time.monotonic() + 60
    while True:
        with cluster.connect() as connection:
            (topic,) = connection.request(request).topics
        if all(len(each.isr_nodes) == 3 for each in topic.partitions):
            return
        assert time.monotonic() < limit, "the broker did not catch up"
        time.sleep(0.2)


def test_a_client_without_rights_is_refused_by_every_broker(cluster: SecuredCluster, certificates: Path) -> None:
    """Those that do not lead the quorum forward the request with the client's own principal."""
    new = CreatableTopic(name="hers", num_partitions=1, replication_factor=1)
    for broker_id in cluster.broker_ids:
        address = ("127.0.0.1", cluster._port(broker_id, "PLAINTEXT"))
        with Connection(address, cluster.settings("anna", address)) as connection:
            (answer,) = connection.request(CreateTopicsRequest(topics=[new], timeout_ms=15_000)).topics
        assert answer.error_code == 29
    with pytest.raises(KafkaException):
        AdminClient(confluent(cluster, "anna", certificates) | {"sasl.password": "wrong"}).list_topics(timeout=3)


def test_an_ordinary_client_cannot_speak_in_the_name_of_others(cluster: SecuredCluster) -> None:
    """An envelope with a forged principal is for those only who may act for the cluster."""
    new = CreatableTopic(name="forged", num_partitions=1, replication_factor=1)
    inner = request_frame(CreateTopicsRequest(topics=[new], timeout_ms=15_000), 7, 1, "forger")[4:]
    principal = b"\0\0" + bytes(DefaultPrincipalData(type="User", name="node").encode(0))
    envelope = EnvelopeRequest(
        request_data=bytes(inner), request_principal=principal, client_host_address=bytes([127, 0, 0, 1])
    )
    with cluster.controller_as("anna") as connection:
        answer: EnvelopeResponse = connection.request(envelope)
    assert answer.error_code == CLUSTER_AUTHORIZATION_FAILED
    with cluster.controller_as("node") as connection:
        assert connection.request(envelope).error_code == 0


def test_nobody_reaches_the_quorum_without_tls_and_a_login(cluster: SecuredCluster) -> None:
    address = ("127.0.0.1", cluster._port(1, "CONTROLLER"))
    with pytest.raises(ClientError):
        Connection(address, ClientSettings(bootstrap_servers=(address,), request_timeout_ms=3_000))
