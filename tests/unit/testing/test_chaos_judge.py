"""The judge of histories: each anomaly, planted into a history that is in order, is found, and nothing else is."""

from __future__ import annotations

import pytest

from tests.support.chaos.history import (
    CommittedOffset,
    History,
    Outcome,
    Partition,
    Promise,
    Seen,
    Send,
    Transaction,
)
from tests.support.chaos.judge import judge

IN_ORDER: Partition = ("in-order", 0)
ATOMIC: Partition = ("atomic", 0)
ATOMIC_TOO: Partition = ("atomic", 1)
COPIED: Partition = ("copied", 0)
PLAIN: Partition = ("plain", 0)


@pytest.fixture
def history() -> History:
    """Three values of an idempotent writer, a committed, an aborted and an unknown transaction, a copy, a group."""
    made = History(
        promises={
            "in-order": Promise(),
            "atomic": Promise(),
            "copied": Promise(in_order=False),
            "plain": Promise(once=False, in_order=False),
        },
        copies=[("in-order", "copied")],
    )
    for number in range(3):
        value = b"w:%d" % number
        made.sends.append(Send("w", IN_ORDER, value, number, offset=number, acknowledged_at=number + 0.5))
        made.sends.append(Send("copier", COPIED, value + b"|c1", 10, "c1", offset=number))
        made.seen.append(Seen("consumer-1 first", IN_ORDER, number, value, number + 1))
        made.committed.append(CommittedOffset("group", IN_ORDER, number + 1, number + 1))
    made.sends.append(Send("w", IN_ORDER, b"w:3", 3))  # nobody knows; it is not there
    made.sends += [Send("p", PLAIN, b"p:0", 1, offset=0), Send("p", PLAIN, b"p:1", 1)]
    for name, outcome, first in (("t1", Outcome.COMMITTED, 0), ("t2", Outcome.ABORTED, 3), ("t3", Outcome.UNKNOWN, 5)):
        asked = None if outcome is Outcome.ABORTED else 5.0
        made.transactions[name] = Transaction(name, outcome, asked)
        made.sends.append(Send("t", ATOMIC, f"{name}:0".encode(), 4, name, offset=first))
        made.sends.append(Send("t", ATOMIC_TOO, f"{name}:1".encode(), 4, name, offset=first))
    made.transactions["c1"] = Transaction("c1", Outcome.COMMITTED, 11)
    made.log = {
        IN_ORDER: {number: b"w:%d" % number for number in range(3)},
        COPIED: {number: b"w:%d|c1" % number for number in range(3)},
        ATOMIC: {0: b"t1:0"},
        ATOMIC_TOO: {0: b"t1:1"},
        PLAIN: {0: b"p:0", 1: b"p:1", 2: b"p:1"},
    }
    made.raw = {partition: dict(records) for partition, records in made.log.items()}
    made.raw[ATOMIC] |= {3: b"t2:0", 5: b"t3:0"}
    made.raw[ATOMIC_TOO] |= {3: b"t2:1", 5: b"t3:1"}
    made.seen.append(Seen("consumer-1 first", ATOMIC, 0, b"t1:0", 6))
    return made


def kinds(history: History) -> set[str]:
    return {anomaly.kind for anomaly in judge(history)}


def test_a_history_that_is_in_order_shows_nothing(history: History) -> None:
    assert judge(history) == []


def test_an_acknowledged_value_that_is_not_there(history: History) -> None:
    history.seen.clear()
    del history.log[IN_ORDER][2], history.log[COPIED][2]
    assert kinds(history) == {"lost write"}


def test_a_value_that_was_acknowledged_without_its_offset_and_is_not_there(history: History) -> None:
    next(send for send in history.sends if send.value == b"w:3").acknowledged_at = 4
    assert kinds(history) == {"lost write"}


def test_a_committed_value_that_is_not_there(history: History) -> None:
    del history.log[ATOMIC_TOO][0]
    assert kinds(history) == {"lost write"}


def test_a_value_that_was_read_and_is_gone(history: History) -> None:
    history.sends = [send for send in history.sends if send.value != b"t1:0"]
    history.transactions["t1"].outcome = Outcome.UNKNOWN
    del history.log[ATOMIC][0], history.raw[ATOMIC][0]
    assert kinds(history) == {"lost read"}


def test_a_value_that_is_there_twice(history: History) -> None:
    history.log[ATOMIC][9] = history.raw[ATOMIC][9] = b"t1:0"
    assert kinds(history) == {"duplicate"}


