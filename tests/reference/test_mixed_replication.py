"""Partitions with one replica on our broker and one on Apache Kafka's: either leads, either follows.

What was acknowledged stays, whichever of the two stops or is killed, and in the end both have the same batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from barnabas.client.connection import Connection
from barnabas.client.settings import ClientSettings
from barnabas.testing import Node
from barnabas.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tests.support import reference
from tests.support.replication.watching import Acknowledged, batches, describe, read_all, wait_in_sync, wait_led
from tests.support.waiting import wait_until

CONTROLLER, KAFKAS, OURS = 1, 101, 102
BOTH = [KAFKAS, OURS]
PARTITIONS = 4
LOST = 5


class Mixed:
    """The controller is ours, broker 101 is Kafka's, 102 is ours. It is watched as a `Cluster` is."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.broker_ids = BOTH
        self.ports = {node_id: reference.free_port() for node_id in (CONTROLLER, *BOTH)}
        self.controller = self._node(CONTROLLER)
        self.kafka = reference.ApacheKafka(
            directory=root / "kafka",
            port=self.ports[KAFKAS],
            features=reference.NOT_OURS,
            properties=self._properties(KAFKAS),
        )
        self.nodes: dict[int, Node | reference.ApacheKafka] = {KAFKAS: self.kafka, OURS: self._node(OURS)}

    def _properties(self, node_id: int) -> dict[str, str]:
        is_controller = node_id == CONTROLLER
        return {
            "node.id": str(node_id),
            "process.roles": "controller" if is_controller else "broker",
            "listeners": f"{'CONTROLLER' if is_controller else 'PLAINTEXT'}://127.0.0.1:{self.ports[node_id]}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"{CONTROLLER}@127.0.0.1:{self.ports[CONTROLLER]}",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self.ports[CONTROLLER]}",
            "broker.session.timeout.ms": "6000",
            "broker.heartbeat.interval.ms": "300",
            "auto.leader.rebalance.enable": "false",
            "min.insync.replicas": "1",
        }

    def _node(self, node_id: int) -> Node:
        return Node(
            self._properties(node_id),
            data_dir=self.root / str(node_id),
            cluster_id=reference.CLUSTER_ID,
            timeout_s=90,
        )

    def start(self) -> None:
        self.kafka.format()
        self.kafka.launch()
        self.controller.start()
        self.nodes[OURS].start()
        self.kafka.wait_until_ready()

    def close(self) -> None:
        self.kafka.kill()
        for node in (self.nodes[OURS], self.controller):
            if node.running:
                node.kill()
            node.close()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{self.ports[each]}" for each in BOTH)

    def connect(self, broker_id: int | None = None) -> Connection:
        chosen = broker_id if broker_id is not None else next(each for each in BOTH if self.nodes[each].running)
        address = ("127.0.0.1", self.ports[chosen])
        return Connection(address, ClientSettings(bootstrap_servers=(address,)))

    def create(self, topic: str, partitions: int) -> None:
        """Kafka's broker leads the even partitions, ours the odd ones."""
        replicas = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=BOTH if index % 2 == 0 else BOTH[::-1])
            for index in range(partitions)
        ]
        wanted = CreatableTopic(name=topic, num_partitions=-1, replication_factor=-1, assignments=replicas)
        with self.connect() as connection:
            (created,) = connection.request(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)).topics
        assert created.error_code == 0, created.error_message
        wait_in_sync(self, topic, BOTH)

    def elect_preferred(self, *topics: str) -> None:
        """Each broker leads again where it is the first replica."""
        for topic in topics:
            wait_in_sync(self, topic, BOTH)
            asked = TopicPartitions(topic=topic, partitions=sorted(describe(self, topic)))
            with self.connect() as connection:
                answer = connection.request(ElectLeadersRequest(topic_partitions=[asked], timeout_ms=30_000))
            assert answer.error_code == 0
            wait_until(lambda topic=topic: self._all_preferred(topic), f"the first replicas lead {topic}")

    def _all_preferred(self, topic: str) -> bool:
        return all(each.leader == each.replicas[0] for by in BOTH for each in describe(self, topic, by).values())

    def logs(self, topic: str, partition: int) -> list[dict[int, bytes]]:
        directories = (self.kafka.data_dir, self.root / str(OURS))
        return [batches(directory / f"{topic}-{partition}") for directory in directories]

    def require_equal_logs(self, *topics: str) -> None:
        for topic in topics:
            for partition in describe(self, topic):
                at = (topic, partition)
                wait_until(lambda at=at: self.ends(*at)[0] == self.ends(*at)[1], f"both have {at} to the same end")
                kafkas, ours = self.logs(*at)
                assert kafkas, at
                assert kafkas == ours, at

    def ends(self, topic: str, partition: int) -> list[int]:
        """The first offsets of the last batches."""
        return [max(log, default=-1) for log in self.logs(topic, partition)]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    reason = reference.available()
    if reason is not None:
        pytest.skip(reason)
    mixed = Mixed(tmp_path_factory.mktemp("mixed"))
    try:
        mixed.start()
        yield mixed
    finally:
        mixed.close()


def kill_with_a_tail(mixed: Mixed, victim: int) -> None:
    """Kills the leader of a partition of "tails" right after it acknowledged records that its follower does not have.

    The follower's last fetch may still bring the first of them, since it waits at the leader already.
    """
    partition, other = BOTH.index(victim), next(each for each in BOTH if each != victim)
    assert describe(mixed, "tails")[partition].leader == victim
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{mixed.ports[victim]}", "acks": "1"})

    def produce(value: bytes) -> None:
        producer.produce("tails", value, partition=partition)
        assert producer.flush(60) == 0

    produce(b"before")
    wait_until(lambda: len(set(mixed.ends("tails", partition))) == 1, "it is copied")
    mixed.nodes[other].pause()
    try:
        for index in range(LOST):
            produce(b"tail-%d" % index)
        mixed.nodes[victim].kill()
    finally:
        mixed.nodes[other].resume()


@pytest.mark.timeout(300)
def test_either_stops_is_killed_and_cuts_its_log_when_it_comes_back(mixed: Mixed) -> None:
    mixed.create("records", PARTITIONS)
    mixed.create("tails", 2)
    with Acknowledged(mixed, "records", PARTITIONS) as producer:
        for victim in BOTH:
            producer.goes_on()
            mixed.nodes[victim].stop()
            wait_led(mixed, "records", by_none_of=[victim])
            producer.goes_on()
            mixed.nodes[victim].start()
            mixed.elect_preferred("records", "tails")
            producer.goes_on()
            kill_with_a_tail(mixed, victim)
            for topic in ("records", "tails"):
                wait_led(mixed, topic, by_none_of=[victim])
            producer.goes_on()
            kafkas, ours = mixed.ends("tails", BOTH.index(victim))
            assert (kafkas > ours) == (victim == KAFKAS), "who was killed has records that nobody else has"
            mixed.nodes[victim].start()
            mixed.elect_preferred("records", "tails")
    assert not producer.failed
    assert mixed.kafka.running, mixed.kafka.log()[-4000:]
    # A leader that was just elected may not know yet how far its log is committed, and shows less for a moment.
    wait_until(
        lambda: read_all(mixed, "records", PARTITIONS) == producer.acknowledged,
        "each record is there once, where it was acknowledged",
    )
    wait_until(lambda: list(read_all(mixed, "tails", 2).values()).count(b"before") == 2, "what was copied is there")
    tails = list(read_all(mixed, "tails", 2).values())
    assert b"tail-%d" % (LOST - 1) not in tails
    mixed.require_equal_logs("records", "tails")
