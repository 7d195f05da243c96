"""Java consumers in a group, each with a transactional producer: what they copy is there once and in its order, though
they come, go, crash and pause past the session time-out."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.testing import Node
from tests.support import reference_libs

PROGRAM = Path(__file__).parents[1] / "reference" / "java" / "Copy.java"
PARTITIONS = 4
LIMIT_S = 100
CONFIG = {
    "group.min.session.timeout.ms": 500,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
}


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """The program is compiled once, since several run."""
    try:
        java, (_, classpath, *rest) = reference_libs.java(), reference_libs.classpath_options()
    except reference_libs.ReferenceUnavailable as reason:
        pytest.skip(f"Kafka's clients are not available: {reason}")
    (clients,) = Path(classpath).parent.glob("kafka-clients-*.jar")
    compiler = [java, "-m", "jdk.compiler/com.sun.tools.javac.Main", "-cp", str(clients), "-d", str(tmp_path)]
    subprocess.run([*compiler, str(PROGRAM)], check=True, timeout=LIMIT_S)
    options = ["-Xmx128m", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    return [java, *options, "-cp", f"{tmp_path}:{classpath}", *rest, "Copy"]


class Copiers:
    def __init__(self, command: list[str], node: Node, directory: Path) -> None:
        self._command = [*command, node.bootstrap_servers, "input", "output", "copiers"]
        self._directory = directory
        self._running: list[subprocess.Popen[bytes]] = []

    def hire(self, transactional_id: str) -> int:
        number = len(self._running)
        with self._said(number).open("wb") as said:
            arguments = [*self._command, transactional_id]
            self._running.append(subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=said, stderr=said))
        return number

    def _said(self, number: int) -> Path:
        return self._directory / f"copier-{number}.txt"

    def send(self, number: int, what: signal.Signals) -> None:
        self._running[number].send_signal(what)

    def works(self, number: int) -> None:
        """Waits until it copies something more."""
        before = self._said(number).read_text().count("COPIED")
        self.until(lambda: self._said(number).read_text().count("COPIED") > before, f"copier {number}")

    def goes_on(self, number: int, transactional_id: str) -> int:
        """Waits until it copies again; if it was caught in the middle of a transaction that has run out of time since,
        it has ended, and another one does."""
        before = self._said(number).read_text().count("COPIED")
        process = self._running[number]
        self.until(
            lambda: process.poll() is not None or self._said(number).read_text().count("COPIED") > before,
            f"copier {number}",
        )
        if process.poll() is not None:
            number = self.hire(transactional_id)
        self.works(number)
        return number

    def until(self, condition: Callable[[], bool], what: str) -> None:
        limit = time.monotonic() + LIMIT_S
        while not condition():
            assert time.monotonic() < limit, f"waited in vain for {what}; {self.told()}"
            time.sleep(0.05)

    def told(self) -> list[str]:
        return [self._said(number).read_text()[-1500:] for number in range(len(self._running))]

    def leave(self, number: int) -> None:
        process = self._running[number]
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(LIMIT_S) == 0

    def close(self) -> None:
        for process in self._running:
            process.kill()
            process.communicate()


@pytest.fixture
def stage(command: list[str], tmp_path: Path) -> Iterator[tuple[Node, Copiers]]:
    with Node(CONFIG) as node:
        node.create_topic("input", PARTITIONS)
        node.create_topic("output", PARTITIONS)
        copiers = Copiers(command, node, tmp_path)
        yield node, copiers
        copiers.close()


def read_committed(servers: str, wanted: int) -> list[list[int]]:
    settings = {"group.id": "judge", "isolation.level": "read_committed", "log_level": 0}
    consumer = Consumer({"bootstrap.servers": servers, **settings})
    consumer.assign([TopicPartition("output", index, 0) for index in range(PARTITIONS)])
    found: list[list[int]] = [[] for _ in range(PARTITIONS)]
    limit = time.monotonic() + LIMIT_S
    while sum(map(len, found)) < wanted and time.monotonic() < limit:
        for message in consumer.consume(1000, timeout=0.5):
            if message.error() is None:
                found[message.partition()].append(int(message.value()))
    consumer.close()
    return found


@pytest.mark.timeout(400)
def test_java_consumers_copy_once_and_in_order_though_they_crash_and_pause(stage: tuple[Node, Copiers]) -> None:
    node, copiers = stage
    enough = threading.Event()
    written = 0

    def feed() -> None:
        nonlocal written
        producer = Producer({"bootstrap.servers": node.bootstrap_servers, "enable.idempotence": True, "log_level": 0})
        while not enough.wait(0.005):
            producer.produce("input", str(written), partition=written % PARTITIONS)
            producer.poll(0)
            written += 1
        assert producer.flush(LIMIT_S) == 0

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        first = copiers.hire("copy-0")
        second = copiers.hire("copy-1")
        copiers.works(first)
        copiers.works(second)
        copiers.send(first, signal.SIGKILL)
        third = copiers.hire("copy-0")  # fences what the first one may have left open
        copiers.works(third)
        copiers.works(second)
        copiers.send(second, signal.SIGSTOP)
        time.sleep(2.5)  # past its session time-out
        copiers.works(third)
        copiers.send(second, signal.SIGCONT)
        second = copiers.goes_on(second, "copy-1")
        copiers.leave(third)
        copiers.works(second)
    finally:
        enough.set()
        feeder.join()
    found = read_committed(node.bootstrap_servers, written)
    for index in range(PARTITIONS):
        expected = list(range(index, written, PARTITIONS))
        assert found[index] == expected, f"partition {index}: {len(found[index])} of {len(expected)}; {copiers.told()}"
