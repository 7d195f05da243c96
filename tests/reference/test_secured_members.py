"""Our nodes and Apache Kafka's in one cluster in which every listener is TLS and SASL, and both check rights.

Voters log in at each other by PLAIN (of SCRAM's credentials they know nothing before one leads), brokers by SCRAM with
the credential that `kafka-storage format --add-scram` of either kind has made. Rights and users that one kind of node
takes hold at the other. It takes half a minute: BARNABAS_TEST_SECURED=1 runs it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
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

from barnabas.client.certificates import make_certificates
from barnabas.client.connection import Connection
from barnabas.client.errors import ClientError
from barnabas.client.settings import ClientSettings
from barnabas.testing import Node
from barnabas.wire.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from tests.support import reference
from tests.support.waiting import wait_until

OUR_BROKER, OUR_VOTER, KAFKAS = 1, 2, 3  # 1 and 3 are brokers and voters, 2 is a voter only
BROKERS = (OUR_BROKER, KAFKAS)
SCRAM = "SCRAM-SHA-512"
PASSWORDS = {"node": "node-secret", "anna": "anna-secret"}
TRIES_MAX = 12


class SecuredMembers:
    def __init__(self, root: Path) -> None:
        self.root = root
        self._admins: list[AdminClient] = []
        self.ports = {(each, name): reference.free_port() for each in (1, 2, 3) for name in ("BROKER", "CONTROLLER")}
        make_certificates(root, ["localhost", "127.0.0.1"], [], password="changeit", days=2)
        self.nodes = {
            node_id: Node(
                self._properties(node_id), data_dir=root / str(node_id), cluster_id=reference.CLUSTER_ID, timeout_s=90
            )
            for node_id in (OUR_BROKER, OUR_VOTER)
        }
        self.kafka = reference.ApacheKafka(
            directory=root / "kafka", port=self.ports[KAFKAS, "BROKER"], properties=self._properties(KAFKAS)
        )

    def _properties(self, node_id: int) -> dict[str, str]:
        names = ("BROKER", "CONTROLLER") if node_id in BROKERS else ("CONTROLLER",)
        plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required"
        login = 'username="node" password="node-secret"'
        return {
            "node.id": str(node_id),
            "process.roles": "broker,controller" if node_id in BROKERS else "controller",
            "listeners": ",".join(f"{name}://127.0.0.1:{self.ports[node_id, name]}" for name in names),
            "listener.security.protocol.map": "BROKER:SASL_SSL,CONTROLLER:SASL_SSL",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(
                f"{each}@127.0.0.1:{self.ports[each, 'CONTROLLER']}" for each in (1, 2, 3)
            ),
            **({"inter.broker.listener.name": "BROKER"} if node_id in BROKERS else {}),
            "sasl.mechanism.inter.broker.protocol": SCRAM,
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.broker.sasl.enabled.mechanisms": SCRAM,
            f"listener.name.broker.{SCRAM.lower()}.sasl.jaas.config": f"{scram} {login};",
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": f'{plain} {login} user_node="node-secret";',
            "ssl.keystore.location": str(self.root / "server.p12"),
            "ssl.keystore.password": "changeit",
            "ssl.keystore.type": "PKCS12",
            "ssl.truststore.location": str(self.root / "truststore.p12"),
            "ssl.truststore.password": "changeit",
            "ssl.truststore.type": "PKCS12",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:node",
            "offsets.topic.replication.factor": "2",
            "offsets.topic.num.partitions": "2",
            "group.initial.rebalance.delay.ms": "0",
        }

    def format(self) -> None:
        added = ["--add-scram", f"{SCRAM}=[name=node,password=node-secret]"]
        self.kafka.write_properties()
        words = ["format", "-t", reference.CLUSTER_ID, "-c", str(self.kafka.properties_file), *added]
        reference.run_tool("kafka-storage", *words, check=True)
        for node_id in self.nodes:
            file = self.root / f"{node_id}.properties"
            lines = self._properties(node_id) | {"log.dirs": str(self.root / str(node_id))}
            file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
            command = [sys.executable, "-m", "barnabas", "storage", "format", "-t", reference.CLUSTER_ID]
            subprocess.run([*command, "-c", str(file), *added], check=True, capture_output=True, timeout=60)

    def start(self) -> None:
        self.format()
        self.kafka.launch()
        for node in self.nodes.values():
            node.start()

    def close(self) -> None:
        self.kafka.kill()
        for node in self.nodes.values():
            if node.running:
                node.kill()
            node.close()

    def client(self, user: str, *brokers: int) -> dict[str, Any]:
        return {
            "bootstrap.servers": ",".join(f"127.0.0.1:{self.ports[each, 'BROKER']}" for each in brokers or BROKERS),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": SCRAM,
            "sasl.username": user,
            "sasl.password": PASSWORDS[user],
            "ssl.ca.location": str(self.root / "ca.pem"),
        }

    def admin(self, user: str, *brokers: int) -> AdminClient:
        made = AdminClient(self.client(user, *brokers) | {"log_level": 0})
        self._admins.append(made)  # one that nobody holds gives its futures up
        return made

    def leader(self, other_than: int | None = None) -> int:
        found: list[int] = []

        def leads() -> bool:
            self.require_kafka()
            found[:] = [each for each in self._leaders() if each not in (-1, other_than)]
            return bool(found)

        wait_until(leads, "a voter leads")
        return found[0]

    def _leaders(self) -> Iterator[int]:
        topic = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])
        login = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": 'a.B required username="node" password="node-secret";',
            "ssl.truststore.location": str(self.root / "ca.pem"),
        }
        for node_id in (1, 2, 3):
            address = ("127.0.0.1", self.ports[node_id, "CONTROLLER"])
            settings = ClientSettings.from_properties(login, bootstrap_servers=f"{address[0]}:{address[1]}")
            try:
                with Connection(address, settings) as connection:
                    answer = connection.request(DescribeQuorumRequest(topics=[topic]))
            except ClientError:
                continue
            if answer.topics and not answer.topics[0].partitions[0].error_code:
                yield answer.topics[0].partitions[0].leader_id

    def require_kafka(self) -> None:
        assert self.kafka.running, self.kafka.log_file.read_text()[-4000:]

    def wait_brokers(self, user: str = "node", brokers: Sequence[int] = BROKERS) -> None:
        def seen(by: int) -> bool:
            self.require_kafka()
            try:
                found = self.admin(user, by).list_topics(timeout=5).brokers
            except KafkaException:
                return False
            return sorted(found) == sorted(brokers)

        for each in brokers:
            wait_until(lambda: seen(each), f"broker {each} knows brokers {brokers}", 90)  # noqa: B023


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredMembers]:
    reason = reference.available()
    if reason is not None:
        pytest.skip(reason)
    made = SecuredMembers(tmp_path_factory.mktemp("secured"))
    try:
        made.start()
        made.wait_brokers()
        yield made
    finally:
        made.close()


def create(members: SecuredMembers, topic: str, by: int) -> None:
    new = NewTopic(topic, 2, 2, config={"min.insync.replicas": "2"})
    members.admin("node", by).create_topics([new])[topic].result(60)


def write_and_read(members: SecuredMembers, user: str, topic: str) -> list[str]:
    """Both brokers lead a partition, and each replicates from the other."""
    errors: list[Any] = []
    producer = Producer(members.client(user) | {"acks": "all"})
    for partition in (0, 1):
        producer.produce(
            topic, f"{user} {partition}", partition=partition, on_delivery=lambda error, _: errors.append(error)
        )
    assert producer.flush(60) == 0
    assert errors == [None, None]
    consumer = Consumer(members.client(user) | {"group.id": f"{user}-readers", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[str] = []
    wait_until(
        lambda: (
            found.extend(each.value().decode() for each in consumer.consume(10, 0.5) if each.error() is None)
            or len(found) >= 2
        ),
        f"the records of {topic}",
    )
    consumer.close()
    return sorted(found)


@pytest.mark.skipif(not os.environ.get("BARNABAS_TEST_SECURED"), reason="BARNABAS_TEST_SECURED=1")
@pytest.mark.timeout(300)
def test_all_listeners_are_secured_and_both_kinds_keep_to_the_same_rights(members: SecuredMembers) -> None:
    for each in BROKERS:
        create(members, f"by-{each}", by=each)
        assert write_and_read(members, "node", f"by-{each}") == ["node 0", "node 1"]

    for _ in range(TRIES_MAX):  # until Kafka leads the quorum: our leader steps aside
        leader = members.leader()
        if leader == KAFKAS:
            break
        members.nodes[leader].stop()
        members.leader(other_than=leader)
        members.nodes[leader].start()
    assert members.leader() == KAFKAS
    members.wait_brokers()
    create(members, "hers", by=OUR_BROKER)

    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    wanted = UserScramCredentialUpsertion("anna", info, PASSWORDS["anna"].encode())
    members.admin("node", OUR_BROKER).alter_user_scram_credentials([wanted])["anna"].result(60)
    members.wait_brokers("anna")
    for by in BROKERS:
        with pytest.raises(KafkaException, match=r"(?i)authorization"):
            members.admin("anna", by).create_topics([NewTopic("not-hers", 1, 1)])["not-hers"].result(60)
        assert "hers" not in members.admin("anna", by).list_topics(timeout=10).topics
    rights = [
        (ResourceType.TOPIC, "hers", AclOperation.WRITE),
        (ResourceType.TOPIC, "hers", AclOperation.READ),
        (ResourceType.GROUP, "anna-readers", AclOperation.READ),
    ]
    entries = [
        AclBinding(kind, name, ResourcePatternType.LITERAL, "User:anna", "*", operation, AclPermissionType.ALLOW)
        for kind, name, operation in rights
    ]
    for future in members.admin("node", KAFKAS).create_acls(entries).values():
        future.result(60)
    for by in BROKERS:
        wait_until(lambda: "hers" in members.admin("anna", by).list_topics(timeout=10).topics, "anna sees it")  # noqa: B023
    assert write_and_read(members, "anna", "hers") == ["anna 0", "anna 1"]
    members.require_kafka()
