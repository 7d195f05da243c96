"""The end of transactions: by EndTxn, by time, by a newer producer; and the end of ids that nobody uses.

An end is two records. The first (PrepareCommit, PrepareAbort) decides: once it is committed the outcome is certain, and
`Transactions.on_prepared` is told, so that markers are written to the partitions. The second (CompleteCommit,
CompleteAbort) says that they are.

With transaction.version 2 the first one also gives the producer its next epoch, in which the markers are written; what
the old epoch sends late is refused by every partition. So an EndTxn that comes again is known by its epoch: one less
than the present one. Without, it can be told only by the state, and an EndTxn that is late may end the next
transaction; clients that ask for it (EndTxn below version 5) get it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from barnabas.core.coordinator.decision import Decision
from barnabas.core.coordinator.records import CoordinatorRecord
from barnabas.core.transactions.records import record_of, tombstone_of
from barnabas.core.transactions.refusals import concurrent, fenced, no_producer, wrong_state
from barnabas.core.transactions.state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EPOCH_BUMPS_SINCE,
    EPOCH_MAX,
    IDLE,
    NO_PRODUCER_ID,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARED,
    ProducerIdNeeded,
    Transaction,
    Transactions,
)
from barnabas.wire.errors import KafkaError


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    client_version: int
    transaction_version: int = 2
    new_producer_id: int | None = None


class Ended(NamedTuple):
    """The producer id and epoch with which the producer goes on."""

    producer_id: int
    producer_epoch: int


def end_transaction(transactions: Transactions, asked: EndTransaction, now_ms: int) -> Decision[Ended]:
    found = transactions.by_id.get(asked.transactional_id)
    if found is None:
        raise no_producer(asked.transactional_id, asked.producer_id)
    if asked.client_version < EPOCH_BUMPS_SINCE:
        return _end_in_same_epoch(transactions, found, asked, now_ms)
    if found.state in PREPARED:
        raise concurrent(found)
    is_retry_with_new_id = (
        found.previous_producer_id == asked.producer_id
        and asked.producer_epoch == EPOCH_MAX - 1
        and found.producer_epoch == 0
    )
    if found.producer_id != asked.producer_id and not is_retry_with_new_id:
        raise no_producer(asked.transactional_id, asked.producer_id)
    is_retry = is_retry_with_new_id or (found.bumps_epochs and found.producer_epoch == asked.producer_epoch + 1)
    if is_retry and found.state in (COMPLETE_COMMIT, COMPLETE_ABORT):
        if found.state is not (COMPLETE_COMMIT if asked.committed else COMPLETE_ABORT):
            raise wrong_state(found, asked.committed)
        return Decision([], Ended(found.producer_id, found.producer_epoch))
    if asked.producer_epoch != found.producer_epoch:
        raise fenced(found)
    if found.state is not ONGOING and asked.committed:
        raise wrong_state(found, committed=True)
    return _prepare(
        transactions, found, asked.committed, asked.transaction_version, now_ms, new_producer_id=asked.new_producer_id
    )


def _end_in_same_epoch(
    transactions: Transactions, found: Transaction, asked: EndTransaction, now_ms: int
) -> Decision[Ended]:
    if found.producer_id != asked.producer_id:
        raise no_producer(asked.transactional_id, asked.producer_id)
    if found.producer_epoch != asked.producer_epoch:
        raise fenced(found)
    if found.state in PREPARED:
        raise concurrent(found)
    if found.state is ONGOING:
        prepared = found._replace(
            state=PREPARE_COMMIT if asked.committed else PREPARE_ABORT,
            updated_ms=now_ms,
            previous_producer_id=found.producer_id,
            client_version=0,
        )
        return _prepared(transactions, prepared, asked.transaction_version)
    if found.state is (COMPLETE_COMMIT if asked.committed else COMPLETE_ABORT):
        return Decision([], Ended(found.producer_id, found.producer_epoch))
    raise wrong_state(found, asked.committed)


def abort_with_new_epoch(
    transactions: Transactions,
    found: Transaction,
    transaction_version: int,
    now_ms: int,
    *,
    new_producer_id: int | None = None,
) -> Decision[Ended]:
    """Abort what a producer has open and fence it."""
    if transaction_version >= EPOCH_BUMPS_SINCE:
        return _prepare(transactions, found, False, transaction_version, now_ms, new_producer_id=new_producer_id)
    prepared = found._replace(
        producer_epoch=found.producer_epoch + 1,
        state=PREPARE_ABORT,
        updated_ms=now_ms,
        previous_producer_id=found.producer_id,
        client_version=0,
    )
    return _prepared(transactions, prepared, transaction_version)


def _prepare(
    transactions: Transactions,
    found: Transaction,
    committed: bool,
    transaction_version: int,
    now_ms: int,
    *,
    new_producer_id: int | None,
) -> Decision[Ended]:
    next_producer_id = NO_PRODUCER_ID
    if found.is_epoch_exhausted:
        if new_producer_id is None:
            raise ProducerIdNeeded
        next_producer_id = new_producer_id
    prepared = found._replace(
        producer_epoch=found.producer_epoch + 1,
        state=PREPARE_COMMIT if committed else PREPARE_ABORT,
        started_ms=found.started_ms if found.state is ONGOING else now_ms,
        updated_ms=now_ms,
        previous_producer_id=found.producer_id,
        next_producer_id=next_producer_id,
        client_version=EPOCH_BUMPS_SINCE,
    )
    transactions.remember_last_epoch(_completed(prepared, now_ms), found.producer_epoch)
    return _prepared(transactions, prepared, transaction_version)


def _prepared(transactions: Transactions, prepared: Transaction, transaction_version: int) -> Decision[Ended]:
    completed = _completed(prepared, prepared.updated_ms)
    return Decision(
        [record_of(prepared, transaction_version)],
        Ended(completed.producer_id, completed.producer_epoch),
        decided=_then_write_markers(transactions, prepared.transactional_id),
    )


def _then_write_markers(transactions: Transactions, *transactional_ids: str) -> Callable[[KafkaError | None], None]:
    def decided(error: KafkaError | None) -> None:
        if error is None:
            for transactional_id in transactional_ids:
                transactions.on_prepared(transactional_id)

    return decided


def complete(transactions: Transactions, ended: Transaction, transaction_version: int, now_ms: int) -> Decision[None]:
    """All markers of this prepared transaction are written. A later one of the same id has markers of its own."""
    if transactions.by_id.get(ended.transactional_id) != ended or ended.state not in PREPARED:
        return Decision([], None)
    return Decision([record_of(_completed(ended, now_ms), transaction_version)], None)


def _completed(prepared: Transaction, now_ms: int) -> Transaction:
    changes_id = prepared.bumps_epochs and prepared.next_producer_id != NO_PRODUCER_ID
    return prepared._replace(
        producer_id=prepared.next_producer_id if changes_id else prepared.producer_id,
        producer_epoch=0 if changes_id else prepared.producer_epoch,
        state=COMPLETE_COMMIT if prepared.state is PREPARE_COMMIT else COMPLETE_ABORT,
        partitions=frozenset(),
        updated_ms=now_ms,
        previous_producer_id=prepared.producer_id,
        next_producer_id=NO_PRODUCER_ID,
    )


# By time


def timed_out(transactions: Transactions, now_ms: int) -> list[Transaction]:
    """What is open for longer than its producer asked for."""
    return [
        each
        for each in transactions.by_id.values()
        if each.state is ONGOING and each.started_ms + each.timeout_ms < now_ms
    ]


def abort_timed_out(
    transactions: Transactions, transaction_version: int, now_ms: int, new_producer_ids: list[int]
) -> Decision[None] | None:
    """A new producer id is taken from the list where epochs are used up; if it is empty the transaction has to wait."""
    records: list[CoordinatorRecord] = []
    aborted: list[str] = []
    for found in timed_out(transactions, now_ms):
        new_id = new_producer_ids.pop() if found.is_epoch_exhausted and new_producer_ids else None
        try:
            decision = abort_with_new_epoch(transactions, found, transaction_version, now_ms, new_producer_id=new_id)
        except ProducerIdNeeded:
            continue
        records += decision.records
        aborted.append(found.transactional_id)
    if not aborted:
        return None
    return Decision(records, None, decided=_then_write_markers(transactions, *aborted), atomic=False)


def remove_expired(transactions: Transactions, expiration_ms: int, now_ms: int) -> Decision[None] | None:
    expired = [
        tombstone_of(found.transactional_id)
        for found in transactions.by_id.values()
        if found.state in IDLE and found.updated_ms <= now_ms - expiration_ms
    ]
    return Decision(expired, None, atomic=False) if expired else None
