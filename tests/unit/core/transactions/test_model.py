"""Producers of one transactional id, late writes, failing appends, crashes and markers one by one.

Played against the coordinator's decisions and the partitions' own memory of producers: no transaction is half visible,
what a producer was told is true, and nobody who was fenced gets anything committed.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from barnabas.core.transactions.decide import AddPartitions, InitProducerId, add_partitions, init_producer_id
from barnabas.core.transactions.ending import EndTransaction, abort_timed_out, end_transaction
from barnabas.core.transactions.state import PREPARE_COMMIT, PREPARED
from barnabas.node.storage.producer_state import ProducerState, Verification
from barnabas.wire.batch import Record, build_batch, read_header
from barnabas.wire.errors import ErrorCode, KafkaError

from .conftest import CoordinatorInATest

PARTITIONS = [("orders", 0), ("orders", 1), ("bills", 0)]
NAME = "tx"
SELDOM = st.sampled_from([False, False, False, False, True])


class Partition:
    """A log in memory, with the product's own state of producers."""

    def __init__(self) -> None:
        self.producers = ProducerState("partition", "")
        self.end_offset = 0
        self.undecided: dict[int, list[int]] = {}  # producer id -> transactions of its records
        self.outcomes: dict[int, set[bool]] = {}  # transaction -> how markers decided about its records here

    def write(self, producer_id: int, epoch: int, sequence: int, transaction: int) -> None:
        record = Record(0, 0, b"k", b"v")
        self._append(
            build_batch(
                [record], producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True
            ),
            sequences=True,
        )
        self.undecided.setdefault(producer_id, []).append(transaction)

    def mark(self, producer_id: int, epoch: int, committed: bool, version: int) -> None:
        self.producers.check_marker(producer_id, epoch, 0, version)
        record = Record(0, 0, struct.pack(">hh", 0, committed), struct.pack(">hi", 0, 0))
        self._append(
            build_batch([record], producer_id=producer_id, producer_epoch=epoch, control=True, transactional=True),
            sequences=False,
        )
        for transaction in self.undecided.pop(producer_id, []):
            self.outcomes.setdefault(transaction, set()).add(committed)

    def _append(self, batch: bytearray, *, sequences: bool) -> None:
        header = read_header(batch)._replace(base_offset=self.end_offset)
        self.producers.check(header, self.end_offset, sequences=sequences)
        self.producers.update(header, batch, 0)
        self.end_offset += 1


@dataclass
class Producer:
    id: int
    epoch: int
    client_version: int
    is_fenced: bool = False
    transaction: int | None = None
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)
    unanswered: bool | None = None  # an EndTxn whose answer got lost, and what it wanted


@dataclass
class LateWrite:
    producer: Producer
    epoch: int
    transaction: int
    at: tuple[str, int]
    verification: Verification


