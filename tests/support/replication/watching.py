"""A replicated topic from outside: who leads, who is in sync, what was acknowledged and what can be read."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from barnabas.wire import batch as wire
from barnabas.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from tests.support.waiting import wait_until


class Watched(Protocol):
    """A `barnabas.testing.Cluster`, or what looks like one from outside."""

    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def broker_ids(self) -> Sequence[int]: ...

    @property
    def nodes(self) -> Mapping[int, Any]: ...

    def connect(self, broker_id: int | None = None) -> Any: ...


@dataclass(frozen=True)
class Seen:
    leader: int
    replicas: list[int]
    in_sync: list[int]
    eligible: list[int]


def describe(cluster: Watched, topic: str, by: int | None = None) -> dict[int, Seen]:
    with cluster.connect(by) as connection:
        answer = connection.request(DescribeTopicPartitionsRequest(topics=[TopicRequest(name=topic)]))
    return {
        each.partition_index: Seen(
            each.leader_id, list(each.replica_nodes), list(each.isr_nodes), list(each.eligible_leader_replicas or [])
        )
        for each in answer.topics[0].partitions
    }


def wait_in_sync(cluster: Watched, topic: str, replicas: Iterable[int]) -> None:
    wanted = sorted(replicas)
    found: dict[int, Seen] = {}

    def is_in_sync() -> bool:
        found.update(describe(cluster, topic))
        return bool(found) and all(sorted(each.in_sync) == wanted for each in found.values())

    try:
        wait_until(is_in_sync, f"{topic} is in sync on {wanted}")
    except AssertionError as error:
        logs = [f"{each}: {cluster.nodes[each].log()[-1500:]}" for each in cluster.broker_ids]
        raise AssertionError("\n".join([f"{error}: {found}", *logs])) from None


def wait_led(cluster: Watched, topic: str, *, by_none_of: Iterable[int] = ()) -> None:
    unwanted = {-1, *by_none_of}
    wait_until(
        lambda: all(each.leader not in unwanted for each in describe(cluster, topic).values()),
        f"{topic} is led by none of {sorted(unwanted)}",
    )


def produce_one(cluster: Watched, topic: str, value: bytes, partition: int = 0, **settings: Any) -> KafkaError | int:
    """The offset, or the error."""
    results: list[KafkaError | int] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "message.timeout.ms": 60_000} | settings)
    producer.produce(
        topic, value, partition=partition, on_delivery=lambda error, message: results.append(error or message.offset())
    )
    producer.flush(90)
    return results[0]


@dataclass
class Acknowledged:
    """A producer that goes on and on, and what it was told."""

    cluster: Watched
    topic: str
    partitions: int
    settings: dict[str, Any] = field(default_factory=dict)
    acknowledged: dict[tuple[int, int], bytes] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    sent: int = 0

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Acknowledged:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.cluster.bootstrap_servers,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 2,
                "message.timeout.ms": 120_000,
            }
            | self.settings
        )
        while not self._stop.wait(0.002):
            producer.produce(
                self.topic, f"{self.sent}".encode(), partition=self.sent % self.partitions, on_delivery=self._told
            )
            self.sent += 1
            producer.poll(0)
        producer.flush(120)

    def _told(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.acknowledged[message.partition(), message.offset()] = message.value()

    def goes_on(self) -> None:
        """Waits for records that are acknowledged from now on, in each partition."""
        before = len(self.acknowledged)
        wait_until(
            lambda: len(self.acknowledged) > before + 20 * self.partitions, "records are acknowledged", limit_s=90
        )


def read_all(cluster: Watched, topic: str, partitions: int, **settings: Any) -> dict[tuple[int, int], bytes]:
    """Every record, by partition and offset, up to the ends as they are now."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "reads-all",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
        | settings
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    found: dict[tuple[int, int], bytes] = {}
    ended: set[int] = set()
    try:
        while len(ended) < partitions:
            message = consumer.poll(60)
            assert message is not None, f"{topic} could not be read to its end"
            if message.error() is None:
                found[message.partition(), message.offset()] = message.value()
            elif message.error().code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
    finally:
        consumer.close()
    return found


def batches(directory: Path) -> dict[int, bytes]:
    """Of the log in this directory, by their first offset."""
    found: dict[int, bytes] = {}
    for path in directory.glob("*.log"):
        data = path.read_bytes()
        for position, header in wire.iterate_batches(data):
            if header.magic != wire.MAGIC:  # space that was allocated beforehand
                break
            found[header.base_offset] = data[position : position + header.size]
    return found
