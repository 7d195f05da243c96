"""The sender of ready batches, without Spark: order and number hold when the node dies under it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from barnabas.client.batch_sender import BatchSender
from barnabas.client.cluster import Cluster
from barnabas.client.errors import TimedOut
from barnabas.client.fetcher import Fetcher, FetchSettings
from barnabas.client.producer_settings import ProducerSettings
from barnabas.client.records import iterate_records
from barnabas.client.settings import ClientSettings
from barnabas.testing import Node
from barnabas.wire.batch import Record, build_batch


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


@pytest.fixture
def cluster(node: Node) -> Iterator[Cluster]:
    properties = {"bootstrap.servers": node.bootstrap_servers, "retry.backoff.ms": "20"}
    with Cluster(ClientSettings.from_properties(properties)) as cluster:
        yield cluster


def batch_of(value: bytes) -> bytearray:
    return build_batch([Record(0, time.time_ns() // 1_000_000, None, value)])


def values(cluster: Cluster, topic: str, partition: int) -> list[int]:
    end = cluster.list_offsets({(topic, partition): -1})[topic, partition].offset
    found: list[int] = []
    with Fetcher(cluster, FetchSettings(max_wait_ms=100)) as fetcher:
        fetcher.assign({(topic, partition): 0})
        while fetcher.positions[topic, partition] < end:
            for fetched in fetcher.poll(1_000):
                found += [int(record.value or b"-1") for record in iterate_records(fetched)]
    return found


def test_batches_are_there_once_and_in_order_although_the_node_is_killed_under_way(
    node: Node, cluster: Cluster
) -> None:
    node.create_topic("t", partitions=2)
    sender = BatchSender(cluster, ProducerSettings(max_request_size=10_000))
    killer = threading.Timer(0.3, lambda: (node.kill(), node.start()))
    killer.start()
    number = 0
    while killer.is_alive() or number < 500:
        for partition in (0, 1):
            sender.send("t", partition, batch_of(b"%d" % number))
        sender.push()
        number += 1
        time.sleep(0.002)
    killer.join()
    sender.flush()
    sender.close()
    for partition in (0, 1):
        assert values(cluster, "t", partition) == list(range(number))


def test_a_node_that_stays_away_is_given_up(node: Node) -> None:
    node.create_topic("t")
    properties = {"bootstrap.servers": node.bootstrap_servers, "default.api.timeout.ms": "300"}
    with Cluster(ClientSettings.from_properties(properties)) as cluster:
        sender = BatchSender(cluster, ProducerSettings(delivery_timeout_ms=300))
        sender.send("t", 0, batch_of(b"x"))
        sender.flush()
        node.kill()
        sender.send("t", 0, batch_of(b"y"))
        unreachable = f"127.0.0.1:{node.port} cannot be reached: connection refused"
        with pytest.raises(TimedOut, match=rf"^1 records for t-0 were not taken within 300 ms: {unreachable}\.$"):
            sender.flush()
        sender.close()
