"""What a replica on its way to another directory does when the one it is copied from is cut, or cannot be renamed."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.core.metadata.state import PartitionState
from barnabas.node.broker import replica_moves
from barnabas.node.broker.partition import Partition
from barnabas.node.broker.replica_moves import Copy, ReplicaMoves
from barnabas.node.storage.directory.checkpoints import RECOVERY_POINT_CHECKPOINT, read_offsets
from barnabas.node.storage.directory.log_dir import NewPartition
from barnabas.node.storage.directory.log_dirs import LogDirs
from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.placing import Appended
from barnabas.wire.batch import Record, build_batch
from barnabas.wire.errors import ErrorCode
from barnabas.wire.uuids import Uuid
from tests.support.waiting import until

NOW_MS = 1_700_000_000_000
TOPIC_ID = Uuid(bytes(range(16)))
LED_HERE = PartitionState(
    topic_id=TOPIC_ID, topic="orders", index=0, replicas=[1], isr=[1], leader=1, leader_epoch=0, partition_epoch=0
)
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


def test_a_replica_whose_former_directory_cannot_be_renamed_is_the_new_one_after_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a disk that has become read-only: what is appended after the move is not in the former directory."""
    rename = os.rename

    def refusing(source: str, target: str) -> None:
        if source == str(tmp_path / "old" / "orders-0"):
            raise OSError(errno.EROFS, "Read-only file system")
        rename(source, target)

    async def scenario() -> None:
        dirs = await opened()
        old, new = dirs.dirs
        assert old.directory_id is not None
        wanted = NewPartition("orders", 0, TOPIC_ID, LogConfig(), directory_id=old.directory_id)
        [source] = await dirs.create_partitions([wanted], now_ms=NOW_MS)
        source.append(ten_records(), leader_epoch=0, now_ms=NOW_MS)
        partition = Partition(1, LED_HERE, source, 0)
        partitions: Any = {("orders", 0): partition}
        get: Any = SimpleNamespace(get=lambda *key: partitions.get(key))
        moves = ReplicaMoves(get, dirs, broker(), lambda: NOW_MS, UNLIMITED, 1)
        monkeypatch.setattr(os, "rename", refusing)
        moves.ask("orders", 0, new.path, ErrorCode.NONE)
        await until(lambda: partition.log is not source)
        partition.append(ten_records(), 1, NOW_MS)
        await moves.stop()
        await dirs.close(clean=False)
        monkeypatch.undo()

        again = await opened(home_of=lambda *key: new.directory_id)
        [log] = list(again)
        assert (Path(log.directory).parent.name, log.log_end_offset) == ("new", 20)
        await again.close(clean=False)

    async def opened(home_of: Any = lambda *key: None) -> LogDirs:
        dirs = LogDirs([tmp_path / "old", tmp_path / "new"])
        dirs.identify("cluster", 1)
        dirs.begin()
        await dirs.load(lambda topic: LogConfig(), now_ms=NOW_MS, home_of=home_of)
        return dirs

    def broker() -> Any:
        async def assign_replicas(_: object) -> None:
            """The controller knows the new directory."""

        return SimpleNamespace(assign_replicas=assign_replicas)

    asyncio.run(asyncio.wait_for(scenario(), 30))
