"""Records on their way: batches per partition, in order, until a broker has them or their time is over. No I/O.

A batch is

    open -> closed -> in flight -> done
              ^          |
              +-- retry -+

open while records are added; closed when full or when it has lingered; in flight while a request with it is unanswered.
A retry goes back to its place in the order. With idempotence a batch gets its sequence when it first leaves and keeps
it, so that the broker knows it again. Two rules keep the order:

- A batch that is sent again goes alone: nothing of its partition leaves while something is in flight.
- When a batch fails for good, its sequence is a hole that later ones would fall into. Once nothing of the partition is
  in flight, its epoch is raised and what is left is numbered from 0 again.

A broker that was killed remembers only the last batch of each producer. Of several that were in flight and had been
written it calls the earlier ones out of order when they come again. So a batch whose connection broke and that is then
out of order is set aside, and the next one is tried: if that is taken, or known as a duplicate, those before it are
there. Only if none is, the broker has lost what it knew, and a new epoch begins.

A broker that does not know a producer takes any sequence from it, so a second batch could be written where the first
was refused. With `first_alone` the first batch of an epoch is awaited before a second one leaves.

The caller holds the producer's lock around every call.
"""

from __future__ import annotations

import struct
import time
from bisect import insort
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from barnabas.client.errors import ClientError
from barnabas.client.metadata import TopicPartition
from barnabas.client.producer_settings import ProducerSettings
from barnabas.wire.batch import (
    ATTRIBUTES_OFFSET,
    CRC,
    CRC_OFFSET,
    HEADER_BYTES,
    PRODUCER_ID_OFFSET,
    TRANSACTIONAL_FLAG,
    add_to_sequence,
    assemble,
    batch_crc,
    read_header,
)
from barnabas.wire.compression import Compression, compress

BASE_OFFSET = struct.Struct(">q")
ATTRIBUTES = struct.Struct(">h")
PRODUCER_STATE = struct.Struct(">qhi")
MAX_EPOCH = 32_767
NO_PRODUCER = (-1, -1)
# Of uncompressed records: what hardly shrinks must still be below the limit of a topic, about 1 MB.
COMPRESSED_BATCH_MAX = 900_000
RATIO_MIN = 0.05


class RecordMetadata(NamedTuple):
    topic: str
    partition: int
    offset: int  # -1 where the broker was not asked
    timestamp: int


Callback = Callable[[RecordMetadata | None, ClientError | None], None]
BatchCallback = Callable[[int, float, ClientError | None], None]


