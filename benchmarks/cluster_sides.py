"""The clusters that are compared: ours and Apache Kafka's, of the same shape and with the same properties."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import cast

from barnabas.testing import Cluster, Node
from barnabas.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from benchmarks import process
from tests.support import reference
from tests.support.replication.watching import Seen, describe

LIMIT_S = 120.0


class BarnabasCluster(Cluster):
    name = "Barnabas"


class KafkaMember(reference.ApacheKafka):
    """One node of it, with any role, as its start script would run it."""

    paused = False

    @property
    def last_pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def format_once(self) -> None:
        if not (self.data_dir / "meta.properties").exists():
            self.format()

    def wait_until_ready(self) -> None:
        if "broker" in self._extra["process.roles"]:
            super().wait_until_ready()
            return
        port = int(self._extra["listeners"].rpartition(":")[2])
        limit = time.monotonic() + self.start_timeout_s
        while time.monotonic() < limit:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                time.sleep(0.01)
        raise TimeoutError(f"the controller at {port} does not listen:\n{self._log_tail()}")


class KafkaCluster(Cluster):
    name = f"Apache Kafka {reference.KAFKA_VERSION}"

    def _new_node(self, node_id: int) -> Node:
        member = KafkaMember(
            port=self._port(node_id, "PLAINTEXT") if node_id in self.broker_ids else 0,
            properties={"controller.quorum.bootstrap.servers": self.bootstrap_controllers, **self._properties(node_id)},
            cluster_id=self.cluster_id,
            jvm=reference.SHIPPED_JVM,
        )
        return cast("Node", member)

    def start(self, *node_ids: int) -> None:
        """The processes end with the thread that launched them, so that is this one."""
        members = [cast("KafkaMember", self.nodes[node_id]) for node_id in node_ids]
        with ThreadPoolExecutor(len(members)) as threads:
            list(threads.map(KafkaMember.format_once, members))
            for member in members:
                member.launch()
            list(threads.map(KafkaMember.wait_until_ready, members))

    def restart(self, *node_ids: int) -> None:
        self.stop(*node_ids)
        self.start(*node_ids)


Side = BarnabasCluster | KafkaCluster
SIDES = (KafkaCluster, BarnabasCluster)


def memory_mb(cluster: Side, node_ids: Iterable[int]) -> float:
    return sum(process.proportional_mb(cluster.nodes[node_id].pid) for node_id in node_ids)


def cpu_seconds(cluster: Side, node_ids: Iterable[int]) -> float:
    return sum(process.cpu_seconds(cluster.nodes[node_id].pid) for node_id in node_ids)


def create_spread(cluster: Side, topic: str, partitions: int) -> None:
    """Every broker has a replica of each partition, and leads its share of them."""
    brokers = cluster.broker_ids
    wanted = CreatableTopic(
        name=topic,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=turned(brokers, index))
            for index in range(partitions)
        ],
    )
    with cluster.connect() as connection:
        (created,) = connection.request(CreateTopicsRequest(topics=[wanted], timeout_ms=60_000)).topics
    if created.error_code:
        raise RuntimeError(f"{topic}: {created.error_message}")
    wait_in_sync(cluster, topic)


def turned(broker_ids: list[int], index: int) -> list[int]:
    by = index % len(broker_ids)
    return broker_ids[by:] + broker_ids[:by]


def wait_in_sync(cluster: Side, topic: str, limit_s: float = LIMIT_S) -> None:
    wait_for(cluster, topic, lambda each: len(each.in_sync) == len(each.replicas), limit_s)


def wait_for(cluster: Side, topic: str, holds: Callable[[Seen], bool], limit_s: float = LIMIT_S) -> None:
    limit = time.monotonic() + limit_s
    while True:
        found = describe(cluster, topic)
        if all(map(holds, found.values())):
            return
        if time.monotonic() > limit:
            raise TimeoutError(f"{cluster.name}: {topic} is as {found} after {limit_s:.0f} s")
        time.sleep(0.02)
