"""The clients of a run: threads with confluent-kafka that write, read, copy and commit, and tell the history of it."""

from __future__ import annotations

import random
import threading
import time
from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.support.chaos.history import (
    COPIED_BY,
    UNKNOWN_OFFSET,
    CommittedOffset,
    History,
    Outcome,
    Partition,
    Seen,
    Send,
    Transaction,
)

LIMIT_S = 120.0
# For a thread to end, which may have to wait for something within it first.
ENDS_S = 2 * LIMIT_S
QUEUED_MAX = 1000
REGISTERED_S = 1.0
# librdkafka 2.16 waits beyond a call's time-out for a group coordinator that was killed and has left the metadata, for
# minutes on Apache Kafka 4.3.1 too (its issues 5511 and 5456). The next producer asks for the coordinator anew.
STUCK_S = 15.0
QUICK = {
    "log_level": 2,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 50,
    "socket.timeout.ms": 5000,
    "topic.metadata.refresh.interval.ms": 3000,
    "topic.metadata.refresh.fast.interval.ms": 100,
}


class Client(threading.Thread):
    """Does something again and again until it is told to stop; `failure` is what it did not expect."""

    def __init__(self, name: str, servers: str, history: History, seed: int) -> None:
        super().__init__(name=name, daemon=True)
        self.servers = servers
        self.history = history
        self.random = random.Random(f"{seed} {name}")
        self.enough = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.enough.is_set():
                self.work()
            self.finish()
        except BaseException as error:
            self.failure = error

    def end(self, limit_s: float = ENDS_S) -> None:
        self.enough.set()
        self.join(limit_s)
        if self.is_alive():
            raise AssertionError(f"{self.name} does not end within {limit_s:g} s")
        if self.failure is not None:
            raise AssertionError(f"{self.name} failed: {self.failure!r}") from self.failure

    @abstractmethod
    def work(self) -> None: ...

    def finish(self) -> None:
        """What is left to do when the faults are over."""


class Writer(Client):
    """Numbered values, one after the other, to each partition."""

    def __init__(
        self, name: str, servers: str, history: History, seed: int, topic: str, partitions: int, **settings: Any
    ) -> None:
        super().__init__(name, servers, history, seed)
        self.topic = topic
        self.partitions = partitions
        self.number = 0
        self._producer = Producer({"bootstrap.servers": servers, "acks": "all", "linger.ms": 2, **QUICK, **settings})

    def work(self) -> None:
        for _ in range(self.random.randrange(1, 4)):
            if len(self._producer) < QUEUED_MAX:
                self._send(self.number % self.partitions)
        self._producer.poll(0)
        time.sleep(0.02)

    def _send(self, partition: int) -> None:
        value = f"{self.name}:{self.number}".encode()
        self.number += 1
        send = self.history.send(Send(self.name, (self.topic, partition), value, time.monotonic()))
        self._producer.produce(self.topic, value, partition=partition, on_delivery=lambda *told: deliver(send, *told))

    def finish(self) -> None:
        if left := self._producer.flush(LIMIT_S):
            raise AssertionError(f"{left} values were neither acknowledged nor refused")


def deliver(send: Send, error: KafkaError | None, message: Message) -> None:
    """An error leaves the outcome unknown; what is acknowledged a second time may come without its offset."""
    if error is None:
        offset = message.offset()
        send.offset = UNKNOWN_OFFSET if offset is None or offset < 0 else offset
        send.acknowledged_at = time.monotonic()


