"""Compaction over a real node: clients write, a process of the node's cleans, readers see what they should."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.testing import Node
from barnabas.wire.batch import Record, build_batch, decode_records, iterate_batches
from barnabas.wire.compression import Compression

NOW_MS = time.time_ns() // 1_000_000
WAIT_S = 20.0
CLEANER = {"log.cleaner.backoff.ms": 20, "log.initial.task.delay.ms": 100, "log.retention.check.interval.ms": 100}
COMPACTED = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.001", "segment_ms": "1000"}


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(CLEANER) as running:
        yield running


@pytest.fixture
def client(node: Node, log_client) -> Iterator[Any]:
    with log_client(node) as connected:
        yield connected


def send(client: Any, topic: str, seconds: int, *rows: tuple[str, str | None], **options: Any) -> int:
    """One batch, whose records are so many seconds younger than the first ones."""
    records = [
        Record(i, NOW_MS + 1000 * seconds, key.encode(), None if value is None else value.encode())
        for i, (key, value) in enumerate(rows)
    ]
    return client.append(topic, build_batch(records, **options))


def log_files(node: Node, topic: str) -> list[Path]:
    return sorted((node.data_dir / f"{topic}-0").glob("*.log"))


def read_all(client: Any, topic: str) -> list[tuple[int, str, str | None]]:
    """Offsets, keys and values from the beginning to the end."""
    found: list[tuple[int, str, str | None]] = []
    offset = client.offset(topic, -2)
    while records := client.fetch(topic, offset).records:
        for position, header in iterate_batches(memoryview(records)):
            offset = header.last_offset + 1
            for each in decode_records(records, position):
                value = None if each.value is None else each.value.decode()
                found.append((each.offset, (each.key or b"").decode(), value))
    return found


def consume_all(node: Node, topic: str) -> list[tuple[int, str, str]]:
    """The same, as a consumer of librdkafka gets it."""
    config = {"bootstrap.servers": node.bootstrap_servers, "group.id": "unused", "enable.auto.commit": False}
    consumer = Consumer(config | {"enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while (message := consumer.poll(WAIT_S)) is not None and message.error() is None:
        found.append((message.offset(), message.key().decode(), message.value().decode()))
    consumer.close()
    return found


def offsets(client: Any, topic: str) -> list[int]:
    return [offset for offset, _, _ in read_all(client, topic)]


def checkpoint(node: Node) -> str:
    path = node.data_dir / "cleaner-offset-checkpoint"
    return path.read_text() if path.exists() else ""


def cleaners(node: Node) -> list[int]:
    """The node's cleaner processes."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"cleaning.child\0{node.pid}" in (entry / "cmdline").read_text():
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def test_the_employees_salaries(node: Node, client, raw) -> None:
    raw.create_topic(node, "employee-salary", **COMPACTED | {"segment_ms": "5000"})
    producer = Producer({"bootstrap.servers": node.bootstrap_servers})
    typed = [("A", 1000, 0), ("B", 1000, 0), ("C", 1000, 0), ("A", 2000, 6), ("B", 2000, 6), ("b", 3000, 12)]
    for key, salary, seconds in typed:
        producer.produce("employee-salary", key=key, value=str(salary), timestamp=NOW_MS + 1000 * seconds)
        producer.flush()
    compacted = [(2, "C", "1000"), (3, "A", "2000"), (4, "B", "2000"), (5, "b", "3000")]
    raw.wait_until(lambda: read_all(client, "employee-salary") == compacted)
    assert consume_all(node, "employee-salary") == compacted


def test_offsets_and_order_stay_and_the_active_segment_is_left_alone(node: Node, client, raw) -> None:
    raw.create_topic(node, "table", **COMPACTED)
    for number, key in enumerate(["K1", "K2", "K1", "K1", "K3", "K2", "K4", "K5", "K5", "K2", "K6"], start=1):
        send(client, "table", 0, (key, f"V{number}"))
    send(client, "table", 2, ("K6", "V12"))
    raw.wait_until(lambda: offsets(client, "table") == [3, 4, 6, 8, 9, 10, 11])
    assert client.offset("table", -2) == 0
    assert client.offset("table", -1) == 12
    raw.wait_until(lambda: "table 0 11\n" in checkpoint(node))


def test_a_reader_may_ask_for_an_offset_that_is_gone(node: Node, client, raw) -> None:
    raw.create_topic(node, "gaps", **COMPACTED)
    for number in range(10):
        send(client, "gaps", 0, ("same", str(number)))
    send(client, "gaps", 2, ("other", "1"))
    raw.wait_until(lambda: offsets(client, "gaps") == [9, 10])
    answer = client.fetch("gaps", 3)
    assert answer.error_code == 0
    assert next(iterate_batches(memoryview(answer.records)))[1].base_offset == 9


def test_tombstones_are_kept_for_their_time_and_then_dropped(node: Node, client, raw) -> None:
    raw.create_topic(node, "deletions", **COMPACTED, delete_retention_ms="1500")
    send(client, "deletions", 0, ("a", "1"), ("b", "1"))
    send(client, "deletions", 2, ("a", None))
    send(client, "deletions", 4, ("x", "0"))
    raw.wait_until(lambda: offsets(client, "deletions") == [1, 2, 3])
    seen_at = time.monotonic()

    def is_dropped() -> bool:
        """Only a cleaning drops it, and only new records make a log dirty."""
        seconds = 6 + 2 * int(2 * (time.monotonic() - seen_at))
        send(client, "deletions", seconds, ("x", str(seconds)))
        return 2 not in offsets(client, "deletions")

    raw.wait_until(is_dropped)
    assert time.monotonic() - seen_at > 1.0
    assert offsets(client, "deletions")[0] == 1


