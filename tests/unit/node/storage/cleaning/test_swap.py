"""A crash between any two file operations of a swap: nothing is lost, nothing comes back, and no file is left over."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas.node.storage.cleaning.cleaner import CleanerSettings, job_for
from barnabas.node.storage.cleaning.job import CleanedGroup
from barnabas.node.storage.cleaning.rewrite import Cleaning
from barnabas.node.storage.cleaning.swap import Swap
from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.log_opening import create_log, open_log
from barnabas.wire.batch import Record, build_batch, decode_records
from tests.support.log_reading import iterate

NOW_MS = 1_700_000_000_000
CONFIG = LogConfig(cleanup_policy=("compact",), segment_bytes=10_000)
KEYS = 7
EMPTY_BATCH_BYTES = 61


def fill(directory: Path) -> dict[bytes, tuple[int, bytes]]:
    """A log of three groups; the latest of every key."""
    log = create_log(directory, "t", 0, CONFIG, now_ms=NOW_MS)
    for number in range(60):
        record = Record(0, NOW_MS + number, b"key-%d" % (number % KEYS), b"%d " % number * 100)
        log.append(build_batch([record]), leader_epoch=0, now_ms=NOW_MS)
        if number % 10 == 9:
            log.roll(now_ms=NOW_MS)
    log.close(clean=True)
    return {b"key-%d" % (number % KEYS): (number, b"%d " % number * 100) for number in range(60)}


OPERATIONS = ("rename", "unlink", "fsync", "pwrite", "pwritev", "ftruncate", "utime")


def clean_and_die(directory: Path, clean: Callable[..., object], fatal: int) -> int:
    """Clean the log in a process of its own, which kills itself before the file operation of that number.

    How many there were, -1 if it was killed.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writer, b"%d" % cleaning_operations(directory, clean, fatal))
        finally:
            os._exit(0)
    os.close(writer)
    _, status = os.waitpid(child, 0)
    told = os.read(reader, 100)
    os.close(reader)
    assert os.WIFSIGNALED(status) or told, "the child has failed"
    return -1 if os.WIFSIGNALED(status) else int(told)


def cleaning_operations(directory: Path, clean: Callable[..., object], fatal: int) -> int:
    log = open_log(directory, "t", 0, CONFIG, clean=True, recovery_point=60, log_start_offset=0, now_ms=NOW_MS)
    done = 0

    def counted(operation: Callable[..., object]) -> Callable[..., object]:
        def run(*arguments: object, **options: object) -> object:
            nonlocal done
            done += 1
            if done == fatal:
                os.kill(os.getpid(), signal.SIGKILL)
            return operation(*arguments, **options)

        return run

    for name in OPERATIONS:
        setattr(os, name, counted(getattr(os, name)))
    clean(log, NOW_MS)
    return done


def read(directory: Path, *, clean: bool) -> list[Record]:
    log = open_log(
        directory, "t", 0, CONFIG, clean=clean, recovery_point=0 if not clean else 60, log_start_offset=0, now_ms=NOW_MS
    )
    assert log.log_end_offset == 60
    found = [record for batch in iterate(log) for record in decode_records(batch)]
    log.close(clean=True)
    return found


def test_a_kill_between_any_two_file_operations_loses_nothing(tmp_path: Path, clean) -> None:
    fill(tmp_path / "whole-0")
    total = clean_and_die(tmp_path / "whole-0", clean, 0)
    assert total > 50
    for fatal in range(1, total + 1):
        directory = tmp_path / f"t{fatal}-0"
        latest = fill(directory)
        assert clean_and_die(directory, clean, fatal) == -1
        for is_clean in (False, True):
            found = read(directory, clean=is_clean)
            offsets = [each.offset for each in found]
            assert offsets == sorted(set(offsets)), fatal
            assert {each.key: (each.offset, each.value) for each in found} == latest, fatal
        left = [each.name for each in directory.iterdir() if each.suffix in (".cleaned", ".swap", ".deleted")]
        assert left == [], fatal


def test_groups_that_were_to_come_in_together_do_so_after_a_crash_and_nothing_comes_back(tmp_path: Path, dirt) -> None:
    latest = fill(tmp_path / "t-0")
    log = open_log(tmp_path / "t-0", "t", 0, CONFIG, clean=True, recovery_point=60, log_start_offset=0, now_ms=NOW_MS)
    log.roll(now_ms=NOW_MS)
    groups: list[CleanedGroup] = []
    job = job_for(log, dirt(log, NOW_MS), CleanerSettings(), NOW_MS)
    with contextlib.chdir(log.directory):
        Cleaning(job, groups.append, lambda size: None).run()
    assert [group.more for group in groups] == [True] * (len(groups) - 1) + [False]
    assert [group.size for group in groups].count(EMPTY_BATCH_BYTES) >= 2
    for group in groups:
        Swap(log, group, NOW_MS).prepare()
    log.close(clean=False)
    found = read(tmp_path / "t-0", clean=False)
    assert [(each.key, (each.offset, each.value)) for each in found] == sorted(latest.items(), key=lambda item: item[1])


