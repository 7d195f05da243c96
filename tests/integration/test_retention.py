"""Old records go on a real node: by age, by size and below the log start, with the delays and roundings of Kafka."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.testing import Node
from barnabas.wire.batch import Record, build_batch
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.support.waiting import wait_until

ROUND_MS = 50


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    config = {"log.retention.check.interval.ms": ROUND_MS, "log.initial.task.delay.ms": 0}
    with Node(config) as running:
        yield running


@pytest.fixture
def client(node: Node, log_client: Any) -> Iterator[Any]:
    with log_client(node) as opened:
        yield opened


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def batch(timestamp: int | None = None, count: int = 1, size: int = 1000, key: bytes = b"key") -> bytearray:
    at_ms = now_ms() if timestamp is None else timestamp
    return build_batch([Record(number, at_ms, key, bytes(size)) for number in range(count)])


def files(node: Node, partition: str, suffix: str = "") -> list[str]:
    return sorted(path.name for path in (node.data_dir / partition).iterdir() if path.name.endswith(suffix))


def test_records_go_by_age_and_fetches_below_are_told_so(node: Node, client: Any) -> None:
    node.create_topic("aged", config={"segment.bytes": 3000})
    for hours_ago in (5, 5, 4, 4, 0, 0):
        client.append("aged", batch(now_ms() - hours_ago * 3_600_000))
    client.configure("aged", retention_ms=3_600_000)
    wait_until(lambda: client.offset("aged", -2) == 4)
    assert client.fetch("aged", 3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    answer = client.fetch("aged", 4)
    assert (answer.error_code, answer.log_start_offset, answer.high_watermark) == (0, 4, 6)


def test_records_that_go_soon_after_they_came_are_told_with_the_reason(node: Node, client: Any) -> None:
    node.create_topic("imported")
    client.append("imported", batch(now_ms() - 30 * 86_400_000, count=3))  # at once: no round comes in between
    wait_until(lambda: client.offset("imported", -2) == 3)
    wait_until(lambda: "imported-0: 1 segments deleted" in node.log())
    [line] = [line for line in node.log().splitlines() if "imported-0: 1 segments deleted" in line]
    assert "WARNING" in line
    assert "the log starts at offset 3 (before: 0): 1 older than retention.ms=604800000" in line


def test_a_topic_that_nobody_writes_to_is_emptied(node: Node, client: Any) -> None:
    node.create_topic("quiet", config={"retention.ms": 3_600_000})
    for _ in range(3):
        client.append("quiet", batch(now_ms() - 7_200_000))
    wait_until(lambda: client.offset("quiet", -2) == 3)
    assert client.offset("quiet", -1) == 3
    assert client.append("quiet", batch()) == 3


def test_a_change_of_retention_takes_effect_without_a_restart(node: Node, client: Any) -> None:
    node.create_topic("shrinking", config={"segment.bytes": 3000})
    for _ in range(10):
        client.append("shrinking", batch())
    time.sleep(3 * ROUND_MS / 1000)
    assert client.offset("shrinking", -2) == 0
    client.configure("shrinking", retention_bytes=5000)
    wait_until(lambda: client.offset("shrinking", -2) == 4)
    client.configure("shrinking", retention_ms=1)
    wait_until(lambda: client.offset("shrinking", -2) == 10)
    assert client.append("shrinking", batch()) == 10


def test_a_compacted_topic_keeps_what_is_old_until_its_policy_changes(node: Node, client: Any) -> None:
    node.create_topic("kept", config={"cleanup.policy": "compact", "retention.ms": 1, "min.cleanable.dirty.ratio": 1})
    client.append("kept", batch(now_ms() - 1000))
    time.sleep(3 * ROUND_MS / 1000)
    assert client.offset("kept", -2) == 0
    client.configure("kept", cleanup_policy="compact,delete")
    wait_until(lambda: client.offset("kept", -2) == 1)
    client.configure("kept", cleanup_policy="compact")
    client.append("kept", batch(now_ms() - 1000))
    time.sleep(3 * ROUND_MS / 1000)
    assert client.offset("kept", -2) == 1
    client.configure("kept", cleanup_policy="delete")
    wait_until(lambda: client.offset("kept", -2) == 2)


def test_files_stay_for_their_delay_under_another_name(node: Node, client: Any) -> None:
    configs = {"segment.bytes": 1500, "retention.bytes": 0, "file.delete.delay.ms": 1000}
    node.create_topic("delayed", config=configs)
    for _ in range(3):
        client.append("delayed", batch())
    wait_until(lambda: client.offset("delayed", -2) == 3)
    wait_until(lambda: len(files(node, "delayed-0", ".log")) == 1)
    assert [name for name in files(node, "delayed-0", ".deleted") if ".log" in name][:1]
    wait_until(lambda: not files(node, "delayed-0", ".deleted"))


def test_what_was_about_to_be_deleted_is_gone_after_a_restart(log_client: Any, raw: SimpleNamespace) -> None:
    config = {"log.retention.check.interval.ms": ROUND_MS, "log.initial.task.delay.ms": 0}
    with Node(config) as node, log_client(node) as client:
        node.create_topic("late", config={"segment.bytes": 1500, "retention.bytes": 0})
        node.create_topic("doomed")
        client.append("doomed", batch())
        for _ in range(3):
            client.append("late", batch())
        raw.wait_until(lambda: client.offset("late", -2) == 3)
        client.connection.request(DeleteTopicsRequest(topics=[DeleteTopicState(name="doomed")], timeout_ms=9000), 6)
        assert [path for path in node.data_dir.glob("doomed-0.*-delete/*.log") if path.stat().st_size]
        raw.wait_until(lambda: len(files(node, "late-0", ".log")) == 1)
        assert files(node, "late-0", ".deleted")
        node.kill()
        node.start()
        assert not files(node, "late-0", ".deleted")
        raw.wait_until(lambda: not list(node.data_dir.glob("doomed-0.*")))
        client.reconnect()
        assert (client.offset("late", -2), client.offset("late", -1)) == (3, 3)


def test_a_deleted_topic_s_files_stay_for_their_delay(node: Node, client: Any) -> None:
    node.create_topic("going", config={"file.delete.delay.ms": 700})
    client.append("going", batch())
    client.connection.request(DeleteTopicsRequest(topics=[DeleteTopicState(name="going")], timeout_ms=9000), 6)
    assert list(node.data_dir.glob("going-0.*-delete/*.log"))
    wait_until(lambda: not list(node.data_dir.glob("going-0*")))


def test_segments_below_the_log_start_go(node: Node, client: Any) -> None:
    node.create_topic("cut", config={"segment.bytes": 1500, "file.delete.delay.ms": 0})
    for _ in range(40):
        client.append("cut", batch())
    partitions = [DeleteRecordsPartition(partition_index=0, offset=35)]
    topics = [DeleteRecordsTopic(name="cut", partitions=partitions)]
    answer = client.connection.request(DeleteRecordsRequest(topics=topics, timeout_ms=9000), 2)
    assert answer.topics[0].partitions[0].low_watermark == 35
    wait_until(lambda: files(node, "cut-0", ".log")[0] == f"{35:020d}.log")
    assert client.offset("cut", -2) == 35


def test_a_fetch_session_is_told_that_the_log_starts_later(node: Node, client: Any) -> None:
    node.create_topic("watched", config={"segment.bytes": 1500})
    for _ in range(4):
        client.append("watched", batch())
    asked = FetchTopic(topic="watched", partitions=[FetchPartition(partition=0, fetch_offset=4, partition_max_bytes=1)])
    opened = client.connection.request(FetchRequest(max_wait_ms=0, session_epoch=0, topics=[asked]), 12)
    assert opened.responses[0].partitions[0].log_start_offset == 0
    client.configure("watched", retention_bytes=0)
    wait_until(lambda: client.offset("watched", -2) == 4)
    request = FetchRequest(max_wait_ms=0, session_id=opened.session_id, session_epoch=1, topics=[])
    [told] = client.connection.request(request, 12).responses
    assert (told.topic, told.partitions[0].log_start_offset) == ("watched", 4)
    request = FetchRequest(max_wait_ms=0, session_id=opened.session_id, session_epoch=2, topics=[])
    assert client.connection.request(request, 12).responses == []