class TransactionalClient(Client):
    """Transactions one after the other; after an error another producer with the same id takes over."""

    def __init__(self, name: str, servers: str, history: History, seed: int) -> None:
        super().__init__(name, servers, history, seed)
        self.count = 0
        self.producer: Producer | None = None
        self.sends: list[Send] = []  # of the transaction

    def open_producer(self) -> Producer:
        settings = {"transactional.id": self.name, "transaction.timeout.ms": 20_000, "delivery.timeout.ms": 20_000}
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 2, **QUICK, **settings})
        patiently(lambda: producer.init_transactions(5), self.enough)
        return producer

    def begin(self) -> Transaction:
        assert self.producer is not None
        made = Transaction(f"{self.name}-{self.count}")
        self.count += 1
        self.sends = []
        self.history.transactions[made.id] = made
        self.producer.begin_transaction()
        return made

    def produce(self, transaction: Transaction, partition: Partition, value: bytes) -> None:
        assert self.producer is not None
        send = self.history.send(Send(self.name, partition, value, time.monotonic(), transaction.id))
        self.sends.append(send)
        self.producer.produce(
            partition[0], value, partition=partition[1], on_delivery=lambda *told: deliver(send, *told)
        )

    def commit(self, transaction: Transaction) -> None:
        """Raises KafkaException if it must be aborted, or nobody knows: another producer takes over."""
        assert self.producer is not None
        producer = self.producer
        transaction.commit_asked_at = time.monotonic()
        patiently(lambda: producer.commit_transaction(5), self.enough)
        transaction.outcome = Outcome.COMMITTED

    def abort(self, transaction: Transaction) -> None:
        """By this producer if all of its partitions are known to be in the transaction, else by the next.

        librdkafka 2.16 ends the whole process if it hears after an abort that a request to add partitions has failed
        (an assertion in rd_kafka_txn_handle_AddPartitionsToTxn; rd_kafka_txn_complete has forgotten the request).
        """
        assert self.producer is not None
        producer = self.producer
        transaction.outcome = Outcome.ABORTED  # Its commit is never asked for, so nobody may read it.
        producer.flush(REGISTERED_S)
        if all(send.acknowledged_at is not None for send in self.sends):
            patiently(lambda: producer.abort_transaction(5), self.enough)
        else:
            self.producer = None