def test_small_segments_become_one(node: Node, client, raw) -> None:
    raw.create_topic(node, "many", **COMPACTED)
    for number in range(20):
        send(client, "many", 2 * number, (f"key-{number}", "v"), compression=Compression.ZSTD)
    raw.wait_until(lambda: len(log_files(node, "many")) == 2)
    assert offsets(client, "many") == list(range(20))
    assert client.offset("many", NOW_MS + 1000 * 21) == 11


def test_settings_are_live(node: Node, client, raw) -> None:
    raw.create_topic(node, "live", **COMPACTED | {"cleanup_policy": "delete"})
    for seconds in (0, 2, 4):
        send(client, "live", seconds, ("k", str(seconds)))
    assert offsets(client, "live") == [0, 1, 2]
    client.configure("live", cleanup_policy="compact", min_compaction_lag_ms=3_600_000)
    send(client, "live", 6, ("k", "6"))
    time.sleep(0.2)  # a lag of an hour: nothing may happen, however long one waits
    assert offsets(client, "live") == [0, 1, 2, 3]
    client.configure("live", min_compaction_lag_ms=0)
    raw.wait_until(lambda: offsets(client, "live") == [2, 3])


def test_compaction_and_retention_apply_together(node: Node, client, raw) -> None:
    raw.create_topic(node, "both", **COMPACTED | {"cleanup_policy": "compact,delete"}, retention_ms="-1")
    for seconds in range(0, 20, 2):
        send(client, "both", seconds, (f"key-{seconds % 4}", "v" * 100))
    raw.wait_until(lambda: offsets(client, "both") == [7, 8, 9])
    assert client.offset("both", -2) == 0
    client.configure("both", retention_bytes=100)
    raw.wait_until(lambda: offsets(client, "both") == [9])
    assert client.offset("both", -2) == 9


def test_everything_is_there_after_a_crash_and_after_a_clean_stop(raw, log_client) -> None:
    with Node(CLEANER) as own:
        raw.create_topic(own, "t", **COMPACTED)
        with log_client(own) as client:
            for number in range(50):
                send(client, "t", number, (f"key-{number % 7}", str(number)))
            raw.wait_until(lambda: len(offsets(client, "t")) < 12)
            latest = {f"key-{number % 7}": str(number) for number in range(50)}
            own.kill()
            own.restart()
            client.reconnect()
            assert {key: value for _, key, value in read_all(client, "t")} == latest
            own.restart()
            client.reconnect()
            assert {key: value for _, key, value in read_all(client, "t")} == latest
            assert offsets(client, "t") == sorted(offsets(client, "t"))


def test_a_cleaner_that_is_killed_takes_nothing_with_it(raw, log_client) -> None:
    with Node(CLEANER | {"log.cleaner.io.max.bytes.per.second": 400_000}) as own:
        raw.create_topic(own, "slow", **COMPACTED)
        raw.create_topic(own, "other", **COMPACTED)
        with log_client(own) as client:
            for seconds in range(0, 8, 2):
                send(client, "slow", seconds, *((f"key-{n}", "v" * 1000) for n in range(200)))
            raw.wait_until(lambda: list((own.data_dir / "slow-0").glob("*.cleaned")) != [])
            [cleaner] = cleaners(own)
            os.kill(cleaner, signal.SIGKILL)
            raw.wait_until(lambda: "slow-0 cannot be compacted and stays as it is: its process has died" in own.log())
            raw.wait_until(lambda: list((own.data_dir / "slow-0").glob("*.cleaned")) == [])
            assert len(offsets(client, "slow")) == 800
            for seconds in (0, 2):
                send(client, "other", seconds, ("k", "v"))
            send(client, "other", 4, ("k", "v"))
            raw.wait_until(lambda: offsets(client, "other") == [1, 2])


def test_deleting_a_topic_ends_its_cleaning(raw, log_client) -> None:
    with Node(CLEANER | {"log.cleaner.io.max.bytes.per.second": 400_000}) as own:
        raw.create_topic(own, "slow", **COMPACTED)
        with log_client(own) as client:
            for seconds in range(0, 8, 2):
                send(client, "slow", seconds, *((f"key-{n}", "v" * 1000) for n in range(200)))
            raw.wait_until(lambda: list((own.data_dir / "slow-0").glob("*.cleaned")) != [])
            own.reset()
            raw.wait_until(lambda: "slow-0: stopped compacting from offset 0" in own.log())
            raw.create_topic(own, "slow", **COMPACTED)
            for seconds in (0, 2, 4):
                send(client, "slow", seconds, ("k", str(seconds)))
            raw.wait_until(lambda: offsets(client, "slow") == [1, 2])


def test_the_cleaner_goes_with_its_node(raw, log_client) -> None:
    with Node(CLEANER) as own:
        raw.create_topic(own, "t", **COMPACTED)
        with log_client(own) as client:
            for seconds in (0, 2, 4):
                send(client, "t", seconds, ("k", str(seconds)))
            raw.wait_until(lambda: offsets(client, "t") == [1, 2])
        [cleaner] = cleaners(own)
        own.kill()
        raw.wait_until(lambda: not Path(f"/proc/{cleaner}").exists())