class ProducerBatch:
    """Records of one partition that travel together."""

    __slots__ = (
        "append",
        "attempts",
        "base_offset",
        "base_sequence",
        "builder",
        "callbacks",
        "count",
        "created_at",
        "data",
        "deadline",
        "done",
        "error",
        "log_append_time",
        "lost",
        "number",
        "partition",
        "producer",
        "ratio",
        "refusals",
        "reserved",
        "retry_at",
        "shares",
        "stamped",
        "waited",
    )

    def __init__(self, partition: TopicPartition, number: int, builder: Any, reserved: int, deadline: float) -> None:
        self.partition = partition
        self.number = number
        self.builder = builder
        self.append: Callable[..., Any] = getattr(builder, "append", None) or refuse_records
        self.count = 0
        self.reserved = reserved
        self.created_at = time.monotonic()
        self.deadline = self.created_at + deadline
        self.callbacks: list[tuple[int, int, Callback]] = []
        self.shares: list[tuple[int, float, BatchCallback]] = []
        self.data: bytearray | None = None
        self.producer: tuple[int, int] = NO_PRODUCER
        self.base_sequence = -1
        self.ratio = 1.0
        self.stamped: tuple[int, int, int] = (-1, -1, -1)
        self.attempts = 0
        self.refusals = 0  # because too few replicas are in sync
        self.retry_at = 0.0
        self.lost = False  # its connection broke, so it may have been written
        self.base_offset = -1
        self.log_append_time = -1
        self.error: ClientError | None = None
        self.done = False
        self.waited = False  # whether somebody wants to hear that it is done

    def __lt__(self, other: ProducerBatch) -> bool:
        return self.number < other.number

    @property
    def size(self) -> int:
        return len(self.data) if self.data is not None else int(self.builder.size())

    def seal(self, compression: Compression, level: int | None) -> bytearray:
        """Its bytes, with the producer's state as it is now. Outside the lock, by the sender only."""
        state = (*self.producer, self.base_sequence)
        if self.data is None:
            self.builder.set_producer_state(*state)
            data: bytearray = self.builder.build()
            self.stamped = state
            if compression:
                header = read_header(data)
                packed = compress(memoryview(data)[HEADER_BYTES:], compression, level)
                self.ratio = len(packed) / (len(data) - HEADER_BYTES)
                data = assemble(header._replace(attributes=header.attributes | compression), packed)
            self.data = data
            self.builder = None
        if state != self.stamped:
            PRODUCER_STATE.pack_into(self.data, PRODUCER_ID_OFFSET, *state)
            CRC.pack_into(self.data, CRC_OFFSET, batch_crc(self.data, 0, len(self.data)))
            self.stamped = state
        return self.data

    def metadata(self, index: int, timestamp: int) -> RecordMetadata:
        offset = self.base_offset + index if self.base_offset >= 0 else -1
        return RecordMetadata(*self.partition, offset, timestamp if self.log_append_time < 0 else self.log_append_time)


def refuse_records(*_: object) -> None:
    """A batch that was built elsewhere is full."""


