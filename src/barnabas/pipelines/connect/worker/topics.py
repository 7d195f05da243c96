"""Compacted topics that hold the worker's state: read from the start by a thread, then followed; and written."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from barnabas.client.admin.topics import create_topic
from barnabas.client.cluster import Cluster
from barnabas.client.consumer import AssignedConsumer
from barnabas.client.consumer_settings import ConsumerSettings
from barnabas.client.errors import ClientError, Refused, TimedOut
from barnabas.client.producer import Producer, RecordMetadata
from barnabas.client.producer_settings import ProducerSettings
from barnabas.client.settings import ClientSettings
from barnabas.wire.errors import ErrorCode

log = logging.getLogger(__name__)
OnRecord = Callable[[str, bytes | None], None]
POLL_MS = 500
RETRY_S = 0.5
LOAD_S = 60.0


class StateTopic:
    """`on_record` is called with key and value: at first in the thread of `load`, later in the event loop."""

    def __init__(self, kafka: ClientSettings, topic: str, partitions: int, replicas: int, on_record: OnRecord) -> None:
        self.name = topic
        self._kafka, self._partitions, self._replicas = kafka, partitions, replicas
        self._on_record = on_record
        self._closing = threading.Event()
        self._consumer: AssignedConsumer | None = None
        self._producer: Producer | None = None
        self._thread: threading.Thread | None = None

    def load(self) -> None:
        with Cluster(self._kafka) as cluster:
            found = cluster.metadata([self.name])
            topic = found.topics[self.name]
            if topic.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                replicas = min(self._replicas, len(found.brokers)) if self._replicas > 0 else self._replicas
                try:
                    configs = {"cleanup.policy": "compact"}
                    create_topic(
                        cluster, self.name, partitions=self._partitions, replication_factor=replicas, configs=configs
                    )
                except Refused as error:
                    if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                        raise
                cluster.forget_leader(self.name)
            until = time.monotonic() + LOAD_S
            while not (known := cluster.metadata([self.name]).topics[self.name]).partitions or known.error:
                if time.monotonic() > until:
                    raise TimedOut(f"{self.name} was not created in time.")
                time.sleep(0.05)
            partitions = [(self.name, each) for each in known.partitions]
            properties = dict(self._kafka.properties) | {
                "enable.auto.commit": "false",
                "isolation.level": "read_committed",
            }
            settings = replace(ConsumerSettings.from_properties(properties), offset_reset="earliest")
            self._consumer = AssignedConsumer(self._kafka, settings)
            self._consumer.assign(dict.fromkeys(partitions, -2))
            ends = cluster.list_offsets(dict.fromkeys(partitions, -1), isolation="read_committed")
            while any(self._consumer.positions[tp] < each.offset for tp, each in ends.items()):
                if time.monotonic() > until:
                    raise TimedOut(f"{self.name} was not read to its end within {LOAD_S:g} s.")
                for record in self._consumer.poll(POLL_MS):
                    self._on_record((record.key or b"").decode(errors="replace"), record.value)

    def follow(self, loop: asyncio.AbstractEventLoop) -> None:
        producer = replace(ProducerSettings.from_properties(self._kafka.properties), linger_ms=0)
        self._producer = Producer(self._kafka, producer)
        self._thread = threading.Thread(target=self._read, args=(loop,), name=f"connect-{self.name}", daemon=True)
        self._thread.start()

    def append(self, key: str, value: bytes | None) -> asyncio.Future[None]:
        """Done when it is written; it is seen when it was read back."""
        assert self._producer is not None
        loop = asyncio.get_running_loop()
        written: asyncio.Future[None] = loop.create_future()

        def told(_: RecordMetadata | None, error: ClientError | None) -> None:
            loop.call_soon_threadsafe(settle, error)

        def settle(error: ClientError | None) -> None:
            if not written.done():
                if error is None:
                    written.set_result(None)
                else:
                    written.set_exception(error)

        try:
            self._producer.send(self.name, value, key.encode(), callback=told)
        except ClientError as error:
            settle(error)
        return written

    def close(self) -> None:
        self._closing.set()
        if self._producer is not None:
            self._producer.close(2)
        if self._thread is not None:
            self._thread.join(POLL_MS / 1000 + 1)
        if self._consumer is not None:
            self._consumer.close()

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        assert self._consumer is not None
        while not self._closing.is_set():
            try:
                records = self._consumer.poll(POLL_MS)
            except ClientError as error:
                log.warning("%s cannot be read, trying again in %s s: %s", self.name, RETRY_S, error)
                self._closing.wait(RETRY_S)
                continue
            for record in records:
                key = (record.key or b"").decode(errors="replace")
                try:
                    loop.call_soon_threadsafe(self._on_record, key, record.value)
                except RuntimeError:
                    return


class MemoryTopic:
    """What a standalone worker has instead."""

    def __init__(self, on_record: OnRecord) -> None:
        self._on_record = on_record

    def load(self) -> None:
        return

    def follow(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def append(self, key: str, value: bytes | None) -> asyncio.Future[None]:
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._on_record(key, value)
        written.set_result(None)
        return written

    def close(self) -> None:
        return
