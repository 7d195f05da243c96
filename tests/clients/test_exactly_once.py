"""Read, process, write: the output is the input, exactly once, whoever is killed meanwhile.

BARNABAS_KILLS=50,20 kills the processor fifty and the node twenty times; BARNABAS_SEED repeats a run.
"""

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from barnabas.testing import Node

PARTITIONS = 3
PROGRAM = Path(__file__).parent / "read_process_write.py"
LIMIT_S = 120


class Feeder(threading.Thread):
    """Numbers, in order per partition, until it is told to stop; an idempotent producer outlives the node's deaths."""

    def __init__(self, servers: str) -> None:
        super().__init__(daemon=True)
        settings = {"enable.idempotence": True, "linger.ms": 2, "delivery.timeout.ms": 300_000}
        self._producer = Producer({"bootstrap.servers": servers, **settings})
        self._enough = threading.Event()
        self.written = 0

    def run(self) -> None:
        while not self._enough.wait(0.01):
            for _ in range(20):
                self._producer.produce("input", str(self.written), partition=self.written % PARTITIONS)
                self.written += 1
            self._producer.poll(0)

    def finish(self) -> None:
        self._enough.set()
        self.join()
        assert self._producer.flush(LIMIT_S) == 0


class Copier:
    """The processor: started anew whenever it is gone."""

    def __init__(self, servers: str) -> None:
        self._arguments = [sys.executable, str(PROGRAM), servers, "input", "output", str(PARTITIONS)]
        self._process: subprocess.Popen[bytes] | None = None

    def ensure(self) -> None:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(self._arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@contextmanager
def copying(servers: str) -> Iterator[Copier]:
    copier = Copier(servers)
    copier.ensure()
    try:
        yield copier
    finally:
        copier.kill()


def read_committed(servers: str, wanted: int, keep_alive: Copier) -> list[list[int]]:
    """What the output has, by partition; waits until there is enough of it, or the limit."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "judge", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition("output", index, 0) for index in range(PARTITIONS)])
    found: list[list[int]] = [[] for _ in range(PARTITIONS)]
    deadline = time.monotonic() + LIMIT_S
    while sum(map(len, found)) < wanted and time.monotonic() < deadline:
        keep_alive.ensure()
        for message in consumer.consume(1000, timeout=0.5):
            if message.error() is not None:
                assert message.error().code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)
                continue
            found[message.partition()].append(int(message.value()))
    for message in consumer.consume(1000, timeout=1):  # nothing may come after the last
        found[message.partition()].append(int(message.value()))
    consumer.close()
    return found


@pytest.mark.timeout(600)
def test_the_output_is_the_input_exactly_once_whoever_is_killed(own_node: Node) -> None:
    copier_kills, node_kills = map(int, os.environ.get("BARNABAS_KILLS", "6,3").split(","))
    seed = int(os.environ.get("BARNABAS_SEED", random.randrange(1 << 30)))
    chance = random.Random(seed)
    servers = own_node.bootstrap_servers
    own_node.create_topic("input", PARTITIONS)
    own_node.create_topic("output", PARTITIONS)
    feeder = Feeder(servers)
    feeder.start()
    victims = ["copier"] * copier_kills + ["node"] * node_kills
    chance.shuffle(victims)
    with copying(servers) as copier:
        for victim in victims:
            time.sleep(chance.uniform(0.3, 1.5))  # a moment that nobody has chosen
            copier.ensure()
            if victim == "copier":
                copier.kill()
                copier.ensure()
            else:
                own_node.kill()
                own_node.start()
        feeder.finish()
        found = read_committed(servers, feeder.written, copier)
    expected = [list(range(index, feeder.written, PARTITIONS)) for index in range(PARTITIONS)]
    for index in range(PARTITIONS):
        missing = sorted(set(expected[index]) - set(found[index]))
        assert not missing, f"seed {seed}: {len(missing)} lost in {index}, such as {missing[:5]}"
        twice = len(found[index]) - len(set(found[index]))
        assert found[index] == expected[index], f"seed {seed}: {twice} more than once in partition {index}"
