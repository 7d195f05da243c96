"""An index that is wrong or gone is written anew, by a process if the segment is large; the log goes on meanwhile."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from barnabas.node.storage.directory.background import IndexBeingRepaired, when_repaired
from barnabas.node.storage.directory.log_dir import NewPartition
from barnabas.node.storage.directory.log_dirs import LogDirs
from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.origin import Origin
from barnabas.node.storage.producer_state import ABORT_MARKER, COMMIT_MARKER
from barnabas.node.storage.recovery import index_rebuild, index_repair
from barnabas.wire.batch import Record, build_batch, read_header
from barnabas.wire.uuids import Uuid
from tests.support.log_reading import iterate, offset_for_timestamp

NOW_MS = 1_700_000_000_000
CONFIG = LogConfig(segment_bytes=20_000)
TOPIC_ID = Uuid(bytes(range(16)))
Build = Callable[..., bytearray]


@pytest.fixture(autouse=True)
def every_segment_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_repair, "HERE_BYTES", 0)


def run(scenario: Awaitable[None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 60))


async def started(path: Path) -> LogDirs:
    dirs = LogDirs([path])
    dirs.identify("cluster", 1)
    dirs.begin()
    await dirs.load(lambda topic: CONFIG, now_ms=NOW_MS)
    return dirs


def log_of(dirs: LogDirs) -> PartitionLog:
    log = dirs.get("orders", 0)
    assert log is not None
    return log


async def left_behind(path: Path, write: Callable[[PartitionLog], None], *, clean: bool = True) -> list[int]:
    """The base offsets of the segments of a log that was written and left."""
    dirs = await started(path)
    [log] = await dirs.create_partitions([NewPartition("orders", 0, TOPIC_ID, CONFIG)], now_ms=NOW_MS)
    write(log)
    bases = [segment.base_offset for segment in log.segments]
    if not clean:
        await dirs.sync(log)
        await dirs.write_checkpoints()
    await dirs.close(clean=clean)
    return bases


def forty_batches(batch: Build) -> Callable[[PartitionLog], None]:
    def write(log: PartitionLog) -> None:
        for number in range(40):
            log.append(batch(10, timestamp=NOW_MS + number, value=b"v" * 200), leader_epoch=0, now_ms=NOW_MS)

    return write


def harm(path: Path) -> bytes:
    """Every position is a little off."""
    written = path.read_bytes()
    path.write_bytes(bytes(byte ^ (at % 8 == 7) for at, byte in enumerate(written)))
    return written


def first_offset(log: PartitionLog, offset: int) -> int:
    return read_header(log.read(offset, 1)).base_offset


def test_a_read_waits_for_the_index_of_a_large_segment_and_the_others_do_not(tmp_path: Path, batch: Build) -> None:
    async def scenario() -> None:
        bases = await left_behind(tmp_path, forty_batches(batch))
        paths = [tmp_path / "orders-0" / f"{bases[1]:020d}.{suffix}" for suffix in ("index", "timeindex")]
        written = [harm(path) for path in paths]
        dirs = await started(tmp_path)
        log = log_of(dirs)
        asked = bases[2] - 5
        with pytest.raises(IndexBeingRepaired) as repaired:
            log.read(asked, 1)
        with pytest.raises(IndexBeingRepaired) as again:
            log.read(asked, 1)
        assert again.value.done is repaired.value.done, "it is done once"
        assert first_offset(log, 5) == 0
        log.append(batch(10), leader_epoch=0, now_ms=NOW_MS)
        assert await when_repaired(lambda: first_offset(log, asked)) == bases[2] - 10
        assert [path.read_bytes() for path in paths] == written
        found = offset_for_timestamp(log, NOW_MS + bases[1] // 10 + 2)
        assert found is not None
        assert found.offset == bases[1] + 20
        await dirs.close(clean=True)

    run(scenario())


def test_a_process_that_dies_leaves_its_work_to_the_node(
    tmp_path: Path, batch: Build, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        bases = await left_behind(tmp_path, forty_batches(batch))
        harm(tmp_path / "orders-0" / f"{bases[1]:020d}.index")
        dirs = await started(tmp_path)
        log = log_of(dirs)
        monkeypatch.setattr(index_rebuild, "__name__", "barnabas.no.such.module")
        assert await when_repaired(lambda: first_offset(log, bases[2] - 5)) == bases[2] - 10
        await dirs.close(clean=True)

    run(scenario())
    assert any("the process that rebuilds its index died" in message for message in caplog.messages)


def test_a_log_that_is_cut_meanwhile_takes_nothing_over(tmp_path: Path, batch: Build) -> None:
    async def scenario() -> None:
        bases = await left_behind(tmp_path, forty_batches(batch))
        harm(tmp_path / "orders-0" / f"{bases[1]:020d}.index")
        dirs = await started(tmp_path)
        log = log_of(dirs)
        with pytest.raises(IndexBeingRepaired) as repaired:
            log.read(bases[2] - 5, 1)
        log.truncate_to(bases[1] + 30)
        for number in range(5):
            log.append(batch(7, timestamp=NOW_MS + number), leader_epoch=1, now_ms=NOW_MS)
        await repaired.value.done
        expected = [*range(0, bases[1] + 30, 10), *range(bases[1] + 30, log.log_end_offset, 7)]
        assert [read_header(each).base_offset for each in iterate(log)] == expected
        await dirs.close(clean=True)
        again = await started(tmp_path)
        assert [read_header(each).base_offset for each in iterate(log_of(again))] == expected
        await again.close(clean=True)

    run(scenario())


def test_a_log_that_is_deleted_meanwhile_leaves_no_files(tmp_path: Path, batch: Build) -> None:
    async def scenario() -> None:
        bases = await left_behind(tmp_path, forty_batches(batch))
        harm(tmp_path / "orders-0" / f"{bases[1]:020d}.index")
        dirs = await started(tmp_path)
        log = log_of(dirs)
        with pytest.raises(IndexBeingRepaired) as repaired:
            log.read(bases[2] - 5, 1)
        dirs.dir_of(log).remove(log)
        [again] = await dirs.create_partitions([NewPartition("orders", 0, TOPIC_ID, CONFIG)], now_ms=NOW_MS)
        await repaired.value.done
        names = sorted(path.name for path in (tmp_path / "orders-0").iterdir())
        assert names == [f"{0:020d}.log", "partition.metadata"]
        assert again.log_end_offset == 0
        await dirs.close(clean=True)

    run(scenario())


def test_a_stop_does_not_wait_for_an_index(tmp_path: Path, batch: Build) -> None:
    async def scenario() -> None:
        bases = await left_behind(tmp_path, forty_batches(batch))
        harm(tmp_path / "orders-0" / f"{bases[1]:020d}.index")
        dirs = await started(tmp_path)
        with pytest.raises(IndexBeingRepaired) as repaired:
            log_of(dirs).read(bases[2] - 5, 1)
        await dirs.close(clean=True)
        assert repaired.value.done.cancelled()

    run(scenario())


# -- transaction indexes that are gone


def marker(kind: int) -> bytearray:
    record = Record(0, NOW_MS, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0))
    return build_batch([record], producer_id=7, producer_epoch=0, control=True, transactional=True)


def transactions(batch: Build, *kinds: int) -> Callable[[PartitionLog], None]:
    """One after the other, each of forty batches, which is more than a segment."""

    def write(log: PartitionLog) -> None:
        for slot, kind in enumerate(kinds):
            for number in range(40):
                sequence = 3 * (40 * slot + number)
                each = batch(3, pid=7, sequence=sequence, value=b"v" * 300, transactional=True)
                log.append(each, leader_epoch=0, now_ms=NOW_MS)
            log.append(marker(kind), leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR)
        for _ in range(40):
            log.append(batch(3, value=b"v" * 300), leader_epoch=0, now_ms=NOW_MS)

    return write


async def aborted_of(log: PartitionLog, size: int = 4_000) -> set[int]:
    """The first offsets of the aborted transactions that somebody hears of who reads the log in small pieces."""
    found: set[int] = set()
    offset = 0
    while offset < log.log_end_offset:
        records = log.read(offset, size)
        aborted = await when_repaired(lambda: log.aborted_in_read(offset, len(records), log.log_end_offset))  # noqa: B023
        found |= {each.first_offset for each in aborted}
        offset = read_header(records).last_offset + 1
    return found


@pytest.mark.parametrize("gone", ["the first", "all"])
def test_a_transaction_index_that_is_gone_after_a_clean_stop_is_missed(
    tmp_path: Path, batch: Build, gone: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        kinds = (ABORT_MARKER, COMMIT_MARKER, ABORT_MARKER, ABORT_MARKER)
        bases = await left_behind(tmp_path, transactions(batch, *kinds))
        paths = sorted((tmp_path / "orders-0").glob("*.txnindex"))
        assert len(paths) == 3 < len(bases)
        written = [path.read_bytes() for path in paths]
        for path in paths if gone == "all" else paths[:1]:
            path.unlink()
        dirs = await started(tmp_path)
        assert await aborted_of(log_of(dirs)) == {0, 242, 363}
        await dirs.close(clean=True)
        assert [path.read_bytes() for path in paths] == written
        caplog.clear()
        again = await started(tmp_path)
        assert await aborted_of(log_of(again)) == {0, 242, 363}
        await again.close(clean=True)
        assert caplog.messages == []

    run(scenario())


def test_one_is_missed_after_an_unclean_stop_too(tmp_path: Path, batch: Build) -> None:
    async def scenario() -> None:
        await left_behind(tmp_path, transactions(batch, ABORT_MARKER, COMMIT_MARKER, ABORT_MARKER), clean=False)
        for path in (tmp_path / "orders-0").glob("*.txnindex"):
            path.unlink()
        dirs = await started(tmp_path)
        assert log_of(dirs).recovery_point == log_of(dirs).log_end_offset
        assert await aborted_of(log_of(dirs)) == {0, 242}
        await dirs.close(clean=True)

    run(scenario())


def test_one_that_a_crash_took_is_still_missed_after_a_clean_stop(
    tmp_path: Path, batch: Build, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody reads the log in the lives between: what was in doubt stays in doubt."""

    async def scenario() -> None:
        await left_behind(tmp_path, transactions(batch, ABORT_MARKER, COMMIT_MARKER, ABORT_MARKER), clean=False)
        for path in (tmp_path / "orders-0").glob("*.txnindex"):
            path.unlink()
        for _ in range(2):
            unread = await started(tmp_path)
            await unread.close(clean=True)
            assert json.loads((tmp_path / ".kafka_cleanshutdown").read_text())["doubted"]["orders-0"] > 0
        assert caplog.messages == []
        dirs = await started(tmp_path)
        assert await aborted_of(log_of(dirs)) == {0, 242}
        await dirs.close(clean=True)
        again = await started(tmp_path)
        assert await aborted_of(log_of(again)) == {0, 242}
        await again.close(clean=True)

    run(scenario())


