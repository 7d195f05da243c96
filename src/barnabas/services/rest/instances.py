"""Consumer instances as every proxy knows them: the compacted topic `_rest_consumers`.

An instance is what its client was promised: a format, settings, a subscription or partitions, and how far it has read.
A record of the topic holds all of that under the group's and the instance's name, and which proxy reads for it now. A
proxy that is asked reads the topic to its end first, so it knows what any other has answered. None is a record of an
instance that is gone.

Blocking; several threads may use one.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from barnabas.client.admin.topics import create_topic
from barnabas.client.cluster import Cluster
from barnabas.client.consumer import AssignedConsumer, ConsumerSettings
from barnabas.client.errors import Refused, TimedOut
from barnabas.client.metadata import TopicPartition
from barnabas.client.producer import Producer
from barnabas.client.producer_settings import ProducerSettings
from barnabas.client.records import ConsumerRecord
from barnabas.services.rest.settings import RestSettings
from barnabas.wire.errors import ErrorCode

log = logging.getLogger(__name__)

START, END = -2, -1
POLL_MS = 500
CATCH_UP_S = 10.0
WRITE_S = 10.0
Name = tuple[str, str]  # group and instance


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    group: str
    name: str
    format: str = "binary"
    properties: dict[str, str] = field(default_factory=dict)  # of the consumer
    auto_commit: bool = True
    request_timeout_ms: int = 1_000
    min_bytes: int = -1
    topics: list[str] = field(default_factory=list)
    pattern: str | None = None
    partitions: list[list[Any]] = field(default_factory=list)  # topic and number, if they were assigned by hand
    positions: list[list[Any]] = field(default_factory=list)  # topic, number and the next offset
    generation: int = -1  # of the group, when `positions` were written
    holder: str = ""  # the proxy that reads for it
    used_ms: int = 0
    owner: str | None = None  # who made it, where the proxy acts as its callers

    @property
    def is_subscribed(self) -> bool:
        return bool(self.topics) or self.pattern is not None

    def offsets(self) -> dict[TopicPartition, int]:
        return {(topic, number): offset for topic, number, offset in self.positions}

    def at(self, positions: dict[TopicPartition, int], generation: int, now_ms: int) -> Instance:
        listed: list[list[Any]] = [[topic, number, offset] for (topic, number), offset in sorted(positions.items())]
        return replace(self, positions=listed, generation=generation, used_ms=now_ms)


class InstanceTopic:
    def __init__(self, settings: RestSettings) -> None:
        self._settings = settings
        self._partition = (settings.instances_topic, 0)
        self._known: dict[Name, Instance] = {}
        self._lock = threading.Lock()
        self._caught_up_at = 0.0  # when the last question began that was answered
        self._opened: tuple[Cluster, AssignedConsumer, Producer] | None = None

    def find(self, group: str, name: str) -> Instance | None:
        self.catch_up()
        return self._known.get((group, name))

    def all(self) -> list[Instance]:
        """As far as it is known here."""
        return list(self._known.values())

    def catch_up(self) -> None:
        """Reads what is in the topic now. Callers at the same time share the reading."""
        asked_at = time.monotonic()
        with self._lock:
            if self._caught_up_at > asked_at:
                return
            began_at = time.monotonic()
            cluster, consumer, _ = self._open()
            end = cluster.list_offsets({self._partition: END})[self._partition].offset
            deadline = time.monotonic() + CATCH_UP_S
            while consumer.positions[self._partition] < end:
                if time.monotonic() > deadline:
                    raise TimedOut(f"{self._partition[0]} was not read to its end within {CATCH_UP_S:g} s.")
                for record in consumer.poll(POLL_MS):
                    self._replay(record)
            self._caught_up_at = began_at

    def write(self, instance: Instance) -> None:
        data = json.dumps(asdict(instance)).encode()
        self._append(instance.group, instance.name, data)

    def forget(self, group: str, name: str) -> None:
        self._append(group, name, None)

    def _append(self, group: str, name: str, value: bytes | None) -> None:
        with self._lock:
            producer = self._open()[2]
        key = json.dumps([group, name]).encode()
        producer.send(self._partition[0], value, key, partition=0).result(WRITE_S)

    def _replay(self, record: ConsumerRecord) -> None:
        try:
            group, name = json.loads(record.key or b"")
            if record.value is None:
                self._known.pop((group, name), None)
            else:
                self._known[group, name] = Instance(**json.loads(record.value))
        except (ValueError, TypeError) as error:
            log.warning("the record at offset %s of %s is skipped: %s", record.offset, record.topic, error)

    def _open(self) -> tuple[Cluster, AssignedConsumer, Producer]:
        """At the first use: a proxy without consumers needs no topic."""
        if self._opened is not None:
            return self._opened
        kafka = self._settings.kafka
        cluster = Cluster(kafka)
        self._create(cluster)
        reading = {"enable.auto.commit": "false", "max.poll.records": "5000", "auto.offset.reset": "earliest"}
        consumer = AssignedConsumer(kafka, ConsumerSettings.from_properties(reading))
        consumer.assign({self._partition: START})
        writing = {"linger.ms": "0", "acks": "all", "delivery.timeout.ms": "10000", "request.timeout.ms": "5000"}
        self._opened = cluster, consumer, Producer(kafka, ProducerSettings.from_properties(writing))
        return self._opened

    def _create(self, cluster: Cluster) -> None:
        topic = self._partition[0]
        metadata = cluster.metadata([topic])
        if not metadata.topics[topic].error:
            return
        replicas = min(len(metadata.brokers), self._settings.instances_replication_factor)
        try:
            configs = {"cleanup.policy": "compact"}
            create_topic(cluster, topic, partitions=1, replication_factor=replicas, configs=configs)
        except Refused as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        cluster.forget_leader(topic)

    def close(self) -> None:
        with self._lock:
            if self._opened is not None:
                cluster, consumer, producer = self._opened
                producer.close(1)
                consumer.close()
                cluster.close()
                self._opened = None
