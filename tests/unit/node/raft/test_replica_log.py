"""The files of a replica say what the log in memory says, whatever is done to both."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from barnabas.core.raft import QuorumState, SnapshotId, SnapshotVoters
from barnabas.core.raft.records import build_batch
from barnabas.node.raft.replica_log import ReplicaLog
from barnabas.wire.uuids import ONE_UUID
from tests.support.raft.memory_log import MemoryLog

TOPIC = "__cluster_metadata"


@pytest.fixture
def flusher() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


def open_log(directory: Path, flusher: ThreadPoolExecutor) -> ReplicaLog:
    return ReplicaLog.open(directory, TOPIC, ONE_UUID, flusher, lambda: 1_000)


def assert_same(files: ReplicaLog, memory: MemoryLog) -> None:
    assert files.start_offset == memory.start_offset
    assert files.end_offset == memory.end_offset
    assert files.last_epoch == memory.last_epoch
    assert files.latest_snapshot == memory.latest_snapshot
    for epoch in range(memory.last_epoch + 2):
        assert files.end_offset_for_epoch(epoch) == memory.end_offset_for_epoch(epoch)
    if memory.end_offset > memory.start_offset:
        assert bytes(files.read(memory.start_offset, 1 << 20)) == memory.read(memory.start_offset, 1 << 20)
        last = memory.boundaries(memory.start_offset, memory.end_offset)[-1]
        assert bytes(files.read(last.base_offset, 1)) == last.data


@pytest.mark.parametrize("seed", range(5))
def test_files_and_memory_agree(tmp_path: Path, flusher: ThreadPoolExecutor, seed: int) -> None:
    random, memory, epoch = Random(seed), MemoryLog(), 1
    files = open_log(tmp_path / f"{TOPIC}-0", flusher)
    for _ in range(60):
        deed = random.choice(["append", "append", "append", "truncate", "flush", "reopen", "snapshot"])
        if deed == "append":
            epoch += random.random() < 0.3
            values = [b"value"] * random.randint(1, 3)
            batch = build_batch(values, base_offset=memory.end_offset, epoch=epoch, now_ms=1)
            memory.append(batch)
            files.append(batch)
        elif deed == "truncate":
            ends = [memory.start_offset, *(each.end_offset for each in memory.boundaries(0, memory.end_offset))]
            offset = random.choice(ends[-4:])
            memory.truncate(offset)
            files.truncate(offset)
            epoch = max(epoch, memory.last_epoch)
        elif deed == "flush":
            files.prepare_flush()()
            files.flushed()
        elif deed == "snapshot" and random.random() < 0.3:
            fetch_snapshot(files, memory, SnapshotId(memory.end_offset + 5, epoch))
        elif deed == "reopen":
            files.close(clean=False)
            files = open_log(tmp_path / f"{TOPIC}-0", flusher)
        assert_same(files, memory)
    files.close(clean=True)


def fetch_snapshot(files: ReplicaLog, memory: MemoryLog, snapshot_id: SnapshotId) -> None:
    source = MemoryLog()
    source.append(build_batch([b"v"] * snapshot_id.end_offset, base_offset=0, epoch=snapshot_id.epoch, now_ms=1))
    source.add_snapshot(snapshot_id, SnapshotVoters(0, None), 1)
    data = source.snapshots[snapshot_id]
    for log in (files, memory):
        log.write_snapshot(snapshot_id, 0, data[:40])
        log.write_snapshot(snapshot_id, 40, data[40:])
    assert files.snapshot_size(snapshot_id) is None
    files.prepare_freeze(snapshot_id)()
    memory.prepare_freeze(snapshot_id)()
    files.start_at_snapshot(snapshot_id)
    memory.start_at_snapshot(snapshot_id)
    assert files.snapshot_size(snapshot_id) == len(data)
    assert files.read_snapshot(snapshot_id, 10, 20) == data[10:30]


def test_a_snapshot_that_was_frozen_before_a_crash_is_where_the_log_begins(
    tmp_path: Path, flusher: ThreadPoolExecutor
) -> None:
    directory = tmp_path / f"{TOPIC}-0"
    files = open_log(directory, flusher)
    files.append(build_batch([b"old"], base_offset=0, epoch=1, now_ms=1))
    snapshot_id = SnapshotId(9, 2)
    files.write_snapshot(snapshot_id, 0, b"whole")
    files.prepare_freeze(snapshot_id)()
    files.close(clean=False)
    files = open_log(directory, flusher)
    assert (files.start_offset, files.end_offset, files.last_epoch) == (9, 9, 2)
    files.close(clean=True)


def test_a_snapshot_that_is_begun_anew_while_it_is_frozen_is_whole(tmp_path: Path, flusher: ThreadPoolExecutor) -> None:
    """The leader may be another before the disk has it; this one offers the snapshot of the same name."""
    directory = tmp_path / f"{TOPIC}-0"
    files = open_log(directory, flusher)
    snapshot_id = SnapshotId(9, 2)
    files.write_snapshot(snapshot_id, 0, b"whole")
    freeze = files.prepare_freeze(snapshot_id)
    files.write_snapshot(snapshot_id, 0, b"ha")
    freeze()
    assert (directory / "00000000000000000009-0000000002.checkpoint").read_bytes() == b"whole"
    files.write_snapshot(snapshot_id, 2, b"lf")
    files.prepare_freeze(snapshot_id)()
    assert (directory / "00000000000000000009-0000000002.checkpoint").read_bytes() == b"half"
    assert not list(directory.glob("*.part"))
    files.close(clean=True)


def test_half_a_snapshot_is_none(tmp_path: Path, flusher: ThreadPoolExecutor) -> None:
    directory = tmp_path / f"{TOPIC}-0"
    files = open_log(directory, flusher)
    files.write_snapshot(SnapshotId(9, 2), 0, b"half")
    files.close(clean=False)
    files = open_log(directory, flusher)
    assert files.latest_snapshot is None
    assert files.end_offset == 0
    assert not list(directory.glob("*.part"))
    files.close(clean=True)


@pytest.mark.parametrize("version", [0, 1])
def test_quorum_state_is_read_as_it_was_written(tmp_path: Path, flusher: ThreadPoolExecutor, version: int) -> None:
    files = open_log(tmp_path / f"{TOPIC}-0", flusher)
    assert files.read_quorum_state() is None
    state = QuorumState(
        leader_id=2, epoch=7, voted_id=2, static_voters=(1, 2) if version == 0 else (), data_version=version
    )
    files.write_quorum_state(state)
    assert files.read_quorum_state() == state
    files.close(clean=True)