def test_what_was_left_complete_is_not_read_through(
    tmp_path: Path, batch: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        await left_behind(tmp_path, transactions(batch, ABORT_MARKER, COMMIT_MARKER))
        dirs = await started(tmp_path)
        monkeypatch.setattr(index_repair, "rebuild_in_child", None)
        assert await aborted_of(log_of(dirs)) == {0}
        await dirs.close(clean=True)

    run(scenario())


def test_a_log_without_transactions_is_not_read_through_for_them(
    tmp_path: Path, batch: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        await left_behind(tmp_path, forty_batches(batch), clean=False)
        dirs = await started(tmp_path)
        monkeypatch.setattr(index_repair, "rebuild_in_child", None)
        assert await aborted_of(log_of(dirs)) == set()
        await dirs.close(clean=True)

    run(scenario())


def test_what_is_aborted_after_the_loss_is_kept_beside_what_was_lost(tmp_path: Path, batch: Build) -> None:
    async def scenario() -> None:
        def write(log: PartitionLog) -> None:
            log.append(batch(3, pid=7, transactional=True), leader_epoch=0, now_ms=NOW_MS)
            log.append(marker(ABORT_MARKER), leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR)

        await left_behind(tmp_path, write)
        (path,) = (tmp_path / "orders-0").glob("*.txnindex")
        path.unlink()
        dirs = await started(tmp_path)
        log = log_of(dirs)
        for kind in (ABORT_MARKER, COMMIT_MARKER):
            sequence = log.producers.producers[7].next_sequence
            log.append(batch(3, pid=7, sequence=sequence, transactional=True), leader_epoch=0, now_ms=NOW_MS)
            log.append(marker(kind), leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR)
        assert await aborted_of(log) == {0, 4}
        await dirs.close(clean=True)
        again = await started(tmp_path)
        assert await aborted_of(log_of(again)) == {0, 4}
        await again.close(clean=True)

    run(scenario())