def patiently(call: Callable[[], object], enough: threading.Event) -> None:
    """Again and again while the error says that it may be; the limit counts from the end of the faults."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        if not enough.is_set():
            deadline = time.monotonic() + LIMIT_S
        try:
            call()
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
            if time.monotonic() > deadline:
                raise AssertionError(f"no end of a transaction within {LIMIT_S:g} s: {error}") from error


class Stuck(Exception):
    """A call has not come to its end, and may never: its thread is left with it."""


def within(limit_s: float, call: Callable[[], object]) -> None:
    """Raises Stuck if it has not returned by then, else what it raises itself."""
    raised: list[BaseException] = []

    def work() -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=work, name="may be stuck", daemon=True)
    thread.start()
    thread.join(limit_s)
    if thread.is_alive():
        raise Stuck(f"stuck for {limit_s:g} s")
    if raised:
        raise raised[0]


def leave(consumer: Consumer) -> None:
    """Closes it. Nothing that is judged depends on when librdkafka has found the coordinator to say goodbye to."""
    with suppress(Stuck):
        within(STUCK_S, consumer.close)


class TransactionalWriter(TransactionalClient):
    """Values to several partitions at once. Some transactions are aborted, some are left to a successor."""

    def __init__(self, name: str, servers: str, history: History, seed: int, topic: str, partitions: int) -> None:
        super().__init__(name, servers, history, seed)
        self.topic = topic
        self.partitions = partitions

    def work(self) -> None:
        try:
            if self.producer is None:
                self.producer = self.open_producer()
            transaction = self.begin()
            for part in range(self.random.randrange(1, 6)):
                value = f"{transaction.id}:{part}".encode()
                self.produce(transaction, (self.topic, self.random.randrange(self.partitions)), value)
            ending = self.random.random()
            if ending < 0.7:
                self.commit(transaction)
            elif ending < 0.93:
                self.abort(transaction)
            else:
                transaction.outcome = Outcome.ABORTED  # Its commit is never asked for, so nobody may read it.
                self.producer = None
            time.sleep(0.01)
        except KafkaException:
            self.producer = None


def open_member(servers: str, group: str) -> Consumer:
    """Of a group, which reads committed records from the beginning and commits when it is told to."""
    return Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "session.timeout.ms": 10_000,
            **QUICK,
        }
    )


class Copier(TransactionalClient):
    """Reads a topic in a group, writes each value to another in a transaction, and commits the offsets with it."""

    def __init__(self, name: str, servers: str, history: History, seed: int, source: str, target: str) -> None:
        super().__init__(name, servers, history, seed)
        self.source = source
        self.target = target
        self.ends: dict[int, int] | None = None  # where the source ends, once it does
        self._consumer: Consumer | None = None
        self._is_idle = False
        self._last = "no error"

    def work(self) -> None:
        try:
            self._copy()
        except (KafkaException, Stuck) as error:
            self._last = str(error)
            self._give_up()

    def finish(self) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not (self._is_idle and self._has_finished()):
            if self.ends is None:
                deadline = time.monotonic() + LIMIT_S  # it counts from when the end is known
            elif time.monotonic() > deadline:
                raise AssertionError(f"{self.source} was not copied to its end within {LIMIT_S:g} s: {self._last}")
            self.work()
        if self._consumer is not None:
            leave(self._consumer)

    def _has_finished(self) -> bool:
        if self.ends is None or self._consumer is None:
            return False
        try:
            partitions = [TopicPartition(self.source, index) for index in self.ends]
            found = self._consumer.committed(partitions, 5)
        except KafkaException:
            return False
        return all(each.offset >= self.ends[each.partition] or not self.ends[each.partition] for each in found)

    def _copy(self) -> None:
        if self.producer is None:
            self.producer = self.open_producer()
        if self._consumer is None:
            self._consumer = self._open_consumer()
        given = self._consumer.consume(1000, 0.2)
        messages = [each for each in given if each.error() is None]
        self._last = next((str(each.error()) for each in given if each.error() is not None), self._last)
        self._is_idle = not messages
        if not messages:
            return
        transaction = self.begin()
        for message in messages:
            value = message.value() + COPIED_BY + transaction.id.encode()
            self.produce(transaction, (self.target, message.partition()), value)
        offsets: dict[int, int] = {each.partition(): each.offset() + 1 for each in messages}
        positions = [TopicPartition(self.source, index, offset) for index, offset in offsets.items()]
        group, producer = self._consumer.consumer_group_metadata(), self.producer
        send = partial(producer.send_offsets_to_transaction, positions, group, 5)
        within(STUCK_S, lambda: patiently(send, self.enough))
        self.commit(transaction)

    def _open_consumer(self) -> Consumer:
        consumer = open_member(self.servers, self.name)
        consumer.subscribe([self.source])
        return consumer

    def _give_up(self) -> None:
        """Both anew: what was not committed is read again."""
        self.producer = None
        if self._consumer is not None:
            leave(self._consumer)
            self._consumer = None


class Reader(Client):
    """A member of a group that reads committed records and commits its offsets."""

    def __init__(self, name: str, servers: str, history: History, seed: int, group: str, topics: list[str]) -> None:
        super().__init__(name, servers, history, seed)
        self.group = group
        self.topics = topics
        self._assignments = 0
        self._committed_at = 0.0
        self._consumer = self._open_consumer()

    def _open_consumer(self) -> Consumer:
        consumer = open_member(self.servers, self.group)
        consumer.subscribe(self.topics, on_assign=self._assigned, on_lost=self._lost)
        return consumer

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._assignments += 1

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._assignments += 1

    def work(self) -> None:
        for message in self._consumer.consume(200, 0.1):
            if message.error() is None:
                assignment = f"{self.name} #{self._assignments}"
                partition = (message.topic(), message.partition())
                self.history.see(Seen(assignment, partition, message.offset(), message.value(), time.monotonic()))
        if time.monotonic() > self._committed_at + 0.5:
            self._commit()

    def _commit(self) -> None:
        self._committed_at = time.monotonic()
        done: list[TopicPartition] = []
        try:
            within(STUCK_S, lambda: done.extend(self._consumer.commit(asynchronous=False) or ()))
        except KafkaException:
            return
        except Stuck:
            self._consumer = self._open_consumer()
            return
        for each in done:
            if each.error is None and each.offset >= 0:
                partition = (each.topic, each.partition)
                self.history.tell_committed(CommittedOffset(self.group, partition, each.offset, time.monotonic()))

    def finish(self) -> None:
        self._commit()
        leave(self._consumer)
