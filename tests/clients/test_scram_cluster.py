"""Nodes that log in at each other by SCRAM: the credentials are those that `kafka-storage format --add-scram` made."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.client.certificates import make_certificates
from barnabas.client.connection import Connection
from barnabas.client.settings import ClientSettings
from barnabas.testing import Cluster

MECHANISM = "SCRAM-SHA-512"


class ScramCluster(Cluster):
    """One controller and two brokers. Nobody knows a password that is not in the metadata."""

    def __init__(self, root: Path) -> None:
        self.tls = {"ssl.truststore.location": str(root / "ca.pem"), "ssl.truststore.type": "PEM"}
        module = 'a.b.ScramLoginModule required username="node" password="node-secret";'
        config = {
            "listener.security.protocol.map": "PLAINTEXT:SASL_SSL,CONTROLLER:SASL_SSL",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": MECHANISM,
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            "sasl.mechanism.controller.protocol": MECHANISM,
            f"listener.name.plaintext.{MECHANISM.lower()}.sasl.jaas.config": module,
            f"listener.name.controller.{MECHANISM.lower()}.sasl.jaas.config": module,
            "ssl.keystore.location": str(root / "server.p12"),
            "ssl.keystore.password": "changeit",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:node",
            "group.initial.rebalance.delay.ms": "0",
        }
        super().__init__(2, controllers=1, config=config | self.tls, data_dir=root / "data")
        self.root = root
        self.format_controller()

    def format_controller(self) -> None:
        directory = self.root / "data" / "1"
        file = self.root / "controller.properties"
        lines = self._properties(1) | {"log.dirs": str(directory)}
        file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        command = [sys.executable, "-m", "barnabas", "storage", "format", "-t", self.cluster_id, "-c", str(file)]
        command += ["--add-scram", f"{MECHANISM}=[name=node,password=node-secret]"]
        subprocess.run(command, check=True, capture_output=True, timeout=60)

    def _connection(self, address: tuple[str, int]) -> Connection:
        login = {
            "bootstrap.servers": f"{address[0]}:{address[1]}",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": 'a.b.ScramLoginModule required username="node" password="node-secret";',
        }
        return Connection(address, ClientSettings.from_properties(login | self.tls))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScramCluster]:
    root = tmp_path_factory.mktemp("scram")
    make_certificates(root, ["localhost", "127.0.0.1"], [], password="changeit", days=2)
    with ScramCluster(root) as running:
        yield running


def test_brokers_register_replicate_and_coordinate_by_scram(cluster: ScramCluster) -> None:
    cluster.create_topic("orders", partitions=2, replication_factor=2, config={"min.insync.replicas": 2})
    login: dict[str, Any] = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": MECHANISM,
        "sasl.username": "node",
        "sasl.password": "node-secret",
        "ssl.ca.location": str(cluster.root / "ca.pem"),
    }
    errors: list[Any] = []
    producer = Producer(login | {"acks": "all"})
    for number in range(20):
        producer.produce("orders", b"%d" % number, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert errors == [None] * 20
    consumer = Consumer(login | {"group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    found: set[int] = set()
    for _ in range(60):
        found |= {int(each.value() or b"") for each in consumer.consume(20, 1.0) if each.error() is None}
        if len(found) == 20:
            break
    consumer.close()
    assert found == set(range(20))
