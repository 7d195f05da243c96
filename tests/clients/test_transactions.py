"""Transactions by librdkafka, aiokafka, kafka-python and Kafka's Java tools."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer

from barnabas.testing import Node
from tests.support import reference

WAIT_S = 20


@pytest.fixture
def topic(servers: str, topic: str) -> str:
    """Two partitions."""
    create(servers, topic)
    return topic


def create(servers: str, topic: str, partitions: int = 2) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, num_partitions=partitions, replication_factor=1)])[topic].result(WAIT_S)


def transactional(servers: str, name: str, **config: Any) -> Producer:
    producer = Producer(
        {"bootstrap.servers": servers, "transactional.id": name, "transaction.timeout.ms": 60_000, "linger.ms": 0}
        | config
    )
    producer.init_transactions(WAIT_S)
    return producer


def write(producer: Producer, topic: str, *values: str, partition: int = 0) -> None:
    for value in values:
        producer.produce(topic, value, partition=partition)


def read(servers: str, topic: str, *, isolation: str = "read_committed", partitions: int = 2) -> list[str]:
    """Everything up to the end, as a reader of this kind sees it."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    values: list[str] = []
    ended: set[int] = set()
    deadline = time.monotonic() + WAIT_S
    while len(ended) < partitions:
        assert time.monotonic() < deadline, f"only {ended} ended, {len(values)} values"
        for message in consumer.consume(1000, timeout=0.2):
            if message.error() is None:
                values.append(message.value().decode())
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                ended.add(message.partition())
    consumer.close()
    return sorted(values)


def test_what_is_committed_is_read_and_what_is_aborted_is_not(servers: str, topic: str) -> None:
    producer = transactional(servers, f"{topic}-tx")
    for number, ends in enumerate([producer.commit_transaction, producer.abort_transaction] * 3):
        producer.begin_transaction()
        write(producer, topic, f"{number}-a", f"{number}-b", partition=0)
        write(producer, topic, f"{number}-c", partition=1)
        producer.flush(WAIT_S)
        ends(WAIT_S)
    assert read(servers, topic) == [f"{number}-{each}" for number in (0, 2, 4) for each in "abc"]
    uncommitted = read(servers, topic, isolation="read_uncommitted")
    assert uncommitted == [f"{number}-{each}" for number in range(6) for each in "abc"]


def test_readers_of_committed_records_wait_for_an_open_transaction(servers: str, topic: str) -> None:
    producer = transactional(servers, f"{topic}-tx")
    producer.begin_transaction()
    write(producer, topic, "open")
    producer.flush(WAIT_S)
    plain = Producer({"bootstrap.servers": servers})
    write(plain, topic, "plain")
    plain.flush(WAIT_S)
    assert read(servers, topic) == []
    assert read(servers, topic, isolation="read_uncommitted") == ["open", "plain"]
    producer.commit_transaction(WAIT_S)
    assert read(servers, topic) == ["open", "plain"]


def test_a_second_producer_of_the_same_id_fences_the_first(servers: str, topic: str) -> None:
    first = transactional(servers, f"{topic}-tx")
    first.begin_transaction()
    write(first, topic, "zombie")
    first.flush(WAIT_S)
    second = transactional(servers, f"{topic}-tx")
    second.begin_transaction()
    write(second, topic, "alive")
    second.commit_transaction(WAIT_S)

    def go_on() -> None:
        write(first, topic, "zombie again")
        first.flush(WAIT_S)
        first.commit_transaction(WAIT_S)

    with pytest.raises(KafkaException) as fenced:
        go_on()
    assert fenced.value.args[0].code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED)
    assert fenced.value.args[0].fatal()
    assert read(servers, topic) == ["alive"]


@pytest.fixture
def consumer(servers: str, topic: str) -> Iterator[Consumer]:
    group = {"bootstrap.servers": servers, "group.id": f"{topic}-group", "enable.auto.commit": False}
    consumer = Consumer(group | {"auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    yield consumer
    consumer.close()


def test_offsets_are_committed_with_the_transaction_or_not_at_all(servers: str, topic: str, consumer: Consumer) -> None:
    plain = Producer({"bootstrap.servers": servers})
    write(plain, topic, *map(str, range(10)))
    plain.flush(WAIT_S)
    assert len(consumer.consume(10, timeout=WAIT_S)) == 10
    out = f"{topic}-out"
    create(servers, out)
    producer = transactional(servers, f"{topic}-tx")
    for ends, offset, expected in [
        (producer.abort_transaction, 3, -1001),
        (producer.commit_transaction, 5, 5),
        (producer.abort_transaction, 7, 5),
        (producer.commit_transaction, 10, 10),
    ]:
        producer.begin_transaction()
        write(producer, out, f"up to {offset}")
        position = [TopicPartition(topic, 0, offset)]
        producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), WAIT_S)
        ends(WAIT_S)
        (committed,) = consumer.committed([TopicPartition(topic, 0)], timeout=WAIT_S)
        assert committed.offset == expected
    assert read(servers, out) == ["up to 10", "up to 5"]


