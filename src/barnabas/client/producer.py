"""Sends records: they are gathered into batches here and taken to the brokers by a thread of their own.

    with Producer(settings) as producer:
        producer.send("topic", b"value", key=b"key", callback=told)

Any thread may send. `send` returns at once unless the buffer is full or the topic is not known yet; what became of a
record is told to its callback, in the producer's thread, or by the result of what `send` returned. With idempotence,
the default, every record is there once and in order whatever happens to connections and brokers in between.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from barnabas.client.accumulator import (
    Accumulator,
    BatchCallback,
    Callback,
    PartitionQueue,
    ProducerBatch,
    RecordMetadata,
)
from barnabas.client.cluster import Cluster
from barnabas.client.encryption import TOPICS, encryption_of
from barnabas.client.errors import ClientError, InvalidSetting, Refused, TimedOut
from barnabas.client.metadata import NO_LEADER, TopicMetadata
from barnabas.client.partitioning import RoundRobinPartitions, StickyPartitions, partition_for_key
from barnabas.client.producer_settings import ProducerSettings
from barnabas.client.send_core import TOPIC_MAY_COME
from barnabas.client.sender import Sender
from barnabas.client.settings import ClientSettings
from barnabas.wire.batch import read_header
from barnabas.wire.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.client.transaction import ProducerTransaction

__all__ = ["Delivery", "Producer", "ProducerSettings", "RecordMetadata"]

# A record alone in a batch: the batch's header, and lengths and deltas around key and value.
RECORD_OVERHEAD = 61 + 21
HEADER_OVERHEAD = 10
Headers = Iterable[tuple[str, bytes | None]]


class Delivery:
    """What becomes of a record."""

    __slots__ = ("_batch", "_changed", "_index", "_timestamp")

    def __init__(self, batch: ProducerBatch, index: int, timestamp: int, changed: threading.Condition) -> None:
        self._batch = batch
        self._index = index
        self._timestamp = timestamp
        self._changed = changed

    @property
    def done(self) -> bool:
        return self._batch.done

    def result(self, timeout_s: float | None = None) -> RecordMetadata:
        """Where the record is; raises why it is nowhere."""
        with self._changed:
            self._batch.waited = True
            if not self._changed.wait_for(lambda: self._batch.done, timeout_s):
                raise TimedOut(f"The record was not delivered within {timeout_s:g} s.")
        if self._batch.error is not None:
            raise self._batch.error
        return self._batch.metadata(self._index, self._timestamp)


class Producer:
    def __init__(
        self,
        settings: ClientSettings,
        producer_settings: ProducerSettings | None = None,
        *,
        transaction: ProducerTransaction | None = None,
    ) -> None:
        self._settings = producer_settings or ProducerSettings.from_properties(settings.properties)
        self._encryption = encryption_of(settings)
        self._changed = threading.Condition(threading.Lock())
        self._accumulator = Accumulator(self._settings, transactional=transaction is not None)
        if transaction is not None:
            if not self._settings.idempotent:
                raise InvalidSetting("enable.idempotence", "must be true in a transaction.")
            self._accumulator.producer = transaction.producer
        self._sender = Sender(Cluster(settings), self._settings, self._accumulator, self._changed, transaction)
        self._queues: dict[tuple[str, int], PartitionQueue] = {}
        self._keyless: dict[str, StickyPartitions | RoundRobinPartitions] = {}
        self._sticky: dict[str, PartitionQueue] = {}  # where records without a key go until a batch begins
        self._size_max = min(self._settings.max_request_size, self._settings.buffer_memory)
        self._closed = False
        self._sender.start()

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp: int | None = None,
        callback: Callback | None = None,
    ) -> Delivery:
        """Raises at once if the record can never be sent, or TimedOut after `max.block.ms` without room or topic."""
        if timestamp is None:
            timestamp = int(time.time() * 1000)
        listed = list(headers) if headers else []
        if self._encryption is not None and value is not None and self._encryption.covers(topic):
            value, envelope = self._encryption.seal(key, value)
            listed.append(envelope)
        size = RECORD_OVERHEAD + (len(key) if key else 0) + (len(value) if value else 0)
        if listed:
            size += headers_size(listed)
        if size > self._size_max:
            self._refuse_size(topic, size)
        with self._changed:
            queue = self._sticky.get(topic) if key is None and partition is None else None
            if queue is None:
                queue = self._queue(topic, key, partition)
            batch = queue.open
            if batch is None or batch.append(batch.count, timestamp, key, value, listed) is None:
                batch = self._next_batch(queue, topic, key, partition, size)
                if batch.append(batch.count, timestamp, key, value, listed) is None:
                    batch = self._new_batch(self._accumulator.queue(batch.partition), size)
                    batch.append(0, timestamp, key, value, listed)
            index = batch.count
            batch.count = index + 1
            if callback is not None:
                batch.callbacks.append((index, timestamp, callback))
        return Delivery(batch, index, timestamp, self._changed)

    def send_many(
        self,
        topic: str,
        values: Sequence[bytes],
        *,
        partition: int | None = None,
        callback: BatchCallback | None = None,
    ) -> None:
        """Many records without keys at the cost of few: for loads and imports.

        The callback is told once for each batch that some of them went into: how many, when they were appended (as
        time.monotonic), and the error if there was one.
        """
        self._refuse_encrypted(topic)
        timestamp = int(time.time() * 1000)
        longest = RECORD_OVERHEAD + max(map(len, values), default=0)
        if longest > self._size_max:
            self._refuse_size(topic, longest)
        left = iter(values)
        value = next(left, None)
        no_headers: list[tuple[str, bytes | None]] = []
        while value is not None:
            with self._changed:
                queue = (self._sticky.get(topic) if partition is None else None) or self._queue(topic, None, partition)
                batch = queue.open or self._next_batch(queue, topic, None, partition, longest)
                appended_at = time.monotonic()
                append, first = batch.append, batch.count
                count = first
                while value is not None and append(count, timestamp, None, value, no_headers) is not None:
                    count += 1
                    value = next(left, None)
                batch.count = count
                if callback is not None and count > first:
                    batch.shares.append((count - first, appended_at, callback))
                if value is not None:
                    self._next_batch(queue, topic, None, partition, longest)

    def send_batch(self, topic: str, partition: int, batch: bytes | bytearray | memoryview) -> Delivery:
        """A record batch that was built elsewhere, of one partition; this producer's id and sequence go into it."""
        self._refuse_encrypted(topic)
        data = bytearray(batch)
        if len(data) > self._size_max:
            self._refuse_size(topic, len(data))
        with self._changed:
            queue = self._queue(topic, None, partition)
            if self._accumulator.reserved + len(data) > self._settings.buffer_memory:
                self._wait_for_memory(len(data))
            built = self._accumulator.add_built(queue, data)
            self._sender.wake()
        return Delivery(built, 0, read_header(data).base_timestamp, self._changed)

    def takes_batches(self, topic: str) -> bool:
        """Whether `send_batch` may be used: what is encrypted is sent record by record."""
        return self._encryption is None or not self._encryption.covers(topic)

    @property
    def error(self) -> ClientError | None:
        """Why nothing can be sent any more, if it is so."""
        return self._sender.error

    def flush(self, timeout_s: float | None = None) -> None:
        """Waits until everything sent so far has been delivered or has failed; each record's own result says which."""
        self._wait_for_all(timeout_s)

    def _wait_for_all(self, timeout_s: float | None) -> None:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        with self._changed:
            self._accumulator.hurry += 1
            self._sender.wake()
            try:
                for batch in reversed(list(self._accumulator.incomplete)):
                    batch.waited = True
                    left_s = None if deadline is None else max(deadline - time.monotonic(), 0)
                    if not self._changed.wait_for(lambda batch=batch: batch.done, left_s):  # type: ignore[misc]
                        raise TimedOut(f"Not everything was delivered within {timeout_s:g} s.")
            finally:
                self._accumulator.hurry -= 1

    def withdraw(self, error: ClientError) -> None:
        """What has not left yet fails with this; for the rest this waits as `flush` does."""
        with self._changed:
            self._sticky.clear()
            self._sender.withdraw(error)
        self._wait_for_all(None)

    def close(self, timeout_s: float | None = None) -> None:
        """Delivers what was sent, then lets go of the brokers; what is not delivered in time fails."""
        if self._closed:
            return
        with self._changed:
            self._closed = True
            self._sticky.clear()
        try:
            self._wait_for_all(timeout_s)
        finally:
            with self._changed:
                self._sender.closing = True
                if self._accumulator.incomplete:
                    self._sender.abandon = True
                self._sender.wake()
            self._sender.join()
            if self._encryption is not None:
                self._encryption.close()

    def partitions_for(self, topic: str) -> TopicMetadata:
        """The topic as the cluster describes it; waits for it as `send` does."""
        with self._changed:
            return self._sender.topics.get(topic) or self._wait_for_topic(topic)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _queue(self, topic: str, key: bytes | None, partition: int | None) -> PartitionQueue:
        """Where a record goes. Records without a key go on there until a batch begins."""
        if self._closed or self._sender.error is not None:
            raise self._sender.error or ClientError("The producer is closed.")
        known = self._sender.topics.get(topic) or self._wait_for_topic(topic)
        keyless = partition is None and (key is None or self._settings.ignore_keys)
        if keyless:
            partition = self._keyless_partition(known)
        elif partition is None:
            assert key is not None
            partition = partition_for_key(key, len(known.partitions))
        queue = self._queues.get((topic, partition))
        if queue is None:
            if partition not in known.partitions:
                self._wait_for_partition(topic, partition)
            queue = self._queues[topic, partition] = self._accumulator.queue((topic, partition))
        if keyless and not self._settings.round_robin:
            self._sticky[topic] = queue
        return queue

    def _keyless_partition(self, topic: TopicMetadata) -> int:
        chosen = self._keyless.get(topic.name)
        if chosen is None:
            sticky = StickyPartitions(self._settings.batch_size * 3 // 4)
            chosen = self._keyless[topic.name] = RoundRobinPartitions() if self._settings.round_robin else sticky
        led = [index for index, each in topic.partitions.items() if each.leader != NO_LEADER] or list(topic.partitions)
        return chosen.partition(led, lambda index: self._accumulator.queue((topic.name, index)).filled)

    def _next_batch(
        self, queue: PartitionQueue, topic: str, key: bytes | None, partition: int | None, size: int
    ) -> ProducerBatch:
        """A batch with room, after the queue's was found full or missing; without a key perhaps another partition's."""
        was_full = queue.open is not None
        if was_full:
            queue.close_open()
            if not self._sender.saturated:
                self._sender.wake()
        self._sticky.pop(topic, None)
        queue = self._queue(topic, key, partition)
        return queue.open or self._new_batch(queue, size)

    def _new_batch(self, queue: PartitionQueue, size: int) -> ProducerBatch:
        accumulator, sender = self._accumulator, self._sender
        if accumulator.reserved + accumulator.reservation(size) > self._settings.buffer_memory:
            self._wait_for_memory(size)
        batch = accumulator.new_batch(queue, size)
        if sender.asleep and sender.sleeps_until > batch.created_at + self._settings.linger_ms / 1000:
            sender.wake()
        return batch

    def _wait_for_memory(self, size: int) -> None:
        accumulator, sender, limit = self._accumulator, self._sender, self._settings.buffer_memory
        needed = accumulator.reservation(size)
        accumulator.hurry += 1
        sender.memory_waiters += 1
        sender.memory_needed = max(sender.memory_needed, needed)
        sender.wake()
        try:
            free = self._changed.wait_for(
                lambda: (
                    sender.error is not None or accumulator.reserved + needed <= limit or not accumulator.incomplete
                ),
                self._settings.max_block_ms / 1000,
            )
        finally:
            accumulator.hurry -= 1
            sender.memory_waiters -= 1
        if sender.error is not None:
            raise sender.error
        if not free:
            raise TimedOut(
                f"The buffer of {limit} bytes (buffer.memory) stayed full for {self._settings.max_block_ms} ms."
            )

    def _wait_for_topic(self, topic: str) -> TopicMetadata:
        sender = self._sender
        sender.wanted.setdefault(topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        sender.wake()

        def settled() -> bool:
            return (
                topic in sender.topics
                or sender.error is not None
                or sender.wanted.get(topic, ErrorCode.NONE) not in TOPIC_MAY_COME
            )

        self._changed.wait_for(settled, self._settings.max_block_ms / 1000)
        code = sender.wanted.pop(topic, ErrorCode.NONE)
        if topic in sender.topics:
            return sender.topics[topic]
        if sender.error is not None:
            raise sender.error
        if code and code not in TOPIC_MAY_COME:
            raise Refused(code, f"Nothing can be sent to topic {topic}")
        raise TimedOut(f"Topic {topic} was not there within {self._settings.max_block_ms} ms ({code.name}).")

    def _wait_for_partition(self, topic: str, partition: int) -> TopicMetadata:
        """Partitions may have been added since; the cluster is asked once."""
        sender = self._sender
        sender.topics.pop(topic, None)
        known = self._wait_for_topic(topic)
        if partition not in known.partitions:
            raise Refused(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"Topic {topic} has no partition {partition}; it has {len(known.partitions)} of them",
            )
        return known

    def _refuse_encrypted(self, topic: str) -> None:
        if self._encryption is not None and self._encryption.covers(topic):
            raise InvalidSetting(TOPICS, f"names {topic}, and what is sent in whole batches is not encrypted.")

    def _refuse_size(self, topic: str, size: int) -> None:
        raise Refused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"A record for {topic} takes {size} bytes, and max.request.size is {self._settings.max_request_size}",
        )


def headers_size(headers: list[tuple[str, bytes | None]]) -> int:
    """At most; a character of a name takes up to four bytes."""
    return sum(HEADER_OVERHEAD + 4 * len(name) + (len(content) if content else 0) for name, content in headers)
