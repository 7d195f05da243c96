"""Transactions on topics that are compacted or shortened meanwhile, and the offsets topic itself with live groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from barnabas.testing import Node
from barnabas.wire.batch import decode_records, iterate_batches, read_header
from tests.support.waiting import wait_until

WAIT_S = 20.0
CONFIG = {
    "log.cleaner.backoff.ms": 20,
    "log.initial.task.delay.ms": 100,
    "log.retention.check.interval.ms": 100,
    "log.cleaner.min.cleanable.ratio": 0.001,
    "log.cleaner.delete.retention.ms": 100,
    "offsets.topic.segment.bytes": 2_000,
    "offsets.topic.num.partitions": 1,
    "offsets.retention.check.interval.ms": 200,
}
COMPACTED = {"cleanup_policy": "compact", "segment_bytes": "2000", "delete_retention_ms": "100"}
DELETED = {"cleanup_policy": "delete", "segment_bytes": "2000", "retention_bytes": "2000"}
PADDING = "x" * 300


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(CONFIG) as running:
        yield running


@pytest.fixture
def client(node: Node, log_client: Any) -> Iterator[Any]:
    with log_client(node) as connected:
        yield connected


def producer(node: Node, name: str | None = None) -> Producer:
    config: dict[str, Any] = {"bootstrap.servers": node.bootstrap_servers, "log_level": 0}
    if name is None:
        return Producer(config)
    made = Producer(config | {"transactional.id": name})
    made.init_transactions(WAIT_S)
    return made


def write(to: Producer, topic: str, **values: str) -> None:
    for key, value in values.items():
        to.produce(topic, key=key, value=value, partition=0)
    assert to.flush(WAIT_S) == 0


def fill(to: Producer, topic: str, count: int = 20) -> None:
    """Segments behind which nothing of before is active any more."""
    for number in range(count):
        write(to, topic, filler=f"{number}{PADDING}")


def read(node: Node, topic: str, isolation: str = "read_committed") -> list[tuple[str, str]]:
    """Keys and values in order, without the filling."""
    config = {"bootstrap.servers": node.bootstrap_servers, "group.id": "reader", "enable.auto.commit": False}
    consumer = Consumer(config | {"isolation.level": isolation, "enable.partition.eof": True, "log_level": 0})
    consumer.assign([TopicPartition(topic, 0, consumer.get_watermark_offsets(TopicPartition(topic, 0), WAIT_S)[0])])
    found = []
    while (message := consumer.poll(WAIT_S)) is not None and message.error() is None:
        if message.key() != b"filler":
            found.append((message.key().decode(), message.value().decode()))
    consumer.close()
    return found


def batches(client: Any, topic: str) -> list[tuple[int, bool, list[bytes | None]]]:
    """First offset, whether it is a marker, and the keys, of every batch that is left."""
    found = []
    offset = client.offset(topic, -2)
    while records := client.fetch(topic, offset).records:
        for position, header in iterate_batches(memoryview(records)):
            offset = header.last_offset + 1
            keys = [each.key for each in decode_records(records, position)]
            found.append((header.base_offset, read_header(records, position).is_control, keys))
    return found


def cleaned(client: Any, topic: str) -> int:
    """How many records of the filling are left."""
    return sum(keys.count(b"filler") for _, _, keys in batches(client, topic))


def test_compaction_stops_before_an_open_transaction_and_drops_what_was_aborted(
    node: Node, client: Any, raw: Any
) -> None:
    topic = "compacted"
    raw.create_topic(node, topic, **COMPACTED)
    plain, one, two = producer(node), producer(node, "one"), producer(node, "two")
    one.begin_transaction()
    write(one, topic, a="committed", b="committed")
    one.commit_transaction(WAIT_S)
    one.begin_transaction()
    write(one, topic, a="aborted", c="aborted")
    one.abort_transaction(WAIT_S)
    fill(plain, topic)
    two.begin_transaction()
    write(two, topic, b="open")
    fill(plain, topic)
    raw.wait_until(lambda: cleaned(client, topic) < 40)
    raw.wait_until(lambda: ("a", "aborted") not in read(node, topic, "read_uncommitted"))
    assert read(node, topic) == [("a", "committed"), ("b", "committed")]
    assert read(node, topic, "read_uncommitted") == [("a", "committed"), ("b", "committed"), ("b", "open")]
    # Behind the open transaction everything is as it was written.
    assert cleaned(client, topic) >= 20
    two.commit_transaction(WAIT_S)
    fill(plain, topic)
    raw.wait_until(lambda: cleaned(client, topic) < 20)
    raw.wait_until(lambda: read(node, topic, "read_uncommitted") == [("a", "committed"), ("b", "open")])
    assert read(node, topic) == [("a", "committed"), ("b", "open")]


def test_markers_go_when_nothing_needs_them_any_more(node: Node, client: Any, raw: Any) -> None:
    topic = "markers"
    raw.create_topic(node, topic, **COMPACTED)
    plain, one = producer(node), producer(node, "marking")
    for number in range(3):
        one.begin_transaction()
        write(one, topic, a=f"{number}")
        one.commit_transaction(WAIT_S)
    fill(plain, topic)
    one.begin_transaction()
    write(one, topic, a="last")
    one.commit_transaction(WAIT_S)
    fill(plain, topic)

    def markers() -> int:
        return sum(is_marker for _, is_marker, _ in batches(client, topic))

    def a_little_later() -> bool:
        fill(plain, topic, 5)
        return markers() <= 2

    raw.wait_until(a_little_later)
    assert read(node, topic) == read(node, topic, "read_uncommitted") == [("a", "last")]


def test_retention_shortens_an_open_transaction_and_the_rest_is_committed(node: Node, client: Any, raw: Any) -> None:
    topic = "deleted"
    raw.create_topic(node, topic, **DELETED)
    one = producer(node, "shortened")
    one.begin_transaction()
    for number in range(30):
        write(one, topic, a=f"{number}{PADDING}")
    raw.wait_until(lambda: client.offset(topic, -2) > 0)
    assert read(node, topic) == []
    one.commit_transaction(WAIT_S)
    left = [value.removesuffix(PADDING) for _, value in read(node, topic)]
    assert left == [str(number) for number in range(30 - len(left), 30)]
    assert 0 < len(left) < 30


def test_aborted_records_that_retention_has_reached_leave_the_rest_readable(node: Node, client: Any, raw: Any) -> None:
    topic = "aborted-and-deleted"
    raw.create_topic(node, topic, **DELETED)
    plain, one = producer(node), producer(node, "aborting")
    for number in range(10):
        one.begin_transaction()
        write(one, topic, aborted=f"{number}{PADDING}")
        one.abort_transaction(WAIT_S)
        write(plain, topic, kept=f"{number}{PADDING}")
    raw.wait_until(lambda: client.offset(topic, -2) > 0)
    found = read(node, topic)
    assert {key for key, _ in found} == {"kept"}
    assert found[-1][1] == f"9{PADDING}"


def offsets_of(node: Node, group: str, topic: str) -> list[int]:
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
    asked = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])]
    (future,) = admin.list_consumer_group_offsets(asked).values()
    return [each.offset for each in future.result(WAIT_S).topic_partitions]


def consumer(node: Node, group: str) -> Consumer:
    config = {"bootstrap.servers": node.bootstrap_servers, "group.id": group, "enable.auto.commit": False}
    return Consumer(config | {"auto.offset.reset": "earliest", "session.timeout.ms": 10_000, "log_level": 0})


def test_the_offsets_topic_is_compacted_under_a_live_group(raw: Any, log_client: Any) -> None:
    with Node(CONFIG) as node, log_client(node) as client:
        raw.create_topic(node, "read")
        plain, one = producer(node), producer(node, "processor")
        write(plain, "read", **{f"k{number}": "v" for number in range(20)})
        member = consumer(node, "live")
        member.subscribe(["read"])
        wait_until(lambda: bool(member.poll(0.1) is not None and member.assignment()))
        gone = consumer(node, "gone")
        gone.commit(offsets=[TopicPartition("read", 0, 3)], asynchronous=False)
        admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
        admin.delete_consumer_groups(["gone"])["gone"].result(WAIT_S)
        for number in range(150):
            member.commit(offsets=[TopicPartition("read", 0, number)], asynchronous=False)
            if number % 50 == 49:
                one.begin_transaction()
                position = [TopicPartition("read", 0, number + 1)]
                one.send_offsets_to_transaction(position, member.consumer_group_metadata(), WAIT_S)
                one.commit_transaction(WAIT_S) if number == 149 else one.abort_transaction(WAIT_S)

        def written() -> list[bytes | None]:
            return [
                key for _, is_marker, keys in batches(client, "__consumer_offsets") for key in keys if not is_marker
            ]

        def is_compacted() -> bool:
            member.commit(offsets=[TopicPartition("read", 0, 151)], asynchronous=False)
            keys = written()
            return len(keys) < 60 and not any(b"gone" in (key or b"") for key in keys)

        wait_until(is_compacted)
        described = admin.describe_consumer_groups(["live"])["live"].result(WAIT_S)
        assert len(described.members) == 1
        assert offsets_of(node, "live", "read") == [151]
        node.kill()
        node.start()
        assert offsets_of(node, "live", "read") == [151]
        again = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
        found = again.describe_consumer_groups(["live"])["live"].result(WAIT_S)
        assert [each.member_id for each in found.members] == [each.member_id for each in described.members]
        assert not any("gone" in each.group_id for each in again.list_consumer_groups().result(WAIT_S).valid)
        member.commit(offsets=[TopicPartition("read", 0, 152)], asynchronous=False)
        assert offsets_of(node, "live", "read") == [152]
        for each in (member, gone):
            each.close()
