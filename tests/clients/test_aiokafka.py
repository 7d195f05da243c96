"""aiokafka: the asyncio client, against a node in a process of its own and one in the same event loop."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import MessageSizeTooLargeError, OffsetOutOfRangeError, TopicAlreadyExistsError

from barnabas.testing import Node

T = TypeVar("T")
WAIT_S = 30
CODECS = [None, "gzip", "snappy", "lz4", "zstd"]


def run(story: Callable[[], Awaitable[T]]) -> T:
    async def limited() -> T:
        return await asyncio.wait_for(story(), WAIT_S)

    return asyncio.run(limited())


async def read(servers: str, partition: TopicPartition, offset: int, count: int, **config: Any) -> list[Any]:
    async with AIOKafkaConsumer(bootstrap_servers=servers, **config) as consumer:
        consumer.assign([partition])
        consumer.seek(partition, offset)
        return [await consumer.getone() for _ in range(count)]


@pytest.mark.parametrize("codec", CODECS)
def test_keys_headers_and_timestamps_come_back_in_every_compression(
    servers: str, topic: str, codec: str | None
) -> None:
    async def story() -> None:
        async with AIOKafkaProducer(bootstrap_servers=servers, compression_type=codec, linger_ms=20) as producer:
            sends = [
                await producer.send(
                    topic,
                    b"value-%d" % number,
                    key=b"key" if number % 2 else None,
                    headers=[("number", b"%d" % number)],
                    timestamp_ms=1_700_000_000_000 + number,
                    partition=0,
                )
                for number in range(100)
            ]
            for sent in await asyncio.gather(*sends):
                assert sent.topic == topic
        records = await read(servers, TopicPartition(topic, 0), 0, 100)
        assert [record.value for record in records] == [b"value-%d" % number for number in range(100)]
        assert [record.key for record in records[:2]] == [None, b"key"]
        assert records[7].headers == (("number", b"7"),)
        assert [record.timestamp for record in records] == [1_700_000_000_000 + number for number in range(100)]

    run(story)


def test_seek_by_time_and_to_the_ends(servers: str, topic: str) -> None:
    async def story() -> None:
        partition = TopicPartition(topic, 0)
        async with AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True) as producer:
            for number in range(50):
                await producer.send_and_wait(topic, b"%d" % number, timestamp_ms=1_000_000 + number * 10)
        async with AIOKafkaConsumer(bootstrap_servers=servers) as consumer:
            consumer.assign([partition])
            assert await consumer.beginning_offsets([partition]) == {partition: 0}
            assert await consumer.end_offsets([partition]) == {partition: 50}
            found = (await consumer.offsets_for_times({partition: 1_000_205}))[partition]
            assert (found.offset, found.timestamp) == (21, 1_000_210)
            await consumer.seek_to_beginning(partition)
            assert (await consumer.getone()).value == b"0"
            consumer.seek(partition, found.offset)
            assert (await consumer.getone()).value == b"21"
        with pytest.raises(OffsetOutOfRangeError):
            await read(servers, partition, 51, 1, auto_offset_reset="none")

    run(story)


def test_messages_near_and_over_the_limit(servers: str, topic: str) -> None:
    async def story() -> None:
        async with AIOKafkaProducer(bootstrap_servers=servers, max_request_size=3_000_000) as producer:
            await producer.send_and_wait(topic, b"x" * 1_048_000)
            with pytest.raises(MessageSizeTooLargeError):
                await producer.send_and_wait(topic, b"x" * 1_060_000)
        (record,) = await read(servers, TopicPartition(topic, 0), 0, 1)
        assert len(record.value) == 1_048_000

    run(story)


def test_admin_topics_configs_and_deleted_records(servers: str, topic: str) -> None:
    async def story() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=servers)
        await admin.start()
        try:
            await admin.create_topics([NewTopic(topic, 2, 1, topic_configs={"segment.ms": "60000"})])
            again = await admin.create_topics([NewTopic(topic, 2, 1)])
            assert [error[1] for error in again.topic_errors] == [TopicAlreadyExistsError.errno]
            await admin.create_partitions({topic: NewPartitions(3)})
            (described,) = await admin.describe_topics([topic])
            assert len(described["partitions"]) == 3
            resource = ConfigResource(ConfigResourceType.TOPIC, topic)
            (answer,) = await admin.describe_configs([resource])
            values = {entry[0]: entry[1] for entry in answer.resources[0][4]}
            assert values["segment.ms"] == "60000"
            async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
                for number in range(5):
                    await producer.send_and_wait(topic, b"%d" % number, partition=1)
            await admin.delete_records({TopicPartition(topic, 1): RecordsToDelete(3)})
            (record,) = await read(servers, TopicPartition(topic, 1), 3, 1)
            assert record.value == b"3"
            await admin.delete_topics([topic])
            assert topic not in await admin.list_topics()
        finally:
            await admin.close()

    run(story)


def test_a_node_inside_the_event_loop_serves_it(topic: str) -> None:
    async def story() -> None:
        async with Node() as node:
            async with AIOKafkaProducer(bootstrap_servers=node.bootstrap_servers) as producer:
                sent = await producer.send_and_wait(topic, b"hello")
                assert sent.offset == 0
            (record,) = await read(node.bootstrap_servers, TopicPartition(topic, 0), 0, 1)
            assert record.value == b"hello"

    run(story)


def test_an_idempotent_producer_writes_once_through_a_kill(own_node: Node, topic: str) -> None:
    async def story() -> None:
        servers = own_node.bootstrap_servers
        async with AIOKafkaProducer(
            bootstrap_servers=servers, enable_idempotence=True, request_timeout_ms=10_000, retry_backoff_ms=20
        ) as producer:
            sends = []
            for number in range(1000):
                sends.append(await producer.send(topic, b"%d" % number, partition=0))
                if number == 500:
                    await asyncio.gather(*sends[:100])
                    await asyncio.to_thread(own_node.kill)
                    await asyncio.to_thread(own_node.restart)
            await asyncio.gather(*sends)
        records = await read(servers, TopicPartition(topic, 0), 0, 1000)
        assert [record.value for record in records] == [b"%d" % number for number in range(1000)]

    run(story)
