"""Our client on Apache Kafka: its tools read what we write, transactions hold, consumers mix with those of Java."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.client.cluster import Cluster
from barnabas.client.consumer import AssignedConsumer, GroupConsumer
from barnabas.client.errors import Refused, TransactionFailed
from barnabas.client.offsets import CommittedOffset, committed_offsets
from barnabas.client.producer import Producer
from barnabas.client.settings import ClientSettings
from barnabas.client.transactions import TransactionalProducer, end_transaction, init_transactions, list_transactions
from barnabas.wire.errors import ErrorCode
from tests.support import reference
from tests.support.reference_libs import classpath_options, java

LIMIT_S = 60.0
COOPERATIVE = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"


def settings(kafka: reference.ApacheKafka, **properties: str) -> ClientSettings:
    given = {name.replace("_", "."): value for name, value in properties.items()}
    return ClientSettings.from_properties(
        {"auto.offset.reset": "earliest"} | given, bootstrap_servers=kafka.bootstrap_servers
    )


def test_records_of_every_codec_are_read_by_kafkas_consumer_and_by_ours(both: Any, apache_kafka: Any) -> None:
    name = both.topic()
    expected = []
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        with Producer(settings(apache_kafka, compression_type=codec)) as producer:
            for number in range(300):
                producer.send(name, b"%b-%d" % (codec.encode(), number), headers=[("n", b"%d" % number)])
        expected += [f"{codec}-{number}" for number in range(300)]
    with AssignedConsumer(settings(apache_kafka)) as consumer:
        consumer.assign({(name, 0): 0})
        values: list[str] = []
        while len(values) < 1500:
            values += [(record.value or b"").decode() for record in consumer.poll(int(LIMIT_S * 1000))]
    assert values == expected
    printed = reference.run_tool(
        "kafka-console-consumer",
        *("--bootstrap-server", apache_kafka.bootstrap_servers, "--topic", name),
        *("--from-beginning", "--max-messages", "1500", "--timeout-ms", "30000"),
    )
    assert printed.stdout.split() == expected


def test_transactions_are_prepared_here_and_ended_elsewhere(both: Any, apache_kafka: Any) -> None:
    name = both.topic()
    with Cluster(settings(apache_kafka)) as here, Cluster(settings(apache_kafka)) as elsewhere:
        prepared = init_transactions(here, f"{name}.0")
        with TransactionalProducer(settings(apache_kafka), prepared) as producer:
            producer.send(name, b"kept")
            producer.commit_offsets(f"{name}.0", {(name, 0): CommittedOffset(1, "rows=1")})
            producer.flush(LIMIT_S)
        assert [one.state for one in list_transactions(elsewhere, f"{name}.")] == ["Ongoing"]
        for _ in range(2):
            end_transaction(elsewhere, prepared, commit=True)
        stable = committed_offsets(elsewhere, f"{name}.0", [(name, 0)], require_stable=True)
        assert stable == {(name, 0): (1, "rows=1", -1)}
        with pytest.raises(Refused, match="was not aborted"):
            end_transaction(elsewhere, prepared, commit=False)

        with TransactionalProducer(settings(apache_kafka), prepared) as zombie:
            zombie.send(name, b"zombie")
            zombie.flush(LIMIT_S)
            init_transactions(elsewhere, f"{name}.0")
            zombie.send(name, b"late")
            with pytest.raises(TransactionFailed):
                zombie.flush(LIMIT_S)
            with pytest.raises(Refused) as fenced:
                end_transaction(here, prepared, commit=True)
            assert fenced.value.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
        with Producer(settings(apache_kafka)) as producer:
            producer.send(name, b"end").result(LIMIT_S)
    with AssignedConsumer(settings(apache_kafka, isolation_level="read_committed")) as consumer:
        consumer.assign({(name, 0): 0})
        seen: list[bytes | None] = []
        deadline = time.monotonic() + LIMIT_S
        while b"end" not in seen:
            assert time.monotonic() < deadline, seen
            seen += [record.value for record in consumer.poll(1000)]
    assert seen == [b"kept", b"end"]


class JavaConsumer:
    """Kafka's console consumer in a group, and the lines it has printed."""

    def __init__(self, kafka: reference.ApacheKafka, topic: str, group: str, strategy: str | None) -> None:
        command = [
            *(java(), "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *classpath_options()),
            reference.TOOLS["kafka-console-consumer"],
            *("--bootstrap-server", kafka.bootstrap_servers, "--topic", topic, "--group", group, "--from-beginning"),
            *("--command-property", "heartbeat.interval.ms=200"),
        ]
        if strategy is not None:
            command += ["--command-property", f"partition.assignment.strategy={strategy}"]
        self.values: list[bytes] = []
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            self.values.extend(line.strip() for line in lines)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(LIMIT_S)
        self._reader.join()


@contextlib.contextmanager
def java_consumer(*arguments: Any) -> Iterator[JavaConsumer]:
    made = JavaConsumer(*arguments)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize(("strategy", "java_leads"), [(None, False), (COOPERATIVE, True)])
def test_our_consumer_and_kafkas_share_a_group(
    both: Any, apache_kafka: Any, strategy: str | None, java_leads: bool
) -> None:
    name = both.topic(partitions=4)
    properties = {"group_id": name, "heartbeat_interval_ms": "200"}
    if strategy is not None:
        properties["partition_assignment_strategy"] = strategy
    ours: list[bytes | None] = []
    deadline = time.monotonic() + LIMIT_S
    with (
        Producer(settings(apache_kafka)) as producer,
        GroupConsumer(settings(apache_kafka, **properties), topics=[name]) as consumer,
    ):

        def send(first: int) -> None:
            for number in range(first, first + 40):
                producer.send(name, b"%d" % number, partition=number % 4)
            producer.flush(LIMIT_S)

        def poll_until(condition: Any) -> None:
            while not condition():
                assert time.monotonic() < deadline, consumer.assignment
                ours.extend(record.value for record in consumer.poll(50))

        send(0)
        if not java_leads:
            poll_until(lambda: len(ours) == 40)
        with java_consumer(apache_kafka, name, name, strategy) as other:
            while java_leads and len(other.values) < 40:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            poll_until(lambda: len(consumer.assignment) == 2)
            assert consumer._membership.is_leader != java_leads
            send(40)
            poll_until(lambda: len(ours) + len(other.values) >= 80)
            assert ours
            assert other.values
        poll_until(lambda: len(consumer.assignment) == 4)
        send(80)
        poll_until(lambda: len(ours) + len(other.values) >= 120)
    assert sorted([*ours, *other.values], key=lambda value: value or b"") == sorted(b"%d" % n for n in range(120))
