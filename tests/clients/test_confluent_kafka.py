"""librdkafka through confluent-kafka: the client most of the world runs."""

import threading
import time
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from barnabas.testing import Node

WAIT_S = 20
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
NEAR_LIMIT = 1048588 - 200


def admin_of(servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": servers})


def create(servers: str, topic: str, partitions: int = 1, **config: str) -> None:
    entries = {key.replace("_", "."): value for key, value in config.items()}
    new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=entries)
    admin = admin_of(servers)
    admin.create_topics([new])[topic].result(WAIT_S)


def read(servers: str, partitions: list[TopicPartition], count: int, **config: Any) -> list[Message]:
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "assigned", "enable.auto.commit": False} | dict(config)
    )
    consumer.assign(partitions)
    messages: list[Message] = []
    deadline = time.monotonic() + WAIT_S
    while len(messages) < count and time.monotonic() < deadline:
        for message in consumer.consume(count - len(messages), timeout=1):
            assert message.error() is None, message.error()
            messages.append(message)
    consumer.close()
    assert len(messages) == count
    return messages


def send_all(servers: str, topic: str, values: list[bytes], **config: Any) -> list[Message]:
    producer = Producer({"bootstrap.servers": servers} | dict(config))
    delivered: list[Message] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        delivered.append(message)

    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=on_delivery)
    assert producer.flush(WAIT_S) == 0
    assert len(delivered) == len(values)
    return delivered


@pytest.mark.parametrize("codec", CODECS)
def test_keys_headers_and_timestamps_come_back_in_every_compression(servers: str, topic: str, codec: str) -> None:
    create(servers, topic)
    producer = Producer({"bootstrap.servers": servers, "compression.type": codec, "linger.ms": 50})
    sent = [
        (
            f"key-{number}".encode() if number % 3 else None,
            b"v" * number,
            [("number", str(number).encode()), ("no", None)],
        )
        for number in range(200)
    ]
    for number, (key, value, headers) in enumerate(sent):
        producer.produce(topic, value, key, headers=headers, timestamp=1_700_000_000_000 + number)
    assert producer.flush(WAIT_S) == 0
    messages = read(servers, [TopicPartition(topic, 0, 0)], 200)
    assert [(m.key(), m.value(), m.headers()) for m in messages] == sent
    assert [m.timestamp()[1] for m in messages] == [1_700_000_000_000 + number for number in range(200)]
    assert [m.offset() for m in messages] == list(range(200))


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_level_of_acknowledgement(servers: str, topic: str, acks: str) -> None:
    create(servers, topic)
    send_all(servers, topic, [b"%d" % number for number in range(100)], acks=acks)
    messages = read(servers, [TopicPartition(topic, 0, 0)], 100)
    assert [m.value() for m in messages] == [b"%d" % number for number in range(100)]


def test_seek_to_an_offset_and_to_a_time(servers: str, topic: str) -> None:
    create(servers, topic)
    producer = Producer({"bootstrap.servers": servers})
    for number in range(1000):
        producer.produce(topic, b"%d" % number, partition=0, timestamp=1_700_000_000_000 + number * 1000)
    assert producer.flush(WAIT_S) == 0
    assert read(servers, [TopicPartition(topic, 0, 700)], 1)[0].value() == b"700"
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "times", "enable.auto.commit": False})
    wanted = [TopicPartition(topic, 0, 1_700_000_000_000 + 123_500)]
    assert consumer.offsets_for_times(wanted, WAIT_S)[0].offset == 124
    late = [TopicPartition(topic, 0, 1_900_000_000_000)]
    assert consumer.offsets_for_times(late, WAIT_S)[0].offset == -1
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), WAIT_S) == (0, 1000)
    consumer.assign([TopicPartition(topic, 0, 10)])
    assert consumer.consume(1, WAIT_S)[0].value() == b"10"
    consumer.seek(TopicPartition(topic, 0, 990))
    assert [m.value() for m in consumer.consume(10, WAIT_S)][-1] == b"999"
    consumer.close()


def test_an_offset_out_of_range_is_told_or_reset(servers: str, topic: str) -> None:
    create(servers, topic)
    send_all(servers, topic, [b"a", b"b"])
    config = {"bootstrap.servers": servers, "group.id": "range", "enable.auto.commit": False}
    consumer = Consumer(config | {"auto.offset.reset": "error"})
    consumer.assign([TopicPartition(topic, 0, 99)])
    message = consumer.poll(WAIT_S)
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET)
    consumer.close()
    messages = read(servers, [TopicPartition(topic, 0, 99)], 2, **{"auto.offset.reset": "earliest"})
    assert [m.value() for m in messages] == [b"a", b"b"]


def test_messages_near_and_over_the_limit(servers: str, topic: str) -> None:
    create(servers, topic)
    large = {"message.max.bytes": 5_000_000}
    send_all(servers, topic, [b"x" * NEAR_LIMIT], **large)
    assert len(read(servers, [TopicPartition(topic, 0, 0)], 1)[0].value() or b"") == NEAR_LIMIT
    told = []
    producer = Producer({"bootstrap.servers": servers} | large)
    producer.produce(topic, b"x" * 1_100_000, on_delivery=lambda error, _: told.append(error))
    producer.flush(WAIT_S)
    assert [error.code() for error in told] == [KafkaError.MSG_SIZE_TOO_LARGE]