class PartitionQueue:
    __slots__ = (
        "closed",
        "filled",
        "in_flight",
        "in_flight_node",
        "known",
        "needs_bump",
        "next_number",
        "next_sequence",
        "open",
        "partition",
        "producer",
        "set_aside",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.open: ProducerBatch | None = None
        self.closed: deque[ProducerBatch] = deque()
        self.in_flight: deque[ProducerBatch] = deque()
        self.in_flight_node = -1
        self.set_aside: list[ProducerBatch] = []
        self.producer: tuple[int, int] = NO_PRODUCER
        self.next_sequence = 0
        self.next_number = 0
        self.filled = 0  # bytes of batches that were closed so far
        self.needs_bump = False
        self.known = False  # to the leader, by a batch that was written

    def close_open(self) -> None:
        if self.open is not None:
            self.filled += self.open.builder.size()
            self.closed.append(self.open)
            self.open = None

    @property
    def empty(self) -> bool:
        return self.open is None and not self.closed and not self.in_flight and not self.set_aside


class Accumulator:
    def __init__(self, settings: ProducerSettings, *, transactional: bool = False, first_alone: bool = False) -> None:
        self._first_alone = first_alone
        self._settings = settings
        self._transactional = transactional
        self._compression = Compression.named(settings.compression)
        self._ratio = 1.0
        self._linger_s = settings.linger_ms / 1000
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._active: dict[TopicPartition, PartitionQueue] = {}  # those with batches
        self.incomplete: dict[ProducerBatch, None] = {}
        self.reserved = 0
        self.hurry = 0  # while above 0 nothing lingers: somebody flushes, closes, or waits for memory
        self.producer: tuple[int, int] = NO_PRODUCER

    def queue(self, partition: TopicPartition) -> PartitionQueue:
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = PartitionQueue(partition)
        return queue

    def reservation(self, record_bytes: int) -> int:
        """What a new batch that begins with such a record takes of the memory."""
        return max(self._batch_limit(), record_bytes)

    def _batch_limit(self) -> int:
        limit = self._settings.batch_size
        return max(limit, min(int(limit / self._ratio), COMPRESSED_BATCH_MAX)) if self._compression else limit

    def new_batch(self, queue: PartitionQueue, record_bytes: int) -> ProducerBatch:
        """The queue's open batch from now on; the one before is closed."""
        from aiokafka.record.default_records import DefaultRecordBatchBuilder  # slow to import

        queue.close_open()
        reserved = self.reservation(record_bytes)
        builder = DefaultRecordBatchBuilder(2, 0, int(self._transactional), -1, -1, -1, self._batch_limit())
        queue.open = self._add(queue, builder, reserved)
        return queue.open

    def add_built(self, queue: PartitionQueue, data: bytearray) -> ProducerBatch:
        """A batch as somebody else has built it, ready to leave."""
        queue.close_open()
        batch = self._add(queue, None, len(data))
        header = read_header(data)
        attributes = header.attributes | TRANSACTIONAL_FLAG * self._transactional
        BASE_OFFSET.pack_into(data, 0, 0)
        ATTRIBUTES.pack_into(data, ATTRIBUTES_OFFSET, attributes)
        CRC.pack_into(data, CRC_OFFSET, batch_crc(data, 0, len(data)))
        batch.data, batch.count = data, header.records_count
        batch.stamped = (header.producer_id, header.producer_epoch, header.base_sequence)
        queue.closed.append(batch)
        return batch

    def _add(self, queue: PartitionQueue, builder: Any, reserved: int) -> ProducerBatch:
        lifetime_s = self._settings.delivery_timeout_ms / 1000
        batch = ProducerBatch(queue.partition, queue.next_number, builder, reserved, lifetime_s)
        queue.next_number += 1
        self.reserved += reserved
        self.incomplete[batch] = None
        self._active[queue.partition] = queue
        return batch

    def is_active(self, topic: str) -> bool:
        """Whether there is anything on its way to this topic."""
        return any(name == topic for name, _ in self._active)

    def ready(self, now: float) -> Iterator[PartitionQueue]:
        """Queues whose next batch may leave."""
        for queue in list(self._active.values()):
            if queue.needs_bump and not queue.in_flight:
                self._bump(queue)
            if queue.needs_bump:
                continue
            if not queue.closed:
                batch = queue.open
                if batch is None or not (self.hurry or now - batch.created_at >= self._linger_s):
                    continue
                queue.close_open()
            head = queue.closed[0]
            alone = head.attempts or (self._first_alone and not queue.known)
            if head.retry_at > now or (alone and queue.in_flight):
                continue
            yield queue

    def take(self, queue: PartitionQueue, node_id: int) -> ProducerBatch:
        """The next batch of a queue that is ready, on its way to a node."""
        batch = queue.closed.popleft()
        if self._settings.idempotent and batch.base_sequence < 0:
            if queue.producer == NO_PRODUCER:
                queue.producer = self.producer
            batch.producer = queue.producer
            batch.base_sequence = queue.next_sequence
            queue.next_sequence = add_to_sequence(queue.next_sequence, batch.count)
        batch.attempts += 1
        self._active[queue.partition] = self._active.pop(queue.partition)  # others are first in the next request
        queue.in_flight.append(batch)
        queue.in_flight_node = node_id
        return batch

    def wake_up_at(self, now: float) -> float:
        """When a batch has waited enough; one that is closed and due waits for something else: an answer, a leader."""
        at = float("inf")
        for queue in self._active.values():
            if queue.closed:
                head = queue.closed[0]
                at = min(at, head.deadline, head.retry_at if head.retry_at > now else at)
            elif queue.open is not None and not queue.needs_bump:
                at = min(at, queue.open.created_at + self._linger_s, queue.open.deadline)
        return at

    def complete(self, batch: ProducerBatch, base_offset: int, log_append_time: int) -> list[ProducerBatch]:
        """What is done by it: the batch, after those before it that were set aside; where they are is not known."""
        if self._compression:
            self._ratio = max(RATIO_MIN, 0.8 * self._ratio + 0.2 * batch.ratio)
        batch.base_offset, batch.log_append_time = base_offset, log_append_time
        queue = self._queues[batch.partition]
        queue.known = True
        done = [*queue.set_aside, batch]
        for each in done:
            self._finish(each)
        return done

    def set_aside(self, batch: ProducerBatch) -> bool:
        """A lost batch is out of order. False if none that was lost comes after it: nothing more can be learned."""
        queue = self._queues[batch.partition]
        if not (batch.lost and queue.closed and queue.closed[0].lost) or queue.in_flight[0] is not batch:
            return False
        queue.in_flight.remove(batch)
        queue.set_aside.append(batch)
        return True

    def fail(self, batch: ProducerBatch, error: ClientError) -> None:
        queue = self._queues[batch.partition]
        batch.error = error
        if batch.base_sequence >= 0:
            queue.needs_bump = True
        self._finish(batch)

    def withdraw(self, error: ClientError) -> list[ProducerBatch]:
        """Batches that never left fail; they have no sequence that others would miss."""
        waiting = [batch for queue in self._active.values() for batch in (*queue.closed, queue.open)]
        withdrawn = [batch for batch in waiting if batch is not None and not batch.attempts]
        for batch in withdrawn:
            self.fail(batch, error)
        return withdrawn

    def retry(self, batch: ProducerBatch, at: float, *, lost: bool = False) -> None:
        queue = self._queues[batch.partition]
        batch.lost = batch.lost or lost
        if batch in queue.in_flight:
            queue.in_flight.remove(batch)
        batch.retry_at = at
        if not queue.closed or batch < queue.closed[0]:
            queue.closed.appendleft(batch)
        else:
            ordered = list(queue.closed)
            insort(ordered, batch)
            queue.closed = deque(ordered)

    def expired(self, now: float) -> list[ProducerBatch]:
        """Batches that wait and whose time is over; they fail in the order they were made."""
        found = []
        for queue in self._active.values():
            if queue.open is not None and queue.open.deadline <= now:
                queue.close_open()
            found += [batch for batch in queue.set_aside if batch.deadline <= now]
            for batch in queue.closed:
                if batch.deadline > now:
                    break
                found.append(batch)
        return found

    def is_oldest(self, batch: ProducerBatch) -> bool:
        """Whether nothing of its partition is on its way before it."""
        queue = self._queues[batch.partition]
        return not any(other < batch for other in (*queue.in_flight, *queue.closed))

    def start_over(self, batch: ProducerBatch) -> None:
        """The broker does not know this producer's sequence any more: begin a new epoch when nothing is in flight."""
        self._queues[batch.partition].needs_bump = True

    def _bump(self, queue: PartitionQueue) -> None:
        producer_id, epoch = queue.producer
        if epoch >= MAX_EPOCH:
            for batch in [*queue.set_aside, *queue.closed]:
                self.fail(batch, ClientError(f"The epochs of producer {producer_id} are used up."))
            return
        queue.needs_bump = queue.known = False
        queue.closed.extendleft(reversed(queue.set_aside))
        queue.set_aside.clear()
        queue.producer = (producer_id, epoch + 1)
        queue.next_sequence = 0
        for batch in queue.closed:
            if batch.base_sequence >= 0:
                batch.producer = queue.producer
                batch.base_sequence = queue.next_sequence
                batch.lost = False
                queue.next_sequence = add_to_sequence(queue.next_sequence, batch.count)
        if queue.empty:
            self._active.pop(queue.partition, None)

    def _finish(self, batch: ProducerBatch) -> None:
        queue = self._queues[batch.partition]
        waiting: deque[ProducerBatch] | list[ProducerBatch]
        for waiting in (queue.in_flight, queue.set_aside, queue.closed):
            if batch in waiting:
                waiting.remove(batch)
                break
        else:
            if queue.open is batch:
                queue.open = None
        batch.done = True
        batch.data = None
        self.reserved -= batch.reserved
        del self.incomplete[batch]
        if queue.empty and not queue.needs_bump:
            del self._active[batch.partition]
