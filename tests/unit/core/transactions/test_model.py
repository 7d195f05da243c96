"""Producers of one transactional id, late and repeated writes, failing appends, crashes and markers one by one.

Played against the coordinator's decisions and the partitions' own memory of producers: no transaction is half visible,
what a producer was told is true, what it wrote is there in its order and once, and nobody who was fenced gets anything
committed.

A write has its sequence when it is sent, and arrives in two steps as in the broker: the transaction is asked whether it
comprises the partition, and the batch is appended. Anything may happen in between, and before, and the write may come
again.
"""

from __future__ import annotations

import itertools
import os
import struct
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from unittest.mock import patch

import pytest
from hypothesis import Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from barnabas.core.transactions.decide import (
    AddPartitions,
    InitProducerId,
    add_partitions,
    init_producer_id,
    verify_partitions,
)
from barnabas.core.transactions.ending import EndTransaction, abort_timed_out, end_transaction
from barnabas.core.transactions.state import PREPARE_COMMIT, PREPARED
from barnabas.node.storage.producer_state import ProducerState, Verification
from barnabas.wire.batch import BatchHeader, Record, build_batch, read_header
from barnabas.wire.compression import Buffer
from barnabas.wire.errors import ErrorCode, KafkaError

from .conftest import CoordinatorInATest

THIS = sys.modules[__name__]
At = tuple[str, int]
PARTITIONS = [("orders", 0), ("orders", 1)]
NAME = "tx"
SELDOM = st.sampled_from([False, False, False, False, True])
OFTEN = st.sampled_from([False, False, True])
MOSTLY = st.sampled_from([True, True, True, False])
NEW_EPOCHS = 2  # the client version from which on each transaction has an epoch of its own


@dataclass(eq=False)
class Producer:
    id: int
    epoch: int
    client_version: int
    is_fenced: bool = False
    is_broken: bool = False  # a write of its transaction has failed: it can only be aborted
    is_spent: bool = False  # it has to come again before it can begin another one
    transaction: int | None = None
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)
    unanswered: bool | None = None  # an EndTxn whose answer got lost, and what it wanted


@dataclass(eq=False)
class Write:
    producer: Producer
    producer_id: int
    epoch: int
    transaction: int
    at: tuple[str, int]
    sequence: int
    number: int
    is_copy: bool = False  # the network made it: nobody waits for its answer
    is_asked_for: bool = False
    verification: Verification | None = None


class Partition:
    """A log in memory, with the product's own state of producers."""

    def __init__(self) -> None:
        self.producers = ProducerState("partition", "")
        self.end_offset = 0
        self.undecided: dict[int, list[int]] = {}  # producer id -> its records
        self.outcomes: dict[int, bool] = {}  # record -> how a marker decided about it
        self.last_number: dict[Producer, int] = {}

    def write(self, write: Write) -> None:
        """As the log does it: what it has already is answered as if it were new."""
        batch = build_batch(
            [Record(0, 0, b"k", b"v")],
            producer_id=write.producer_id,
            producer_epoch=write.epoch,
            base_sequence=write.sequence,
            transactional=True,
        )
        if self.producers.duplicate_of(read_header(batch)) is not None:
            return
        self._append(batch, sequences=True)
        last = self.last_number.get(write.producer, -1)
        assert write.number > last, f"record {write.number} comes behind {last}"
        self.last_number[write.producer] = write.number
        self.undecided.setdefault(write.producer_id, []).append(write.number)

    def mark(self, producer_id: int, epoch: int, committed: bool, version: int) -> None:
        self.producers.check_marker(producer_id, epoch, 0, version)
        record = Record(0, 0, struct.pack(">hh", 0, committed), struct.pack(">hi", 0, 0))
        self._append(
            build_batch([record], producer_id=producer_id, producer_epoch=epoch, control=True, transactional=True),
            sequences=False,
        )
        for number in self.undecided.pop(producer_id, []):
            self.outcomes[number] = committed

    def _append(self, batch: bytearray, *, sequences: bool) -> None:
        header = read_header(batch)._replace(base_offset=self.end_offset)
        self.producers.check(header, self.end_offset, sequences=sequences)
        self.producers.update(header, batch, 0)
        self.end_offset += 1


