"""A partition and transactions: who may write, which markers end what, what readers of committed records see."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.origin import Origin
from barnabas.node.storage.producer_state import ABORT_MARKER, COMMIT_MARKER
from barnabas.wire.batch import Record, build_batch, iterate_batches
from barnabas.wire.errors import ErrorCode, KafkaError

NOW_MS = 1_700_000_000_000
Create = Callable[..., PartitionLog]
Build = Callable[..., bytearray]


def append(log: PartitionLog, batch: bytearray) -> int:
    return log.append(batch, leader_epoch=0, now_ms=NOW_MS).first_offset


def end(log: PartitionLog, pid: int, kind: int, *, epoch: int = 0, coordinator_epoch: int = 0) -> int:
    record = Record(0, NOW_MS, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, coordinator_epoch))
    batch = build_batch([record], producer_id=pid, producer_epoch=epoch, control=True, transactional=True)
    return log.append(batch, leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR).first_offset


def verify(log: PartitionLog, sequence: int, *, epoch: int = 0, begins_at_zero: bool = False) -> object:
    return log.producers.begin_verification(7, epoch, sequence, NOW_MS, begins_at_zero=begins_at_zero)


def refusal(log: PartitionLog, batch: bytearray) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        append(log, batch)
    return refused.value.code


def test_a_batch_may_be_written_if_its_transaction_is_open_here_or_verified(create: Create, batch: Build) -> None:
    log = create()
    assert not log.producers.is_verified(7, 0, None)
    verification = verify(log, 0)
    assert log.producers.is_verified(7, 0, verification)  # type: ignore[arg-type]
    append(log, batch(pid=7, transactional=True))
    assert log.producers.is_verified(7, 0, None)
    assert not log.producers.is_verified(7, 1, None)


def test_what_was_verified_before_a_marker_is_worth_nothing_after_it(create: Create) -> None:
    log = create()
    verification = verify(log, 0)
    end(log, 7, ABORT_MARKER)
    assert not log.producers.is_verified(7, 0, verification)  # type: ignore[arg-type]


def test_a_batch_does_not_overtake_one_that_could_not_be_verified(create: Create, batch: Build) -> None:
    log = create()
    verify(log, 3)
    verify(log, 4)
    assert refusal(log, batch(pid=7, sequence=4, transactional=True)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(log, batch(pid=7, sequence=3, transactional=True))
    append(log, batch(pid=7, sequence=4, transactional=True))


def test_a_newer_epoch_forgets_what_the_older_one_offered(create: Create, batch: Build) -> None:
    log = create()
    verify(log, 0)
    verify(log, 5, epoch=1)
    append(log, batch(pid=7, epoch=1, sequence=5, transactional=True))


def test_with_an_epoch_for_each_transaction_an_unknown_producer_begins_at_zero(create: Create, batch: Build) -> None:
    log = create()
    verify(log, 4, begins_at_zero=True)
    assert refusal(log, batch(pid=7, sequence=4, transactional=True)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(log, batch(pid=7, sequence=0, transactional=True))


def test_verifications_that_nobody_used_expire(create: Create, batch: Build) -> None:
    log = create()
    verify(log, 0)
    log.producers.expire(NOW_MS + log.producers.expiration_ms)
    append(log, batch(pid=7, sequence=9, transactional=True))


def test_the_marker_of_an_open_transaction_needs_a_newer_epoch_since_version_2(create: Create, batch: Build) -> None:
    log = create()
    append(log, batch(pid=7, epoch=3, transactional=True))
    log.producers.check_marker(7, 3, 0, 1)
    log.producers.check_marker(7, 4, 0, 2)
    log.producers.check_marker(8, 0, 0, 2)
    for epoch, version in [(3, 2), (2, 2), (2, 1)]:
        with pytest.raises(KafkaError) as refused:
            log.producers.check_marker(7, epoch, 0, version)
        assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    end(log, 7, COMMIT_MARKER, epoch=4)
    log.producers.check_marker(7, 4, 0, 2)  # the same marker again ends nothing


def test_open_transactions_and_aborted_ones_survive_a_crash(create: Create, reopen: Create, batch: Build) -> None:
    log = create()
    append(log, batch(2, pid=7, transactional=True))
    append(log, batch(1, pid=8, transactional=True))
    end(log, 8, ABORT_MARKER, epoch=1)
    log.close(clean=False)
    log = reopen(clean=False)
    assert log.last_stable_offset(log.log_end_offset) == 0
    assert log.producers.has_ongoing_transaction(7, 0)
    assert not log.producers.has_ongoing_transaction(8, 0)
    assert log.aborted_transactions(0, 4) == [(8, 2, 3, 0)]
    end(log, 7, COMMIT_MARKER, epoch=1)
    assert log.last_stable_offset(log.log_end_offset) == 5
    log.close(clean=True)
    assert reopen(clean=True).aborted_transactions(0, 5) == [(8, 2, 3, 0)]


def test_a_read_is_told_of_the_aborted_transactions_it_reaches_and_not_of_all_behind_it(
    create: Create, batch: Build
) -> None:
    log = create(segment_bytes=2000)
    for number in range(100):
        append(log, batch(1, pid=number, transactional=True))
        end(log, number, ABORT_MARKER, epoch=1)
    assert len(log.segments) > 3
    for offset, producers in ((0, [0, 1]), (1, [0, 1, 2]), (100, [50, 51])):
        size = len(log.read(offset, 330, upper_bound_offset=200))
        assert size > 0
        found = log.aborted_in_read(offset, size, 200)
        last_read = max(header.last_offset for _, header in iterate_batches(log.read(offset, 330)))
        assert [each.producer_id for each in found] == producers
        assert found[-1].first_offset <= last_read < found[-1].first_offset + 3
    assert log.aborted_in_read(0, 1 << 20, 1) == log.aborted_transactions(0, 1)
    log.close(clean=False)