@pytest.fixture
def log(tmp_path: Path) -> Iterator[PartitionLog]:
    fill(tmp_path / "t-0")
    opened = open_log(
        tmp_path / "t-0", "t", 0, CONFIG, clean=True, recovery_point=60, log_start_offset=0, now_ms=NOW_MS
    )
    yield opened
    opened.close(clean=False)


def cleaned(log: PartitionLog, *base_offsets: int) -> Swap:
    """A swap whose `.cleaned` files are there: copies of the first segment's."""
    first = Path(log.directory) / f"{base_offsets[0]:020d}"
    for suffix in (".log", ".index", ".timeindex"):
        Path(f"{first}{suffix}.cleaned").write_bytes(Path(f"{first}{suffix}").read_bytes())
    size = first.with_suffix(".log").stat().st_size
    return Swap(log, CleanedGroup(base_offsets=list(base_offsets), size=size, has_txn_index=False), NOW_MS)


def names(log: PartitionLog, suffix: str) -> list[str]:
    return sorted(each.name for each in Path(log.directory).iterdir() if each.suffix == suffix)


def test_readers_are_served_at_every_step(log: PartitionLog) -> None:
    swap = cleaned(log, 0, 10)
    before = log.read(3, 100)
    for step in (swap.prepare, swap.take_over, swap.finish):
        step()
        assert log.read(3, 100) == before
        assert decode_records(log.read(25, 100))[0].offset == 25
    assert [segment.base_offset for segment in log.segments] == [0, 20, 30, 40, 50, 60]
    assert decode_records(log.read(12, 100))[0].offset == 20
    assert names(log, ".swap") == []


def test_what_was_found_before_the_swap_can_be_read_after_it(log: PartitionLog) -> None:
    class Kept:
        """A directory that removes nothing yet."""

        def flush_later(self, log: PartitionLog) -> None: ...
        def delete_later(self, paths: list[str], delay_ms: int) -> None: ...
        def failed(self, error: OSError) -> None: ...

    log.background = Kept()
    expected = log.read(10, 5_000)
    for _ in range(2):  # the second time, the first one's `.deleted` files are still there
        found = log.fetch(10, 5_000, upper_bound_offset=60, min_one_batch=True, eager_bytes=0)
        assert not isinstance(found, bytes)
        swap = cleaned(log, 10)
        swap.prepare()
        swap.take_over()
        swap.finish()
        assert found.read(0, len(found)) == expected


def test_an_abandoned_swap_leaves_the_log_as_it_was(log: PartitionLog) -> None:
    before = [bytes(batch) for batch in iterate(log)]
    swap = cleaned(log, 0, 10)
    swap.prepare()
    swap.abandon()
    assert (names(log, ".swap"), names(log, ".cleaned"), names(log, ".deleted")) == ([], [], [])
    assert [bytes(batch) for batch in iterate(log)] == before
    swap.abandon()


def test_after_the_takeover_there_is_nothing_to_abandon(log: PartitionLog) -> None:
    swap = cleaned(log, 0, 10)
    swap.prepare()
    swap.take_over()
    swap.abandon()
    swap.finish()
    assert log.segments.first_offset == 0
    assert decode_records(log.read(0, 100))[0].offset == 0


def test_a_truncation_asks_for_the_cleaning_to_be_broken_off(log: PartitionLog) -> None:
    swap = cleaned(log, 40, 50)

    class Cleaning:
        def abort(self) -> None:
            swap.abandon()

    log.cleaning = Cleaning()
    log.first_dirty_offset = 55
    swap.prepare()
    log.truncate_to(45, now_ms=NOW_MS)
    assert names(log, ".swap") == []
    assert log.first_dirty_offset == 45
    assert log.log_end_offset == 45


def test_a_segment_may_be_deleted_while_it_still_has_its_swap_name(log: PartitionLog) -> None:
    swap = cleaned(log, 0, 10)
    swap.prepare()
    swap.take_over()
    log.advance_log_start_offset(20)
    swap.finish()
    assert names(log, ".swap") == []
    assert names(log, ".log")[0] == f"{20:020d}.log"


def test_a_file_left_by_an_earlier_cleaning_does_not_undo_a_swap(log: PartitionLog, tmp_path: Path) -> None:
    swap = cleaned(log, 10)
    swap.prepare()
    swap.take_over()
    (tmp_path / "t-0" / f"{0:020d}.log.cleaned").write_bytes(b"")
    assert [each.offset for each in read(tmp_path / "t-0", clean=False)] == list(range(60))
