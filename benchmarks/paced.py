"""A producer at a steady pace, in a process of its own: what a client feels while the server does something else."""

import multiprocessing
import time
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaError, Message

from benchmarks import load

READY_S = 30.0


class PacedProducer:
    """Sends records of 100 B one by one, far below what the server could take, until `took` is asked for.

    A record's time runs from `produce()` to its acknowledgement. The next one does not wait for it.
    """

    def __init__(self, servers: str, topic: str, rate_per_s: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, child = context.Pipe()
        self._process = context.Process(target=_produce, args=(child, servers, topic, rate_per_s), daemon=True)

    def __enter__(self) -> Self:
        self._process.start()
        if not self._connection.poll(READY_S) or self._connection.recv() != "ready":
            raise TimeoutError("the paced producer does not begin")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.join()

    def took(self) -> list[float]:
        """The seconds of every record since the last time this was asked."""
        self._connection.send("tell")
        if not self._connection.poll(load.WAIT_S):
            raise TimeoutError("the paced producer says nothing")
        answer: list[float] = self._connection.recv()
        if not answer:
            raise RuntimeError("the paced producer had no record acknowledged")
        return answer

    def for_seconds(self, seconds: float) -> list[float]:
        """The same for the next so many seconds."""
        self.took()
        time.sleep(seconds)
        return self.took()


def _produce(parent: Connection, servers: str, topic: str, rate_per_s: int) -> None:
    client = load.producer(servers, **{"linger.ms": 0})
    took: list[float] = []
    value = b"x" * 100

    def send() -> None:
        began = time.perf_counter()

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                raise RuntimeError(f"produce failed: {error}")
            took.append(time.perf_counter() - began)

        client.produce(topic, value, partition=0, on_delivery=delivered)

    for _ in range(rate_per_s):
        send()
    client.flush(load.WAIT_S)
    parent.send("ready")
    interval_s = 1 / rate_per_s
    due = time.perf_counter()
    while True:
        send()
        due = max(due + interval_s, time.perf_counter() - 1)
        while (left := due - time.perf_counter()) > 0:
            client.poll(left)
        if parent.poll():
            parent.recv()
            client.flush(load.WAIT_S)
            parent.send(took)
            took = []
