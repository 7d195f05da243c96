"""Requests to a transaction coordinator, turned into the record to append and the answer to give.

An error is raised as KafkaError with the code for the newest clients; older ones are told INVALID_PRODUCER_EPOCH
instead of PRODUCER_FENCED, which is for the handlers to see to. Where a new producer id is needed and none is given,
`ProducerIdNeeded` is raised and nothing has happened: ask again with one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from barnabas.core.coordinator.decision import Decision
from barnabas.core.coordinator.promise import Promise
from barnabas.core.transactions.ending import abort_with_new_epoch
from barnabas.core.transactions.records import record_of
from barnabas.core.transactions.refusals import concurrent, fenced, no_producer
from barnabas.core.transactions.state import (
    EMPTY,
    IDLE,
    NEVER,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ONGOING,
    PREPARED,
    ProducerIdNeeded,
    TopicPartition,
    Transaction,
    Transactions,
    is_exhausted,
)
from barnabas.wire.errors import ErrorCode


class ProducerIdAndEpoch(NamedTuple):
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerId:
    transactional_id: str
    timeout_ms: int
    expected: ProducerIdAndEpoch | None = None  # what the producer believes to be
    transaction_version: int = 2
    new_producer_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    client_version: int = 0
    transaction_version: int = 2


def init_producer_id(transactions: Transactions, asked: InitProducerId, now_ms: int) -> Decision[ProducerIdAndEpoch]:
    found = transactions.by_id.get(asked.transactional_id)
    if found is None:
        if asked.new_producer_id is None:
            raise ProducerIdNeeded
        found = Transaction(asked.transactional_id, asked.new_producer_id)
    if asked.expected is not None and not _may_be(found, asked.expected):
        raise fenced(found)
    if found.state in PREPARED:
        raise concurrent(found)
    if found.state is ONGOING:
        ended = abort_with_new_epoch(
            transactions, found, asked.transaction_version, now_ms, new_producer_id=asked.new_producer_id
        )
        refused: Promise[ProducerIdAndEpoch] = Promise()
        refused.fail(concurrent(found))
        return Decision(ended.records, refused, decided=ended.decided)
    return _initialized(transactions, found, asked, now_ms)


def _may_be(found: Transaction, expected: ProducerIdAndEpoch) -> bool:
    """Of a producer that comes again: the id was forgotten, is still its own, or was changed for want of epochs."""
    return (
        found.producer_epoch == NO_PRODUCER_EPOCH
        or expected.producer_id == found.producer_id
        or (expected.producer_id == found.previous_producer_id and is_exhausted(expected.producer_epoch))
    )


def _initialized(
    transactions: Transactions, found: Transaction, asked: InitProducerId, now_ms: int
) -> Decision[ProducerIdAndEpoch]:
    expected_epoch = None if asked.expected is None else asked.expected.producer_epoch
    last_epoch = NO_PRODUCER_EPOCH
    if found.is_epoch_exhausted and expected_epoch in (None, found.producer_epoch):
        if asked.new_producer_id is None:
            raise ProducerIdNeeded
        producer_id, epoch = asked.new_producer_id, 0
        if expected_epoch is not None:
            last_epoch = found.producer_epoch
    else:
        producer_id = found.producer_id
        epoch, last_epoch = _next_epoch(transactions, found, expected_epoch)
    initialized = found._replace(
        producer_id=producer_id,
        producer_epoch=epoch,
        timeout_ms=asked.timeout_ms,
        state=EMPTY,
        partitions=frozenset(),
        started_ms=NEVER,
        updated_ms=now_ms,
        previous_producer_id=found.producer_id,
        next_producer_id=NO_PRODUCER_ID,
    )
    transactions.remember_last_epoch(initialized, last_epoch)
    return Decision([record_of(initialized, asked.transaction_version)], ProducerIdAndEpoch(producer_id, epoch))


def _next_epoch(transactions: Transactions, found: Transaction, expected_epoch: int | None) -> tuple[int, int]:
    """The epoch to give, and the one that led there if its producer said so."""
    if expected_epoch is None:
        return found.producer_epoch + 1, NO_PRODUCER_EPOCH
    if expected_epoch == found.producer_epoch or found.producer_epoch == NO_PRODUCER_EPOCH:
        return found.producer_epoch + 1, found.producer_epoch
    last_epoch = transactions.last_producer_epoch(found)
    if expected_epoch == last_epoch:
        return found.producer_epoch, last_epoch  # the same request again: its answer got lost
    raise fenced(found)


def add_partitions(transactions: Transactions, asked: AddPartitions, now_ms: int) -> Decision[None]:
    found = require_producer(transactions, asked.transactional_id, asked.producer_id, asked.producer_epoch)
    if found.state in PREPARED:
        raise concurrent(found)
    if found.state is ONGOING and asked.partitions <= found.partitions:
        return Decision([], None)
    grown = found._replace(
        state=ONGOING,
        partitions=found.partitions | asked.partitions,
        started_ms=now_ms if found.state in IDLE else found.started_ms,
        updated_ms=now_ms,
        previous_producer_id=found.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        client_version=asked.client_version,
    )
    return Decision([record_of(grown, asked.transaction_version)], None)


def verify_partitions(
    transactions: Transactions,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    partitions: Iterable[TopicPartition],
) -> dict[TopicPartition, ErrorCode]:
    """Which of these belong to the producer's transaction."""
    found = require_producer(transactions, transactional_id, producer_id, producer_epoch)
    if found.state in PREPARED:
        raise concurrent(found)
    return {
        partition: ErrorCode.NONE if partition in found.partitions else ErrorCode.TRANSACTION_ABORTABLE
        for partition in partitions
    }


def require_producer(
    transactions: Transactions, transactional_id: str, producer_id: int, producer_epoch: int
) -> Transaction:
    found = transactions.by_id.get(transactional_id)
    if found is None or found.producer_id != producer_id:
        raise no_producer(transactional_id, producer_id)
    if found.producer_epoch != producer_epoch:
        raise fenced(found)
    return found
