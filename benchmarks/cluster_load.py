"""What confluent-kafka clients do to a replicated topic: all of it with acks=all."""

from __future__ import annotations

import multiprocessing
import os
import time
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaError, Message, Producer

from benchmarks import load

WAIT_S = 120.0
# Who is not there any more is noticed by the client as soon as it can.
EAGER = {
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 20,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 50,
    "topic.metadata.refresh.fast.interval.ms": 20,
}


def produce(servers: str, topic: str, partitions: int, records: int, record_bytes: int) -> float:
    """The seconds until all are acknowledged, sent in turns to all partitions."""
    client = load.producer(servers, acks="all", **{"linger.ms": 5})
    chunk = 1_000
    values = [{"value": os.urandom(record_bytes)} for _ in range(chunk)]
    prepare(client, topic, partitions)
    queued_max = min(300_000, 200_000_000 // record_bytes)
    began = time.perf_counter()
    for number in range(records // chunk):
        if client.produce_batch(topic, values, partition=number % partitions) != chunk:
            raise RuntimeError("the client's queue is full")
        while len(client) > queued_max:
            client.poll(0.001)
    if client.flush(WAIT_S):
        raise TimeoutError(f"not all records of {topic} were acknowledged in {WAIT_S:.0f} s")
    return time.perf_counter() - began


def prepare(client: Producer, topic: str, partitions: int) -> None:
    """One record to each partition: all connections are there."""
    for partition in range(partitions):
        client.produce(topic, b"first", partition=partition)
    if client.flush(WAIT_S):
        raise TimeoutError(f"no acknowledgement from {topic} in {WAIT_S:.0f} s")


class Everywhere:
    """A producer that has met all partitions of a topic, and knows how long a record to each of them takes."""

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        self._client = load.producer(servers, acks="all", **EAGER, **{"linger.ms": 0, "message.timeout.ms": 120_000})
        self._topic, self._partitions = topic, partitions
        self.write_all()

    def write_all(self) -> float:
        """The seconds until one record more is acknowledged on every partition."""
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error)

        began = time.perf_counter()
        for partition in range(self._partitions):
            self._client.produce(self._topic, b"x" * 100, partition=partition, on_delivery=delivered)
        if self._client.flush(WAIT_S) or failed:
            raise RuntimeError(f"{self._topic} does not take records: {failed[:3]}")
        return time.perf_counter() - began


class Pacer:
    """Sends records at a steady rate to all partitions in turns, in a process of its own, until it is asked."""

    def __init__(self, servers: str, topic: str, partitions: int, rate_per_s: int, record_bytes: int = 100) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, child = context.Pipe()
        self._process = context.Process(
            target=_pace, args=(child, servers, topic, partitions, rate_per_s, record_bytes), daemon=True
        )

    def __enter__(self) -> Self:
        self._process.start()
        if not self._connection.poll(WAIT_S) or self._connection.recv() != "ready":
            raise TimeoutError("the paced producer does not begin")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.join()

    def took(self) -> tuple[list[float], list[str]]:
        """The seconds of every record since it was last asked, and the errors."""
        self._connection.send("tell")
        if not self._connection.poll(WAIT_S):
            raise TimeoutError("the paced producer says nothing")
        answer: tuple[list[float], list[str]] = self._connection.recv()
        return answer


def _pace(parent: Connection, servers: str, topic: str, partitions: int, rate_per_s: int, record_bytes: int) -> None:
    client = load.producer(servers, acks="all", **EAGER, **{"linger.ms": 0, "message.timeout.ms": 120_000})
    took: list[float] = []
    errors: list[str] = []
    value = os.urandom(record_bytes)

    def send(partition: int) -> None:
        began = time.perf_counter()

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                errors.append(str(error))
            else:
                took.append(time.perf_counter() - began)

        client.produce(topic, value, partition=partition, on_delivery=delivered)

    for number in range(max(rate_per_s, partitions)):
        send(number % partitions)
    client.flush(WAIT_S)
    took.clear()
    parent.send("ready")
    due, number = time.perf_counter(), 0
    while True:
        send(number % partitions)
        number += 1
        due += 1 / rate_per_s
        while (left := due - time.perf_counter()) > 0:
            client.poll(left)
        client.poll(0)
        if parent.poll():
            parent.recv()
            client.flush(WAIT_S)
            parent.send((took, errors))
            took, errors = [], []
            due = time.perf_counter()
