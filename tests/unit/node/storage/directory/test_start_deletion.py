"""Deletions from a log's start: in which order they reach the disk, and what recovery makes of those cut short."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from barnabas.node.storage.directory import removals, start_deletion
from barnabas.node.storage.directory.checkpoints import LOG_START_OFFSET_CHECKPOINT, read_offsets
from barnabas.node.storage.directory.files import LOG_SUFFIX, FileRange, offset_name
from barnabas.node.storage.directory.log_dir import LogDir, NewPartition
from barnabas.node.storage.directory.log_dirs import LogDirs
from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.retention import SEGMENTS_AT_ONCE, Retention
from barnabas.wire.uuids import Uuid
from tests.support.log_reading import iterate, max_timestamp
from tests.support.waiting import until

NOW_MS = 1_700_000_000_000
TOPIC_ID = Uuid(bytes(range(16)))
Build = Callable[..., bytearray]
Reopen = Callable[..., PartitionLog]


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 30))  # type: ignore[arg-type]


async def opened(path: Path) -> LogDirs:
    dirs = LogDirs([path])
    dirs.identify("cluster", 1)
    dirs.begin()
    await dirs.load(lambda topic: LogConfig(), now_ms=NOW_MS)
    return dirs


async def filled(
    dirs: LogDirs, batch: Build, *, partitions: int = 1, segments: int = 10, **config: object
) -> list[PartitionLog]:
    """Segments of ten records each."""
    settings = LogConfig(segment_bytes=len(batch(10)), **config)  # type: ignore[arg-type]
    wanted = [NewPartition("orders", index, TOPIC_ID, settings) for index in range(partitions)]
    logs = await dirs.create_partitions(wanted, now_ms=NOW_MS)
    for log in logs:
        for _ in range(segments):
            log.append(batch(10), leader_epoch=0, now_ms=NOW_MS)
    return logs


def names(directory: Path, pattern: str = "*.log") -> list[int]:
    return sorted(int(path.name[:20]) for path in directory.glob(pattern))


def start_on_disk(path: Path, partition: int = 0) -> int:
    return read_offsets(str(path), LOG_START_OFFSET_CHECKPOINT).get(("orders", partition), 0)


@pytest.mark.parametrize("by", ["retention", "DeleteRecords"])
def test_the_start_is_on_the_disk_before_a_file_below_it_is_touched(
    by: str, tmp_path: Path, batch: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    known: list[tuple[int, int]] = []
    set_aside = start_deletion.set_aside

    def noting(log: PartitionLog, *rest: object) -> None:
        known.append((start_on_disk(tmp_path), min(names(tmp_path / "orders-0"))))
        set_aside(log, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(start_deletion, "set_aside", noting)

    async def scenario() -> None:
        dirs = await opened(tmp_path)
        [log] = await filled(dirs, batch, retention_bytes=2 * len(batch(10)))
        if by == "retention":
            assert Retention(log, NOW_MS).delete_some(100) == 8
        else:
            log.advance_log_start_offset(85)
        assert log.log_start_offset == (80 if by == "retention" else 85)
        await until(lambda: names(tmp_path / "orders-0") == [80, 90])
        assert known == [(log.log_start_offset, 0), (log.log_start_offset, 10 * start_deletion.SEGMENTS_AT_ONCE)]
        assert [segment.base_offset for segment in log.segments] == [80, 90]
        await dirs.close(clean=False)

    run(scenario)


def test_many_logs_share_the_writing_of_their_starts(
    tmp_path: Path, batch: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    write = LogDir._write_checkpoint

    def counting(directory: LogDir, name: str, offsets: dict[tuple[str, int], int]) -> None:
        written.append(name)
        write(directory, name, offsets)

    monkeypatch.setattr(LogDir, "_write_checkpoint", counting)

    async def scenario() -> None:
        dirs = await opened(tmp_path)
        logs = await filled(dirs, batch, partitions=20, segments=3)
        for log in logs:
            log.advance_log_start_offset(20)
        await until(lambda: all(names(tmp_path / f"orders-{index}") == [20] for index in range(20)))
        assert written.count(LOG_START_OFFSET_CHECKPOINT) == 1
        assert {start_on_disk(tmp_path, index) for index in range(20)} == {20}
        await dirs.close(clean=False)

    run(scenario)


def test_thousands_of_segments_go_some_at_a_time(tmp_path: Path, batch: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    helpings: list[int] = []
    set_aside = start_deletion.set_aside

    def counting(log: PartitionLog, segments: list[object], *rest: object) -> None:
        helpings.append(len(segments))
        set_aside(log, segments, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(start_deletion, "set_aside", counting)
    monkeypatch.setattr(start_deletion, "SEGMENTS_AT_ONCE", 8)

    async def scenario() -> None:
        dirs = await opened(tmp_path)
        [log] = await filled(dirs, batch, segments=40, retention_bytes=0)
        # The rounds go on while the first ones' files are still there, and count nothing twice.
        retention = Retention(log, NOW_MS)
        counts = [retention.delete_some(400) for _ in range(4)]
        assert counts == [SEGMENTS_AT_ONCE, SEGMENTS_AT_ONCE, 40 - 2 * SEGMENTS_AT_ONCE, 0]
        assert log.log_start_offset == 400
        await until(lambda: names(tmp_path / "orders-0") == [400])
        assert (max(helpings), sum(helpings)) == (8, 40)
        await dirs.close(clean=True)
        assert not list((tmp_path / "orders-0").glob("*.deleted"))

    run(scenario)


def test_between_a_few_segments_there_is_a_pause_until_somebody_waits_for_the_end(
    tmp_path: Path, batch: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removals, "PAUSE_MAX_S", 60.0)
    monkeypatch.setattr(removals, "BACKLOG_S", 6000.0)

    async def scenario() -> None:
        dirs = await opened(tmp_path)
        [log] = await filled(dirs, batch, segments=40)
        log.advance_log_start_offset(400)
        await until(lambda: names(tmp_path / "orders-0")[0] > 0)
        await dirs.sync(log)  # it is the thread's next work: there is nothing else in the line
        assert names(tmp_path / "orders-0")[0] == 10 * start_deletion.SEGMENTS_AT_ONCE
        await dirs.truncate(log, 0, now_ms=NOW_MS)
        assert (log.log_start_offset, log.log_end_offset, names(tmp_path / "orders-0")) == (0, 0, [0])
        await dirs.close(clean=True)

    run(scenario)


def test_records_that_come_below_the_former_start_are_not_taken_for_deleted_ones(
    tmp_path: Path, batch: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log is begun anew at a lower offset while its deletion pauses."""
    monkeypatch.setattr(removals, "PAUSE_MAX_S", 60.0)
    monkeypatch.setattr(removals, "BACKLOG_S", 6000.0)

    async def scenario() -> None:
        dirs = await opened(tmp_path)
        [log] = await filled(dirs, batch, segments=40)
        log.advance_log_start_offset(400)
        await until(lambda: names(tmp_path / "orders-0")[0] > 0)
        await dirs.sync(log)
        log.truncate_fully_and_start_at(25)
        for _ in range(10):
            log.append(batch(10), leader_epoch=1, now_ms=NOW_MS)
        await dirs.dirs[0].start_deletion.idle()
        assert names(tmp_path / "orders-0") == list(range(25, 125, 10))
        assert (log.log_start_offset, log.log_end_offset) == (25, 125)
        await dirs.close(clean=True)

    run(scenario)


