"""The producer on a real node: every record once and in order, although the node is killed in between."""

from __future__ import annotations

import threading
import time

import pytest

from barnabas.client.cluster import Cluster
from barnabas.client.errors import ClientError
from barnabas.client.fetcher import Fetcher
from barnabas.client.producer import Producer
from barnabas.client.records import ConsumerRecord, iterate_records
from barnabas.client.settings import ClientSettings
from barnabas.testing import Node

LIMIT_S = 60.0


def settings(node: Node, **properties: str) -> ClientSettings:
    given = {name.replace("_", "."): value for name, value in properties.items()}
    return ClientSettings.from_properties(given, bootstrap_servers=node.bootstrap_servers)


def all_records(node: Node, topic: str, partitions: int = 1) -> dict[int, list[ConsumerRecord]]:
    found: dict[int, list[ConsumerRecord]] = {index: [] for index in range(partitions)}
    with Cluster(settings(node)) as cluster, Fetcher(cluster) as fetcher:
        ends = cluster.list_offsets({(topic, index): -1 for index in range(partitions)})
        fetcher.assign({(topic, index): 0 for index in range(partitions)})
        deadline = time.monotonic() + LIMIT_S
        while fetcher.positions != {partition: at.offset for partition, at in ends.items()}:
            assert time.monotonic() < deadline
            for fetched in fetcher.poll(200):
                found[fetched.partition] += iterate_records(fetched)
    return found


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_arrive_as_they_were_sent(node: Node, codec: str) -> None:
    topic = f"arrive-{codec}"
    node.create_topic(topic, partitions=2)
    now_ms = int(time.time() * 1000)
    with Producer(settings(node, compression_type=codec, linger_ms="20")) as producer:
        sent = [
            producer.send(topic, b"value %d" % n * 20, b"k%d" % n, [("h", b"x"), ("n", None)], n % 2, now_ms + n)
            for n in range(50)
        ]
        empty = producer.send(topic, None, partition=0)
        assert [each.result(LIMIT_S).offset for each in sent] == [n // 2 for n in range(50)]
        assert empty.result(LIMIT_S).offset == 25
    found = all_records(node, topic, 2)
    assert found[0][3][2:8] == (3, now_ms + 6, 0, b"k6", b"value 6" * 20, [("h", b"x"), ("n", None)])
    assert [record.key for record in found[1]] == [b"k%d" % n for n in range(1, 50, 2)]
    assert (found[0][-1].key, found[0][-1].value) == (None, None)


def test_keys_meet_the_partition_that_they_meet_from_java(node: Node) -> None:
    node.create_topic("keys", partitions=5)
    with Producer(settings(node)) as producer:
        places = [producer.send("keys", b"", key=key).result(LIMIT_S).partition for key in (b"21", b"foobar", b"abc")]
    assert places == [(value & 0x7FFFFFFF) % 5 for value in (-973932308, -790332482, 479470107)]


def test_every_record_is_there_once_and_in_order_although_the_node_is_killed_twice() -> None:
    told: list[ClientError | None] = []
    with Node() as node:
        node.create_topic("once", partitions=3)
        stop = threading.Event()
        sent = 0
        with Producer(settings(node, batch_size="2000", linger_ms="2")) as producer:

            def send() -> None:
                nonlocal sent
                while not stop.is_set():
                    for partition in range(3):
                        producer.send("once", b"%d" % sent, partition=partition, callback=lambda _, e: told.append(e))
                    sent += 1
                    if sent % 50 == 0:
                        time.sleep(0.002)

            thread = threading.Thread(target=send)
            thread.start()
            for _ in range(2):
                before = len(told)
                deadline = time.monotonic() + LIMIT_S
                while len(told) < before + 3000:
                    assert time.monotonic() < deadline
                    time.sleep(0.005)
                node.kill()
                node.restart()
            stop.set()
            thread.join()
            producer.flush(LIMIT_S)
        assert [error for error in told if error is not None] == []
        assert len(told) == 3 * sent
        for records in all_records(node, "once", 3).values():
            assert [record.value for record in records] == [b"%d" % number for number in range(sent)]


def test_several_threads_may_send_and_each_keeps_its_order(node: Node) -> None:
    node.create_topic("threads", partitions=2)
    with Producer(settings(node, batch_size="500", buffer_memory="20000")) as producer:

        def send(name: int) -> None:
            for number in range(500):
                producer.send("threads", b"%d %d" % (name, number), partition=number % 2)

        threads = [threading.Thread(target=send, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for partition, records in all_records(node, "threads", 2).items():
        for name in range(4):
            mine = [record.value for record in records if (record.value or b"").startswith(b"%d " % name)]
            assert mine == [b"%d %d" % (name, number) for number in range(partition, 500, 2)]


def test_a_topic_may_be_made_by_the_first_record(node: Node) -> None:
    with Producer(settings(node)) as producer:
        assert producer.send("made-by-a-record", b"v").result(LIMIT_S).offset == 0