class Play(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.coordinator = CoordinatorInATest()
        self.partitions = {at: Partition() for at in PARTITIONS}
        self.producers: list[Producer] = []
        self.late: list[Write] = []
        self.unmarked: set[tuple[str, int]] | None = None  # of the transaction that is being ended
        self.numbers = itertools.count()
        self.transaction_of: dict[int, int] = {}
        self.acked: dict[int, tuple[str, int]] = {}
        self.told: dict[int, bool] = {}

    # The coordinator

    def decide(self, operation: Callable[[object], object], *, fails: bool = False) -> object:
        if not fails:
            return self.coordinator.decide(operation)  # type: ignore[arg-type]
        promise = self.coordinator.runtime.decide(operation)  # type: ignore[arg-type]
        self.coordinator.fail()
        return promise.result()

    @rule(happens=st.sampled_from(["nothing", "crash", "a minute passes", "a producer comes"]), data=st.data())
    def trouble(self, happens: str, data: st.DataObject) -> None:
        if happens == "crash":
            self.crash()
        elif happens == "a minute passes":
            self.time_passes(data.draw(st.integers(1, 2)))
        elif happens == "a producer comes":
            self.a_producer_comes(data.draw(st.sampled_from([0, NEW_EPOCHS])), data.draw(SELDOM))

    def crash(self) -> None:
        """What was appended is there again, the rest never was."""
        self.coordinator.load()
        self.unmarked = None

    def time_passes(self, minutes: int) -> None:
        self.coordinator.now_ms += minutes * 60_000
        decision = abort_timed_out(self.coordinator.transactions, 2, self.coordinator.now_ms, [])
        if decision is not None:
            self.coordinator.decide(lambda _: decision)

    @property
    def is_prepared(self) -> bool:
        found = self.coordinator.transactions.by_id.get(NAME)
        return found is not None and found.state in PREPARED

    @precondition(lambda self: self.is_prepared)
    @rule(data=st.data(), all_of_them=MOSTLY)
    def write_markers(self, data: st.DataObject, all_of_them: bool) -> None:
        found = self.coordinator.transactions.by_id[NAME]
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

    @initialize(client_version=st.sampled_from([0, NEW_EPOCHS]))
    def the_first_one_comes(self, client_version: int) -> None:
        self.a_producer_comes(client_version, False)

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

    def some_producer(self, data: st.DataObject) -> Producer:
        """The newest one, as a rule."""
        return self.producers[-1] if data.draw(MOSTLY) else data.draw(st.sampled_from(self.producers))

    @rule(data=st.data(), at=st.sampled_from(PARTITIONS), arrives=MOSTLY, pauses=OFTEN)
    def a_producer_writes(self, data: st.DataObject, at: tuple[str, int], arrives: bool, pauses: bool) -> None:
        producer = self.some_producer(data)
        if producer.is_spent:
            self.a_producer_comes(producer.client_version, False)
            return
        if producer.unanswered is not None or producer.is_broken:
            return
        if producer.transaction is None:
            producer.transaction = next(self.numbers)
        if producer.client_version < NEW_EPOCHS and not self.joins(producer, producer.id, producer.epoch, at):
            return
        sequence, number = producer.sequences.get(at, 0), next(self.numbers)
        producer.sequences[at] = sequence + 1
        self.transaction_of[number] = producer.transaction
        write = Write(producer, producer.id, producer.epoch, producer.transaction, at, sequence, number)
        self.late.append(write)
        if arrives:
            self.arrives(write, pauses=pauses)

    def joins(self, producer: Producer, producer_id: int, epoch: int, at: tuple[str, int]) -> bool:
        asked = AddPartitions(
            transactional_id=NAME,
            producer_id=producer_id,
            producer_epoch=epoch,
            partitions=frozenset({at}),
            client_version=producer.client_version,
        )
        try:
            self.decide(lambda it: add_partitions(it, asked, self.coordinator.now_ms))  # type: ignore[arg-type]
        except KafkaError:
            return False
        assert not producer.is_fenced, "a fenced producer has joined a transaction"
        return True

    @precondition(lambda self: self.late)
    @rule(data=st.data(), pauses=OFTEN, is_lost=SELDOM, is_copied=SELDOM)
    def a_write_arrives(self, data: st.DataObject, pauses: bool, is_lost: bool, is_copied: bool) -> None:
        write = data.draw(st.sampled_from(self.late))
        if is_copied:
            self.late.append(replace(write, is_copy=True, is_asked_for=False, verification=None))
        self.arrives(write, pauses=pauses, is_lost=is_lost)

    def arrives(self, write: Write, *, pauses: bool = False, is_lost: bool = False) -> None:
        """`pauses` between the question and the append; the answer `is_lost`, and the write comes again."""
        if not write.is_asked_for and not self.asks(write):
            return
        if pauses and not write.is_asked_for:
            write.is_asked_for = True
            return
        producers, verification = self.partitions[write.at].producers, write.verification
        write.is_asked_for, write.verification = False, None
        if not producers.is_verified(write.producer_id, write.epoch, verification):
            self.refused(write)
            return
        try:
            self.partitions[write.at].write(write)
        except KafkaError as error:
            if error.code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or not self.may_be_early(write):
                self.refused(write)
            return
        if write.is_copy:
            self.late.remove(write)
        elif not is_lost:
            self.late.remove(write)
            if write.producer.transaction == write.transaction and write.producer.unanswered is None:
                self.acked[write.number] = write.at

    def asks(self, write: Write) -> bool:
        """False if it may not be appended, now or ever."""
        producers = self.partitions[write.at].producers
        adds = write.producer.client_version >= NEW_EPOCHS
        if producers.has_ongoing_transaction(write.producer_id, write.epoch):
            return True
        write.verification = producers.begin_verification(
            write.producer_id, write.epoch, write.sequence, 0, begins_at_zero=adds
        )
        if adds:
            is_part = self.joins(write.producer, write.producer_id, write.epoch, write.at)
        else:
            is_part = self.is_part(write)
        if not is_part and not self.is_prepared:
            self.refused(write)
        return is_part

    def is_part(self, write: Write) -> bool:
        transactions = self.coordinator.transactions
        try:
            found = verify_partitions(transactions, NAME, write.producer_id, write.epoch, [write.at])
        except KafkaError:
            return False
        return found[write.at] is ErrorCode.NONE

    def may_be_early(self, write: Write) -> bool:
        return any(
            each.number < write.number and each.producer is write.producer and each.at == write.at
            for each in self.late
            if not each.is_copy
        )

    def refused(self, write: Write) -> None:
        self.late.remove(write)
        if not write.is_copy and write.producer.transaction == write.transaction:
            write.producer.is_broken = True

    @rule(data=st.data(), committed=st.booleans(), fails=SELDOM)
    def a_producer_ends_its_transaction(self, data: st.DataObject, committed: bool, fails: bool) -> None:
        producer = self.some_producer(data)
        if producer.transaction is None:
            return
        if producer.unanswered is not None:
            committed = producer.unanswered
        elif committed:
            committed = self.has_all_answers(producer)
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
                self.is_over(producer)
                producer.is_fenced = producer.is_fenced or error.code is not ErrorCode.INVALID_TXN_STATE
            return
        self.told[producer.transaction] = committed
        self.is_over(producer)
        if tuple(ended) != (producer.id, producer.epoch):  # type: ignore[arg-type]
            producer.id, producer.epoch = ended  # type: ignore[misc]
            producer.sequences.clear()

    @rule(data=st.data(), at=st.sampled_from(PARTITIONS), arrives=MOSTLY)
    def an_abort_overtakes_a_write(self, data: st.DataObject, at: At, arrives: bool) -> None:
        """What seldom comes about by itself: asked for before the end, to be appended after it."""
        on_their_way = self.left_behind(data, at, arrives=True, pauses=True)
        self.a_producer_ends_its_transaction(data, False, False)
        if self.is_prepared:
            self.write_markers(data, True)
        if arrives:
            self.they_arrive(on_their_way)

    @rule(data=st.data(), at=st.sampled_from(PARTITIONS))
    def a_write_comes_after_the_end(self, data: st.DataObject, at: At) -> None:
        """Likewise: sent before the end and not asked for until the markers are written."""
        self.a_producer_writes(data, at, True, False)
        on_their_way = self.left_behind(data, at)
        self.a_producer_ends_its_transaction(data, False, False)
        if self.is_prepared:
            self.write_markers(data, True)
        self.they_arrive(on_their_way)

    @rule(data=st.data(), at=st.sampled_from(PARTITIONS))
    def a_write_overtakes_another(self, data: st.DataObject, at: At) -> None:
        self.a_producer_writes(data, at, True, False)
        on_their_way = self.left_behind(data, at)
        self.a_producer_writes(data, at, True, False)
        self.they_arrive(on_their_way)

    def left_behind(self, data: st.DataObject, at: At, *, arrives: bool = False, pauses: bool = False) -> list[Write]:
        before = list(self.late)
        self.a_producer_writes(data, at, arrives, pauses)
        return [write for write in self.late if write not in before]

    def they_arrive(self, writes: list[Write]) -> None:
        for write in writes:
            if write in self.late:
                self.arrives(write)

    def has_all_answers(self, producer: Producer) -> bool:
        """A client commits when all its writes are answered; who aborts may leave some on their way."""
        waiting = [each for each in self.late if each.producer is producer and not each.is_copy]
        for write in sorted(waiting, key=lambda each: each.number):
            self.arrives(write)
        return not producer.is_broken and not any(each in self.late for each in waiting)

    def is_over(self, producer: Producer) -> None:
        """With one epoch for all transactions, what is still on its way could get into the next one: the producer asks
        for a new epoch before, as clients do."""
        left = any(each.producer is producer and not each.is_copy for each in self.late)
        if producer.client_version < NEW_EPOCHS and (left or producer.is_broken):
            producer.is_spent = True
        producer.transaction = producer.unanswered = None
        producer.is_broken = False

    # What must be true

    def teardown(self) -> None:
        """Everything is brought to an end; then nothing is undecided, and nothing decided in two ways."""
        for _ in range(3):
            self.time_passes(2)
            found = self.coordinator.transactions.by_id.get(NAME)
            if found is not None and found.state in PREPARED:
                for at in found.partitions:
                    committed = found.state is PREPARE_COMMIT
                    self.partitions[at].mark(found.producer_id, found.producer_epoch, committed, found.client_version)
                self.coordinator.complete(NAME)
        outcomes: dict[int, set[bool]] = {}
        for at, partition in self.partitions.items():
            assert not any(partition.undecided.values()), f"undecided for ever in {at}"
            for number, committed in partition.outcomes.items():
                outcomes.setdefault(self.transaction_of[number], set()).add(committed)
        for transaction, both in outcomes.items():
            assert len(both) == 1, f"transaction {transaction} is half visible"
        for transaction, committed in self.told.items():
            assert outcomes.get(transaction, {committed}) == {committed}, f"{transaction} is not what was told"
        for number, at in self.acked.items():
            assert number in self.partitions[at].outcomes, f"record {number} is lost in {at}"


Play.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestPlay = Play.TestCase


# The play is worth something only if it fails where the product does not hold its promises.


def everything_is_part(
    transactions: object, name: str, producer_id: int, epoch: int, partitions: Iterable[At]
) -> object:
    return dict.fromkeys(partitions, ErrorCode.NONE)


def never_forgotten(producers: ProducerState, header: BatchHeader, buffer: Buffer, position: int) -> object:
    kept = dict(producers._verifications)
    try:
        return UPDATE(producers, header, buffer, position)
    finally:
        producers._verifications.update(kept)


SEED = int(os.environ.get("BARNABAS_SEED", "1"))
UPDATE = ProducerState.update
MUTANTS: dict[str, tuple[object, str, object]] = {
    "verification off": (THIS, "verify_partitions", everything_is_part),
    "verification not awaited": (ProducerState, "is_verified", lambda *_: True),
    "verification outlives the marker": (ProducerState, "update", never_forgotten),
    "sequences unchecked": (ProducerState, "_check_sequence", lambda *_: None),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_play_catches(mutant: str) -> None:
    """`BARNABAS_SEED=2` and so on show that it is no matter of luck."""
    once = settings(Play.TestCase.settings, database=None, phases=[Phase.generate])
    with patch.object(*MUTANTS[mutant]), pytest.raises((AssertionError, KafkaError, ExceptionGroup)):
        run_state_machine_as_test(seed(SEED)(Play), settings=once)
