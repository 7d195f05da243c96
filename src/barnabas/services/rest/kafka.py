"""The proxy's ways to Kafka: a pool of connections for questions, one producer for all, one client of the registry.

The client's calls block, so they are made in threads; the event loop only waits for them.

With `confluent.rest.auth.propagate.method=SASL` the proxy logs in at the cluster as who asks it, with the password
or the token that it was shown; each caller has connections and a producer of its own then, of which the least recent
ones are closed.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeVar

from barnabas.client.cluster import Cluster
from barnabas.client.errors import ClientError, InvalidSetting
from barnabas.client.producer import Producer
from barnabas.client.producer_settings import ProducerSettings
from barnabas.client.serdes import Registry, open_registry
from barnabas.client.settings import ClientSettings
from barnabas.services.rest.errors import refusal
from barnabas.services.rest.serializers import Serializers
from barnabas.services.rest.settings import RestSettings
from barnabas.web.errors import HttpError
from barnabas.web.security import CALLER, Caller

T = TypeVar("T")
QUESTIONS_MAX = 16  # at a time; each has a thread and connections of its own
CALLERS_MAX = 64  # whose connections are kept, where the proxy acts as its callers
READERS_MAX = 256  # consumers that wait for records at the same time
ORDERS_MAX = 64
# A topic that is not there is not waited for; a broker that is slow is.
PRODUCER_DEFAULTS = {"linger.ms": "0", "max.block.ms": "10000", "delivery.timeout.ms": "30000", "acks": "all"}


@dataclass(slots=True)
class Connections:
    """Those of one caller."""

    settings: ClientSettings
    idle: list[Cluster] = field(default_factory=list)
    producer: Producer | None = None
    closed: bool = False

    def close(self) -> None:
        self.closed = True
        if self.producer is not None:
            self.producer.close(5)
        idle, self.idle = self.idle, []
        for cluster in idle:
            cluster.close()


class Kafka:
    def __init__(self, settings: RestSettings) -> None:
        self.settings = settings
        self._callers: OrderedDict[Caller | None, Connections] = OrderedDict()
        self._lock = threading.Lock()
        self._questions = ThreadPoolExecutor(QUESTIONS_MAX, "rest-question")
        self._readers = ThreadPoolExecutor(READERS_MAX, "rest-reader")
        self._orders = ThreadPoolExecutor(ORDERS_MAX, "rest-order")
        self._registry: Registry | None = None
        self._cluster_id = ""
        self.serializers = Serializers(lambda: self.registry)
        self._closed = False

    async def ask(self, question: Callable[[Cluster], T]) -> T:
        """Raises HttpError for whatever Kafka refuses."""
        return await self._in(self._questions, lambda: self._asked(question))

    async def read(self, work: Callable[[], T]) -> T:
        """Work of consumers that may wait for records for a while."""
        return await self._in(self._readers, work)

    async def order(self, work: Callable[[], T]) -> T:
        """Other work of consumers: however many wait for records, one can be made, subscribed and deleted."""
        return await self._in(self._orders, work)

    async def write(self, work: Callable[[], T]) -> T:
        return await self._in(self._questions, work)

    async def _in(self, executor: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        try:
            inside = contextvars.copy_context()
            return await asyncio.get_running_loop().run_in_executor(executor, lambda: inside.run(work))
        except ClientError as error:
            raise refusal(error) from None

    def _asked(self, question: Callable[[Cluster], T]) -> T:
        connections = self._connections()
        with self._lock:
            cluster = connections.idle.pop() if connections.idle else Cluster(connections.settings)
        try:
            return question(cluster)
        finally:
            with self._lock:
                kept = not self._closed and not connections.closed
                if kept:
                    connections.idle.append(cluster)
            if not kept:
                cluster.close()

    @property
    def caller(self) -> Caller | None:
        """As whom this call is made at the cluster; None: as the proxy."""
        return CALLER.get() if self.settings.acts_as_caller else None

    def client_settings(self) -> ClientSettings:
        caller = self.caller
        kafka = self.settings.kafka
        if caller is None:
            return kafka
        token = caller.token
        if token is not None:
            login = replace(kafka.security, mechanism="OAUTHBEARER", bearer_token=lambda: token)
        else:
            password = caller.password or ""
            login = replace(kafka.security, username=caller.name, password=password, bearer_token=None, kerberos=None)
        return replace(kafka, security=login)

    def _connections(self) -> Connections:
        key = self.caller
        spare = None
        with self._lock:
            found = self._callers.get(key)
            if found is None:
                found = self._callers[key] = Connections(self.client_settings())
                if len(self._callers) > CALLERS_MAX:
                    _, spare = self._callers.popitem(last=False)
                    spare.closed = True
            self._callers.move_to_end(key)
        if spare is not None:
            spare.close()
        return found

    async def cluster_id(self) -> str:
        if not self._cluster_id:
            self._cluster_id = await self.ask(lambda cluster: cluster.metadata([]).cluster_id or "")
        return self._cluster_id

    @property
    def producer(self) -> Producer:
        """In a thread: it may have to be made."""
        connections = self._connections()
        with self._lock:
            if connections.producer is None:
                kafka = connections.settings
                properties = {**PRODUCER_DEFAULTS, **kafka.properties, **self.settings.producer}
                connections.producer = Producer(kafka, ProducerSettings.from_properties(properties))
            return connections.producer

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
            callers, self._callers = list(self._callers.values()), OrderedDict()
        for connections in callers:
            connections.close()
        if self._registry is not None:
            self._registry.close()
        self._questions.shutdown(wait=False, cancel_futures=True)
        self._readers.shutdown(wait=False, cancel_futures=True)
        self._orders.shutdown(wait=False, cancel_futures=True)
