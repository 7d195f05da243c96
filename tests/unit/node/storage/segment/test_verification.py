"""What was found on the disk is looked at before it is given to anybody; an index that is wrong is written anew."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.origin import Origin
from barnabas.node.storage.producer_state import ABORT_MARKER
from barnabas.node.storage.recovery import recovery
from barnabas.node.storage.retention import Retention
from barnabas.node.storage.segment.verification import DamagedIndex, DamagedSegment
from barnabas.wire.batch import Record, build_batch, iterate_batches, read_header
from barnabas.wire.errors import ErrorCode
from tests.support.log_reading import iterate, max_timestamp, offset_for_timestamp

NOW_MS = 1_700_000_000_000
SEGMENT_BYTES = 20_000
Create = Callable[..., PartitionLog]
Build = Callable[..., bytearray]


@pytest.fixture
def bases(create: Create, batch: Build) -> list[int]:
    """A log with several segments of batches of ten records, closed cleanly."""
    log = create(segment_bytes=SEGMENT_BYTES)
    for number in range(40):
        log.append(batch(10, timestamp=NOW_MS + number, value=b"v" * 200), leader_epoch=0, now_ms=NOW_MS)
    log.close(clean=True)
    return [segment.base_offset for segment in log.segments]


def flip(path: Path, position: int, bit: int = 1) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= bit
    path.write_bytes(content)


def positions(path: Path) -> list[int]:
    return [position for position, _ in iterate_batches(path.read_bytes())]


def read_all(log: PartitionLog, offset: int = 0) -> list[int]:
    """The base offsets of the batches from there on, up to the first that is not given."""
    found = []
    try:
        for each in iterate(log, offset):
            found.append(read_header(each).base_offset)
    except DamagedSegment:
        found.append(-1)
    return found


@pytest.mark.parametrize("at", [70, 12 + 5, 16, 8, 6], ids=["value", "header", "magic", "length", "base offset"])
def test_a_flipped_bit_below_the_recovery_point_is_never_read(
    bases: list[int], reopen: Create, directory: Path, at: int
) -> None:
    path = directory / f"{bases[1]:020d}.log"
    flip(path, positions(path)[2] + at, 0x40)
    log = reopen(clean=True, segment_bytes=SEGMENT_BYTES)
    assert log.log_end_offset == 400
    bad = bases[1] + 20
    assert read_all(log) == [*range(0, bad, 10), -1]
    with pytest.raises(DamagedSegment) as damaged:
        log.read(bad, 1 << 20)
    assert damaged.value.code is ErrorCode.CORRUPT_MESSAGE
    assert str(path) in damaged.value.message
    assert not log.offline
    assert read_all(log, bases[2]) == list(range(bases[2], 400, 10))


def test_what_was_read_before_is_not_looked_at_again(bases: list[int], reopen: Create, directory: Path) -> None:
    log = reopen(clean=True, segment_bytes=SEGMENT_BYTES)
    assert len(read_all(log)) == 40
    unverified = log.segments.from_offset(0)[0].unverified
    assert unverified is not None
    assert (unverified._verified_from, unverified._verified_to) == (0, unverified.end)
    flip(directory / "00000000000000000000.log", 100)
    assert len(read_all(log)) == 40


def test_reads_at_random_find_the_damage_too(bases: list[int], reopen: Create, directory: Path) -> None:
    path = directory / "00000000000000000000.log"
    flip(path, positions(path)[3] + 90)
    log = reopen(clean=True, segment_bytes=SEGMENT_BYTES)
    assert read_header(log.read(50, 1)).base_offset == 50
    assert read_header(log.read(10, 1)).base_offset == 10
    assert read_all(log, 20) == [20, -1]
    assert read_header(log.read(40, 1)).base_offset == 40


def test_a_missing_index_is_written_anew_and_rot_behind_it_removes_nothing(
    bases: list[int], reopen: Create, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written = (directory / f"{bases[1]:020d}.index").read_bytes()
    for suffix in ("index", "timeindex"):
        (directory / f"{bases[1]:020d}.{suffix}").unlink()
    flip(directory / f"{bases[2]:020d}.log", 100)
    for clean in (True, False):
        log = reopen(clean=clean, recovery_point=400, segment_bytes=SEGMENT_BYTES)
        assert log.log_end_offset == 400
        assert read_all(log) == [*range(0, bases[2], 10), -1]
        log.close(clean=False)
    assert (directory / f"{bases[1]:020d}.index").read_bytes() == written
    assert caplog.messages == [f"orders-0: the segment at offset {bases[1]} lacks an index; rebuilding it"]


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("damage", ["bits", "zeros", "garbage", "empty"])
def test_lookups_do_not_believe_a_damaged_index(
    bases: list[int], reopen: Create, directory: Path, suffix: str, damage: str
) -> None:
    path = directory / f"{bases[1]:020d}.{suffix}"
    written = path.read_bytes()
    damaged = {
        "bits": bytes(byte ^ 0x11 for byte in written),
        "zeros": bytes(len(written)),
        "garbage": bytes(range(7, 7 + len(written))),
        "empty": b"",
    }
    path.write_bytes(damaged[damage])
    log = reopen(clean=True, segment_bytes=SEGMENT_BYTES)
    for offset in range(bases[1], bases[2], 10):
        assert read_header(log.read(offset + 3, 1)).base_offset == offset
        found = offset_for_timestamp(log, NOW_MS + offset // 10)
        assert found is not None
        assert (found.offset, found.timestamp) == (offset, NOW_MS + offset // 10)
    assert len(log.read(bases[1], 9_000)) % len(log.read(bases[1], 1)) == 0
    assert not log.offline


def test_retention_does_not_believe_a_damaged_time_index(bases: list[int], reopen: Create, directory: Path) -> None:
    path = directory / f"{bases[1]:020d}.timeindex"
    flip(path, len(path.read_bytes()) - 10, 0x80)  # years back
    log = reopen(clean=True, segment_bytes=SEGMENT_BYTES)
    segment = log.segments.from_offset(bases[1])[0]
    with pytest.raises(DamagedIndex) as damaged:
        Retention(log, NOW_MS + 8 * 86_400_000).delete_some(400)
    log.repair_index(damaged.value)
    assert segment.largest_timestamp == NOW_MS + bases[2] // 10 - 1


def test_the_last_segment_s_time_index_is_not_believed_either(
    bases: list[int], reopen: Create, directory: Path
) -> None:
    path = directory / f"{bases[-1]:020d}.timeindex"
    flip(path, len(path.read_bytes()) - 11, 0x40)  # years ahead
    log = reopen(clean=True, segment_bytes=SEGMENT_BYTES)
    found = max_timestamp(log)
    assert found is not None
    assert (found.offset, found.timestamp) == (390, NOW_MS + 39)


@pytest.mark.parametrize("damage", ["a producer", "an offset", "zeros", "half an entry"])
def test_a_damaged_transaction_index_is_written_anew(
    create: Create, reopen: Create, batch: Build, directory: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    log = create(segment_bytes=300)
    for number in range(6):
        log.append(batch(3, pid=7, sequence=3 * number, transactional=True), leader_epoch=0, now_ms=NOW_MS)
        if number % 2:
            record = Record(0, NOW_MS, struct.pack(">hh", 0, ABORT_MARKER), struct.pack(">hi", 0, 0))
            marker = build_batch([record], producer_id=7, producer_epoch=0, control=True, transactional=True)
            log.append(marker, leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR)
    aborted = log.aborted_transactions(0, log.log_end_offset)
    assert len(aborted) == 3
    assert len(log.segments) > 1
    log.close(clean=True)
    path = min(directory.glob("*.txnindex"))
    written = path.read_bytes()
    if damage == "half an entry":
        path.write_bytes(written[:-10])
    elif damage == "zeros":
        path.write_bytes(bytes(len(written)))
    else:
        flip(path, 9 if damage == "a producer" else 25)
    again = reopen(clean=True, segment_bytes=300)
    assert again.aborted_transactions(0, again.log_end_offset) == aborted
    assert path.read_bytes() == written
    assert caplog.messages == [f"{path.with_suffix('.log')}: its transaction index is damaged; rebuilding it"]


def test_a_transaction_index_that_is_gone_is_called_missing(
    create: Create, reopen: Create, batch: Build, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = create()
    log.append(batch(3, pid=7, sequence=0, transactional=True), leader_epoch=0, now_ms=NOW_MS)
    record = Record(0, NOW_MS, struct.pack(">hh", 0, ABORT_MARKER), struct.pack(">hi", 0, 0))
    marker = build_batch([record], producer_id=7, producer_epoch=0, control=True, transactional=True)
    log.append(marker, leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR)
    aborted = log.aborted_transactions(0, log.log_end_offset)
    log.close(clean=True)
    (path,) = directory.glob("*.txnindex")
    path.unlink()
    again = reopen(clean=True)
    again.segments.suspect_transaction_indexes()
    again.check_transactions()
    assert again.aborted_transactions(0, again.log_end_offset) == aborted
    assert caplog.messages == [f"{path.with_suffix('.log')}: its transaction index is missing; rebuilding it"]


def test_nothing_is_said_of_a_transaction_index_where_no_transaction_was_aborted(
    bases: list[int], reopen: Create, caplog: pytest.LogCaptureFixture
) -> None:
    log = reopen(clean=True, segment_bytes=SEGMENT_BYTES)
    log.segments.suspect_transaction_indexes()
    log.check_transactions()
    assert log.aborted_transactions(0, log.log_end_offset) == []
    assert caplog.messages == []


def test_where_offsets_must_follow_on_each_other_a_leap_ends_the_log(
    create: Create, batch: Build, directory: Path
) -> None:
    log = create()
    for _ in range(5):
        log.append(batch(10), leader_epoch=0, now_ms=NOW_MS)
    log.close(clean=False)
    path = directory / "00000000000000000000.log"
    flip(path, positions(path)[4] + 6, 1)  # the base offset has no checksum
    found = recovery.recover(recovery.Job(str(directory), 0, 0, 4096, NOW_MS, continuous=True))
    assert (found.log_end_offset, found.truncated_bytes) == (40, len(batch(10)))
    assert found.cut.endswith("offset 296 comes after 39")


@pytest.mark.parametrize("clean", [True, False])
def test_what_is_appended_after_a_cut_is_read_though_the_file_ended_within_it_before(
    create: Create, reopen: Create, batch: Build, clean: bool
) -> None:
    log = create()
    for number in range(4):
        log.append(batch(10, timestamp=NOW_MS + number), leader_epoch=0, now_ms=NOW_MS)
    log.close(clean=clean)
    again = reopen(clean=clean)
    assert again.truncate_to(30)
    again.append(batch(500, timestamp=NOW_MS + 9, value=b"v" * 50), leader_epoch=1, now_ms=NOW_MS)
    assert read_all(again) == [0, 10, 20, 30]
    assert read_all(again, 30) == [30]
    assert read_header(again.read(30, 1 << 20)).last_offset == 529


def test_a_cut_damages_no_index(create: Create, batch: Build, caplog: pytest.LogCaptureFixture, reopen: Create) -> None:
    log = create(index_interval_bytes=0)
    for number in range(10):
        log.append(batch(10, timestamp=NOW_MS + number), leader_epoch=0, now_ms=NOW_MS)
    log.close(clean=True)
    again = reopen(clean=True, index_interval_bytes=0)
    for number in range(10, 20):
        again.append(batch(10, timestamp=NOW_MS + number), leader_epoch=0, now_ms=NOW_MS)
    assert again.truncate_to(190)
    assert again.truncate_to(150)
    assert read_all(again, 140) == [140]
    assert "damaged" not in caplog.text
