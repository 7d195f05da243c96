"""Groups of real consumers that come, go and crash while a producer runs: nothing skipped, commits never go back."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import CommitFailedError
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import RebalanceInProgressError

from barnabas.testing import Node
from tests.support import reference
from tests.support.waiting import wait_until

from .test_kafkajs import modules

__all__ = ["modules"]

# The soak target has eight consumers at once.
WORKERS = int(os.environ.get("BARNABAS_CONSUMERS", "4"))
PARTITIONS = 4
CREW_PARTITIONS = max(PARTITIONS, WORKERS)  # work for everybody
WAIT_S = 60


def fill(servers: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    for number in range(count):
        producer.produce(topic, b"value-%d" % number, partition=number % PARTITIONS)
    assert producer.flush(WAIT_S) == 0


def create(servers: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(WAIT_S)


class Order:
    """What consumers have read: each goes up in a partition, one by one, as long as it keeps it. One that gets it again
    may begin anew where the last commit was, but never behind what nobody has read."""

    def __init__(self) -> None:
        self.seen: set[tuple[int, int]] = set()
        self._reached: dict[tuple[str, int], int] = {}

    def read(self, consumer: str, partition: int, offset: int) -> None:
        last = self._reached.get((consumer, partition))
        if last is None or offset != last + 1:
            assert offset == 0 or (partition, offset - 1) in self.seen, f"{consumer} skips to {offset} in {partition}"
        self._reached[consumer, partition] = offset
        self.seen.add((partition, offset))


class Crew:
    """Workers, their notes, and a producer that runs beside them."""

    def __init__(self, node: Node, directory: Path, topic: str, strategy: str) -> None:
        self.node = node
        self.topic = topic
        self._directory = directory
        self._strategy = strategy
        self.workers: list[subprocess.Popen[bytes]] = []
        self.produced = [0] * CREW_PARTITIONS
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._produce)

    def __enter__(self) -> Crew:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_producing()
        for worker in self.workers:
            worker.kill()
            worker.wait()

    def _produce(self) -> None:
        producer = Producer(
            {"bootstrap.servers": self.node.bootstrap_servers, "enable.idempotence": True, "log_level": 0}
        )
        number = 0
        while not self._stop.wait(0.002):
            partition = number % CREW_PARTITIONS
            producer.produce(self.topic, b"%d" % number, partition=partition)
            producer.poll(0)
            self.produced[partition] += 1
            number += 1
        assert producer.flush(WAIT_S) == 0

    def stop_producing(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def hire(self, *instance: str) -> subprocess.Popen[bytes]:
        path = self._directory / f"worker-{len(self.workers)}.txt"
        arguments = [self.node.bootstrap_servers, self.topic, "crew", str(path), self._strategy, *instance]
        worker = subprocess.Popen([sys.executable, str(Path(__file__).with_name("group_worker.py")), *arguments])
        self.workers.append(worker)
        return worker

    def notes(self) -> list[list[tuple[int, int, int]]]:
        """Partition, offset, and which assignment of the partition to this worker it was, of each record that a worker
        has processed, in its order; a line cut off by a kill is left out."""
        found = []
        for path in sorted(self._directory.glob("worker-*.txt")):
            lines = path.read_text().splitlines(keepends=True)
            split = [line.split() for line in lines if line.endswith("\n")]
            found.append([(int(parts[0]), int(parts[1]), int(parts[2])) for parts in split])
        return found

    def processed(self) -> set[tuple[int, int]]:
        return {(partition, offset) for notes in self.notes() for partition, offset, _ in notes}

    def assert_order_kept(self) -> None:
        """Within an assignment a worker goes up in its partition one by one."""
        for worker, notes in enumerate(self.notes()):
            reached: dict[tuple[int, int], int] = {}
            for partition, offset, assignment in notes:
                at = (partition, assignment)
                if at in reached:
                    assert offset == reached[at] + 1, f"worker {worker}: {offset} after {reached[at]} in {partition}"
                reached[at] = offset

    def works(self, number: int) -> None:
        """Waits until this worker has something to do."""
        path = self._directory / f"worker-{number}.txt"
        before = path.stat().st_size if path.exists() else 0
        wait_until(lambda: path.exists() and path.stat().st_size > before, f"worker {number}")

    def committed(self) -> list[int]:
        admin = AdminClient({"bootstrap.servers": self.node.bootstrap_servers, "log_level": 0})
        partitions = [TopicPartition(self.topic, index) for index in range(CREW_PARTITIONS)]
        (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("crew", partitions)]).values()
        return [each.offset for each in future.result(WAIT_S).topic_partitions]


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_nothing_is_skipped_while_consumers_come_go_and_crash(tmp_path: Path, topic: str, strategy: str) -> None:
    with Node({"group.min.session.timeout.ms": 500}) as node:
        node.create_topic(topic, partitions=CREW_PARTITIONS)
        with Crew(node, tmp_path, topic, strategy) as crew:
            crew.hire()
            crew.works(0)
            seen = [crew.committed()]
            for number in range(1, WORKERS):
                crew.hire()
                crew.works(number)
                seen.append(crew.committed())
            for number in range(WORKERS):
                crew.works(number)  # all at once
            crew.workers[0].kill()
            crew.hire()
            crew.works(WORKERS)
            seen.append(crew.committed())
            crew.workers[2].send_signal(signal.SIGSTOP)
            time.sleep(2)  # past its session time-out
            crew.works(WORKERS)
            crew.workers[2].send_signal(signal.SIGCONT)
            crew.works(2)
            seen.append(crew.committed())
            node.kill()
            node.start()
            crew.works(WORKERS)
            seen.append(crew.committed())
            crew.workers[1].send_signal(signal.SIGTERM)
            assert crew.workers[1].wait(WAIT_S) == 0
            crew.works(2)
            node.restart()
            crew.works(2)
            crew.stop_producing()
            everything = {(index, offset) for index in range(CREW_PARTITIONS) for offset in range(crew.produced[index])}
            wait_until(lambda: crew.processed() >= everything, "every record")
            wait_until(lambda: crew.committed() == crew.produced, "the last commits")
            seen.append(crew.committed())
            assert crew.processed() == everything
            crew.assert_order_kept()
    for earlier, later in itertools.pairwise(seen):
        assert all(a <= b for a, b in zip(earlier, later, strict=True)), seen


def test_a_static_member_comes_back_without_disturbing_the_other(tmp_path: Path, topic: str) -> None:
    with Node({"group.min.session.timeout.ms": 500}) as node:
        node.create_topic(topic, partitions=CREW_PARTITIONS)
        with Crew(node, tmp_path, topic, "range") as crew:
            admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})

            def members() -> dict[str, Any]:
                described = admin.describe_consumer_groups(["crew"])["crew"].result(WAIT_S)
                return {each.group_instance_id: each.assignment.topic_partitions for each in described.members}

            crew.hire("one")
            crew.hire("two")
            wait_until(lambda: set(members()) == {"one", "two"} and all(members().values()), "two members")
            before = members()
            crew.workers[0].kill()
            crew.hire("one")
            crew.works(2)
            assert members() == before


def test_aiokafka_consumers_share_and_take_over(servers: str, topic: str) -> None:
    create(servers, topic)

    async def story() -> None:
        fill_count, order, readers = 400, Order(), set()
        options = {"group_id": topic, "auto_offset_reset": "earliest", "enable_auto_commit": False}
        options |= {"bootstrap_servers": servers, "session_timeout_ms": 6000, "heartbeat_interval_ms": 200}
        first = AIOKafkaConsumer(topic, **options)
        await first.start()
        second = AIOKafkaConsumer(topic, **options)
        await second.start()
        async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
            for number in range(fill_count):
                await producer.send(topic, b"%d" % number, partition=number % PARTITIONS)

        async def consume(consumer: AIOKafkaConsumer, name: str, enough: int) -> None:
            while len(order.seen) < enough:
                for partition, records in (await consumer.getmany(timeout_ms=200)).items():
                    readers.add(name)
                    for record in records:
                        order.read(name, partition.partition, record.offset)
                if consumer.assignment():
                    with contextlib.suppress(CommitFailedError):  # A rebalance is on.
                        await consumer.commit()

        await asyncio.gather(consume(first, "first", fill_count), consume(second, "second", fill_count))
        assert readers == {"first", "second"}
        await second.stop()
        async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
            for number in range(100):
                await producer.send_and_wait(topic, b"%d" % number, partition=number % PARTITIONS)
        await consume(first, "first", fill_count + 100)
        await first.stop()

    asyncio.run(asyncio.wait_for(story(), WAIT_S))


@pytest.mark.parametrize("assignor", [RoundRobinPartitionAssignor, StickyPartitionAssignor])
def test_kafka_python_consumers_share_and_take_over(servers: str, topic: str, assignor: Any) -> None:
    create(servers, topic)
    fill(servers, topic, 200)

    def consumer() -> KafkaConsumer:
        made = KafkaConsumer(
            bootstrap_servers=servers,
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            partition_assignment_strategy=[assignor],
            heartbeat_interval_ms=200,
        )
        # A leader of kafka-python that does not know the topic yet may assign nothing, and leave it so.
        wait_until(lambda: bool(made.partitions_for_topic(topic)), "what the consumer knows of the topic")
        made.subscribe([topic])
        return made

    order = Order()
    seen = order.seen

    def poll(each: KafkaConsumer) -> None:
        for partition, records in each.poll(timeout_ms=100).items():
            for record in records:
                order.read(str(id(each)), partition.partition, record.offset)

    def commits(each: KafkaConsumer, *others: KafkaConsumer) -> bool:
        """On a busy machine a rebalance may be under way; the members take part in it and it is tried again."""
        try:
            each.commit()
        except RebalanceInProgressError:
            for member in (each, *others):
                poll(member)
            return False
        return True

    first = consumer()
    wait_until(lambda: poll(first) or len(seen) == 200, "the first consumer")  # type: ignore[func-returns-value]
    wait_until(lambda: commits(first), "the first commit")
    second = consumer()
    wait_until(
        lambda: poll(first) or poll(second) or len(second.assignment()) == 2 == len(first.assignment()), "halves"
    )  # type: ignore[func-returns-value]
    fill(servers, topic, 200)
    wait_until(lambda: poll(first) or poll(second) or len(seen) == 400, "both")  # type: ignore[func-returns-value]
    wait_until(lambda: commits(first, second), "a commit of the first")
    wait_until(lambda: commits(second, first), "a commit of the second")
    first.close()
    fill(servers, topic, 200)
    wait_until(lambda: poll(second) or len(seen) == 600, "the second consumer")  # type: ignore[func-returns-value]
    second.close()


def test_commits_survive_a_restart_and_a_kill(own_node: Node, topic: str) -> None:
    own_node.create_topic(topic, partitions=PARTITIONS)
    fill(own_node.bootstrap_servers, topic, 100)
    config = {"bootstrap.servers": own_node.bootstrap_servers, "group.id": "g", "log_level": 0}
    consumer = Consumer(config)
    wanted = [TopicPartition(topic, index, 5 + index, metadata=f"note {index}") for index in range(PARTITIONS)]
    consumer.commit(offsets=wanted, asynchronous=False)
    for stop in (own_node.restart, own_node.kill):
        stop()
        if not own_node.running:
            own_node.start()
        found = consumer.committed([TopicPartition(topic, index) for index in range(PARTITIONS)], timeout=WAIT_S)
        assert [(each.offset, each.metadata) for each in found] == [(5 + n, f"note {n}") for n in range(PARTITIONS)]
    consumer.close()


@pytest.fixture
def java() -> None:
    if reason := reference.available():
        pytest.skip(f"Kafka's tools are not available: {reason}")


def test_the_java_consumer_and_the_groups_tool(java: None, servers: str, topic: str) -> None:
    create(servers, topic)
    fill(servers, topic, 100)

    def tool(name: str, *arguments: str) -> str:
        told = reference.run_tool(name, "--bootstrap-server", servers, *arguments, timeout_s=60)
        assert told.returncode == 0, told.stderr + told.stdout
        return told.stdout

    read = ("--topic", topic, "--group", topic, "--timeout-ms", "20000")
    said = tool("kafka-console-consumer", *read, "--from-beginning", "--max-messages", "100")
    assert sorted(said.split()) == sorted(f"value-{number}" for number in range(100))
    fill(servers, topic, 20)
    described = [line.split() for line in tool("kafka-consumer-groups", "--describe", "--group", topic).splitlines()]
    offsets = sorted((line[2], line[3], line[4], line[5]) for line in described if line[:2] == [topic, topic])
    assert offsets == [(str(index), "25", "30", "5") for index in range(PARTITIONS)]
    assert topic in tool("kafka-consumer-groups", "--list").split()
    reset = ("--reset-offsets", "--group", topic, "--topic", topic, "--to-earliest", "--execute")
    assert tool("kafka-consumer-groups", *reset).count(topic) >= PARTITIONS
    again = tool("kafka-console-consumer", *read, "--max-messages", "120")
    assert len(again.split()) == 120
    tool("kafka-consumer-groups", "--delete", "--group", topic)
    assert topic not in tool("kafka-consumer-groups", "--list").split()


def test_kafkajs_consumers_share_and_take_over(servers: str, topic: str, modules: Path) -> None:
    create(servers, topic)
    told = subprocess.run(
        ["node", str(Path(__file__).with_name("kafkajs_group.js")), servers, topic, f"group-of-{topic}"],
        env=os.environ | {"NODE_PATH": str(modules), "KAFKAJS_NO_PARTITIONER_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout.splitlines()[-1]) == {
        "all": 300,
        "inOrder": True,
        "shared": True,
        "members": 2,
        "state": "Stable",
        "offsets": ["75"] * PARTITIONS,
        "listed": True,
        "left": False,
    }


def test_a_reset_leaves_no_group_behind(own_node: Node, topic: str) -> None:
    config = {"bootstrap.servers": own_node.bootstrap_servers, "group.id": "g", "log_level": 0}
    for _ in range(2):
        own_node.create_topic(topic, partitions=PARTITIONS)
        fill(own_node.bootstrap_servers, topic, 8)
        consumer = Consumer(config | {"auto.offset.reset": "earliest", "enable.auto.commit": False})
        consumer.subscribe([topic])
        assert len(consumer.consume(8, WAIT_S)) == 8
        consumer.commit(asynchronous=False)
        own_node.reset()
        admin = AdminClient({"bootstrap.servers": own_node.bootstrap_servers, "log_level": 0})
        assert admin.list_consumer_groups().result(WAIT_S).valid == []
        consumer.close()
