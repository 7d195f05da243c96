from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from crc32c import crc32c

from barnabas.node.storage import producer_state
from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.origin import Origin
from barnabas.node.storage.producer_state import CorruptSnapshot, ProducerEntry, RememberedBatch, Window
from barnabas.wire.batch import MAX_SEQUENCE, Record, build_batch
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.records.storage import ProducerEntry as WireEntry
from barnabas.wire.records.storage import ProducerSnapshot

NOW_MS = 1_700_000_000_000
Create = Callable[..., PartitionLog]
Build = Callable[..., bytearray]


def append(log: PartitionLog, batch: bytearray) -> int:
    return log.append(batch, leader_epoch=0, now_ms=NOW_MS).first_offset


def refusal(log: PartitionLog, batch: bytearray) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        append(log, batch)
    return refused.value.code


def marker(pid: int, kind: int, *, epoch: int = 0, coordinator_epoch: int = 0) -> bytearray:
    record = Record(0, NOW_MS, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, coordinator_epoch))
    return build_batch([record], producer_id=pid, producer_epoch=epoch, control=True, transactional=True)


def end(log: PartitionLog, batch: bytearray) -> int:
    return log.append(batch, leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR).first_offset


def test_an_unknown_producer_may_begin_anywhere_and_then_continues(create: Create, batch: Build) -> None:
    log = create()
    assert append(log, batch(2, pid=7, sequence=5)) == 0
    assert append(log, batch(2, pid=7, sequence=7)) == 2
    assert refusal(log, batch(2, pid=7, sequence=20)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(log, batch(1, pid=7, sequence=7)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 4


def test_the_last_five_batches_are_recognised_and_answered_with_their_first_offset(
    create: Create, batch: Build
) -> None:
    log = create()
    for i in range(7):
        append(log, batch(3, pid=7, sequence=3 * i, timestamp=NOW_MS + i))
    for i in range(2, 7):
        result = log.append(batch(3, pid=7, sequence=3 * i), leader_epoch=0, now_ms=NOW_MS)
        assert (result.first_offset, result.last_offset, result.duplicate) == (3 * i, 3 * i + 2, True)
        assert result.log_append_time_ms == NOW_MS + i
    assert refusal(log, batch(3, pid=7, sequence=3)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 21


def test_of_batches_with_the_same_numbers_a_duplicate_is_the_youngest(create: Create, batch: Build) -> None:
    log = create()
    append(log, batch(2, pid=7, sequence=0))
    forgotten = log.producers.producers.pop(7).batches[0]
    append(log, batch(2, pid=7, sequence=0))
    entry = log.producers.producers[7]
    log.producers.recall([Window(7, entry.producer_epoch, [forgotten, *entry.batches])])
    result = log.append(batch(2, pid=7, sequence=0), leader_epoch=0, now_ms=NOW_MS)
    assert (result.first_offset, result.duplicate) == (2, True)


def test_a_new_epoch_begins_at_zero_and_fences_the_old_one(create: Create, batch: Build) -> None:
    log = create()
    append(log, batch(2, pid=7, sequence=0))
    assert refusal(log, batch(2, pid=7, epoch=1, sequence=5)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(log, batch(2, pid=7, epoch=1, sequence=0)) == 2
    assert refusal(log, batch(2, pid=7, epoch=0, sequence=2)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_sequences_wrap_around(create: Create, batch: Build) -> None:
    log = create()
    append(log, batch(2, pid=7, sequence=MAX_SEQUENCE - 1))
    append(log, batch(2, pid=7, sequence=0))
    assert log.append(batch(2, pid=7, sequence=MAX_SEQUENCE - 1), leader_epoch=0, now_ms=NOW_MS).duplicate
    append(log, batch(3, pid=8, sequence=MAX_SEQUENCE))
    assert log.append(batch(3, pid=8, sequence=MAX_SEQUENCE), leader_epoch=0, now_ms=NOW_MS).duplicate
    append(log, batch(1, pid=8, sequence=2))


def test_idle_producers_expire_and_may_begin_anywhere_again(create: Create, batch: Build) -> None:
    log = create()
    append(log, batch(1, pid=7, timestamp=NOW_MS - 90_000_000))
    append(log, batch(1, pid=8))
    log.producers.expire(NOW_MS)
    assert [producer.producer_id for producer in log.active_producers()] == [8]
    append(log, batch(1, pid=7, sequence=400))


def test_an_open_transaction_holds_the_last_stable_offset_until_its_marker_is_replicated(
    create: Create, batch: Build
) -> None:
    log = create()
    append(log, batch(2))
    append(log, batch(3, pid=7, transactional=True))
    append(log, batch(3, pid=8, transactional=True))
    assert log.last_stable_offset(high_watermark=8) == 2
    assert log.active_producers()[0].current_txn_start_offset == 2
    assert end(log, marker(7, producer_state.ABORT_MARKER, coordinator_epoch=3)) == 8
    assert log.last_stable_offset(high_watermark=8) == 2
    assert log.last_stable_offset(high_watermark=9) == 5
    end(log, marker(8, producer_state.COMMIT_MARKER))
    assert log.last_stable_offset(high_watermark=10) == 10
    assert log.aborted_transactions(0, 10) == [(7, 2, 8, 5)]
    assert log.aborted_transactions(9, 10) == []
    assert [producer.coordinator_epoch for producer in log.active_producers()] == [3, 0]


def test_a_plain_batch_inside_a_transaction_is_refused(create: Create, batch: Build) -> None:
    log = create()
    append(log, batch(1, pid=7, transactional=True))
    assert refusal(log, batch(1, pid=7, sequence=1)) is ErrorCode.INVALID_TXN_STATE


def test_markers_of_old_epochs_and_coordinators_are_refused(create: Create, batch: Build) -> None:
    log = create()
    append(log, batch(1, pid=7, epoch=2, transactional=True))
    with pytest.raises(KafkaError) as refused:
        end(log, marker(7, 1, epoch=1))
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    end(log, marker(7, 1, epoch=2, coordinator_epoch=5))
    with pytest.raises(KafkaError) as refused:
        end(log, marker(7, 1, epoch=2, coordinator_epoch=4))
    assert refused.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_state_is_the_same_after_a_clean_and_an_unclean_restart(create: Create, reopen: Create, batch: Build) -> None:
    log = create(segment_bytes=500)
    for i in range(6):
        append(log, batch(3, pid=7, sequence=3 * i))
    append(log, batch(3, pid=9, transactional=True))
    append(log, batch(3, pid=8, transactional=True))
    end(log, marker(8, producer_state.ABORT_MARKER))
    expected = sorted(log.active_producers())
    aborted = log.aborted_transactions(0, 100)
    log.close(clean=False)
    for clean in (False, True):
        again = reopen(clean=clean, segment_bytes=500)
        assert sorted(again.active_producers()) == expected
        assert again.aborted_transactions(0, 100) == aborted
        assert again.last_stable_offset(again.log_end_offset) == 18
        assert again.append(batch(3, pid=7, sequence=15), leader_epoch=0, now_ms=NOW_MS).first_offset == 15
        again.close(clean=True)


def test_a_snapshot_is_kafka_s_message_with_a_checksum(tmp_path: Path) -> None:
    producers = {
        5: ProducerEntry(2, 3, NOW_MS, 40, RememberedBatch(17, 99, 4, NOW_MS)),
        6: ProducerEntry(0, -1, NOW_MS, -1, None),
    }
    path = tmp_path / "00000000000000000100.snapshot"
    producer_state.write_snapshot(str(path), producers)
    content = path.read_bytes()
    assert struct.unpack_from(">h", content) == (1,)
    wire = ProducerSnapshot.decode(content[2:], 1)
    assert wire.crc == crc32c(content[6:])
    first = WireEntry(
        producer_id=5,
        epoch=2,
        last_sequence=17,
        last_offset=99,
        offset_delta=4,
        timestamp=NOW_MS,
        coordinator_epoch=3,
        current_txn_first_offset=40,
    )
    assert wire.producer_entries[0] == first
    assert (wire.producer_entries[1].last_offset, wire.producer_entries[1].last_sequence) == (-1, -1)
    again = producer_state.read_snapshot(str(path))
    assert again[5].batches[-1] == producers[5].batches[-1]
    assert (again[6].last_sequence, again[6].next_sequence) == (-1, 0)


def test_each_snapshot_shows_what_producers_did_since_the_last_one(create: Create, batch: Build) -> None:
    log = create()
    append(log, batch(2, pid=7, sequence=0))
    append(log, batch(1, pid=8, sequence=0, transactional=True))
    log.roll(now_ms=NOW_MS)
    append(log, batch(3, pid=7, sequence=2))
    end(log, marker(8, 1))
    log.roll(now_ms=NOW_MS)
    for offset in producer_state.snapshot_offsets(log.directory):
        found = producer_state.read_snapshot(f"{log.directory}/{offset:020}.snapshot")
        sevens, eights = found[7], found[8]
        if offset == 3:
            assert (sevens.last_sequence, eights.current_txn_first_offset) == (1, 2)
        else:
            assert (offset, sevens.last_sequence, eights.current_txn_first_offset) == (7, 4, -1)


@pytest.mark.parametrize("damage", [b"", b"\0\1", b"\0\2", "flip", "short"])
def test_a_damaged_snapshot_is_noticed(tmp_path: Path, damage: bytes | str) -> None:
    path = tmp_path / "00000000000000000100.snapshot"
    producer_state.write_snapshot(str(path), {5: ProducerEntry(2, 3, NOW_MS, 40, None)})
    content = bytearray(path.read_bytes())
    if damage == "flip":
        content[20] ^= 1
    elif damage == "short":
        del content[-1]
    else:
        content = bytearray(damage)  # type: ignore[arg-type]
    path.write_bytes(content)
    with pytest.raises(CorruptSnapshot):
        producer_state.read_snapshot(str(path))


def test_a_damaged_snapshot_is_replaced_by_an_older_one_and_the_log(
    create: Create, reopen: Create, batch: Build, directory: Path
) -> None:
    log = create(segment_bytes=500)
    for i in range(20):
        append(log, batch(3, pid=7, sequence=3 * i))
    expected = log.active_producers()
    log.close(clean=True)
    newest = max(directory.glob("*.snapshot"))
    newest.write_bytes(b"garbage")
    again = reopen(clean=True, segment_bytes=500)
    assert again.active_producers() == expected
