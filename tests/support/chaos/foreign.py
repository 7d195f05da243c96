"""A cluster of which some nodes, or all, are Apache Kafka's: so the judge is known to be fair, and both live as one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from barnabas.testing import Cluster
from barnabas.testing.node import Node
from tests.support.reference import TEST_JVM, ApacheKafka

# A process of Apache Kafka is ended by the kernel with the thread that has started it. This one stays.
_launcher = ThreadPoolExecutor(1, thread_name_prefix="apache-kafka")


class KafkaNode(Node):
    """A node of Apache Kafka that is handled as one of ours."""

    def __init__(self, properties: Mapping[str, str], directory: Path, cluster_id: str, timeout_s: float) -> None:
        super().__init__(properties, data_dir=directory / "data", cluster_id=cluster_id, timeout_s=timeout_s)
        listeners = (each.partition("://") for each in properties["listeners"].split(","))
        ports = {name: int(address.rpartition(":")[2]) for name, _, address in listeners}
        self._kafka = ApacheKafka(
            directory=directory,
            port=ports["PLAINTEXT"],
            controller_port=ports["CONTROLLER"],
            properties=properties,
            cluster_id=cluster_id,
            jvm=[*TEST_JVM, "-Djava.net.preferIPv4Stack=true"],  # relays know a process by its IPv4 connections
            start_timeout_s=timeout_s,
        )

    @property
    def running(self) -> bool:
        return self._kafka.running

    @property
    def pid(self) -> int:
        return self._kafka.pid

    def start(self) -> Self:
        if not (self.data_dir / "meta.properties").exists():
            self._kafka.format()
        _launcher.submit(self._kafka.launch).result()
        self._spawned(self._kafka.pid)
        self._kafka.wait_until_ready()
        return self

    def stop(self) -> None:
        if self.paused:
            self.resume()
        self._kafka.stop()

    def kill(self) -> None:
        self._kafka.kill()
        self.paused = False

    def pause(self) -> None:
        self._kafka.pause()
        self.paused = True

    def resume(self) -> None:
        self._kafka.resume()
        self.paused = False

    def log(self) -> str:
        return self._kafka.log()

    def close(self) -> None:
        self._kafka.kill()


class ForeignCluster(Cluster):
    """`kafkas` are the ids of the nodes that are Apache Kafka's."""

    def __init__(self, kafkas: Collection[int], directory: Path, **given: Any) -> None:
        super().__init__(timeout_s=300.0, **given)
        self._kafkas = kafkas
        self._directory = directory

    def _new_node(self, node_id: int) -> Node:
        properties, directory = self._properties(node_id), self._directory / str(node_id)
        if node_id in self._kafkas:
            return KafkaNode(properties, directory, self.cluster_id, self._timeout_s)
        return Node(properties, data_dir=directory / "data", cluster_id=self.cluster_id, timeout_s=self._timeout_s)
