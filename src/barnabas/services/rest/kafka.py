"""The proxy's ways to Kafka: a pool of connections for questions, one producer for all, one client of the registry.

The client's calls block, so they are made in threads; the event loop only waits for them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from barnabas.client.cluster import Cluster
from barnabas.client.errors import ClientError, InvalidSetting
from barnabas.client.producer import Producer
from barnabas.client.producer_settings import ProducerSettings
from barnabas.client.serdes import Registry, open_registry
from barnabas.services.rest.errors import refusal
from barnabas.services.rest.serializers import Serializers
from barnabas.services.rest.settings import RestSettings
from barnabas.web.errors import HttpError

T = TypeVar("T")
QUESTIONS_MAX = 16  # at a time; each has a thread and connections of its own
READERS_MAX = 256  # consumers that wait for records at the same time
# A topic that is not there is not waited for; a broker that is slow is.
PRODUCER_DEFAULTS = {"linger.ms": "0", "max.block.ms": "10000", "delivery.timeout.ms": "30000", "acks": "all"}


class Kafka:
    def __init__(self, settings: RestSettings) -> None:
        self.settings = settings
        self._idle: list[Cluster] = []
        self._lock = threading.Lock()
        self._questions = ThreadPoolExecutor(QUESTIONS_MAX, "rest-question")
        self._readers = ThreadPoolExecutor(READERS_MAX, "rest-reader")
        self._producer: Producer | None = None
        self._registry: Registry | None = None
        self._cluster_id = ""
        self.serializers = Serializers(lambda: self.registry)
        self._closed = False

    async def ask(self, question: Callable[[Cluster], T]) -> T:
        """Raises HttpError for whatever Kafka refuses."""
        return await self._in(self._questions, lambda: self._asked(question))

    async def read(self, work: Callable[[], T]) -> T:
        """Work of consumers, which may wait for records for a while."""
        return await self._in(self._readers, work)

    async def write(self, work: Callable[[], T]) -> T:
        return await self._in(self._questions, work)

    async def _in(self, executor: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(executor, work)
        except ClientError as error:
            raise refusal(error) from None

    def _asked(self, question: Callable[[Cluster], T]) -> T:
        with self._lock:
            cluster = self._idle.pop() if self._idle else Cluster(self.settings.kafka)
        try:
            return question(cluster)
        finally:
            with self._lock:
                kept = not self._closed
                if kept:
                    self._idle.append(cluster)
            if not kept:
                cluster.close()

    async def cluster_id(self) -> str:
        if not self._cluster_id:
            self._cluster_id = await self.ask(lambda cluster: cluster.metadata([]).cluster_id or "")
        return self._cluster_id

    @property
    def producer(self) -> Producer:
        """In a thread: it may have to be made."""
        with self._lock:
            if self._producer is None:
                kafka = self.settings.kafka
                properties = {**PRODUCER_DEFAULTS, **kafka.properties, **self.settings.producer}
                self._producer = Producer(kafka, ProducerSettings.from_properties(properties))
            return self._producer

    @property
    def registry(self) -> Registry:
        with self._lock:
            if self._registry is None:
                if not self.settings.registry_url:
                    raise HttpError(
                        422, 42205, "Invalid schema: the proxy has no schema registry: schema.registry.url is not set."
                    )
                try:
                    self._registry = open_registry(self.settings.registry_url, self.settings.registry)
                except InvalidSetting as error:
                    raise HttpError(500, 50002, str(error)) from None
            return self._registry

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        if self._producer is not None:
            self._producer.close(5)
        for cluster in idle:
            cluster.close()
        if self._registry is not None:
            self._registry.close()
        self._questions.shutdown(wait=False, cancel_futures=True)
        self._readers.shutdown(wait=False, cancel_futures=True)
