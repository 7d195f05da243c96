"""Kafka Streams, Java's own: words counted exactly once (exactly_once_v2), though the node is killed meanwhile."""

import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.testing import Node
from tests.support import reference_libs

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
def counting(command: list[str], node: Node, directory: Path) -> Iterator[None]:
    arguments = [str(PROGRAM), node.bootstrap_servers, "lines", "counts", str(directory / "state")]
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
