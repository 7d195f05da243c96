"""The servers that are compared: ours, Apache Kafka as its scripts start it, and librdkafka's mock cluster."""

import multiprocessing
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Protocol

from barnabas.testing import Node
from tests.support import reference

ANSWER_S = 30.0


class Side(Protocol):
    """One server. `start` and `restart` return once it answers Metadata."""

    name: str

    @property
    def bootstrap_servers(self) -> str: ...
    @property
    def pid(self) -> int: ...
    @property
    def data_dir(self) -> Path: ...
    def set(self, name: str, value: str) -> None: ...
    def start(self) -> object: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...
    def restart(self) -> None: ...
    def close(self) -> None: ...


class KafkaSide(reference.ApacheKafka):
    name = f"Apache Kafka {reference.KAFKA_VERSION}"

    def __init__(self) -> None:
        super().__init__(jvm=reference.SHIPPED_JVM)

    def set(self, name: str, value: str) -> None:
        """A property, from the next start on."""
        self._extra[name] = value


class BarnabasSide(Node):
    name = "Barnabas"

    def set(self, name: str, value: str) -> None:
        """A property, from the next start on."""
        self._config[name] = value

    def start(self) -> "BarnabasSide":
        super().start()
        limit = time.monotonic() + ANSWER_S
        while not reference.answers_metadata("127.0.0.1", self.port):
            if time.monotonic() > limit:
                raise TimeoutError(f"no Metadata answer in {ANSWER_S:.0f} s")
        return self


class MockSide:
    """The mock cluster lives in a librdkafka client, here in a process of its own; it keeps 5 MB per partition."""

    name = "librdkafka's mock cluster"

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, child = context.Pipe()
        self._process = context.Process(target=_serve_mock_cluster, args=(child,), daemon=True)
        self.bootstrap_servers = ""

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def data_dir(self) -> Path:
        raise NotImplementedError("the mock cluster keeps nothing")

    def set(self, name: str, value: str) -> None:
        raise NotImplementedError("the mock cluster has no properties")

    def start(self) -> None:
        self._process.start()
        self.bootstrap_servers = self._connection.recv()

    def close(self) -> None:
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def stop(self) -> None:
        raise NotImplementedError("the mock cluster keeps nothing")

    def kill(self) -> None:
        raise NotImplementedError("the mock cluster keeps nothing")

    def restart(self) -> None:
        raise NotImplementedError("the mock cluster keeps nothing")


def _serve_mock_cluster(parent: Connection) -> None:
    from confluent_kafka import Producer

    producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "log_level": 0})
    (broker,) = producer.list_topics(timeout=10).brokers.values()
    parent.send(f"{broker.host}:{broker.port}")
    parent.poll(None)  # until the parent is gone
