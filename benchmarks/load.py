"""What one confluent-kafka client does to a server: produce, consume, one in flight, end to end.

librdkafka's own traps are kept out: a consumer whose queue is full would pause for a second
(`fetch.queue.backoff.ms`), and a small queue would fill at once (`queued.min.messages`).
"""

import multiprocessing
import os
import random
import statistics
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

CHUNK_RECORDS = 10_000
QUEUED_RECORDS_MAX = 500_000
WAIT_S = 120.0


def create_topic(servers: str, topic: str, partitions: int = 1, config: dict[str, str] | None = None) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 3})
    created = admin.create_topics([NewTopic(topic, partitions, 1, config=config or {})], operation_timeout=30)
    created[topic].result(WAIT_S)
    _wait_for_topic(servers, topic)


def delete_topic(servers: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 3})
    admin.delete_topics([topic], operation_timeout=30)[topic].result(WAIT_S)


def producer(servers: str, **settings: Any) -> Producer:
    return Producer(
        {
            "bootstrap.servers": servers,
            "acks": 1,
            "queue.buffering.max.messages": 2 * QUEUED_RECORDS_MAX,
            "queue.buffering.max.kbytes": 1_048_576,
            "socket.nagle.disable": True,
            "log_level": 3,
            **settings,
        }
    )


def consumer(servers: str, **settings: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": 5,
            "queued.min.messages": 1_000_000,
            "queued.max.messages.kbytes": 1_048_576,
            "socket.nagle.disable": True,
            "log_level": 3,
            **settings,
        }
    )


