from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.node.storage.directory.log_dir import NewPartition, OnDisk
from barnabas.node.storage.directory.log_dirs import LogDirs
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.recovery import loading
from barnabas.node.storage.recovery.loading import ORDER_BYTES, ORDER_LOGS, orders_of
from barnabas.wire.batch import Record, build_batch
from barnabas.wire.uuids import Uuid

NOW_MS = 1_700_000_000_000
CONFIG = LogConfig()
Build = Callable[..., bytearray]


def replica(number: int) -> OnDisk:
    return OnDisk("t", number, f"t-{number}")


def test_large_logs_are_recovered_first_and_alone_and_small_ones_some_at_a_time() -> None:
    sizes = {replica(number): 10 for number in range(ORDER_LOGS + 3)}
    sizes |= {replica(100): ORDER_BYTES - 5, replica(101): 5 * ORDER_BYTES, replica(102): ORDER_BYTES // 2}
    orders = orders_of(sizes)
    assert [order[0] for order in orders[:3]] == [replica(101), replica(100), replica(102)]
    assert [len(order) for order in orders] == [1, 1, ORDER_LOGS, 4]
    assert sorted(each for order in orders for each in order) == sorted(sizes)


def test_every_directory_has_as_many_processes_as_are_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "INLINE_LOGS", 3)
    monkeypatch.setattr(loading, "ORDER_LOGS", 1)
    started: list[Any] = []
    start = asyncio.create_subprocess_exec

    async def counted(*arguments: Any, **options: Any) -> asyncio.subprocess.Process:
        started.append(await start(*arguments, **options))
        return started[-1]  # type: ignore[no-any-return]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", counted)
    paths = [tmp_path / "one", tmp_path / "two"]

    async def scenario() -> None:
        dirs = LogDirs(paths)
        dirs.identify("cluster", 1)
        dirs.begin()
        await dirs.load(lambda topic: CONFIG, now_ms=NOW_MS)
        logs = await dirs.create_partitions(
            [NewPartition("t", number, Uuid.random(), CONFIG) for number in range(8)], now_ms=NOW_MS
        )
        for log in logs:
            log.append(build_batch([Record(0, NOW_MS, b"k", b"v")]), leader_epoch=0, now_ms=NOW_MS)
        await dirs.close(clean=False)

        again = LogDirs(paths)
        again.begin()
        await again.load(lambda topic: CONFIG, now_ms=NOW_MS, recovery_children_per_dir=2)
        assert {log.log_end_offset for log in again} == {1}
        assert [len(each.logs) for each in again.dirs] == [4, 4]
        await again.close(clean=True)

        clean = LogDirs(paths)
        clean.begin()
        await clean.load(lambda topic: CONFIG, now_ms=NOW_MS, recovery_children_per_dir=2)
        assert {log.log_end_offset for log in clean} == {1}
        await clean.close(clean=True)

    asyncio.run(scenario())
    assert [process.returncode for process in started] == [0] * 4


async def loaded(path: Path, config: LogConfig) -> LogDirs:
    dirs = LogDirs([path])
    dirs.identify("cluster", 1)
    dirs.begin()
    await dirs.load(lambda topic: config, now_ms=NOW_MS)
    return dirs


@pytest.mark.parametrize("in_child", [False, True])
def test_what_lies_behind_a_hole_of_a_compacted_log_stays_when_it_is_compacted_no_more(
    in_child: bool, tmp_path: Path, batch: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash loses a segment's records and not the next one's. It could as well be compaction's hole, so what follows
    stays; and so it does after another crash, though then the log is known to have no such holes."""
    monkeypatch.setattr(loading, "INLINE_LOGS", 0 if in_child else 10)
    kept = LogConfig(segment_bytes=len(batch(10)))
    compacted = LogConfig(segment_bytes=len(batch(10)), cleanup_policy=("compact",))

    async def scenario() -> None:
        dirs = await loaded(tmp_path, kept)
        [log] = await dirs.create_partitions([NewPartition("orders", 0, Uuid(bytes(16)), compacted)], now_ms=NOW_MS)
        for _ in range(5):
            log.append(batch(10), leader_epoch=0, now_ms=NOW_MS)
        await dirs.close(clean=False)
        (tmp_path / "orders-0" / f"{20:020d}.log").write_bytes(b"")

        dirs = await loaded(tmp_path, compacted)
        found = dirs.get("orders", 0)
        assert found is not None
        assert (found.log_end_offset, found.recovery_point) == (50, 50)
        await dirs.close(clean=False)

        dirs = await loaded(tmp_path, kept)
        found = dirs.get("orders", 0)
        assert found is not None
        assert [segment.base_offset for segment in found.segments] == [0, 10, 20, 30, 40]
        assert (found.log_end_offset, len(found.read(30, 1 << 20))) == (50, len(batch(10)))
        await dirs.close(clean=False)

    asyncio.run(asyncio.wait_for(scenario(), 60))
