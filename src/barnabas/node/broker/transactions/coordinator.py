"""The transaction coordinator of this node: the partitions of __transaction_state that it leads.

When the outcome of a transaction is committed its markers are written at once, as far as its partitions are led here
and ready, and the transaction is complete before its producer is answered. Markers for partitions that other brokers
lead are sent there. What could not be written is tried again until it can, in the background; a producer that begins
its next transaction meanwhile has to ask again. Transactions that are found prepared when a partition is loaded, since
their coordinator was killed or leads no more, are completed in the same way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from barnabas.core.controller.topic_names import TRANSACTION_STATE_TOPIC
from barnabas.core.coordinator.decision import Decision, Marker
from barnabas.core.coordinator.promise import Promise
from barnabas.core.coordinator.timers import Timers
from barnabas.core.metadata.records import TRANSACTION_VERSION
from barnabas.core.transactions.decide import (
    AddPartitions,
    InitProducerId,
    ProducerIdAndEpoch,
    add_partitions,
    init_producer_id,
    verify_partitions,
)
from barnabas.core.transactions.ending import (
    Ended,
    EndTransaction,
    abort_timed_out,
    complete,
    end_transaction,
    remove_expired,
    timed_out,
)
from barnabas.core.transactions.records import record_of, tombstone_of
from barnabas.core.transactions.state import (
    EPOCH_BUMPS_SINCE,
    PREPARE_COMMIT,
    PREPARED,
    ProducerIdNeeded,
    TopicPartition,
    Transaction,
    Transactions,
)
from barnabas.node.broker.coordinators.coordinator import Coordinator, result_of
from barnabas.node.broker.coordinators.shard import LedShard
from barnabas.node.broker.transactions.marker_mail import MarkerMail
from barnabas.node.broker.transactions.markers import write_marker
from barnabas.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from barnabas.node.ports import Coordinating

T = TypeVar("T")
Unwritten = dict[TopicPartition, Promise[None] | None]

log = logging.getLogger("barnabas.transactions")

RETRY_MS = 100
# Ends a producer for good, or its transaction.
FATAL = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
# The partition is in a later epoch of this producer: the transaction is over there.
OVER = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})


class TransactionCoordinator(Coordinator[Transactions]):
    def __init__(self, node: Coordinating) -> None:
        super().__init__(node, TRANSACTION_STATE_TOPIC, self._new_shard)
        self._tasks: set[asyncio.Task[None]] = set()
        self._mail = MarkerMail(node, self._in_background)

    @property
    def transaction_version(self) -> int:
        """What the cluster has finalized."""
        return self._node.image.features.get(TRANSACTION_VERSION, 0)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await super().stop()

    # Requests

    async def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None
    ) -> ProducerIdAndEpoch:
        if not 0 < timeout_ms <= self._node.config.transaction_max_timeout_ms:
            raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT, f"A transaction may not take {timeout_ms} ms.")

        def decide(transactions: Transactions, new_producer_id: int | None) -> Decision[ProducerIdAndEpoch]:
            asked = InitProducerId(
                transactional_id=transactional_id,
                timeout_ms=timeout_ms,
                expected=expected,
                transaction_version=self.transaction_version,
                new_producer_id=new_producer_id,
            )
            return init_producer_id(transactions, asked, self._node.clock())

        return await self._submit_with_id(transactional_id, decide)

    async def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        *,
        client_version: int = 0,
    ) -> None:
        require_id(transactional_id)
        asked = AddPartitions(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            partitions=frozenset(partitions),
            client_version=client_version,
            transaction_version=self.transaction_version,
        )
        now_ms = self._node.clock()
        await self._as_leader(
            transactional_id,
            lambda: self.submit(transactional_id, lambda transactions: add_partitions(transactions, asked, now_ms)),
        )

    async def verify_partitions(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        require_id(transactional_id)
        asked = list(partitions)

        async def verify() -> dict[TopicPartition, ErrorCode]:
            return verify_partitions(
                self.shard_for(transactional_id), transactional_id, producer_id, producer_epoch, asked
            )

        found = await self._as_leader(transactional_id, verify)
        if FATAL.isdisjoint(found.values()):
            return found
        await self._prove_leadership(transactional_id)
        return await verify()

    async def end(
        self, transactional_id: str, producer_id: int, producer_epoch: int, *, committed: bool, client_version: int
    ) -> Ended:
        require_id(transactional_id)

        def decide(transactions: Transactions, new_producer_id: int | None) -> Decision[Ended]:
            asked = EndTransaction(
                transactional_id=transactional_id,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                committed=committed,
                client_version=client_version,
                transaction_version=self.transaction_version,
                new_producer_id=new_producer_id,
            )
            return end_transaction(transactions, asked, self._node.clock())

        return await self._submit_with_id(transactional_id, decide)

    def find(self, transactional_id: str) -> Transaction | None:
        return self.shard_for(transactional_id).by_id.committed(transactional_id)

    def all(self) -> list[Transaction]:
        return [found for led in self for _, found in led.shard.by_id.committed_items()]

    async def _as_leader(self, transactional_id: str, ask: Callable[[], Awaitable[T]]) -> T:
        """A refusal that ends the producer for good is given by who leads for certain only.

        Who leads no more and has not heard of it does not know the producer's latest epoch, or its transaction.
        """
        try:
            return await ask()
        except KafkaError as error:
            if error.code not in FATAL:
                raise
        await self._prove_leadership(transactional_id)
        return await ask()

    async def _prove_leadership(self, transactional_id: str) -> None:
        """The same state once more: a former leader cannot commit it. Nobody else can lead an only replica."""
        if self._is_only_replica(transactional_id):
            return

        def again(transactions: Transactions) -> Decision[None]:
            found = transactions.by_id.get(transactional_id)
            record = tombstone_of(transactional_id) if found is None else record_of(found, self.transaction_version)
            return Decision([record], None)

        await self.submit(transactional_id, again)

    def _is_only_replica(self, transactional_id: str) -> bool:
        state = self._node.image.topics[self.topic].partitions[self.partition_for(transactional_id)]
        return list(state.replicas) == [self._node.node_id]

    async def _submit_with_id(
        self, transactional_id: str, decide: Callable[[Transactions, int | None], Decision[T]]
    ) -> T:
        return await self._as_leader(transactional_id, lambda: self._decide_with_id(transactional_id, decide))

    async def _decide_with_id(
        self, transactional_id: str, decide: Callable[[Transactions, int | None], Decision[T]]
    ) -> T:
        new_id: int | None = None
        while True:
            try:
                return await self.submit(transactional_id, partial(_with_id, decide, new_id))
            except ProducerIdNeeded:
                new_id = await self.new_producer_id()

    async def new_producer_id(self) -> int:
        try:
            return await self._node.producer_ids.next()
        except KafkaError as error:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, error.message) from error

    # Markers

    def _new_shard(self, index: int, timers: Timers) -> Transactions:
        transactions = Transactions(timers)
        transactions.on_prepared = partial(self._prepared, index)
        transactions.on_loaded = self._loaded
        return transactions

    def _prepared(self, index: int, transactional_id: str) -> None:
        led = self._led[index]
        if led.has_uncommitted_past:
            # What a former coordinator prepared is in the log, and may yet be cut off it: no marker is written before.
            led.submit(lambda _: Decision([], None)).then(partial(self._certain, led, transactional_id))
        else:
            self._end(led, transactional_id)

    def _certain(self, led: LedShard[Transactions], transactional_id: str, promise: Promise[None]) -> None:
        if promise.error is None:
            self._end(led, transactional_id)

    def _end(self, led: LedShard[Transactions], transactional_id: str) -> None:
        found = led.shard.by_id.get(transactional_id)
        if found is None or found.state not in PREPARED:
            return
        left = self._write_markers(led, found, found.partitions)
        if left:
            self._in_background(self._write_rest(led, found, left))
        else:
            self._complete(led, found)

    def _write_markers(
        self, led: LedShard[Transactions], found: Transaction, partitions: Iterable[TopicPartition]
    ) -> Unwritten:
        """What is not yet committed: a promise, or None where it has to be tried again."""
        marker = Marker(
            found.producer_id, found.producer_epoch, led.leader_epoch, committed=found.state is PREPARE_COMMIT
        )
        left: Unwritten = {}
        for topic, index in sorted(partitions):
            try:
                promise = self._write_marker(topic, index, marker, found.client_version)
            except KafkaError as error:
                if not self._is_over(topic, index, error, found):
                    left[topic, index] = None
            else:
                if not promise.is_done or promise.error is not None:
                    left[topic, index] = promise
        return left

    def _write_marker(self, topic: str, index: int, marker: Marker, transaction_version: int) -> Promise[None]:
        known = self._node.image.topics.get(topic)
        state = known.partitions.get(index) if known is not None else None
        if state is None or state.leader == self._node.node_id:
            return write_marker(self._node, topic, index, marker, transaction_version)
        if state.leader < 0:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{topic}-{index} has no leader.")
        return self._mail.send(state.leader, topic, index, marker, transaction_version)

    def _is_over(self, topic: str, index: int, error: KafkaError, found: Transaction) -> bool:
        known = self._node.image.topics.get(topic)
        if known is None or index not in known.partitions:
            return True  # deleted meanwhile
        if error.code in OVER:
            log.warning("%s-%d needs no marker of '%s': %s", topic, index, found.transactional_id, error.message)
        return error.code in OVER

    async def _write_rest(self, led: LedShard[Transactions], ended: Transaction, left: Unwritten) -> None:
        while left:
            failed = [partition for partition, promise in left.items() if not await _is_kept(promise)]
            if failed:
                await asyncio.sleep(RETRY_MS / 1000)
            if led.is_lost or led.shard.by_id.get(ended.transactional_id) != ended:
                return  # a later transaction has markers of its own
            left = self._write_markers(led, ended, failed)
        self._complete(led, ended)

    def _complete(self, led: LedShard[Transactions], ended: Transaction) -> None:
        version, now_ms = self.transaction_version, self._node.clock()
        promise = led.submit(lambda transactions: complete(transactions, ended, version, now_ms))
        promise.then(partial(self._completed, led, ended))

    def _completed(self, led: LedShard[Transactions], ended: Transaction, promise: Promise[None]) -> None:
        if promise.error is not None and not led.is_lost:
            log.warning("could not complete the transaction of '%s': %s", ended.transactional_id, promise.error)
            self._in_background(self._complete_later(led, ended))

    async def _complete_later(self, led: LedShard[Transactions], ended: Transaction) -> None:
        await asyncio.sleep(RETRY_MS / 1000)
        if not led.is_lost:
            self._complete(led, ended)

    # Time

    def _loaded(self, transactions: Transactions) -> None:
        self._schedule_time_outs(transactions)
        self._schedule_expiry(transactions)

    def _schedule_time_outs(self, transactions: Transactions) -> None:
        interval_ms = self._node.config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        transactions.timers.schedule("time-outs", interval_ms, partial(self._abort_timed_out, transactions))

    def _abort_timed_out(self, transactions: Transactions) -> Decision[None] | None:
        self._schedule_time_outs(transactions)
        version, now_ms = self.transaction_version, self._node.clock()
        overdue = timed_out(transactions, now_ms)
        for found in overdue:
            log.info("The transaction of '%s' has run out of time and is aborted", found.transactional_id)
            if found.is_epoch_exhausted and version >= EPOCH_BUMPS_SINCE:
                self._in_background(self._abort_with_new_id(found.transactional_id))
        return abort_timed_out(transactions, version, now_ms, []) if overdue else None

    async def _abort_with_new_id(self, transactional_id: str) -> None:
        try:
            new_ids = [await self.new_producer_id()]
            await self.submit(transactional_id, partial(self._abort_overdue, new_ids))
        except KafkaError as error:
            log.warning("could not abort the transaction of '%s': %s", transactional_id, error)

    def _abort_overdue(self, new_ids: list[int], transactions: Transactions) -> Decision[None]:
        decision = abort_timed_out(transactions, self.transaction_version, self._node.clock(), new_ids)
        return decision or Decision([], None)

    def _schedule_expiry(self, transactions: Transactions) -> None:
        interval_ms = self._node.config.transaction_remove_expired_transaction_cleanup_interval_ms
        transactions.timers.schedule("expiry", interval_ms, partial(self._remove_expired, transactions))

    def _remove_expired(self, transactions: Transactions) -> Decision[None] | None:
        self._schedule_expiry(transactions)
        return remove_expired(transactions, self._node.config.transactional_id_expiration_ms, self._node.clock())

    def _in_background(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the transaction coordinator could not end a transaction", exc_info=error)


def require_id(transactional_id: str) -> None:
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A transactional id must not be empty.")


def _with_id(
    decide: Callable[[Transactions, int | None], Decision[T]], new_id: int | None, transactions: Transactions
) -> Decision[T]:
    return decide(transactions, new_id)


async def _is_kept(promise: Promise[None] | None) -> bool:
    if promise is None:
        return False
    try:
        await result_of(promise)
    except KafkaError as error:
        return error.code in OVER
    return True
