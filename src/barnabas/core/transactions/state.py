"""What a transaction coordinator knows of each transactional id.

A transactional id has one producer id and epoch at a time; whoever comes with an older epoch is fenced. Its life:

    Empty           it has been initialized and nothing was written since
    Ongoing         partitions have been added
    PrepareCommit   the outcome is decided and in the log: markers go to the partitions, nothing can stop them
    PrepareAbort    likewise
    CompleteCommit  all markers are written
    CompleteAbort   likewise

Legal transitions, and what brings them about:

    Empty, CompleteCommit, CompleteAbort -> Empty           InitProducerId
    Empty, CompleteCommit, CompleteAbort -> Ongoing         the first partition
    Ongoing -> Ongoing                                      another partition
    Ongoing -> PrepareCommit, PrepareAbort                  EndTxn
    Ongoing -> PrepareAbort                                 InitProducerId or the time-out, with a new epoch
    Empty, CompleteCommit, CompleteAbort -> PrepareAbort    EndTxn that aborts nothing, since transaction.version 2
    PrepareCommit -> CompleteCommit                         the markers are written
    PrepareAbort -> CompleteAbort                           likewise
    Empty, CompleteCommit, CompleteAbort -> (gone)          unused for too long

Kafka has two more states, Dead and PrepareEpochFence. Its coordinator waits in them for a record to be written; ours
decides and replays in one step, so nobody is ever found in them. They are known by name because people filter by it.

Epochs: with transaction.version 2 every end of a transaction gives the producer a new epoch, so that a late request of
one transaction cannot reach the next. The epoch before the last (32,766) is the last one given to a client: the one
behind it is left for fencing. When epochs are used up the id gets a new producer id, which a transaction that is being
ended keeps as `next_producer_id` until its markers are written.

`last_producer_epoch` is not in the records: it serves only to recognize an InitProducerId that is repeated because the
answer got lost. A coordinator that has just been loaded does not know it and fences the repeated one, as Kafka does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from barnabas.core.coordinator.decision import Decision, Marker, Producer
from barnabas.core.coordinator.records import CoordinatorRecord, Kind, Kinds
from barnabas.core.coordinator.timeline import Timeline, TimelineDict
from barnabas.core.coordinator.timers import Timers
from barnabas.wire.errors import KafkaError
from barnabas.wire.records.transactions import TransactionLogKey, TransactionLogValue

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
EPOCH_MAX: Final = 32_767
NEVER: Final = -1
EPOCH_BUMPS_SINCE: Final = 2  # transaction.version

TopicPartition = tuple[str, int]


class ProducerIdNeeded(Exception):
    """The decision needs a new producer id and was given none: nothing has happened."""


class TransactionState(IntEnum):
    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def text(self) -> str:
        """As people read it: PrepareCommit."""
        return self.name.title().replace("_", "")


STATE_BY_TEXT: Final = {state.text: state for state in TransactionState}
EMPTY, ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
PREPARE_COMMIT, PREPARE_ABORT = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
COMPLETE_COMMIT, COMPLETE_ABORT = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT
IDLE: Final = frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT})
PREPARED: Final = frozenset({PREPARE_COMMIT, PREPARE_ABORT})


class Transaction(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    timeout_ms: int = 0
    state: TransactionState = EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = NEVER
    updated_ms: int = 0
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    client_version: int = 0  # of transactions, as the client that made the last transition does them

    @property
    def is_epoch_exhausted(self) -> bool:
        return is_exhausted(self.producer_epoch)

    @property
    def bumps_epochs(self) -> bool:
        return self.client_version >= EPOCH_BUMPS_SINCE


def transaction_of(key: TransactionLogKey, value: TransactionLogValue) -> Transaction:
    topics = value.transaction_partitions or ()
    return Transaction(
        transactional_id=key.transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=TransactionState(value.transaction_status),
        partitions=frozenset((each.topic, index) for each in topics for index in each.partition_ids),
        started_ms=value.transaction_start_timestamp_ms,
        updated_ms=value.transaction_last_update_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_version=value.client_transaction_version,
    )


def is_exhausted(producer_epoch: int) -> bool:
    return producer_epoch >= EPOCH_MAX - 1


class Transactions:
    """The transactions of one partition of __transaction_state, as a shard of the coordinators' runtime."""

    kinds: Kinds

    def __init__(self, timers: Timers) -> None:
        self.kinds = KINDS
        self.keeps_last_only = True
        self.timeline = Timeline()
        self.timers = timers
        self.by_id: TimelineDict[str, Transaction] = TimelineDict(self.timeline)
        # Told of every transaction whose outcome is committed and whose markers are to be written.
        self.on_prepared: Callable[[str], None] = lambda transactional_id: None
        # Told when the log has been loaded: what is decided by time begins to run.
        self.on_loaded: Callable[[Transactions], Decision[None] | None] = lambda transactions: None
        # Of an id: its producer id, epoch, and the epoch from which InitProducerId led there.
        self._last_epochs: dict[str, tuple[int, int, int]] = {}

    def last_producer_epoch(self, transaction: Transaction) -> int:
        producer_id, epoch, last_epoch = self._last_epochs.get(transaction.transactional_id, (-1, -1, -1))
        if (producer_id, epoch) == (transaction.producer_id, transaction.producer_epoch):
            return last_epoch
        return NO_PRODUCER_EPOCH

    def remember_last_epoch(self, transaction: Transaction, last_epoch: int) -> None:
        if last_epoch == NO_PRODUCER_EPOCH:
            self._last_epochs.pop(transaction.transactional_id, None)
        else:
            self._last_epochs[transaction.transactional_id] = (
                transaction.producer_id,
                transaction.producer_epoch,
                last_epoch,
            )

    # What the runtime asks of a shard

    def replay(self, record: CoordinatorRecord, producer: Producer | None) -> None:
        assert isinstance(record.key, TransactionLogKey)
        if record.value is None:
            self.by_id.pop(record.key.transactional_id)
            self._last_epochs.pop(record.key.transactional_id, None)
        else:
            assert isinstance(record.value, TransactionLogValue)
            self.by_id[record.key.transactional_id] = transaction_of(record.key, record.value)

    def load(self, entries: Sequence[tuple[bytes, bytes | None]], start: int) -> int:
        return start

    def replay_marker(self, marker: Marker) -> None:
        """A client may write one here; it means nothing."""

    def loaded(self) -> Decision[None] | None:
        for transaction in self.by_id.values():
            if transaction.state in PREPARED:
                self.on_prepared(transaction.transactional_id)
        return self.on_loaded(self)

    def unloaded(self, error: KafkaError) -> None:
        """Nobody waits in here."""


KINDS: Final[Kinds] = {TransactionLogKey.api_key: Kind(TransactionLogKey, TransactionLogValue)}