def produce(servers: str, topic: str, records: int, record_bytes: int, **settings: Any) -> float:
    """Sends so many records as fast as the client can; the seconds until the last one is acknowledged.

    Records go in by the client's batch call and without a callback each, which would measure Python; that none was
    lost is seen from the end of the partition.
    """
    client = producer(servers, **settings)
    _send_one(client, topic, os.urandom(record_bytes))
    chunk_records = min(CHUNK_RECORDS, records, 100_000_000 // record_bytes)
    values = [{"value": os.urandom(record_bytes)} for _ in range(chunk_records)]
    queued_max = min(QUEUED_RECORDS_MAX, 500_000_000 // record_bytes)
    chunks = records // chunk_records
    began = time.perf_counter()
    for _ in range(chunks):
        if client.produce_batch(topic, values, partition=0) != len(values):
            raise RuntimeError("the client's queue is full")
        while len(client) > queued_max:
            client.poll(0.001)
    _send_one(client, topic, os.urandom(record_bytes))
    took = time.perf_counter() - began
    secured = {key: value for key, value in settings.items() if key.startswith(("security.", "sasl.", "ssl."))}
    _, end = consumer(servers, **secured).get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT_S)
    if end < chunks * chunk_records + 2:
        raise RuntimeError(f"only {end} of {chunks * chunk_records + 2} records arrived")
    return took


def produce_keyed(servers: str, topic: str, records: int, record_bytes: int, keys: int) -> None:
    """Records whose keys come back: one of so many, in turns that no batch has twice the same."""
    client = producer(servers)
    value = os.urandom(record_bytes)
    for start in range(0, records, CHUNK_RECORDS):
        numbers = range(start, min(start + CHUNK_RECORDS, records))
        rows = [{"key": b"key-%012d" % (number * 7919 % keys), "value": value} for number in numbers]
        if client.produce_batch(topic, rows, partition=0) != len(rows):
            raise RuntimeError("the client's queue is full")
        while len(client) > 100_000:
            client.poll(0.001)
    if client.flush(WAIT_S):
        raise TimeoutError(f"not all records of {topic} were acknowledged in {WAIT_S:.0f} s")


def produce_words(servers: str, topic: str, records: int, codec: str, rate_mb_per_s: float = 0.0) -> float:
    """Records of 1 KB that can be compressed, as fast as the client can or at a pace; the seconds until all are in."""
    client = producer(servers, **{"compression.type": codec})
    chosen = random.Random(1)
    words = [bytes(chosen.choices(b"abcdefghijklmnopqrstuvwxyz", k=chosen.randint(3, 9))) for _ in range(2_000)]
    chunk = 1_000 if rate_mb_per_s else min(CHUNK_RECORDS, records)
    values = [{"value": b" ".join(chosen.choices(words, k=250))[:1_000]} for _ in range(chunk)]
    _send_one(client, topic, b"begin")
    began = time.perf_counter()
    for number in range(records // chunk):
        if client.produce_batch(topic, values, partition=0) != len(values):
            raise RuntimeError("the client's queue is full")
        ahead_s = number / rate_mb_per_s - (time.perf_counter() - began) if rate_mb_per_s else 0.0
        if ahead_s > 0:
            time.sleep(ahead_s)
        while len(client) > 100_000:
            client.poll(0.001)
    _send_one(client, topic, b"end")
    return time.perf_counter() - began


def produce_everywhere(servers: str, topics: Sequence[str], partitions: int, records: int) -> None:
    """Records of 100 B in turns to all partitions of all topics; returns when all are acknowledged.

    Who is not there yet is asked again after some milliseconds, as it matters after a start.
    """
    client = producer(
        servers, **{"retry.backoff.ms": 5, "reconnect.backoff.ms": 5, "topic.metadata.refresh.fast.interval.ms": 20}
    )
    value = os.urandom(100)
    places = [(topic, partition) for topic in topics for partition in range(partitions)]
    for number in range(records):
        topic, partition = places[number % len(places)]
        client.produce(topic, value, partition=partition)
        if number % 1_000 == 0:
            client.poll(0)
    if client.flush(WAIT_S):
        raise TimeoutError(f"not all records were acknowledged in {WAIT_S:.0f} s")


def produce_singly(servers: str, topic: str, records: int, record_bytes: int) -> None:
    """So many records, each a batch of its own."""
    client = producer(servers, **{"batch.num.messages": 1, "linger.ms": 0})
    value = os.urandom(record_bytes)
    for _ in range(records):
        client.produce(topic, value, partition=0)
        while len(client) > 1_000:
            client.poll(0.01)
    if client.flush(WAIT_S):
        raise TimeoutError(f"not all records were acknowledged in {WAIT_S:.0f} s")


def create_topics(servers: str, topics: Sequence[str], partitions: int) -> float:
    """Many by one request; the seconds until it is answered."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 3})
    admin.list_topics(timeout=WAIT_S)
    began = time.perf_counter()
    created = admin.create_topics([NewTopic(topic, partitions, 1) for topic in topics], operation_timeout=60)
    for topic in topics:
        created[topic].result(WAIT_S)
    return time.perf_counter() - began


def produce_in_transactions(servers: str, topic: str, transactions: int, records: int, record_bytes: int) -> float:
    """So many transactions one after the other; the seconds until the last one is committed."""
    client = producer(servers, **{"transactional.id": f"benchmark-{os.urandom(4).hex()}", "acks": "all"})
    client.init_transactions(WAIT_S)
    values = [{"value": os.urandom(record_bytes)} for _ in range(records)]

    def transact() -> None:
        client.begin_transaction()
        if client.produce_batch(topic, values, partition=0) != records:
            raise RuntimeError("the client's queue is full")
        client.commit_transaction(WAIT_S)

    transact()
    began = time.perf_counter()
    for _ in range(transactions):
        transact()
    return time.perf_counter() - began


def configure(servers: str, kind: ResourceType, name: str, config: dict[str, str]) -> None:
    entries = [ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in config.items()]
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 3})
    for done in admin.incremental_alter_configs([ConfigResource(kind, name, incremental_configs=entries)]).values():
        done.result(WAIT_S)


def produce_until_acknowledged(servers: str, topic: str) -> None:
    """One record, tried again as the client does, until it is in."""
    _send_one(producer(servers, **{"linger.ms": 0, "retry.backoff.ms": 5, "reconnect.backoff.ms": 5}), topic, b"back")


def consume(servers: str, topic: str, records: int, **settings: Any) -> float:
    """Reads so many records from the beginning; the seconds until the last one is in Python's hands."""
    client = consumer(servers, **settings)
    client.list_topics(topic, timeout=WAIT_S)
    began = time.perf_counter()
    client.assign([TopicPartition(topic, 0, 0)])
    count = 0
    while count < records:
        messages = client.consume(CHUNK_RECORDS, timeout=WAIT_S)
        if not messages:
            raise TimeoutError(f"only {count} of {records} records of {topic} came in {WAIT_S:.0f} s")
        for message in (messages[0], messages[-1]):
            if message.error() is not None:
                raise RuntimeError(f"consume failed: {message.error()}")
        count += len(messages)
    took = time.perf_counter() - began
    client.close()
    return took


def one_in_flight(servers: str, topic: str, requests: int, record_bytes: int) -> list[float]:
    """The seconds of each of so many requests, sent one after the other's acknowledgement."""
    client = producer(servers, **{"linger.ms": 0, "max.in.flight.requests.per.connection": 1})
    value = os.urandom(record_bytes)
    _send_one(client, topic, value)
    return [_send_one(client, topic, value) for _ in range(requests)]


def end_to_end(servers: str, topic: str, rate_per_s: int, duration_s: float) -> list[float]:
    """The seconds from `produce()` to the consumer's `poll()` in another process, at a steady rate."""
    context = multiprocessing.get_context("spawn")
    parent, child = context.Pipe()
    count = int(rate_per_s * duration_s)
    reader = context.Process(target=_read_latencies, args=(child, servers, topic, count), daemon=True)
    reader.start()
    client = producer(servers, **{"linger.ms": 0})
    _expect(parent, reader)  # ready: it has the partition's end
    filler = b"x" * 92
    interval_ns = 1_000_000_000 // rate_per_s
    due_ns = time.monotonic_ns()
    for _ in range(count):
        while (left_ns := due_ns - time.monotonic_ns()) > 0:
            time.sleep(left_ns / 1e9)
        client.produce(topic, time.monotonic_ns().to_bytes(8, "big") + filler, partition=0)
        client.poll(0)
        due_ns += interval_ns
    client.flush(WAIT_S)
    latencies: list[float] = _expect(parent, reader)
    reader.join(WAIT_S)
    return latencies


def percentile(values: Sequence[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def _send_one(client: Producer, topic: str, value: bytes) -> float:
    outcome: list[KafkaError | None] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        outcome.append(error)

    began = time.perf_counter()
    client.produce(topic, value, partition=0, on_delivery=delivered)
    while not outcome:
        client.poll(1)
        if time.perf_counter() - began > WAIT_S:
            raise TimeoutError(f"no acknowledgement from {topic} in {WAIT_S:.0f} s")
    took = time.perf_counter() - began
    if outcome[0] is not None:
        raise RuntimeError(f"produce failed: {outcome[0]}")
    return took


def _read_latencies(parent: Connection, servers: str, topic: str, count: int) -> None:
    client = consumer(servers)
    _, end = client.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT_S)
    client.assign([TopicPartition(topic, 0, end)])
    client.poll(0.5)
    parent.send("ready")
    latencies: list[float] = []
    while len(latencies) < count:
        message = client.poll(WAIT_S)
        now_ns = time.monotonic_ns()
        if message is None:
            break
        latencies.append((now_ns - int.from_bytes(message.value()[:8], "big")) / 1e9)
    parent.send(latencies)
    client.close()


def _expect(connection: Connection, sender: Any) -> Any:
    if not connection.poll(2 * WAIT_S):
        raise TimeoutError("the consumer process said nothing")
    try:
        return connection.recv()
    except EOFError:
        raise RuntimeError(f"the consumer process ended with {sender.exitcode}") from None


def _wait_for_topic(servers: str, topic: str) -> None:
    client = producer(servers)
    limit = time.monotonic() + WAIT_S
    while time.monotonic() < limit:
        found = client.list_topics(topic, timeout=WAIT_S).topics.get(topic)
        if found is not None and found.error is None and all(p.leader >= 0 for p in found.partitions.values()):
            return
        time.sleep(0.02)
    raise TimeoutError(f"topic {topic} has no leaders")
