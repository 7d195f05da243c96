from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.log_opening import create_log, open_log
from barnabas.node.storage.recovery import recovery
from barnabas.wire.batch import Record, build_batch, iterate_batches, read_header
from tests.support.log_reading import iterate

NOW_MS = 1_700_000_000_000
Create = Callable[..., PartitionLog]
Build = Callable[..., bytearray]


def fill(log: PartitionLog, batch: Build, count: int = 10) -> list[int]:
    """Batches of ten records by one producer; where each ends in its file."""
    for i in range(count):
        log.append(
            batch(10, pid=3, sequence=10 * i, timestamp=NOW_MS + i, value=b"v" * 200),
            leader_epoch=i // 4,
            now_ms=NOW_MS,
        )
    return [position + header.size for position, header in iterate_batches(log.read(0, 1 << 30))]


def job(directory: Path, recovery_point: int = 0) -> recovery.Job:
    return recovery.Job(str(directory), recovery_point, 0, 4096, NOW_MS)


def index_bytes(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.suffix in (".index", ".timeindex")}


def test_a_torn_tail_is_cut_wherever_it_was_torn(create: Create, batch: Build, directory: Path, tmp_path: Path) -> None:
    log = create()
    ends = fill(log, batch, 4)
    log.close(clean=False)
    whole = (directory / "00000000000000000000.log").read_bytes()
    for cut in sorted({ends[2], ends[2] + 1, ends[2] + 11, ends[2] + 12, ends[2] + 60, ends[2] + 61, len(whole) - 1}):
        copy = tmp_path / f"copy-{cut}" / "orders-0"
        shutil.copytree(directory, copy)
        os.truncate(copy / "00000000000000000000.log", cut)
        again = open_log(
            copy, "orders", 0, LogConfig(), clean=False, recovery_point=0, log_start_offset=0, now_ms=NOW_MS
        )
        assert again.log_end_offset == 30
        assert again.size_bytes == ends[2]
        assert again.append(batch(10, pid=3, sequence=30), leader_epoch=1, now_ms=NOW_MS).first_offset == 30
        again.close(clean=False)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_flipped_bit_ends_the_log_before_its_batch(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory, batch: Build
) -> None:
    directory = tmp_path_factory.mktemp("flip") / "orders-0"
    log = create_log(directory, "orders", 0, LogConfig(), now_ms=NOW_MS)
    ends = fill(log, batch, 6)
    log.close(clean=False)
    path = directory / "00000000000000000000.log"
    content = bytearray(path.read_bytes())
    hit = data.draw(st.integers(0, len(ends) - 1))
    start = ends[hit - 1] if hit else 0
    position = data.draw(st.integers(start + 8, ends[hit] - 1))  # the base offset has no check but its neighbours
    content[position] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    again = open_log(
        directory, "orders", 0, LogConfig(), clean=False, recovery_point=0, log_start_offset=0, now_ms=NOW_MS
    )
    if position - start in range(12, 16):
        assert again.log_end_offset == 60, "the leader epoch is outside the checksum"
    else:
        assert again.log_end_offset == 10 * hit
        assert again.size_bytes == start
    again.close(clean=False)


def test_rebuilt_indexes_are_the_ones_that_were_written(
    create: Create, reopen: Create, batch: Build, directory: Path
) -> None:
    log = create(segment_bytes=20_000)
    fill(log, batch, 40)
    log.close(clean=True)
    written = index_bytes(directory)
    assert any(written.values())
    for name in written:
        (directory / name).unlink()
    reopen(clean=False, segment_bytes=20_000).close(clean=False)
    assert index_bytes(directory) == written


def test_preallocated_and_damaged_indexes_are_written_anew(
    create: Create, reopen: Create, batch: Build, directory: Path
) -> None:
    log = create()
    fill(log, batch, 40)
    log.close(clean=True)
    written = index_bytes(directory)
    for name, content in written.items():
        (directory / name).write_bytes(content[:16] + bytes(100_000))
    reopen(clean=False).close(clean=False)
    assert index_bytes(directory) == written


