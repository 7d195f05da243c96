"""Ready record batches to the leaders of their partitions, by the caller's own thread: the other driver of `send_core`.

The caller builds batches; producer id, epoch and sequence are written into them here. What is not written yet is
bounded by `max.in.flight.requests.per.connection` requests of `max.request.size` bytes. Blocking, and for one thread at
a time.
"""

from __future__ import annotations

import threading
import time

from barnabas.client.accumulator import Accumulator
from barnabas.client.cluster import Cluster
from barnabas.client.connection import Connection
from barnabas.client.encryption import refuse_encryption
from barnabas.client.errors import ClientError, TransactionFailed
from barnabas.client.producer_settings import ProducerSettings
from barnabas.client.send_core import SendCore
from barnabas.client.transaction import ProducerTransaction


class BatchSender:
    def __init__(
        self,
        cluster: Cluster,
        settings: ProducerSettings | None = None,
        transaction: ProducerTransaction | None = None,
        connections: dict[int, Connection] | None = None,
    ) -> None:
        """Cluster and connections stay the caller's. Connections are for batches alone and serve one sender after
        another; the cluster may be asked between any two calls."""
        refuse_encryption(cluster.settings, "what writes whole batches")
        self._cluster = cluster
        self._settings = settings or ProducerSettings()
        self._accumulator = Accumulator(
            self._settings, transactional=transaction is not None, first_alone=self._settings.idempotent
        )
        if transaction is not None:
            self._accumulator.producer = transaction.producer
        self._owns_connections = connections is None
        self._core = SendCore(
            cluster, self._settings, self._accumulator, threading.Condition(), transaction, connections
        )
        self._collected_bytes = 0
        self._error: ClientError | None = None

    def send(self, topic: str, partition: int, batch: bytearray) -> None:
        """Goes out with the next full request, or when `push` or `flush` is called; from now on it is not the caller's.
        Raises what became of others."""
        queue = self._accumulator.queue((topic, partition))
        added = self._accumulator.add_built(queue, batch)
        added.shares.append((added.count, added.created_at, self._told))
        if topic not in self._core.topics and not (known := self._cluster.topic(topic)).error:
            self._core.topics[topic] = known
        self._collected_bytes += len(batch)
        if self._collected_bytes >= self._settings.max_request_size:
            self.push()

    def push(self) -> None:
        """Sends what was collected; answers are awaited only where too much is under way."""
        self._collected_bytes = 0
        self._advance(wait=False)
        while self._accumulator.reserved > self._settings.in_flight_max * self._settings.max_request_size:
            self._advance(wait=True)

    def flush(self) -> None:
        """Returns when every batch is written, and raises if one cannot be."""
        self._collected_bytes = 0
        while self._accumulator.incomplete:
            self._advance(wait=True)
        self._raise()

    def close(self) -> None:
        """Gives up what is under way."""
        if self._owns_connections:
            self._core.close_connections()
        else:
            self._core.give_up_flights()

    def _advance(self, *, wait: bool) -> None:
        core = self._core
        try:
            looked_at = time.monotonic()
            while core.send_ready(looked_at):
                looked_at = time.monotonic()
            # What became due since it was looked at must not be slept over.
            left_s = core.next_event(looked_at) - time.monotonic()
            core.poll(0 if core.has_buffered or not wait else max(left_s, 0))
            core.receive()
        except TransactionFailed as failed:
            raise failed.__cause__ or failed from None
        self._raise()

    def _told(self, count: int, appended_at: float, error: ClientError | None) -> None:
        self._error = self._error or error

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error
