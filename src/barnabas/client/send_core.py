"""Takes batches that are ready to their leaders, and what comes of them back: the half of a producer that does I/O.

One connection per leader carries up to `max.in.flight.requests.per.connection` requests; each holds at most one batch
per partition. A connection that breaks, a leader that moves, a broker that is not ready: the batches go back to their
queues and leave again later, until `delivery.timeout.ms` is over. Order is the accumulator's.

Two drivers run it: a producer's thread (`sender`), and a caller that writes ready batches itself (`batch_sender`).

    while send_ready(now): ...
    poll(until next_event); receive()
"""

from __future__ import annotations

import logging
import select
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.accumulator import NO_PRODUCER, Accumulator, PartitionQueue, ProducerBatch
from barnabas.client.cluster import Cluster
from barnabas.client.connection import Connection
from barnabas.client.errors import (
    BrokerUnreachable,
    ClientError,
    ConnectionLost,
    Refused,
    TimedOut,
    TransactionFailed,
    known_code,
)
from barnabas.client.metadata import NO_LEADER, TopicMetadata
from barnabas.client.producer_settings import ProducerSettings
from barnabas.client.properties import INT32_MAX
from barnabas.wire.compression import Compression
from barnabas.wire.errors import RETRIABLE, ErrorCode
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.wire.uuids import ZERO_UUID, Uuid

if TYPE_CHECKING:
    import threading

    from barnabas.client.transaction import ProducerTransaction

log = logging.getLogger(__name__)

LAST_VERSION_WITH_NAMES = 12
# From version 12 on a Produce request adds its partitions to the transaction by itself, and EndTxn raises the epoch.
LAST_VERSION_OF_ADDED_PARTITIONS = 11
SEQUENCE_LOST = frozenset(
    {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH}
)
LEADER_WRONG = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
    }
)
REPLICAS_MISSING = frozenset({ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND})
TOPIC_MAY_COME = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_ID}
)
IDLE_S = 60.0
CALLBACK_FAILED = "a delivery callback raised an error; the producer goes on"


class Flight(NamedTuple):
    batches: list[ProducerBatch]
    topic_names: dict[Uuid, str]


