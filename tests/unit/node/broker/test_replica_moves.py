"""What a replica on its way to another directory does when the one it is copied from is cut."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.node.broker import replica_moves
from barnabas.node.broker.replica_moves import Copy
from barnabas.node.storage.directory.checkpoints import RECOVERY_POINT_CHECKPOINT, read_offsets
from barnabas.node.storage.directory.log_dir import NewPartition
from barnabas.node.storage.directory.log_dirs import LogDirs
from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.placing import Appended
from barnabas.wire.batch import Record, build_batch
from barnabas.wire.uuids import Uuid

NOW_MS = 1_700_000_000_000
TOPIC_ID = Uuid(bytes(range(16)))
UNLIMITED: Any = SimpleNamespace(rest_s=0, record=lambda size: None)


def ten_records() -> bytearray:
    return build_batch([Record(number, NOW_MS, b"k", b"v") for number in range(10)])


def test_a_cut_is_on_the_disk_before_other_records_are_copied_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a crash could leave the old records there, and the recovery point would spare them from being looked at."""
    monkeypatch.setattr(replica_moves, "LAST_BYTES", 0)
    known: list[int] = []
    append = PartitionLog.append_as_follower

    async def scenario() -> None:
        dirs = LogDirs([tmp_path / "old", tmp_path / "new"])
        dirs.identify("cluster", 1)
        dirs.begin()
        await dirs.load(lambda topic: LogConfig(), now_ms=NOW_MS)
        old, new = dirs.dirs
        assert old.directory_id is not None
        wanted = NewPartition("orders", 0, TOPIC_ID, LogConfig(), directory_id=old.directory_id)
        [source] = await dirs.create_partitions([wanted], now_ms=NOW_MS)
        for _ in range(10):
            source.append(ten_records(), leader_epoch=0, now_ms=NOW_MS)
        future = await dirs.create_future(source, new, TOPIC_ID, now_ms=NOW_MS)
        partition: Any = SimpleNamespace(is_gone=False, log=source)
        copy = Copy(partition, source, future, dirs, lambda: NOW_MS)
        await copy.catch_up(UNLIMITED)
        await new.sync(future)
        await new.write_checkpoints()
        assert recovery_point() == future.log_end_offset == 100

        await dirs.truncate(source, 60, now_ms=NOW_MS)
        source.append(ten_records(), leader_epoch=1, now_ms=NOW_MS)
        monkeypatch.setattr(PartitionLog, "append_as_follower", noting)
        await copy.catch_up(UNLIMITED)
        assert (known, future.log_end_offset) == ([60], 70)

        await dirs.truncate(source, 50, now_ms=NOW_MS)
        await copy.catch_up(UNLIMITED)  # nothing is to be copied, but something may be appended later
        assert (recovery_point(), future.log_end_offset) == (50, 50)
        await dirs.close(clean=False)

    def recovery_point() -> int:
        return read_offsets(str(tmp_path / "new"), RECOVERY_POINT_CHECKPOINT)["orders", 0]

    def noting(log: PartitionLog, batches: Any, *, now_ms: int) -> Appended:
        known.append(recovery_point())
        return append(log, batches, now_ms=now_ms)

    asyncio.run(asyncio.wait_for(scenario(), 30))