def test_a_missing_index_is_rebuilt_even_after_a_clean_stop(
    create: Create, reopen: Create, batch: Build, directory: Path
) -> None:
    log = create(segment_bytes=20_000)
    fill(log, batch, 40)
    log.close(clean=True)
    written = index_bytes(directory)
    (directory / "00000000000000000000.index").unlink()
    again = reopen(clean=True, segment_bytes=20_000)
    assert (again.log_end_offset, again.recovery_point) == (400, 400)
    assert [read_header(each).base_offset for each in iterate(again, 55)][:2] == [50, 60]
    again.close(clean=False)
    assert index_bytes(directory) == written


def test_corruption_in_one_segment_removes_the_later_ones_and_is_told(
    create: Create, reopen: Create, batch: Build, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = create(segment_bytes=20_000)
    fill(log, batch, 40)
    bases = [segment.base_offset for segment in log.segments]
    log.close(clean=False)
    path = directory / f"{bases[1]:020d}.log"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    size = sum(each.stat().st_size for each in directory.glob("*.log"))
    again = reopen(clean=False, segment_bytes=20_000)
    assert again.log_end_offset == bases[2] - 10
    [told] = caplog.messages
    assert f"removed the last {size - again.size_bytes} bytes, the log now ends at offset {bases[2] - 10}: " in told
    assert [segment.base_offset for segment in again.segments] == bases[:2]
    assert max(directory.glob("*.snapshot")).name == f"{bases[2] - 10:020d}.snapshot"
    assert [producer.last_sequence for producer in again.active_producers()] == [bases[2] - 11]
    assert again.end_offset_for_epoch(0) == (0, 40)
    assert sorted(each.stem for each in directory.glob("*.index")) == [f"{base:020d}" for base in bases[:2]]


def test_only_segments_from_the_recovery_point_on_are_scanned(
    create: Create, reopen: Create, batch: Build, directory: Path
) -> None:
    log = create(segment_bytes=20_000)
    fill(log, batch, 40)
    bases = [segment.base_offset for segment in log.segments]
    log.close(clean=False)
    path = directory / "00000000000000000000.log"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    scanned = recovery.recover(job(directory, recovery_point=bases[-1] + 5))
    assert (scanned.log_end_offset, scanned.truncated_bytes) == (400, 0)
    assert scanned.scanned_bytes == (directory / f"{bases[-1]:020d}.log").stat().st_size
    assert recovery.bytes_to_scan(job(directory, bases[-1] + 1)) == scanned.scanned_bytes
    assert recovery.recover(job(directory)).log_end_offset == bases[1] - 10


def test_epochs_that_were_never_written_are_read_from_the_batches(create: Create, reopen: Create, batch: Build) -> None:
    log = create()
    fill(log, batch, 12)
    log.close(clean=False)
    again = reopen(clean=False)
    assert again.epochs.entries() == [(0, 0), (1, 40), (2, 80)]
    again.flush()
    again.close(clean=False)
    assert reopen(clean=False, recovery_point=120).epochs.entries() == [(0, 0), (1, 40), (2, 80)]


def test_a_log_that_ends_before_its_start_offset_begins_there(create: Create, reopen: Create, batch: Build) -> None:
    log = create()
    fill(log, batch, 2)
    log.close(clean=False)
    again = reopen(clean=False, log_start_offset=500)
    assert (again.log_start_offset, again.log_end_offset) == (500, 500)
    assert again.append(batch(1), leader_epoch=0, now_ms=NOW_MS).first_offset == 500


def test_leftovers_of_deletion_and_compaction_are_tidied(
    create: Create, reopen: Create, batch: Build, directory: Path
) -> None:
    log = create()
    fill(log, batch, 4)
    log.close(clean=True)
    for name in ("00000000000000000000.log.deleted", "00000000000000000000.index.cleaned", "x.tmp"):
        (directory / name).touch()
    again = reopen(clean=True)
    assert again.log_end_offset == 40
    assert list(directory.glob("*.deleted")) == list(directory.glob("*.cleaned")) == []


def test_segments_that_compaction_had_finished_replace_the_old_ones(
    create: Create, reopen: Create, batch: Build, directory: Path
) -> None:
    log = create(segment_bytes=20_000)
    fill(log, batch, 40)
    bases = [segment.base_offset for segment in log.segments]
    log.close(clean=True)
    kept = build_batch([Record(3, NOW_MS, b"k", b"v"), Record(bases[2] - 1, NOW_MS, b"l", b"v")], base_offset=0)
    (directory / "00000000000000000000.log.swap").write_bytes(kept)
    again = reopen(clean=False, segment_bytes=20_000)
    assert [segment.base_offset for segment in again.segments] == [0, *bases[2:]]
    assert again.read(0, 1 << 20) == bytes(kept)
    assert again.log_end_offset == 400


def test_the_child_process_recovers_like_we_do(create: Create, batch: Build, directory: Path, tmp_path: Path) -> None:
    log = create(segment_bytes=20_000)
    fill(log, batch, 40)
    log.close(clean=False)
    with open(max(directory.glob("*.log")), "ab") as file:
        file.write(b"torn")
    shutil.copytree(directory, tmp_path / "copy" / "orders-0")
    child = subprocess.run(
        [sys.executable, "-m", "barnabas.node.storage.recovery.recovery", str(os.getpid())],
        input=json.dumps([job(tmp_path / "copy" / "orders-0")]) + "\n",
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    here = recovery.recover(job(directory))
    assert json.loads(child.stdout) == json.loads(json.dumps([here]))
    assert here.truncated_bytes == 4
    assert index_bytes(directory) == index_bytes(tmp_path / "copy" / "orders-0")


def test_a_child_without_its_parent_touches_nothing(create: Create, batch: Build, directory: Path) -> None:
    log = create()
    fill(log, batch, 2)
    log.close(clean=False)
    child = subprocess.run(
        [sys.executable, "-m", "barnabas.node.storage.recovery.recovery", "1"],
        input=json.dumps(job(directory)) + "\n",
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (child.returncode, child.stdout) == (1, "")
    assert not list(directory.glob("*.index"))


WRITER = """
import sys
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.log_opening import create_log
from barnabas.wire.batch import Record, build_batch
log = create_log(sys.argv[1], "orders", 0, LogConfig(segment_bytes=50_000), now_ms=0)
for i in range(1_000_000):
    records = [Record(j, i, b"%d" % i, b"v" * 300) for j in range(5)]
    batch = build_batch(records, producer_id=1, producer_epoch=0, base_sequence=5 * i)
    offset = log.append(batch, leader_epoch=i // 100, now_ms=i).last_offset
    sys.stdout.write(f"{offset}\\n")
    sys.stdout.flush()
"""


def test_everything_answered_before_kill_9_is_there(directory: Path, reopen: Create) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(directory)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    answered = -1
    try:
        for line in writer.stdout:
            answered = int(line)
            if answered >= 3_000:
                break
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    answered = max([answered, *(int(line) for line in writer.stdout.read().split("\n")[:-1])])
    writer.stdout.close()
    log = reopen(clean=False, segment_bytes=50_000, now_ms=0)
    assert log.log_end_offset > answered
    offsets = [header.base_offset for each in iterate(log) for _, header in iterate_batches(each)]
    assert offsets == list(range(0, log.log_end_offset, 5))
    [producer] = log.active_producers()
    assert producer.last_sequence == log.log_end_offset - 1
    assert log.epochs.latest == (log.log_end_offset // 5 - 1) // 100
    assert log.end_offset_for_epoch(0) == (0, 500)


def lose(path: Path, size: int) -> None:
    """The disk has not kept what is behind."""
    os.truncate(path, size)


def test_what_follows_on_a_segment_that_was_deleted_below_the_recovery_point_stays(
    create: Create, batch: Build, directory: Path
) -> None:
    """A crash in the middle of a deletion may keep that of a later segment, and bring an earlier one back."""
    log = create(segment_bytes=5_000)
    fill(log, batch, 12)
    bases, end_offset = [segment.base_offset for segment in log.segments], log.log_end_offset
    log.close(clean=False)
    (directory / f"{bases[1]:020d}.log").unlink()
    found = recovery.recover(job(directory)._replace(continuous=True, recovery_point=bases[2] - 1))
    assert (found.log_end_offset, found.cut) == (end_offset, "")


def test_a_log_ends_where_a_segment_s_end_was_lost_and_has_no_hole(
    create: Create, batch: Build, directory: Path
) -> None:
    log = create(segment_bytes=5_000)
    fill(log, batch, 12)
    bases = [segment.base_offset for segment in log.segments]
    log.close(clean=False)
    lose(directory / f"{bases[2]:020d}.log", 0)
    found = recovery.recover(job(directory)._replace(continuous=True))
    assert found.log_end_offset == bases[2]
    assert found.cut == f"the segment at {bases[3]} does not follow on offset {bases[2]}"
    assert sorted(int(each.stem) for each in directory.glob("*.log")) == bases[:3]


def test_where_compaction_may_have_been_a_hole_is_left_alone(create: Create, batch: Build, directory: Path) -> None:
    log = create(segment_bytes=5_000)
    fill(log, batch, 12)
    bases = [segment.base_offset for segment in log.segments]
    log.close(clean=False)
    lose(directory / f"{bases[2]:020d}.log", 0)
    found = recovery.recover(job(directory))
    assert (found.log_end_offset, found.cut) == (120, "")


def test_a_segment_that_came_back_does_not_overlap_the_log(create: Create, reopen: Create, batch: Build) -> None:
    """It was removed, more was appended to the one before it, and the crash undid the removal only."""
    log = create(segment_bytes=5_000)
    fill(log, batch, 4)
    old = [Path(segment.file.path) for segment in log.segments]
    kept = old[1].read_bytes()
    log.close(clean=False)
    for path in old[1:]:
        path.unlink()
    again = reopen(clean=False, segment_bytes=50_000)
    end = again.log_end_offset
    fresh = batch(10, pid=9, value=b"n" * 300)
    again.append(fresh, leader_epoch=5, now_ms=NOW_MS)
    again.close(clean=False)
    old[1].write_bytes(kept)
    last = reopen(clean=False, segment_bytes=50_000)
    assert last.log_end_offset == end + 10
    assert not old[1].exists()
    assert read_header(last.read(end, 1)).leader_epoch == 5


def test_what_was_cut_off_and_why_is_said(
    create: Create, reopen: Create, batch: Build, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = create()
    ends = fill(log, batch, 3)
    log.close(clean=False)
    path = directory / "00000000000000000000.log"
    content = bytearray(path.read_bytes())
    content[ends[1] + 100] ^= 1
    path.write_bytes(content)
    reopen(clean=False).close(clean=False)
    [message] = [record.getMessage() for record in caplog.records]
    assert message.startswith(
        f"orders-0: removed the last {ends[2] - ends[1]} bytes, the log now ends at offset 20: {path.name} has "
    )
    assert f"is cut at {ends[1]}: Record is corrupt (stored crc = " in message


def test_epochs_come_from_the_batches_where_the_file_contradicts_them(
    create: Create, reopen: Create, batch: Build, directory: Path
) -> None:
    log = create()
    fill(log, batch, 8)
    log.flush()
    log.close(clean=False)
    (directory / "leader-epoch-checkpoint").write_bytes(b"0\n2\n0 0\n1 70\n")
    again = reopen(clean=False)
    assert again.epochs.entries() == [(0, 0), (1, 40)]


def test_a_start_that_has_fallen_back_knows_its_epochs(
    create: Create, reopen: Create, batch: Build, directory: Path
) -> None:
    log = create(segment_bytes=5_000)
    fill(log, batch, 8)
    log.flush()
    log.close(clean=False)
    (directory / "leader-epoch-checkpoint").write_bytes(b"0\n1\n1 60\n")
    again = reopen(clean=False, recovery_point=75, segment_bytes=5_000)
    assert again.epochs.entries() == [(0, 0), (1, 40)]


def test_zeros_in_the_transaction_index_are_no_transactions(
    create: Create, reopen: Create, batch: Build, directory: Path
) -> None:
    log = create(segment_bytes=5_000)
    fill(log, batch, 4)
    base = log.active_segment.base_offset
    log.close(clean=False)
    (directory / f"{base:020d}.txnindex").write_bytes(bytes(34))
    assert reopen(clean=False, segment_bytes=5_000).aborted_transactions(0, 40) == []
