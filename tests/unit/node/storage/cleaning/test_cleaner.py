"""The node's side of the cleaner, with a process that says what the test wants."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pytest

from barnabas.node.storage.cleaning import cleaner as module
from barnabas.node.storage.cleaning.child import Throttle
from barnabas.node.storage.cleaning.cleaner import Cleaner, CleanerSettings
from barnabas.node.storage.cleaning.job import CleanedGroup, Failed, Finished, Job, Message
from barnabas.node.storage.cleaning.swap import Swap
from barnabas.node.storage.directory.log_dir import LogDir
from barnabas.node.storage.directory.log_dirs import LogDirs
from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.log_opening import create_log
from barnabas.node.storage.origin import Origin
from barnabas.node.storage.producer_state import ABORT_MARKER, MARKER_KEY, MARKER_VALUE
from barnabas.wire.batch import Record, build_batch, read_header
from tests.support.waiting import until

NOW_MS = 1_700_000_000_000
CONFIG = LogConfig(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0, file_delete_delay_ms=0)
Says = Callable[[Job], AsyncGenerator[Message, None]]


class FakeProcess:
    """Takes jobs and says about each what `says` yields; being killed ends it."""

    says: Says
    jobs: list[Job]

    def __init__(self) -> None:
        self.killed = asyncio.Event()
        self.idle_s = 0.0

    async def run(self, job: Job) -> AsyncGenerator[Message, None]:
        self.killed.clear()
        FakeProcess.jobs.append(job)
        async for message in FakeProcess.says(job):
            yield message
            if self.killed.is_set():
                return

    def kill(self) -> None:
        self.killed.set()

    async def end(self) -> None:
        self.killed.set()


class House:
    def __init__(self, root: Path) -> None:
        self.now_ms = NOW_MS
        self.dirs = LogDirs([root])
        self.directory: LogDir = self.dirs.dirs[0]
        self.replicas: list[SimpleNamespace] = []

    def add(self, topic: str, config: LogConfig = CONFIG) -> PartitionLog:
        """A log with a closed segment of two records and an active one."""
        log = create_log(
            self.directory.directory_of(topic, 0), topic, 0, config, now_ms=NOW_MS, background=self.directory
        )
        for _ in range(2):
            log.append(build_batch([Record(0, NOW_MS, b"k", b"v")]), leader_epoch=0, now_ms=NOW_MS)
        log.roll(now_ms=NOW_MS)
        self.directory.logs[topic, 0] = log
        self.replicas.append(SimpleNamespace(log=log, last_stable_offset=2))
        return log

    def cleaner(self, **settings: object) -> Cleaner:
        return Cleaner(
            self.replicas,  # type: ignore[arg-type]
            self.dirs.dirs,
            lambda: self.now_ms,
            CleanerSettings(**{"backoff_ms": 10} | settings),  # type: ignore[arg-type]
        )

    def checkpoint(self) -> str:
        path = Path(self.directory.path) / "cleaner-offset-checkpoint"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., None]:
    def run_story(says: Says, story: Callable[[House], Awaitable[None]]) -> None:
        FakeProcess.says, FakeProcess.jobs = staticmethod(says), []  # type: ignore[assignment]

        async def main() -> None:
            house = House(tmp_path)
            await story(house)
            await house.dirs.close(clean=False)

        with patch.object(module, "CleanerProcess", FakeProcess):
            asyncio.run(main())

    return run_story


async def finished(job: Job) -> AsyncGenerator[Message, None]:
    yield Finished(end_offset=job.first_uncleanable_offset)


def abort_of(producer_id: int) -> bytearray:
    record = Record(0, NOW_MS, MARKER_KEY.pack(0, ABORT_MARKER), MARKER_VALUE.pack(0, 0))
    return build_batch([record], producer_id=producer_id, producer_epoch=0, transactional=True, control=True)


def fails(**failed: object) -> Says:
    async def says(job: Job) -> AsyncGenerator[Message, None]:
        yield Failed(**failed)  # type: ignore[arg-type]

    return says


def test_a_cleaned_log_is_checkpointed_and_left_alone_until_it_is_dirty_again(run) -> None:
    async def story(house: House) -> None:
        log = house.add("t")
        cleaner = house.cleaner()
        cleaner.start()
        await until(lambda: house.checkpoint() == "0\n1\nt 0 2\n")
        await asyncio.sleep(0.05)
        assert len(FakeProcess.jobs) == 1
        log.append(build_batch([Record(0, NOW_MS, b"k", b"v")]), leader_epoch=0, now_ms=NOW_MS)
        log.roll(now_ms=NOW_MS)
        house.replicas[0].last_stable_offset = 3
        await until(lambda: house.checkpoint() == "0\n1\nt 0 3\n")
        assert FakeProcess.jobs[1].first_dirty_offset == 2
        await cleaner.stop()

    run(finished, story)


def test_the_checkpoint_of_an_earlier_life_counts(run) -> None:
    async def story(house: House) -> None:
        log = house.add("t")
        (Path(house.directory.path) / "cleaner-offset-checkpoint").write_text("0\n2\nt 0 2\ngone 4 17\n")
        cleaner = house.cleaner()
        cleaner.start()
        assert log.first_dirty_offset == 2
        await asyncio.sleep(0.05)
        assert FakeProcess.jobs == []
        await cleaner.stop()
        assert house.checkpoint() == "0\n1\nt 0 2\n"

    run(finished, story)


def test_a_log_that_cannot_be_cleaned_is_said_once_and_left_alone(run, caplog) -> None:
    async def story(house: House) -> None:
        house.add("bad")
        cleaner = house.cleaner()
        cleaner.start()
        await until(lambda: bool(FakeProcess.jobs))
        await asyncio.sleep(0.05)
        assert len(FakeProcess.jobs) == 1
        assert house.directory.offline is None
        await cleaner.stop()

    with caplog.at_level(logging.ERROR):
        run(fails(reason="it is damaged"), story)
    assert [each.getMessage() for each in caplog.records] == [
        "bad-0 cannot be compacted and stays as it is: it is damaged"
    ]


def test_a_full_disk_is_waited_for(run, caplog) -> None:
    async def story(house: House) -> None:
        house.add("t")
        cleaner = house.cleaner()
        cleaner.start()
        await until(lambda: "the disk is full" in caplog.text)
        await asyncio.sleep(0.05)
        assert len(FakeProcess.jobs) == 1
        house.now_ms += 60_001
        await until(lambda: len(FakeProcess.jobs) == 2)
        assert house.directory.offline is None
        await cleaner.stop()

    run(fails(reason="No space left on device", errno=errno.ENOSPC), story)


def test_any_other_error_of_the_disk_takes_the_directory_offline(run) -> None:
    async def story(house: House) -> None:
        log = house.add("t")
        cleaner = house.cleaner()
        cleaner.start()
        await until(lambda: house.directory.offline is not None)
        assert log.offline
        await cleaner.stop()

    run(fails(reason="Input/output error", errno=errno.EIO), story)


def test_a_transaction_index_that_is_gone_is_written_before_anything_is_cleaned(run) -> None:
    async def story(house: House) -> None:
        log = house.add("orders")
        data = build_batch(
            [Record(0, NOW_MS, b"k", b"aborted")], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True
        )
        log.append(data, leader_epoch=0, now_ms=NOW_MS)
        log.append(abort_of(7), leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR)
        segment = log.active_segment
        segment.transactions.clear()
        segment.transactions.exists = False
        log.segments.suspect_transaction_indexes()
        cleaner = house.cleaner()
        cleaner.start()
        await until(lambda: bool(FakeProcess.jobs))
        assert FakeProcess.jobs[0].transaction_indexes == [2]
        assert [each.first_offset for each in segment.transactions.entries()] == [2]
        await cleaner.stop()

    run(finished, story)


def test_two_threads_never_clean_the_same_log(run) -> None:
    async def says(job: Job) -> AsyncGenerator[Message, None]:
        await asyncio.sleep(0.05)
        yield Finished(end_offset=job.first_uncleanable_offset)

    async def story(house: House) -> None:
        logs = [house.add(f"t{number}") for number in range(5)]
        cleaner = house.cleaner(threads=2)
        cleaner.start()
        await until(lambda: all(log.first_dirty_offset == 2 for log in logs))
        assert sorted(job.directory for job in FakeProcess.jobs) == sorted(log.directory for log in logs)
        assert FakeProcess.jobs[0].dedupe_bytes == 134_217_728 // 2
        await cleaner.stop()

    run(says, story)


def test_a_log_that_changes_under_it_breaks_its_cleaning_off(run) -> None:
    async def says(job: Job) -> AsyncGenerator[Message, None]:
        for suffix in (".log", ".index", ".timeindex"):
            (Path(job.directory) / f"{0:020d}{suffix}.cleaned").write_bytes(b"")
        yield CleanedGroup(base_offsets=[0], size=0, has_txn_index=False)
        yield Finished(end_offset=2)

    prepare = Swap.prepare

    async def story(house: House) -> None:
        log = house.add("t")
        loop = asyncio.get_running_loop()

        def truncated_meanwhile(swap: Swap) -> None:
            prepare(swap)
            loop.call_soon(log.truncate_to, 1)

        cleaner = house.cleaner()
        with patch.object(Swap, "prepare", truncated_meanwhile):
            cleaner.start()
            await until(lambda: log.log_end_offset == 1 and log.cleaning is None)
        await cleaner.stop()
        assert {path.suffix for path in Path(log.directory).iterdir()} & {".swap", ".cleaned"} == set()
        assert read_header(log.read(0, 1_000)).base_offset == 0
        assert house.checkpoint() == ""

    run(says, story)


def test_other_settings_take_effect_at_once(run) -> None:
    async def story(house: House) -> None:
        log = house.add("t")
        cleaner = house.cleaner(backoff_ms=3_600_000, threads=0)
        cleaner.start()
        await until(lambda: log.recovery_point == log.log_end_offset)
        assert FakeProcess.jobs == []
        cleaner.reconfigure(CleanerSettings(threads=1, dedupe_buffer_bytes=5_000_000))
        await until(lambda: bool(FakeProcess.jobs))
        assert FakeProcess.jobs[0].dedupe_bytes == 5_000_000
        await cleaner.stop()

    run(finished, story)


def test_a_cleaner_that_is_switched_off_does_nothing(run) -> None:
    async def story(house: House) -> None:
        house.add("t")
        cleaner = house.cleaner(enable=False)
        cleaner.start()
        await asyncio.sleep(0.03)
        assert FakeProcess.jobs == []
        await cleaner.stop()

    run(finished, story)


def test_topics_that_are_not_compacted_are_not_cleaned(run) -> None:
    async def story(house: House) -> None:
        house.add("deleted", LogConfig(cleanup_policy=("delete",), min_cleanable_dirty_ratio=0.0))
        cleaner = house.cleaner()
        cleaner.start()
        await asyncio.sleep(0.03)
        assert FakeProcess.jobs == []
        await cleaner.stop()

    run(finished, story)


def test_the_throttle_sleeps_off_what_is_too_much() -> None:
    slept: list[float] = []
    with patch("time.monotonic", return_value=0.0), patch("time.sleep", slept.append):
        throttle = Throttle(1_000)
        throttle(40)
        assert slept == []
        throttle(960)
    assert slept == [1.0]
