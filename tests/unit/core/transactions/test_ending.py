"""EndTxn, markers written, time-outs, expiry: exact records and answers, as Apache Kafka 4.3.1 gives them."""

import pytest

from barnabas.core.transactions.ending import (
    EndTransaction,
    abort_timed_out,
    complete,
    end_transaction,
    remove_expired,
    timed_out,
)
from barnabas.core.transactions.state import Transaction, TransactionState
from barnabas.wire.errors import ErrorCode

from .conftest import CoordinatorInATest, refused
from .test_decide import A0, B0

STATES = TransactionState


@pytest.fixture
def ongoing(coordinator: CoordinatorInATest) -> CoordinatorInATest:
    coordinator.init()
    coordinator.now_ms = 2_000
    coordinator.add(70, 0, A0, B0, client_version=2)
    coordinator.now_ms = 3_000
    return coordinator


def test_a_commit_is_decided_in_the_next_epoch_and_completed_when_markers_are_written(
    ongoing: CoordinatorInATest,
) -> None:
    assert ongoing.end(70, 0) == (70, 1)
    prepared = Transaction(
        "tx",
        70,
        1,
        60_000,
        STATES.PREPARE_COMMIT,
        frozenset({A0, B0}),
        started_ms=2_000,
        updated_ms=3_000,
        previous_producer_id=70,
        client_version=2,
    )
    assert ongoing["tx"] == prepared
    assert ongoing.prepared == ["tx"]
    ongoing.now_ms = 4_000
    ongoing.complete()
    assert ongoing["tx"] == prepared._replace(state=STATES.COMPLETE_COMMIT, partitions=frozenset(), updated_ms=4_000)


def test_nobody_is_told_to_write_markers_before_the_decision_is_committed(ongoing: CoordinatorInATest) -> None:

    asked = EndTransaction(transactional_id="tx", producer_id=70, producer_epoch=0, committed=True, client_version=2)
    promise = ongoing.runtime.decide(lambda transactions: end_transaction(transactions, asked, 5))
    assert not promise.is_done
    assert not ongoing.prepared
    ongoing.fail()
    assert not ongoing.prepared
    assert ongoing["tx"].state is STATES.ONGOING


def test_a_prepared_transaction_is_completed_after_a_restart(ongoing: CoordinatorInATest) -> None:
    ongoing.end(70, 0)
    ongoing.prepared.clear()
    ongoing.load()
    assert ongoing.prepared == ["tx"]
    ongoing.complete()
    assert ongoing["tx"].state is STATES.COMPLETE_COMMIT


def test_completing_twice_is_harmless(ongoing: CoordinatorInATest) -> None:
    ongoing.end(70, 0)
    ongoing.complete()
    written = len(ongoing.log)
    ongoing.complete()
    assert len(ongoing.log) == written


def test_a_transaction_is_not_completed_by_markers_of_the_one_before(ongoing: CoordinatorInATest) -> None:
    ongoing.end(70, 0)
    former = ongoing["tx"]
    ongoing.complete()
    ongoing.add(70, 1, ("orders", 0), client_version=2)
    ongoing.end(70, 1)
    assert complete(ongoing.transactions, former, 2, 0).records == []
    assert ongoing["tx"].state is STATES.PREPARE_COMMIT


def test_a_commit_of_nothing_is_refused(coordinator: CoordinatorInATest) -> None:
    coordinator.init()
    before = coordinator["tx"]
    with refused(ErrorCode.INVALID_TXN_STATE):
        coordinator.end(70, 0)
    assert coordinator["tx"] == before


def test_an_end_that_comes_again_is_known_by_its_epoch(ongoing: CoordinatorInATest) -> None:
    ongoing.end(70, 0)
    for committed in (True, False):
        with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
            ongoing.end(70, 0, committed)
    ongoing.complete()
    assert ongoing.end(70, 0) == (70, 1)
    with refused(ErrorCode.INVALID_TXN_STATE):
        ongoing.end(70, 0, committed=False)
    with refused(ErrorCode.INVALID_TXN_STATE):
        ongoing.end(70, 1, committed=True)
    with refused(ErrorCode.PRODUCER_FENCED):
        ongoing.end(70, 2)


def test_an_abort_of_nothing_gives_a_new_epoch(coordinator: CoordinatorInATest) -> None:
    coordinator.init()
    with refused(ErrorCode.INVALID_TXN_STATE):
        coordinator.end(70, 0, committed=True)
    assert coordinator.end(70, 0, committed=False) == (70, 1)
    assert coordinator["tx"].state is STATES.PREPARE_ABORT
    assert coordinator["tx"].started_ms == coordinator.now_ms
    coordinator.complete()
    assert coordinator.end(70, 1, committed=False) == (70, 2)


