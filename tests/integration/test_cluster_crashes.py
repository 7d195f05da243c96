"""A process that dies is noticed by what its machine says: nobody waits for a session or a fetch timeout to end."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from barnabas.testing import Cluster
from tests.support.replication.watching import describe, produce_one, wait_in_sync, wait_led

# Longer than any test may take.
NEVER_MS = 600_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    config = {
        "min.insync.replicas": 2,
        "broker.session.timeout.ms": NEVER_MS,
        "broker.heartbeat.interval.ms": 200,
        "controller.quorum.fetch.timeout.ms": NEVER_MS,
    }
    with Cluster(brokers=3, config=config) as cluster:
        cluster.create_topic("orders", partitions=6, replication_factor=3)
        wait_in_sync(cluster, "orders", cluster.broker_ids)
        yield cluster


def kill_and_write(cluster: Cluster, victim: int) -> None:
    cluster.kill(victim)
    others = [each for each in cluster.broker_ids if each != victim]
    wait_led(cluster, "orders", by_none_of=[victim])
    for partition in range(6):
        offset = produce_one(cluster, "orders", b"after", partition, acks="all")
        assert isinstance(offset, int), offset
    assert all(sorted(each.in_sync) == others for each in describe(cluster, "orders").values())
    cluster.start(victim)
    wait_in_sync(cluster, "orders", cluster.broker_ids)


def test_a_killed_broker_is_fenced_at_once(cluster: Cluster) -> None:
    controller = cluster.controller_id()
    time.sleep(1)  # some heartbeats long: it has met the addresses of all brokers
    kill_and_write(cluster, next(each for each in cluster.broker_ids if each != controller))
    assert "nobody listens at its address any more" in cluster.nodes[controller].log()


def test_a_killed_controller_is_replaced_and_its_broker_fenced(cluster: Cluster) -> None:
    controller = cluster.controller_id()
    kill_and_write(cluster, controller)
    assert cluster.controller_id() != controller