def test_a_prepared_end_survives_a_kill(own_node: Node) -> None:
    """And what was open when the node died is aborted by the next producer."""
    servers = own_node.bootstrap_servers
    create(servers, "orders")
    producer = transactional(servers, "tx")
    for number in range(5):
        producer.begin_transaction()
        write(producer, "orders", f"{number}")
        producer.commit_transaction(WAIT_S)
    producer.begin_transaction()
    write(producer, "orders", "open")
    producer.flush(WAIT_S)
    own_node.kill()
    own_node.start()
    assert read(servers, "orders") == ["0", "1", "2", "3", "4"]
    assert read(servers, "orders", isolation="read_uncommitted") == ["0", "1", "2", "3", "4", "open"]
    following = transactional(servers, "tx")
    following.begin_transaction()
    write(following, "orders", "next")
    following.commit_transaction(WAIT_S)
    assert read(servers, "orders") == ["0", "1", "2", "3", "4", "next"]


def test_aiokafka_commits_and_aborts(servers: str, topic: str) -> None:
    async def story() -> list[bytes]:
        producer = AIOKafkaProducer(bootstrap_servers=servers, transactional_id=f"{topic}-aio")
        await producer.start()
        try:
            async with producer.transaction():
                await producer.send_and_wait(topic, b"kept", partition=0)
                await producer.send_offsets_to_transaction({AioTopicPartition(topic, 1): 4}, f"{topic}-group")
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"dropped", partition=0)
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send_and_wait(topic, b"kept too", partition=0)
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(
            bootstrap_servers=servers, group_id=f"{topic}-group", isolation_level="read_committed"
        )
        await consumer.start()
        try:
            consumer.assign([AioTopicPartition(topic, 0), AioTopicPartition(topic, 1)])
            assert await consumer.committed(AioTopicPartition(topic, 1)) == 4
            await consumer.seek_to_beginning(AioTopicPartition(topic, 0))
            return [(await asyncio.wait_for(consumer.getone(), WAIT_S)).value for _ in range(2)]
        finally:
            await consumer.stop()

    assert asyncio.run(story()) == [b"kept", b"kept too"]


def test_kafka_python_commits_and_aborts(servers: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=servers, transactional_id=f"{topic}-python")
    producer.init_transactions()
    for number in range(4):
        producer.begin_transaction()
        producer.send(topic, str(number).encode(), partition=number % 2).get(WAIT_S)
        if number == 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    producer.close()
    assert read(servers, topic) == ["0", "1", "3"]


@pytest.fixture(scope="module")
def java() -> None:
    if reason := reference.available():
        pytest.skip(f"Kafka's tools are not available: {reason}")


def test_a_java_producer_writes_transactions_of_the_newer_version(java: None, servers: str, topic: str) -> None:
    told = reference.run_tool(
        *("kafka-producer-perf-test", "--topic", topic, "--num-records", "20000", "--record-size", "100"),
        *("--throughput", "-1", "--transactional-id", f"{topic}-java", "--transaction-duration-ms", "20"),
        *("--bootstrap-server", servers),
    )
    assert told.returncode == 0, told.stderr + told.stdout
    assert "20000 records sent" in told.stdout
    assert len(read(servers, topic)) == 20_000
    listed = reference.run_tool("kafka-transactions", "--bootstrap-server", servers, "list").stdout
    assert [line.split()[-1] for line in listed.splitlines() if f"{topic}-java" in line] == ["CompleteCommit"]


def test_the_transactions_tool_describes_and_aborts(java: None, servers: str, topic: str) -> None:
    producer = transactional(servers, f"{topic}-tx")
    producer.begin_transaction()
    write(producer, topic, "hangs")
    producer.flush(WAIT_S)

    def tool(*arguments: str) -> str:
        told = reference.run_tool("kafka-transactions", "--bootstrap-server", servers, *arguments)
        assert told.returncode == 0, told.stderr + told.stdout
        return told.stdout

    assert f"{topic}-0" in tool("describe", "--transactional-id", f"{topic}-tx")
    assert len(tool("describe-producers", "--topic", topic, "--partition", "0").splitlines()) == 2
    tool("abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    plain = Producer({"bootstrap.servers": servers})
    write(plain, topic, "after")
    plain.flush(WAIT_S)
    assert read(servers, topic) == ["after"]