def test_older_clients_end_in_the_same_epoch(ongoing: CoordinatorInATest) -> None:
    assert ongoing.end(70, 0, client_version=0) == (70, 0)
    assert ongoing["tx"].client_version == 0
    with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
        ongoing.end(70, 0, client_version=0)
    ongoing.complete()
    assert ongoing.end(70, 0, client_version=0) == (70, 0)
    with refused(ErrorCode.INVALID_TXN_STATE):
        ongoing.end(70, 0, committed=False, client_version=0)


@pytest.mark.parametrize("committed", [True, False])
def test_older_clients_cannot_end_what_has_not_begun(coordinator: CoordinatorInATest, committed: bool) -> None:
    coordinator.init()
    with refused(ErrorCode.INVALID_TXN_STATE):
        coordinator.end(70, 0, committed, client_version=0)


@pytest.mark.parametrize("client_version", [0, 2])
def test_nobody_else_ends_it(ongoing: CoordinatorInATest, client_version: int) -> None:
    with refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING):
        ongoing.end(71, 0, client_version=client_version)
    with refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING):
        ongoing.end(70, 0, name="somebody else's", client_version=client_version)
    for epoch in (-1, 1, 5):
        with refused(ErrorCode.PRODUCER_FENCED):
            ongoing.end(70, epoch, client_version=client_version)


def test_in_the_last_epoch_the_end_brings_a_new_producer_id(coordinator: CoordinatorInATest) -> None:
    coordinator.place(Transaction("tx", 7, 32_766, 60_000, previous_producer_id=7))
    coordinator.add(7, 32_766, A0, client_version=2)
    assert coordinator.end(7, 32_766) == (70, 0)
    assert coordinator["tx"][:3] == ("tx", 7, 32_767)
    assert coordinator["tx"].next_producer_id == 70
    coordinator.complete()
    assert coordinator["tx"][:3] == ("tx", 70, 0)
    assert coordinator["tx"].previous_producer_id == 7
    assert coordinator.end(7, 32_766) == (70, 0)
    with refused(ErrorCode.INVALID_TXN_STATE):
        coordinator.end(7, 32_766, committed=False)
    with refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING):
        coordinator.end(7, 32_765)


def test_a_transaction_that_takes_too_long_is_aborted_in_a_new_epoch(ongoing: CoordinatorInATest) -> None:
    ongoing.now_ms = 62_000
    assert timed_out(ongoing.transactions, ongoing.now_ms) == []
    assert abort_timed_out(ongoing.transactions, 2, ongoing.now_ms, []) is None
    ongoing.now_ms = 62_001
    decision = abort_timed_out(ongoing.transactions, 2, ongoing.now_ms, [])
    assert decision is not None
    ongoing.decide(lambda _: decision)
    assert ongoing["tx"].state is STATES.PREPARE_ABORT
    assert ongoing["tx"].producer_epoch == 1
    assert ongoing.prepared == ["tx"]
    ongoing.complete()
    with refused(ErrorCode.INVALID_TXN_STATE):
        ongoing.end(70, 0)
    with refused(ErrorCode.PRODUCER_FENCED):
        ongoing.end(70, 0, client_version=0)


def test_a_time_out_in_the_last_epoch_waits_for_a_producer_id(coordinator: CoordinatorInATest) -> None:
    coordinator.place(Transaction("tx", 7, 32_766, 10, previous_producer_id=7))
    coordinator.add(7, 32_766, A0)
    assert abort_timed_out(coordinator.transactions, 2, 100_000, []) is None
    decision = abort_timed_out(coordinator.transactions, 2, 100_000, [99])
    assert decision is not None
    coordinator.decide(lambda _: decision)
    assert coordinator["tx"].next_producer_id == 99


def test_ids_that_nobody_uses_are_forgotten(ongoing: CoordinatorInATest) -> None:
    ongoing.init("idle")
    week_ms = 604_800_000
    assert remove_expired(ongoing.transactions, week_ms, 3_000 + week_ms - 1) is None
    decision = remove_expired(ongoing.transactions, week_ms, 3_000 + week_ms)
    assert decision is not None
    ongoing.decide(lambda _: decision)
    assert ongoing.last_record().value is None
    assert list(ongoing.transactions.by_id) == ["tx"]