def test_a_value_that_librdkafka_has_written_again_in_a_new_producer_epoch(history: History) -> None:
    for log in (history.log, history.raw):
        log[IN_ORDER] = {0: b"w:0", 1: b"w:1", 2: b"w:2", 3: b"w:1"}
        log[COPIED] |= {3: b"w:1|c1"}
    history.written_by = {(IN_ORDER, 1): (7, 0), (IN_ORDER, 3): (7, 1)}
    assert kinds(history) == {"duplicate", "reordered"}, "its writer has one request in flight"
    history.several_in_flight = {"w"}
    assert kinds(history) == set()
    history.written_by[IN_ORDER, 3] = (7, 0)
    assert kinds(history) == {"duplicate", "reordered"}, "the broker has taken it twice"


def test_values_in_another_order(history: History) -> None:
    history.seen.clear()
    for send in history.sends:
        if send.partition == IN_ORDER:
            send.offset = {0: 1, 1: 0}.get(send.offset, send.offset)
    history.log[IN_ORDER] = history.raw[IN_ORDER] = {0: b"w:1", 1: b"w:0", 2: b"w:2"}
    assert kinds(history) == {"reordered"}


def test_an_offset_that_had_another_value_when_it_was_acknowledged(history: History) -> None:
    history.sends[0].offset = 1
    assert kinds(history) == {"inconsistent offset"}


def test_an_offset_that_had_another_value_when_it_was_read(history: History) -> None:
    history.seen.append(Seen("consumer-2 first", IN_ORDER, 1, b"w:0", 9))
    assert kinds(history) == {"inconsistent offset"}


def test_a_value_of_an_aborted_transaction_that_is_there(history: History) -> None:
    history.log[ATOMIC][3] = b"t2:0"
    assert kinds(history) == {"aborted read"}


def test_a_value_of_an_aborted_transaction_that_was_read(history: History) -> None:
    history.transactions["t2"].commit_asked_at = 5
    history.seen.append(Seen("consumer-2 first", ATOMIC, 3, b"t2:0", 9))
    assert kinds(history) == {"aborted read", "lost read"}


def test_a_value_that_was_read_before_its_commit(history: History) -> None:
    history.seen.append(Seen("consumer-2 first", ATOMIC, 0, b"t1:0", 4.5))
    assert kinds(history) == {"precommitted read"}


def test_half_a_transaction(history: History) -> None:
    history.log[ATOMIC][5] = b"t3:0"
    assert kinds(history) == {"torn transaction"}


def test_a_whole_transaction_whose_end_nobody_knows_is_in_order(history: History) -> None:
    history.log[ATOMIC][5] = b"t3:0"
    history.log[ATOMIC_TOO][5] = b"t3:1"
    assert judge(history) == []


def test_a_value_that_nobody_sent(history: History) -> None:
    history.raw[PLAIN][3] = history.log[PLAIN][3] = b"??"
    assert kinds(history) == {"invented"}


def test_a_consumer_that_is_given_an_offset_again(history: History) -> None:
    history.seen.append(Seen("consumer-1 first", IN_ORDER, 1, b"w:1", 9))
    assert kinds(history) == {"poll back"}
    history.seen[-1] = Seen("consumer-1 second", IN_ORDER, 1, b"w:1", 9)
    assert judge(history) == []


def test_a_consumer_that_is_not_given_a_record(history: History) -> None:
    history.seen = [seen for seen in history.seen if seen.offset != 1]
    assert kinds(history) == {"poll skip"}


def test_a_committed_offset_that_becomes_smaller(history: History) -> None:
    history.committed.append(CommittedOffset("group", IN_ORDER, 1, 9))
    assert kinds(history) == {"committed offset back"}


def test_a_value_that_is_not_copied(history: History) -> None:
    history.sends = [send for send in history.sends if send.value != b"w:2|c1"]
    del history.log[COPIED][2], history.raw[COPIED][2]
    assert kinds(history) == {"not copied"}


def test_a_value_that_is_copied_by_two_transactions(history: History) -> None:
    history.transactions["c2"] = Transaction("c2", Outcome.COMMITTED, 11)
    history.sends.append(Send("copier", COPIED, b"w:2|c2", 12, "c2", offset=4))
    history.log[COPIED][4] = history.raw[COPIED][4] = b"w:2|c2"
    assert kinds(history) == {"copied twice"}