class Play(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.coordinator = CoordinatorInATest()
        self.partitions = {at: Partition() for at in PARTITIONS}
        self.producers: list[Producer] = []
        self.late: list[LateWrite] = []
        self.unmarked: set[tuple[str, int]] | None = None  # of the transaction that is being ended
        self.numbers = itertools.count()
        self.acked: dict[int, set[tuple[str, int]]] = {}
        self.told: dict[int, bool] = {}

    # The coordinator

    def decide(self, operation: Callable[[object], object], *, fails: bool = False) -> object:
        if not fails:
            return self.coordinator.decide(operation)  # type: ignore[arg-type]
        promise = self.coordinator.runtime.decide(operation)  # type: ignore[arg-type]
        self.coordinator.fail()
        return promise.result()

    @property
    def found(self) -> object:
        return self.coordinator.transactions.by_id.get(NAME)

    @rule()
    def crash(self) -> None:
        """What was appended is there again, the rest never was."""
        self.coordinator.load()
        self.unmarked = None

    @rule(minutes=st.integers(0, 3))
    def time_passes(self, minutes: int) -> None:
        self.coordinator.now_ms += minutes * 60_000
        decision = abort_timed_out(self.coordinator.transactions, 2, self.coordinator.now_ms, [])
        if decision is not None:
            self.coordinator.decide(lambda _: decision)

    @rule(data=st.data(), all_of_them=st.booleans())
    def write_markers(self, data: st.DataObject, all_of_them: bool) -> None:
        found = self.coordinator.transactions.by_id.get(NAME)
        if found is None or found.state not in PREPARED:
            return
        if self.unmarked is None:
            self.unmarked = set(found.partitions)
        while self.unmarked:
            at = data.draw(st.sampled_from(sorted(self.unmarked)))
            committed = found.state is PREPARE_COMMIT
            self.partitions[at].mark(found.producer_id, found.producer_epoch, committed, found.client_version)
            self.unmarked.discard(at)
            if not all_of_them:
                break
        if not self.unmarked:
            self.coordinator.complete(NAME)
            self.unmarked = None

    # Producers

    @initialize(client_version=st.sampled_from([0, 2]))
    def the_first_one_comes(self, client_version: int) -> None:
        self.a_producer_comes(client_version, False)

    @rule(client_version=st.sampled_from([0, 2]), fails=SELDOM)
    def a_producer_comes(self, client_version: int, fails: bool) -> None:
        asked = InitProducerId(
            transactional_id=NAME, timeout_ms=60_000, new_producer_id=self.coordinator.next_producer_id
        )
        try:
            given = self.decide(lambda it: init_producer_id(it, asked, self.coordinator.now_ms), fails=fails)  # type: ignore[arg-type]
        except KafkaError:
            return
        self.coordinator.next_producer_id += 1
        for each in self.producers:
            each.is_fenced = True
        self.producers.append(Producer(given[0], given[1], client_version))  # type: ignore[index]

    @precondition(lambda self: self.producers)
    @rule(data=st.data(), at=st.sampled_from(PARTITIONS))
    def a_producer_writes(self, data: st.DataObject, at: tuple[str, int]) -> None:
        """The partition joins now; the batch arrives when it likes."""
        producer = data.draw(st.sampled_from(self.producers))
        if producer.unanswered is not None:
            return
        if producer.transaction is None:
            producer.transaction = next(self.numbers)
        verification = self.partitions[at].producers.begin_verification(
            producer.id, producer.epoch, producer.sequences.get(at, 0), 0, begins_at_zero=False
        )
        asked = AddPartitions(
            transactional_id=NAME,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            partitions=frozenset({at}),
            client_version=producer.client_version,
        )
        try:
            self.decide(lambda it: add_partitions(it, asked, self.coordinator.now_ms))  # type: ignore[arg-type]
        except KafkaError:
            return
        assert not producer.is_fenced, "a fenced producer has joined a transaction"
        self.late.append(LateWrite(producer, producer.epoch, producer.transaction, at, verification))

    @precondition(lambda self: self.late)
    @rule(data=st.data())
    def a_write_arrives(self, data: st.DataObject) -> None:
        write = self.late.pop(data.draw(st.integers(0, len(self.late) - 1)))
        partition, producer = self.partitions[write.at], write.producer
        if not partition.producers.is_verified(producer.id, write.epoch, write.verification):
            return
        sequence = producer.sequences.get(write.at, 0)
        try:
            partition.write(producer.id, write.epoch, sequence, write.transaction)
        except KafkaError:
            return
        if write.epoch == producer.epoch:
            producer.sequences[write.at] = sequence + 1
        if producer.transaction == write.transaction and producer.unanswered is None:
            self.acked.setdefault(write.transaction, set()).add(write.at)

    @precondition(lambda self: self.producers)
    @rule(data=st.data(), committed=st.booleans(), fails=SELDOM)
    def a_producer_ends_its_transaction(self, data: st.DataObject, committed: bool, fails: bool) -> None:
        producer = data.draw(st.sampled_from(self.producers))
        if producer.transaction is None:
            return
        if producer.unanswered is not None:
            committed = producer.unanswered
        elif committed:
            # A client commits when all its writes are answered; who aborts may leave some on their way.
            self.late = [each for each in self.late if each.producer is not producer]
        asked = EndTransaction(
            transactional_id=NAME,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            committed=committed,
            client_version=producer.client_version,
            new_producer_id=self.coordinator.next_producer_id,
        )
        try:
            ended = self.decide(lambda it: end_transaction(it, asked, self.coordinator.now_ms), fails=fails)  # type: ignore[arg-type]
        except KafkaError as error:
            if error.code in (ErrorCode.NOT_COORDINATOR, ErrorCode.CONCURRENT_TRANSACTIONS):
                producer.unanswered = committed
            else:
                producer.transaction = producer.unanswered = None
                producer.is_fenced = producer.is_fenced or error.code is not ErrorCode.INVALID_TXN_STATE
            return
        self.told[producer.transaction] = committed
        producer.transaction = producer.unanswered = None
        if tuple(ended) != (producer.id, producer.epoch):  # type: ignore[arg-type]
            producer.id, producer.epoch = ended  # type: ignore[misc]
            producer.sequences.clear()

    # What must be true

    def teardown(self) -> None:
        """Everything is brought to an end; then nothing is undecided, and nothing decided in two ways."""
        for _ in range(3):
            self.coordinator.now_ms += 120_000
            self.time_passes(0)
            found = self.coordinator.transactions.by_id.get(NAME)
            if found is not None and found.state in PREPARED:
                for at in found.partitions:
                    committed = found.state is PREPARE_COMMIT
                    self.partitions[at].mark(found.producer_id, found.producer_epoch, committed, found.client_version)
                self.coordinator.complete(NAME)
        outcomes: dict[int, set[bool]] = {}
        for at, partition in self.partitions.items():
            assert not any(partition.undecided.values()), f"undecided for ever in {at}"
            for transaction, found_outcomes in partition.outcomes.items():
                outcomes.setdefault(transaction, set()).update(found_outcomes)
        for transaction, both in outcomes.items():
            assert len(both) == 1, f"transaction {transaction} is half visible"
        for transaction, committed in self.told.items():
            assert outcomes.get(transaction, {committed}) == {committed}, f"{transaction} is not what was told"
            for at in self.acked.get(transaction, ()):
                assert self.partitions[at].outcomes.get(transaction) == {committed}, (transaction, at)


Play.TestCase.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
TestPlay = Play.TestCase