def test_what_a_stop_interrupts_goes_after_the_next_start(tmp_path: Path, batch: Build) -> None:
    async def scenario() -> None:
        dirs = await opened(tmp_path)
        [log] = await filled(dirs, batch)
        await dirs.dirs[0].start_deletion.stop()
        log.append(batch(10, timestamp=NOW_MS - 5), leader_epoch=0, now_ms=NOW_MS)
        log.advance_log_start_offset(75)
        greatest = max_timestamp(log)
        assert greatest is not None
        assert greatest.offset >= 70  # and not of a segment that is about to go
        await dirs.close(clean=True)
        assert names(tmp_path / "orders-0") == list(range(0, 110, 10))

        again = await opened(tmp_path)
        found = again.get("orders", 0)
        assert found is not None
        assert (found.log_start_offset, found.log_end_offset) == (75, 110)
        assert Retention(found, NOW_MS).delete_some(110) == 0
        await until(lambda: names(tmp_path / "orders-0") == [70, 80, 90, 100])
        await again.close(clean=True)

    run(scenario)


def test_a_partition_that_is_deleted_meanwhile_harms_nobody(tmp_path: Path, batch: Build) -> None:
    async def scenario() -> None:
        dirs = await opened(tmp_path)
        first, second = await filled(dirs, batch, partitions=2)
        first.advance_log_start_offset(95)
        second.advance_log_start_offset(95)
        dirs.dir_of(first).remove(first)
        await until(lambda: names(tmp_path / "orders-1") == [90])
        assert dirs.dirs[0].offline is None
        await dirs.close(clean=True)

    run(scenario)