def test_a_message_above_the_fetch_size_is_still_read(servers: str, topic: str) -> None:
    create(servers, topic)
    send_all(servers, topic, [b"y" * 500_000, b"z"])
    small = {"fetch.message.max.bytes": 1000, "fetch.max.bytes": 1_000_000, "message.max.bytes": 1_000_000}
    messages = read(servers, [TopicPartition(topic, 0, 0)], 2, **small)
    assert [len(m.value() or b"") for m in messages] == [500_000, 1]


def test_a_topic_comes_into_being_by_writing_to_it(servers: str, topic: str) -> None:
    delivered = send_all(servers, topic, [b"first"])
    assert delivered[0].offset() == 0
    assert topic in admin_of(servers).list_topics(timeout=WAIT_S).topics


def test_admin_creates_describes_extends_and_deletes(servers: str, topic: str) -> None:
    admin = admin_of(servers)
    create(servers, topic, partitions=2, retention_ms="1234567")
    with pytest.raises(KafkaException) as refused:
        create(servers, topic)
    assert refused.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    assert len(admin.list_topics(topic, WAIT_S).topics[topic].partitions) == 2
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(WAIT_S)
    assert len(admin.list_topics(topic, WAIT_S).topics[topic].partitions) == 5
    cluster = admin.describe_cluster(request_timeout=WAIT_S).result(WAIT_S)
    assert cluster.controller.id == cluster.nodes[0].id
    offsets = admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.latest()})
    assert next(iter(offsets.values())).result(WAIT_S).offset == 0
    admin.delete_topics([topic])[topic].result(WAIT_S)
    assert topic not in admin.list_topics(timeout=WAIT_S).topics


def test_configs_are_described_and_altered(servers: str, topic: str) -> None:
    admin = admin_of(servers)
    create(servers, topic)
    resource = ConfigResource(ResourceType.TOPIC, topic)
    before = admin.describe_configs([resource])[resource].result(WAIT_S)
    assert before["retention.ms"].value == "604800000"
    assert before["retention.ms"].is_default
    change = ConfigResource(
        ResourceType.TOPIC,
        topic,
        incremental_configs=[
            ConfigEntry("retention.ms", "5000", incremental_operation=AlterConfigOpType.SET),
            ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
        ],
    )
    admin.incremental_alter_configs([change])[change].result(WAIT_S)
    after = admin.describe_configs([resource])[resource].result(WAIT_S)
    assert after["retention.ms"].value == "5000"
    assert set((after["cleanup.policy"].value or "").split(",")) == {"delete", "compact"}
    bad = ConfigResource(
        ResourceType.TOPIC,
        topic,
        incremental_configs=[ConfigEntry("retention.ms", "many", incremental_operation=AlterConfigOpType.SET)],
    )
    with pytest.raises(KafkaException) as refused:
        admin.incremental_alter_configs([bad])[bad].result(WAIT_S)
    assert refused.value.args[0].code() == KafkaError.INVALID_CONFIG


def test_records_are_deleted_up_to_an_offset(servers: str, topic: str) -> None:
    admin = admin_of(servers)
    create(servers, topic)
    send_all(servers, topic, [b"%d" % number for number in range(10)])
    deleted = admin.delete_records([TopicPartition(topic, 0, 6)])
    assert next(iter(deleted.values())).result(WAIT_S).low_watermark == 6
    messages = read(servers, [TopicPartition(topic, 0, 6)], 4)
    assert [m.value() for m in messages] == [b"6", b"7", b"8", b"9"]
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "low"})
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), WAIT_S) == (6, 10)
    consumer.close()


@pytest.mark.parametrize("kill", [False, True], ids=["clean stop", "kill -9"])
def test_an_idempotent_producer_writes_once_through_a_restart(own_node: Node, topic: str, kill: bool) -> None:
    create(own_node.bootstrap_servers, topic)
    producer = Producer(
        {"bootstrap.servers": own_node.bootstrap_servers, "enable.idempotence": True, "linger.ms": 1}
        | {"reconnect.backoff.max.ms": 100, "retry.backoff.ms": 10, "message.timeout.ms": 60_000}
    )
    failed: list[KafkaError] = []
    count = 3000
    restarted = threading.Event()

    def restart() -> None:
        if kill:
            own_node.kill()
        own_node.restart()
        restarted.set()

    thread = threading.Thread(target=restart)
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0, on_delivery=lambda e, _: e and failed.append(e))
        producer.poll(0.001 if number % 10 == 0 else 0)
        if number == 1000:
            thread.start()
    thread.join()
    assert restarted.is_set()
    assert producer.flush(60) == 0
    assert not failed
    messages = read(own_node.bootstrap_servers, [TopicPartition(topic, 0, 0)], count)
    assert [m.value() for m in messages] == [b"%d" % number for number in range(count)]
