"""Real consumers of the consumer protocol (KIP-848): they come, go, match expressions, migrate, and survive us."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupType, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.testing import Node
from tests.support import reference
from tests.support.waiting import wait_until

PARTITIONS = 4
WAIT_S = 60
CONFIG = {
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.session.timeout.ms": 3000,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.assignment.interval.ms": 0,
    "group.initial.rebalance.delay.ms": 0,
}


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(CONFIG) as started:
        yield started


class Crew:
    """Consumers of one group that are polled in turn; what they have read is noted."""

    def __init__(self, servers: str, group: str) -> None:
        self.servers = servers
        self.group = group
        self.read: set[tuple[str, int, int]] = set()
        self.consumers: list[Consumer] = []

    def hire(self, *topics: str, protocol: str = "consumer", **config: Any) -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": self.group,
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
                **{key.replace("_", "."): value for key, value in config.items()},
            }
        )
        consumer.subscribe(list(topics))
        self.consumers.append(consumer)
        return consumer

    def poll(self) -> None:
        for consumer in self.consumers:
            message = consumer.poll(0.05)
            if message is not None and message.error() is None:
                self.read.add((message.topic(), message.partition(), message.offset()))

    def until(self, condition: Callable[[], object]) -> None:
        def holds() -> object:
            self.poll()
            return condition()

        wait_until(holds, limit_s=WAIT_S)

    def sizes(self) -> list[int]:
        return [len(consumer.assignment()) for consumer in self.consumers]

    def dismiss(self, consumer: Consumer) -> None:
        self.consumers.remove(consumer)
        consumer.close()

    def close(self) -> None:
        for consumer in list(self.consumers):
            self.dismiss(consumer)


def create(node: Node, topic: str, count: int = 40) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(WAIT_S)
    produce(node, topic, count)


def produce(node: Node, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
    for number in range(count):
        producer.produce(topic, b"value-%d" % number, partition=number % PARTITIONS)
    assert producer.flush(WAIT_S) == 0


def described(node: Node, group: str) -> Any:
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
    return admin.describe_consumer_groups([group])[group].result(WAIT_S)


def test_consumers_share_a_topic_and_take_over(node: Node) -> None:
    create(node, "shared")
    crew = Crew(node.bootstrap_servers, "sharing")
    first = crew.hire("shared")
    crew.until(lambda: len(crew.read) == 40)
    first.commit(asynchronous=False)
    crew.hire("shared", group_instance_id="two")
    crew.until(lambda: crew.sizes() == [2, 2])
    group = described(node, "sharing")
    assert (group.type, group.partition_assignor) == (ConsumerGroupType.CONSUMER, "uniform")
    crew.until(lambda: described(node, "sharing").state is ConsumerGroupState.STABLE)
    assert sorted(member.group_instance_id or "" for member in group.members) == ["", "two"]
    crew.dismiss(first)
    crew.until(lambda: crew.sizes() == [4])
    produce(node, "shared", 8)
    crew.until(lambda: len(crew.read) == 48)
    crew.close()


def test_an_expression_follows_topics_that_come(node: Node) -> None:
    create(node, "logs-a", 4)
    crew = Crew(node.bootstrap_servers, "matching")
    crew.hire("^logs-.*", topic_metadata_refresh_interval_ms=500)
    crew.until(lambda: crew.sizes() == [4])
    crew.until(lambda: len(crew.read) == 4)
    crew.close()


def test_a_group_migrates_while_it_reads_and_comes_back(node: Node) -> None:
    create(node, "moving")
    crew = Crew(node.bootstrap_servers, "migrating")
    old = [crew.hire("moving", protocol="classic", session_timeout_ms=6000) for _ in range(2)]
    crew.until(lambda: crew.sizes() == [2, 2] and len(crew.read) == 40)
    new = crew.hire("moving")
    crew.until(lambda: sum(crew.sizes()) == 4 and crew.sizes()[2] > 0)
    assert described(node, "migrating").type is ConsumerGroupType.CONSUMER
    crew.dismiss(old[0])
    produce(node, "moving", 40)
    crew.until(lambda: sum(crew.sizes()) == 4 and len(crew.read) == 80)
    crew.dismiss(new)
    crew.until(lambda: crew.sizes() == [4])
    assert described(node, "migrating").type is ConsumerGroupType.CLASSIC
    produce(node, "moving", 40)
    crew.until(lambda: len(crew.read) == 120)
    crew.close()


class Copier:
    """Copies what its consumer is assigned, in transactions that carry its member epoch."""

    def __init__(self, node: Node, crew: Crew, name: str) -> None:
        self._crew = crew
        self.consumer = self._hire()
        self._producer = Producer(
            {"bootstrap.servers": node.bootstrap_servers, "transactional.id": name, "linger.ms": 0, "log_level": 0}
        )
        self._producer.init_transactions(WAIT_S)
        self.copied = 0

    def _hire(self) -> Consumer:
        return self._crew.hire("input", isolation_level="read_committed")

    def step(self) -> None:
        messages = [each for each in self.consumer.consume(7, timeout=0.1) if each.error() is None]
        if not messages:
            return
        ends = {message.partition(): message.offset() + 1 for message in messages}
        offsets = [TopicPartition("input", partition, offset) for partition, offset in ends.items()]
        self._producer.begin_transaction()
        try:
            for message in messages:
                self._producer.produce("output", message.value())
            self._producer.send_offsets_to_transaction(offsets, self.consumer.consumer_group_metadata(), WAIT_S)
            self._producer.commit_transaction(WAIT_S)
            self.copied += len(messages)
        except KafkaException as failure:
            # The member was in another epoch meanwhile: it comes back and begins with what is committed.
            if not failure.args[0].txn_requires_abort():
                raise
            self._producer.abort_transaction(WAIT_S)
            self._crew.dismiss(self.consumer)
            self.consumer = self._hire()


def test_a_topic_is_copied_exactly_once_while_members_come_and_go(node: Node) -> None:
    create(node, "input", 200)
    create(node, "output", 0)
    crew = Crew(node.bootstrap_servers, "copying")
    copiers = [Copier(node, crew, "first")]

    def copies(count: int) -> bool:
        for copier in copiers:
            copier.step()
        return sum(copier.copied for copier in copiers) >= count

    wait_until(lambda: copies(50), limit_s=WAIT_S)
    copiers.append(Copier(node, crew, "second"))
    wait_until(lambda: copies(60) and copiers[1].copied > 0, limit_s=WAIT_S)
    crew.dismiss(copiers[0].consumer)
    gone = copiers.pop(0).copied
    wait_until(lambda: copies(200 - gone), limit_s=WAIT_S)
    judge = Crew(node.bootstrap_servers, "judging")
    reader = judge.hire("output", isolation_level="read_committed")
    found: list[bytes] = []

    def has_all() -> bool:
        found.extend(each.value() for each in reader.consume(500, timeout=0.2) if each.error() is None)
        return len(found) >= 200

    wait_until(has_all, limit_s=WAIT_S)
    assert sorted(found) == sorted(b"value-%d" % number for number in range(200))
    judge.close()
    crew.close()


def test_members_and_offsets_survive_a_kill_of_the_node() -> None:
    with Node(CONFIG) as node:
        create(node, "kept")
        crew = Crew(node.bootstrap_servers, "surviving")
        first = crew.hire("kept")
        crew.hire("kept")
        crew.until(lambda: crew.sizes() == [2, 2] and len(crew.read) == 40)
        for consumer in crew.consumers:
            consumer.commit(asynchronous=False)
        node.kill()
        node.restart()
        crew.until(lambda: described(node, "surviving").state is ConsumerGroupState.STABLE)
        crew.until(lambda: sum(crew.sizes()) == 4)
        produce(node, "kept", 8)
        crew.until(lambda: len(crew.read) == 48)
        committed = first.committed([TopicPartition("kept", index) for index in range(PARTITIONS)], timeout=WAIT_S)
        assert [each.offset for each in committed] == [10] * PARTITIONS
        crew.close()


@pytest.mark.skipif(bool(reference.available()), reason="the reference is not available")
def test_kafkas_own_consumer_and_tools(node: Node) -> None:
    create(node, "java")
    arguments = ["--bootstrap-server", node.bootstrap_servers]
    read = reference.run_tool(
        "kafka-console-consumer",
        *arguments,
        *("--topic", "java", "--group", "java-group", "--from-beginning", "--max-messages", "40"),
        *("--command-property", "group.protocol=consumer"),
    )
    assert len(read.stdout.split()) == 40, read
    listed = reference.run_tool("kafka-groups", *arguments, "--list").stdout
    assert ["java-group", "Consumer", "consumer"] in [line.split() for line in listed.splitlines()]
    shown = reference.run_tool("kafka-consumer-groups", *arguments, "--describe", "--group", "java-group").stdout
    rows = [line.split() for line in shown.splitlines() if line.startswith("java-group")]
    assert sorted(row[2] for row in rows) == ["0", "1", "2", "3"]
    assert all(row[5] == "0" for row in rows), shown