def test_who_still_sends_a_deleted_segment_finds_its_bytes_under_either_name(tmp_path: Path, batch: Build) -> None:
    async def scenario() -> None:
        dirs = await opened(tmp_path)
        [log] = await filled(dirs, batch)
        answer = log.fetch(0, 1 << 20, upper_bound_offset=100, min_one_batch=True, eager_bytes=0)
        assert isinstance(answer, FileRange)
        whole = log.read(0, 1 << 20)
        [segment] = log.give_up_segments(10)
        renamed = segment.mark_deleted()
        assert answer.read(0, len(answer)) == whole
        for old, new in renamed:
            (tmp_path / "orders-0" / old).rename(tmp_path / "orders-0" / new)
        assert answer.read(0, len(answer)) == whole
        Path(segment.file.path).unlink()
        with pytest.raises(FileNotFoundError):
            answer.read(0, len(answer))
        await dirs.close(clean=False)

    run(scenario)


def cut_short(directory: Path, *gone: int) -> None:
    """A crash has kept the renames of these segments alone."""
    for base_offset in gone:
        for path in list(directory.glob(f"{base_offset:020d}.*")):
            if path.suffix != ".snapshot":
                path.rename(f"{path}.deleted")


def left_uncleanly(create: Reopen, batch: Build, *, segments: int) -> None:
    """A log with ten records in each segment."""
    log = create(segment_bytes=len(batch(10)))
    for _ in range(segments):
        log.append(batch(10), leader_epoch=0, now_ms=NOW_MS)
    log.close(clean=False)


def test_segments_below_the_start_that_came_back_are_no_part_of_the_log(
    create: Reopen, reopen: Reopen, batch: Build, directory: Path
) -> None:
    """The renames of 20 and 30 reached the disk, those of 0 and 10 did not."""
    left_uncleanly(create, batch, segments=8)
    cut_short(directory, 20, 30)
    again = reopen(recovery_point=60, log_start_offset=45, segment_bytes=len(batch(10)))
    assert (again.log_start_offset, again.log_end_offset) == (45, 80)
    assert names(directory) == [40, 50, 60, 70]
    assert len(list(iterate(again))) == 4
    assert not list(directory.glob("*.deleted"))
    again.close(clean=False)


def test_a_torn_segment_below_the_start_takes_nothing_with_it(
    create: Reopen, reopen: Reopen, batch: Build, directory: Path
) -> None:
    """It was given up before its turn to be synced came; what follows it was synced."""
    left_uncleanly(create, batch, segments=4)
    os.truncate(directory / offset_name(10, LOG_SUFFIX), 30)
    again = reopen(recovery_point=5, log_start_offset=20, segment_bytes=len(batch(10)))
    assert (again.log_start_offset, again.log_end_offset) == (20, 40)
    assert names(directory) == [20, 30]
    again.close(clean=False)


def test_without_a_known_start_nothing_behind_a_hole_is_given_up(
    create: Reopen, reopen: Reopen, batch: Build, directory: Path
) -> None:
    left_uncleanly(create, batch, segments=6)
    cut_short(directory, 20)
    again = reopen(recovery_point=60, segment_bytes=len(batch(10)))
    assert (again.log_start_offset, again.log_end_offset) == (0, 60)
    again.close(clean=False)