class SendCore:
    """`changed` is the lock of whoever shares it: topics, batches and errors change under it."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ProducerSettings,
        accumulator: Accumulator,
        changed: threading.Condition,
        transaction: ProducerTransaction | None = None,
        connections: dict[int, Connection] | None = None,
    ) -> None:
        """`connections` by node, for batches alone, are used first; new ones are added to them."""
        self.topics: dict[str, TopicMetadata] = {}
        self.wanted: dict[str, ErrorCode] = {}  # topics that somebody waits for, with what is known of them
        self.error: ClientError | None = None  # fatal: nothing more can be sent
        self.memory_waiters = 0
        self.memory_needed = 0
        self.dirty = False
        self.saturated = False  # every connection has as much in flight as it may: an answer must come first
        self._trouble: ClientError | None = None  # the last with a connection or with metadata
        self._cluster = cluster
        self._settings = settings
        self._accumulator = accumulator
        self._changed = changed
        self._transaction = transaction
        self._compression = Compression.named(settings.compression)
        self._backoff_s = cluster.settings.retry_backoff_ms / 1000
        self._backoff_max_s = max(cluster.settings.retry_backoff_max_ms / 1000, self._backoff_s)
        self._failures = 0  # of asking for metadata, in a row
        self._node_failures: dict[int, int] = {}
        self._unconnected: set[int] = set()
        self._connections = {} if connections is None else connections
        self._flights: dict[int, deque[Flight]] = {}
        self._node_retry_at: dict[int, float] = {}
        self._stale: set[str] = set()
        self._readable: set[int] = set()
        self._metadata_at = time.monotonic()
        self._retry_at = 0.0  # of what concerns the cluster as a whole
        self._poller = select.poll()
        self._polled: dict[int, int] = {}  # file numbers by node
        for node_id, connection in list(self._connections.items()):
            if connection.closed:
                del self._connections[node_id]
            else:
                self._watch(node_id, connection)

    def send_ready(self, now: float) -> bool:
        """Sends what may leave. Whether more may leave at once: a request takes one batch of each partition."""
        self._refresh_metadata(now)
        self._expire(now)
        taken = self._drain(now)
        for node_id, batches in taken.items():
            self._send(node_id, batches)
        self._connect()
        return bool(taken) or self.dirty

    def poll(self, timeout_s: float) -> None:
        """Waits for an answer, at most so long."""
        self._readable = {number for number, _ in self._poller.poll(timeout_s * 1000 + 0.5 if timeout_s > 0 else 0)}

    @property
    def has_buffered(self) -> bool:
        return any(connection.has_buffered for connection in self._connections.values())

    def give_up_flights(self) -> None:
        """A connection on which answers are due is of no use to anybody else."""
        for node_id, connection in list(self._connections.items()):
            if connection.in_flight:
                connection.close()
                del self._connections[node_id]
        self._flights.clear()

    def close_connections(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._flights.clear()

    def _refresh_metadata(self, now: float) -> None:
        with self._changed:
            if now - self._metadata_at > self._cluster.settings.metadata_max_age_ms / 1000:
                self._stale |= self.topics.keys()
            names = sorted(self._stale | self.wanted.keys())
        if not names or now < self._retry_at:
            return
        try:
            found = self._cluster.metadata(names, allow_auto_topic_creation=True, timeout_ms=0)
        except (BrokerUnreachable, TimedOut) as error:
            if not self._cluster.ever_connected:
                raise
            self._failures += 1
            self._trouble = error
            self._retry_at = time.monotonic() + self._pause_s(self._failures)
            if self._failures == 1:
                log.warning("could not get the leaders of topics: %s", error)
            return
        self._metadata_at, self._failures = now, 0
        with self._changed:
            for name in names:
                self._learn(name, found.topics.get(name))
            if self._stale or self.wanted:
                self._retry_at = time.monotonic() + self._backoff_s
            self._changed.notify_all()

    def _learn(self, name: str, topic: TopicMetadata | None) -> None:
        error = topic.error if topic is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic is not None and not error and topic.partitions:
            self.topics[name] = topic
            self.wanted.pop(name, None)
            if all(partition.leader != NO_LEADER for partition in topic.partitions.values()):
                self._stale.discard(name)
        elif name in self.wanted:
            self.wanted[name] = error
        if name in self._stale and not self._accumulator.is_active(name):
            self._stale.discard(name)  # nobody waits for it; it is asked for again when there is something to send
            if error:
                self.topics.pop(name, None)

    def _expire(self, now: float) -> None:
        with self._changed:
            expired = self._accumulator.expired(now)
        for batch in expired:
            name = f"{batch.partition[0]}-{batch.partition[1]}"
            why = f"{batch.count} records for {name} were not taken within {self._settings.delivery_timeout_ms} ms"
            self._fail(batch, TimedOut(f"{why}: {self._trouble}" if self._trouble is not None else f"{why}."))

    def _drain(self, now: float) -> dict[int, list[ProducerBatch]]:
        """What leaves now, by node."""
        if self._settings.idempotent and self._accumulator.producer == NO_PRODUCER:
            with self._changed:
                self.dirty = False  # or a thread that has nothing to send yet would never sleep
            if not self._identify(now):
                return {}
        taken: dict[int, list[ProducerBatch]] = {}
        sizes: dict[int, int] = {}
        with self._changed:
            self.dirty = False
            for queue in self._accumulator.ready(now):
                node_id = self._node_for(queue, now)
                if node_id == NO_LEADER:
                    continue
                size = queue.closed[0].size
                if node_id in sizes and sizes[node_id] + size > self._settings.max_request_size:
                    continue
                sizes[node_id] = sizes.get(node_id, 0) + size
                taken.setdefault(node_id, []).append(self._accumulator.take(queue, node_id))
            in_flight = [len(flights) + (node_id in taken) for node_id, flights in self._flights.items()]
            self.saturated = bool(in_flight) and min(in_flight) >= self._settings.in_flight_max
        return taken

    def _node_for(self, queue: PartitionQueue, now: float) -> int:
        """The leader, if it may be sent something now."""
        name, index = queue.partition
        topic = self.topics.get(name)
        partition = topic.partitions.get(index) if topic is not None else None
        if partition is None or partition.leader == NO_LEADER:
            self._stale.add(name)
            return NO_LEADER
        node_id = partition.leader
        if node_id not in self._connections:
            self._unconnected.add(node_id)
            return NO_LEADER
        flights = self._flights.get(node_id)
        if flights is not None and len(flights) >= self._settings.in_flight_max:
            return NO_LEADER
        if queue.in_flight and queue.in_flight_node != node_id:
            return NO_LEADER
        return node_id

    def _connect(self) -> None:
        """To leaders that something waits for."""
        wanted, self._unconnected = self._unconnected, set()
        for node_id in wanted:
            if self._node_retry_at.get(node_id, 0.0) > time.monotonic():
                continue
            try:
                connection = self._cluster.new_connection(node_id)
            except (BrokerUnreachable, TimedOut) as error:
                failures = self._node_failures[node_id] = self._node_failures.get(node_id, 0) + 1
                self._node_retry_at[node_id] = time.monotonic() + self._pause_s(failures)
                self._trouble = error
                if failures == 1:
                    log.warning("could not connect to node %s: %s", node_id, error)
                with self._changed:
                    led = [name for name, topic in self.topics.items() if self._leads(node_id, topic)]
                    self._stale.update(led)
                continue
            self._node_failures.pop(node_id, None)
            self._node_retry_at.pop(node_id, None)
            self._connections[node_id] = connection
            self._watch(node_id, connection)
            with self._changed:
                self.dirty = True

    def _watch(self, node_id: int, connection: Connection) -> None:
        self._polled[node_id] = connection.fileno()
        self._poller.register(connection.fileno(), select.POLLIN)

    @staticmethod
    def _leads(node_id: int, topic: TopicMetadata) -> bool:
        return any(partition.leader == node_id for partition in topic.partitions.values())

    def _pause_s(self, failures: int) -> float:
        return min(self._backoff_s * 2.0 ** (failures - 1), self._backoff_max_s)

    def _identify(self, now: float) -> bool:
        """Whether there is a producer id; it is asked for when there is something to send."""
        with self._changed:
            if not self._accumulator.incomplete:
                return False
        if now < self._retry_at:
            return False
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=INT32_MAX)
        try:
            answer = self._cluster.any_connection().request(request)
        except (BrokerUnreachable, TimedOut) as error:
            log.warning("could not get a producer id: %s", error)
            self._retry_at = time.monotonic() + self._backoff_s
            return False
        if answer.error_code:
            code = known_code(answer.error_code)
            if code not in RETRIABLE:
                raise Refused(code, "No producer id was given; enable.idempotence=false does without")
            self._retry_at = time.monotonic() + self._backoff_s
            return False
        self._accumulator.producer = (answer.producer_id, answer.producer_epoch)
        return True

    def _send(self, node_id: int, batches: list[ProducerBatch]) -> None:
        settings = self._settings
        topics: dict[str, TopicProduceData] = {}
        try:
            if self._transaction is not None:
                self._transaction.add_partitions(self._cluster, [batch.partition for batch in batches])
            connection = self._connections[node_id]
            version = connection.version_of(ProduceRequest)
            if self._transaction is not None:
                version = min(version, LAST_VERSION_OF_ADDED_PARTITIONS)
            for batch in batches:
                name, index = batch.partition
                topic = self.topics[name]
                if topic.topic_id == ZERO_UUID:
                    version = min(version, LAST_VERSION_WITH_NAMES)
                entry = topics.get(name)
                if entry is None:
                    entry = topics[name] = TopicProduceData(name=name, topic_id=topic.topic_id)
                data = batch.seal(self._compression, settings.compression_level)
                entry.partition_data.append(PartitionProduceData(index=index, records=data))
            request = ProduceRequest(
                transactional_id=self._transaction.transactional_id if self._transaction is not None else None,
                acks=settings.acks,
                timeout_ms=settings.request_timeout_ms,
                topic_data=list(topics.values()),
            )
            answered = settings.acks != 0
            connection.send(request, version, timeout_ms=settings.request_timeout_ms, answered=answered)
        except (BrokerUnreachable, TimedOut) as error:
            self._flights.setdefault(node_id, deque()).append(Flight(batches, {}))
            self._drop(node_id, error)
            return
        except Refused as error:
            for batch in batches:
                self._fail(batch, error)
            return
        if not answered:
            for batch in batches:
                self._complete(batch, -1, -1)
            return
        flight = Flight(batches, {topic.topic_id: name for name, topic in topics.items()})
        self._flights.setdefault(node_id, deque()).append(flight)

    def next_event(self, now: float) -> float:
        """The first time that was still to come when this round looked at its batches; it may have come since."""
        at = min(now + IDLE_S, self._accumulator.wake_up_at(now))
        for connection in self._connections.values():
            at = min(at, connection.oldest_deadline)
        for retry_at in self._node_retry_at.values():
            if retry_at > now:
                at = min(at, retry_at)
        unidentified = self._settings.idempotent and self._accumulator.producer == NO_PRODUCER
        if self._stale or self.wanted or (unidentified and self._accumulator.incomplete):
            at = min(at, self._retry_at)
        return at

    def receive(self) -> None:
        now = time.monotonic()
        for node_id, connection in list(self._connections.items()):
            overdue = connection.oldest_deadline <= now
            if not (overdue or connection.has_buffered or self._polled[node_id] in self._readable):
                continue
            if not connection.in_flight:
                self._drop(node_id, ConnectionLost(f"{connection.peer} closed the connection."))
                continue
            try:
                answer = connection.receive()
            except (BrokerUnreachable, TimedOut) as error:
                self._drop(node_id, error)
                continue
            self._trouble = None
            self._settle(self._flights[node_id].popleft(), answer)

    def _settle(self, flight: Flight, answer: ProduceResponse) -> None:
        waiting = {batch.partition: batch for batch in flight.batches}
        for topic in answer.responses:
            name = topic.name or flight.topic_names.get(topic.topic_id, "")
            for result in topic.partition_responses:
                batch = waiting.pop((name, result.index), None)
                if batch is None:
                    continue
                code = known_code(result.error_code)
                if not code or code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                    self._complete(batch, result.base_offset, result.log_append_time_ms)
                else:
                    self._refused(batch, code, said_of(result))
        for batch in waiting.values():
            self._refused(batch, ErrorCode.UNKNOWN_SERVER_ERROR, "The broker's answer does not mention it")

    def _refused(self, batch: ProducerBatch, code: ErrorCode, message: str | None) -> None:
        now = time.monotonic()
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and self._settings.idempotent:
            with self._changed:
                if self._accumulator.set_aside(batch):
                    return
        if self._settings.idempotent and self._transaction is None and code in SEQUENCE_LOST:
            with self._changed:
                if self._accumulator.is_oldest(batch):
                    log.warning("%s-%s: %s; going on with a new producer epoch", *batch.partition, code.name)
                    self._accumulator.start_over(batch)
                self._accumulator.retry(batch, now)
        elif code in RETRIABLE and self._may_retry(batch, code):
            self._trouble = Refused(code)
            with self._changed:
                if code in LEADER_WRONG:
                    self._stale.add(batch.partition[0])
                self._accumulator.retry(batch, now + self._backoff_s)
        else:
            topic, index = batch.partition
            if code is ErrorCode.MESSAGE_TOO_LARGE:
                message = f"a batch of {batch.size} bytes is larger than the topic's max.message.bytes"
            said = f": {message}" if message else ""
            self._fail(batch, Refused(code, f"{batch.count} records for {topic}-{index} were refused{said}"))

    def _may_retry(self, batch: ProducerBatch, code: ErrorCode) -> bool:
        if code in REPLICAS_MISSING:
            batch.refusals += 1
        return batch.attempts <= self._settings.retries and batch.refusals <= self._settings.refusals_max

    def _drop(self, node_id: int, error: ClientError) -> None:
        """The connection is of no use: what was on it goes back, in its order."""
        connection = self._connections.pop(node_id, None)
        if connection is not None:
            self._poller.unregister(self._polled.pop(node_id))
            connection.close()
        now = time.monotonic()
        exhausted: list[ProducerBatch] = []
        with self._changed:
            for flight in reversed(self._flights.pop(node_id, ())):
                for batch in flight.batches:
                    self._stale.add(batch.partition[0])
                    if batch.attempts <= self._settings.retries:
                        self._accumulator.retry(batch, now + self._backoff_s, lost=True)
                    else:
                        exhausted.insert(0, batch)
        for batch in exhausted:
            self._fail(batch, error)
        self._trouble = error
        log.info("a produce request to node %s failed: %s", node_id, error)

    def _complete(self, batch: ProducerBatch, base_offset: int, log_append_time: int) -> None:
        with self._changed:
            done = self._accumulator.complete(batch, base_offset, log_append_time)
            for each in done:
                self._released(each)
        for each in done:
            self._tell(each)

    def _fail(self, batch: ProducerBatch, error: ClientError) -> None:
        failed = TransactionFailed(str(error)) if self._transaction is not None else None
        with self._changed:
            if batch.done:
                return
            if failed is not None:
                self.error = failed  # before anybody hears that the batch is done, and commits without it
            self._accumulator.fail(batch, error)
            self._released(batch)
        self._tell(batch)
        if failed is not None:
            raise failed from error

    def _released(self, batch: ProducerBatch) -> None:
        if batch.waited:
            self._changed.notify_all()
        elif self.memory_waiters:
            # Not for every batch: who waits should find room for many, so that the two threads seldom change turns.
            free = self._settings.buffer_memory - self._accumulator.reserved
            if free >= max(self._settings.buffer_memory // 4, self.memory_needed) or not self._accumulator.incomplete:
                self._changed.notify_all()

    def _tell(self, batch: ProducerBatch) -> None:
        """Each is told, whatever the others raise."""
        for count, appended_at, share in batch.shares:
            try:
                share(count, appended_at, batch.error)
            except Exception:
                log.exception(CALLBACK_FAILED)
        for index, timestamp, callback in batch.callbacks:
            try:
                if batch.error is None:
                    callback(batch.metadata(index, timestamp), None)
                else:
                    callback(None, batch.error)
            except Exception:
                log.exception(CALLBACK_FAILED)


def said_of(result: PartitionProduceResponse) -> str | None:
    """The broker's own words."""
    if result.error_message or not result.record_errors:
        return result.error_message
    return result.record_errors[0].batch_index_error_message
