"""One of two log directories of a broker fails under a producer: others lead, nothing is lost, and the broker goes on.

The failure is a disk that is full: a file system of six megabytes, which only root can mount.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from barnabas.testing import Cluster
from barnabas.testing.node import Node
from barnabas.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from tests.support.replication.watching import Acknowledged, describe, read_all, wait_in_sync
from tests.support.waiting import wait_until

PARTITIONS = 6
HURT = 2
BALLAST_BYTES = 100_000
BALLAST_RECORDS = 2000
# With several, librdkafka writes records a second time, in a new producer epoch (docs/migration.md).
ONE_IN_FLIGHT = {"max.in.flight.requests.per.connection": 1}

pytestmark = pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root mounts a small file system")


class TwoDisks(Cluster):
    """Each broker has two log directories, and the second of one of them is small."""

    def __init__(self, root: Path) -> None:
        self.root = root
        super().__init__(brokers=3, controllers=1, config={"min.insync.replicas": 2})

    def disk(self, node_id: int, name: str) -> Path:
        return self.root / str(node_id) / name

    def _new_node(self, node_id: int) -> Node:
        properties = self._properties(node_id)
        if node_id in self.broker_ids:
            properties["log.dirs"] = f"{self.disk(node_id, 'a')},{self.disk(node_id, 'b')}"
        return Node(properties, data_dir=self.disk(node_id, "a"), cluster_id=self.cluster_id, timeout_s=self._timeout_s)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[TwoDisks]:
    made = TwoDisks(tmp_path)
    small = made.disk(made.broker_ids[HURT], "b")
    small.mkdir(parents=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", small], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no small file system can be mounted here: {done.stderr.strip()}")
    try:
        with made:
            yield made
    finally:
        subprocess.run(["umount", "-l", small], check=False, capture_output=True)


def failed_directories(cluster: Cluster, broker_id: int) -> list[str]:
    with cluster.connect(broker_id) as connection:
        results = connection.request(DescribeLogDirsRequest(topics=[])).results
    return [Path(each.log_dir).name for each in results if each.error_code]


def test_a_directory_that_fails_costs_a_broker_its_replicas_there_and_nothing_else(cluster: TwoDisks) -> None:
    hurt = cluster.broker_ids[HURT]
    for topic in ("orders", "ballast"):
        cluster.create_topic(topic, PARTITIONS, 3)
        wait_in_sync(cluster, topic, cluster.broker_ids)
    # The controller calls new replicas in sync before their brokers have made them.
    wait_until(lambda: sum(len(orders_on(cluster, hurt, disk)) for disk in "ab") == PARTITIONS, "all replicas are made")
    there = orders_on(cluster, hurt, "b")
    assert 0 < len(there) < PARTITIONS
    assert any(describe(cluster, "orders")[index].leader == hurt for index in range(PARTITIONS))
    with Acknowledged(cluster, "orders", PARTITIONS, ONE_IN_FLIGHT) as producer:
        producer.goes_on()
        fill(cluster)
        wait_until(lambda: failed_directories(cluster, hurt) == ["b"], "the disk is full")
        wait_until(lambda: has_lost(cluster, hurt, there), "others lead what was on it")
        producer.goes_on()
        assert cluster.nodes[hurt].running
        cluster.stop(hurt)
        subprocess.run(["mount", "-o", "remount,size=512m", cluster.disk(hurt, "b")], check=True)
        cluster.start(hurt)
        wait_in_sync(cluster, "orders", cluster.broker_ids)
        producer.goes_on()
    assert not producer.failed
    wait_until(
        lambda: read_all(cluster, "orders", PARTITIONS) == producer.acknowledged, "each record once, where it was told"
    )


def orders_on(cluster: TwoDisks, node_id: int, disk: str) -> set[int]:
    return {int(each.name.removeprefix("orders-")) for each in cluster.disk(node_id, disk).glob("orders-*")}


def has_lost(cluster: Cluster, broker_id: int, partitions: set[int]) -> bool:
    """Exactly these are out of sync on the broker, and led by others."""
    found = describe(cluster, "orders", next(each for each in cluster.broker_ids if each != broker_id))
    return {index for index, each in found.items() if broker_id not in each.in_sync} == partitions and all(
        found[index].leader not in (broker_id, -1) for index in partitions
    )


def fill(cluster: Cluster) -> None:
    """Writes until the small disk has failed."""
    hurt = cluster.broker_ids[HURT]
    ballast = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": 1, "message.timeout.ms": 30_000})
    for number in range(BALLAST_RECORDS):
        ballast.produce("ballast", os.urandom(BALLAST_BYTES), partition=number % PARTITIONS)
        if number % PARTITIONS == 0:
            ballast.flush(30)
            if failed_directories(cluster, hurt):
                return
    raise AssertionError("the disk is not full")
