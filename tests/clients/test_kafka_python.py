"""kafka-python: pure Python, idempotent by default."""

import gc
import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from kafka.errors import MessageSizeTooLargeError, OffsetOutOfRangeError, TopicAlreadyExistsError

from barnabas.testing import Node

WAIT_S = 20
CODECS = [None, "gzip", "snappy", "lz4", "zstd"]

# The client leaves sockets to the garbage collector, those of failed connections too.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """So that no later test is told of them."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def read(servers: str, partition: TopicPartition, offset: int, count: int, **config: Any) -> list[Any]:
    consumer = KafkaConsumer(bootstrap_servers=servers, **config)
    try:
        consumer.assign([partition])
        consumer.seek(partition, offset)
        records: list[Any] = []
        deadline = time.monotonic() + WAIT_S
        while len(records) < count and time.monotonic() < deadline:
            for batch in consumer.poll(timeout_ms=500).values():
                records.extend(batch)
        return records
    finally:
        consumer.close()


@pytest.mark.parametrize("codec", CODECS)
def test_keys_headers_and_timestamps_come_back_in_every_compression(
    servers: str, topic: str, codec: str | None
) -> None:
    producer = KafkaProducer(bootstrap_servers=servers, compression_type=codec, linger_ms=20)
    futures = [
        producer.send(
            topic,
            b"value-%d" % number,
            key=b"key-%d" % number,
            headers=[("number", b"%d" % number)],
            timestamp_ms=1_700_000_000_000 + number,
            partition=0,
        )
        for number in range(100)
    ]
    assert [future.get(WAIT_S).offset for future in futures] == list(range(100))
    producer.close()
    records = read(servers, TopicPartition(topic, 0), 0, 100)
    assert [record.value for record in records] == [b"value-%d" % number for number in range(100)]
    assert [record.key for record in records] == [b"key-%d" % number for number in range(100)]
    assert [record.timestamp for record in records] == [1_700_000_000_000 + number for number in range(100)]
    assert list(records[3].headers) == [("number", b"3")]


def test_seek_by_time_and_to_the_ends(servers: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=servers)
    for number in range(50):
        producer.send(topic, b"%d" % number, timestamp_ms=1_000_000 + number * 10).get(WAIT_S)
    producer.close()
    partition = TopicPartition(topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=servers)
    consumer.assign([partition])
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: 50}
    found = consumer.offsets_for_times({partition: 1_000_205})[partition]
    assert (found.offset, found.timestamp) == (21, 1_000_210)
    consumer.close()
    with pytest.raises(OffsetOutOfRangeError):
        read(servers, partition, 51, 1, auto_offset_reset="none")


def test_messages_near_and_over_the_limit(servers: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=servers, max_request_size=3_000_000)
    producer.send(topic, b"x" * 1_048_000).get(WAIT_S)
    with pytest.raises(MessageSizeTooLargeError):
        producer.send(topic, b"x" * 1_060_000).get(WAIT_S)
    producer.close()
    (record,) = read(servers, TopicPartition(topic, 0), 0, 1)
    assert len(record.value) == 1_048_000


def test_admin_topics_configs_and_deleted_records(servers: str, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=servers)
    try:
        admin.create_topics([NewTopic(topic, 2, 1, topic_configs={"segment.ms": "60000"})])
        with pytest.raises(TopicAlreadyExistsError):
            admin.create_topics([NewTopic(topic, 2, 1)])
        admin.create_partitions({topic: NewPartitions(3)})
        described = admin.describe_topics([topic])[0]
        assert len(described["partitions"]) == 3
        values = str(admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)]))
        assert "60000" in values
        producer = KafkaProducer(bootstrap_servers=servers)
        for number in range(5):
            producer.send(topic, b"%d" % number, partition=1).get(WAIT_S)
        producer.close()
        admin.delete_records({TopicPartition(topic, 1): 3})
        (record,) = read(servers, TopicPartition(topic, 1), 3, 2)[:1]
        assert record.value == b"3"
        admin.delete_topics([topic])
        assert topic not in admin.list_topics()
    finally:
        admin.close()


def test_an_idempotent_producer_writes_once_through_a_kill(own_node: Node, topic: str) -> None:
    servers = own_node.bootstrap_servers
    producer = KafkaProducer(bootstrap_servers=servers, retry_backoff_ms=20, reconnect_backoff_max_ms=100)
    futures = []
    for number in range(1000):
        futures.append(producer.send(topic, b"%d" % number, partition=0))
        if number == 500:
            futures[100].get(WAIT_S)
            own_node.kill()
            own_node.restart()
    for future in futures:
        future.get(WAIT_S)
    producer.close()
    records = read(servers, TopicPartition(topic, 0), 0, 1000)
    assert [record.value for record in records] == [b"%d" % number for number in range(1000)]
