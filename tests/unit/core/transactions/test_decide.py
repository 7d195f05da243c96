"""InitProducerId, AddPartitionsToTxn: exact records and answers, as Apache Kafka 4.3.1 gives them."""

import pytest

from barnabas.core.transactions.decide import InitProducerId, init_producer_id, verify_partitions
from barnabas.core.transactions.state import ProducerIdNeeded, Transaction, TransactionState
from barnabas.wire.errors import ErrorCode

from .conftest import CoordinatorInATest, refused

A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)


def test_a_new_id_gets_a_producer_id_and_epoch_0(coordinator: CoordinatorInATest) -> None:
    assert coordinator.init(timeout_ms=5_000) == (70, 0)
    assert coordinator["tx"] == Transaction("tx", 70, 0, timeout_ms=5_000, updated_ms=1_000, previous_producer_id=70)


def test_without_a_producer_id_at_hand_nothing_happens(coordinator: CoordinatorInATest) -> None:
    with pytest.raises(ProducerIdNeeded):
        init_producer_id(coordinator.transactions, InitProducerId(transactional_id="tx", timeout_ms=1), 0)
    assert not coordinator.log


def test_whoever_initializes_again_gets_the_next_epoch(coordinator: CoordinatorInATest) -> None:
    coordinator.init()
    assert coordinator.init() == (70, 1)
    assert coordinator.init() == (70, 2)


def test_a_producer_that_names_its_epoch_is_given_the_next_one_and_the_same_one_if_it_asks_again(
    coordinator: CoordinatorInATest,
) -> None:
    coordinator.init()
    assert coordinator.init(expected=(70, 0)) == (70, 1)
    assert coordinator.init(expected=(70, 0)) == (70, 1)
    assert coordinator.init(expected=(70, 1)) == (70, 2)
    with refused(ErrorCode.PRODUCER_FENCED):
        coordinator.init(expected=(70, 0))


def test_after_a_restart_the_repeated_request_is_fenced(coordinator: CoordinatorInATest) -> None:
    coordinator.init()
    coordinator.init(expected=(70, 0))
    coordinator.load()
    with refused(ErrorCode.PRODUCER_FENCED):
        coordinator.init(expected=(70, 0))


def test_a_newer_producer_makes_the_epoch_of_the_older_one_useless(coordinator: CoordinatorInATest) -> None:
    coordinator.init()
    coordinator.init()
    for expected in [(70, 0), (70, 7), (71, 1)]:
        with refused(ErrorCode.PRODUCER_FENCED):
            coordinator.init(expected=expected)


def test_an_id_that_was_forgotten_takes_a_producer_that_comes_with_its_old_one(coordinator: CoordinatorInATest) -> None:
    assert coordinator.init(expected=(5, 9)) == (70, 0)


def test_a_transaction_that_is_open_is_aborted_in_a_new_epoch_and_the_newcomer_has_to_ask_again(
    coordinator: CoordinatorInATest,
) -> None:
    coordinator.init()
    coordinator.add(70, 0, A0)
    with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
        coordinator.init()
    assert coordinator.prepared == ["tx"]
    assert coordinator["tx"].state is TransactionState.PREPARE_ABORT
    assert coordinator["tx"].producer_epoch == 1
    assert coordinator["tx"].client_version == 2
    with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
        coordinator.init()
    coordinator.complete()
    assert coordinator.init() == (70, 2)


def test_before_version_2_the_abort_has_a_new_epoch_too(coordinator: CoordinatorInATest) -> None:
    coordinator.init(version=0)
    coordinator.add(70, 0, A0)
    with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
        coordinator.init(version=0)
    assert coordinator["tx"].producer_epoch == 1
    assert coordinator["tx"].client_version == 0


def test_when_epochs_are_used_up_there_is_a_new_producer_id(coordinator: CoordinatorInATest) -> None:
    coordinator.place(Transaction("tx", 7, 32_765, 60_000, previous_producer_id=7))
    assert coordinator.init() == (7, 32_766)
    assert coordinator.init(expected=(7, 32_766)) == (70, 0)
    assert coordinator["tx"].previous_producer_id == 7
    assert coordinator.init(expected=(7, 32_766)) == (70, 0)
    with refused(ErrorCode.PRODUCER_FENCED):
        coordinator.init(expected=(7, 5))


def test_fencing_in_the_last_epoch_leads_to_a_new_producer_id(coordinator: CoordinatorInATest) -> None:
    coordinator.place(Transaction("tx", 7, 32_766, 60_000, previous_producer_id=7))
    coordinator.add(7, 32_766, A0)
    with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
        coordinator.init()
    assert coordinator["tx"][:3] == ("tx", 7, 32_767)
    assert coordinator["tx"].next_producer_id == 70
    coordinator.complete()
    assert coordinator["tx"][:3] == ("tx", 70, 0)
    assert coordinator["tx"].previous_producer_id == 7
    assert coordinator.init() == (70, 1)


def test_partitions_begin_a_transaction_and_join_it(coordinator: CoordinatorInATest) -> None:
    coordinator.init()
    coordinator.now_ms = 2_000
    coordinator.add(70, 0, A0)
    coordinator.now_ms = 3_000
    coordinator.add(70, 0, B0, A1, client_version=2)
    assert coordinator["tx"] == Transaction(
        "tx",
        70,
        0,
        60_000,
        TransactionState.ONGOING,
        frozenset({A0, A1, B0}),
        started_ms=2_000,
        updated_ms=3_000,
        previous_producer_id=70,
        client_version=2,
    )


def test_a_partition_that_is_there_already_costs_no_record(coordinator: CoordinatorInATest) -> None:
    coordinator.init()
    coordinator.add(70, 0, A0)
    written = len(coordinator.log)
    coordinator.add(70, 0, A0)
    assert len(coordinator.log) == written


def test_partitions_are_added_by_nobody_else(coordinator: CoordinatorInATest) -> None:
    coordinator.init()
    with refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING):
        coordinator.add(71, 0, A0)
    with refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING):
        coordinator.add(70, 0, A0, name="somebody else's")
    with refused(ErrorCode.PRODUCER_FENCED):
        coordinator.add(70, 1, A0)
    coordinator.add(70, 0, A0)
    coordinator.end(70, 0)
    with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
        coordinator.add(70, 1, A0)


def test_partitions_are_verified(coordinator: CoordinatorInATest) -> None:
    coordinator.init()
    coordinator.add(70, 0, A0)
    assert verify_partitions(coordinator.transactions, "tx", 70, 0, [A0, B0]) == {
        A0: ErrorCode.NONE,
        B0: ErrorCode.TRANSACTION_ABORTABLE,
    }
    with refused(ErrorCode.PRODUCER_FENCED):
        verify_partitions(coordinator.transactions, "tx", 70, 3, [A0])


def test_a_failed_append_takes_everything_back(coordinator: CoordinatorInATest) -> None:
    coordinator.init()
    before = coordinator["tx"]
    asked = InitProducerId(transactional_id="tx", timeout_ms=1)
    promise = coordinator.runtime.decide(lambda transactions: init_producer_id(transactions, asked, 5))
    assert coordinator["tx"].producer_epoch == 1
    coordinator.fail()
    assert coordinator["tx"] == before
    assert promise.error is not None
    assert promise.error.code is ErrorCode.NOT_COORDINATOR
