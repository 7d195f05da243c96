"""Kafka Streams, Java's own: words counted exactly once (exactly_once_v2), though the node is killed meanwhile, and
by a streams group whose instances come and go."""

import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from barnabas.testing import Node
from barnabas.wire.messages.streams_group_describe import StreamsGroupDescribeRequest
from tests.support import reference_libs
from tests.support.reference_exchange import Connection
from tests.support.waiting import wait_until

PROGRAM = Path(__file__).parents[1] / "reference" / "java" / "WordCount.java"
WORDS = [f"word-{number}" for number in range(20)]
PARTITIONS = 2
LIMIT_S = 60


@pytest.fixture
def command() -> list[str]:
    try:
        options = reference_libs.classpath_options(with_streams=True)
        return [reference_libs.java(), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *options]
    except reference_libs.ReferenceUnavailable as reason:
        pytest.skip(f"Kafka Streams is not available: {reason}")


@contextmanager
def counting(command: list[str], node: Node, directory: Path, protocol: str = "classic") -> Iterator[None]:
    directory.mkdir(exist_ok=True)
    arguments = [str(PROGRAM), node.bootstrap_servers, "lines", "counts", str(directory / "state"), protocol]
    with open(directory / "streams.txt", "wb") as said:
        process = subprocess.Popen([*command, *arguments], stdin=subprocess.PIPE, stdout=said, stderr=said)
        try:
            yield
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(LIMIT_S) == 0
        finally:
            process.kill()
            process.wait()


class Counts:
    """What the output says, as somebody sees it who reads what is committed: each step of each word."""

    def __init__(self, node: Node) -> None:
        settings = {"group.id": "judge", "isolation.level": "read_committed", "log_level": 0}
        self._consumer = Consumer({"bootstrap.servers": node.bootstrap_servers, **settings})
        self._consumer.assign([TopicPartition("counts", index, 0) for index in range(PARTITIONS)])
        self.steps: dict[str, list[int]] = {}

    @property
    def latest(self) -> dict[str, int]:
        return {word: steps[-1] for word, steps in self.steps.items()}

    def read_until(self, condition: Callable[[], bool], said: Path) -> None:
        limit = time.monotonic() + LIMIT_S
        while not condition():
            assert time.monotonic() < limit, f"{self.latest} after {LIMIT_S} s; {said.read_text()[-3000:]}"
            for message in self._consumer.consume(1000, timeout=0.1):
                if message.error() is None:
                    self.steps.setdefault(message.key().decode(), []).append(int(message.value()))

    def close(self) -> None:
        self._consumer.close()


def write(producer: Producer, lines: int, first: int) -> Counter[str]:
    written: Counter[str] = Counter()
    for number in range(first, first + lines):
        words = [WORDS[(number * step) % len(WORDS)] for step in (1, 3, 7)]
        producer.produce("lines", " ".join(words), partition=number % PARTITIONS)
        written.update(words)
    producer.poll(0)
    return written


@pytest.mark.timeout(180)
def test_a_streams_word_count_is_right_across_a_kill_of_the_node(command: list[str], tmp_path: Path) -> None:
    with Node({"group.min.session.timeout.ms": 500}) as node:
        for topic in ("lines", "counts"):
            node.create_topic(topic, partitions=PARTITIONS)
        producer = Producer({"bootstrap.servers": node.bootstrap_servers, "enable.idempotence": True, "log_level": 0})
        counts = Counts(node)
        said = tmp_path / "streams.txt"
        with counting(command, node, tmp_path):
            written = write(producer, 1000, 0)
            counts.read_until(lambda: len(counts.steps) == len(WORDS), said)
            written += write(producer, 2000, 1000)
            assert producer.flush(LIMIT_S) == 0
            node.kill()  # in the middle: what has just been acknowledged is being counted
            node.start()
            written += write(producer, 1000, 3000)
            assert producer.flush(LIMIT_S) == 0
            counts.read_until(lambda: counts.latest == written, said)
        counts.close()
    for word, steps in counts.steps.items():
        assert steps == sorted(set(steps)), f"{word} was counted back or twice: {steps}"


@pytest.mark.timeout(180)
def test_a_streams_group_counts_right_while_a_second_instance_comes_and_goes(
    command: list[str], tmp_path: Path
) -> None:
    """The group protocol is `streams`: the node makes the repartition and changelog topics, and assigns the tasks."""
    settings = {"group.streams.initial.rebalance.delay.ms": 0, "group.streams.min.heartbeat.interval.ms": 200}
    with Node({**settings, "group.streams.heartbeat.interval.ms": 200}) as node:
        for topic in ("lines", "counts"):
            node.create_topic(topic, partitions=PARTITIONS)
        producer = Producer({"bootstrap.servers": node.bootstrap_servers, "enable.idempotence": True, "log_level": 0})
        counts = Counts(node)
        first, second = tmp_path / "first", tmp_path / "second"
        with counting(command, node, first, "streams"):
            written = write(producer, 500, 0)
            counts.read_until(lambda: counts.latest == written, first / "streams.txt")
            alone = tasks_by_process(node)
            assert sorted(task for tasks in alone.values() for task in tasks) == ["0-0", "0-1", "1-0", "1-1"]
            with counting(command, node, second, "streams"):
                wait_until(lambda: is_shared(tasks_by_process(node)), limit_s=LIMIT_S)
                written += write(producer, 500, 500)
                counts.read_until(lambda: counts.latest == written, second / "streams.txt")
            wait_until(lambda: tasks_by_process(node) == alone, limit_s=LIMIT_S)
            written += write(producer, 500, 1000)
            counts.read_until(lambda: counts.latest == written, first / "streams.txt")
        counts.close()
        assert producer.flush(LIMIT_S) == 0
        made = {name.rpartition("-")[2]: size for name, size in topics_of(node).items() if name.startswith("word-")}
        assert made == {"changelog": PARTITIONS, "repartition": PARTITIONS}
    for word, steps in counts.steps.items():
        assert steps == sorted(set(steps)), f"{word} was counted back or twice: {steps}"


def is_shared(tasks: dict[str, list[str]]) -> bool:
    """Two processes have two tasks each, and all of them are different."""
    return [len(each) for each in tasks.values()] == [2, 2] and len({at for each in tasks.values() for at in each}) == 4


def tasks_by_process(node: Node) -> dict[str, list[str]]:
    """The active tasks that the members of a settled group have."""
    request = StreamsGroupDescribeRequest(group_ids=["word-count"])
    with Connection("127.0.0.1", node.port) as connection:
        answer: Any = connection.ask(request, 0)
    (group,) = answer.groups
    found: dict[str, list[str]] = {}
    for member in group.members if group.group_state == "Stable" else ():
        tasks = [f"{each.subtopology_id}-{at}" for each in member.assignment.active_tasks for at in each.partitions]
        found[member.process_id] = sorted([*found.get(member.process_id, []), *tasks])
    return found


def topics_of(node: Node) -> dict[str, int]:
    listed = AdminClient({"bootstrap.servers": node.bootstrap_servers}).list_topics(timeout=LIMIT_S).topics
    return {name: len(topic.partitions) for name, topic in listed.items()}
