"""The files of a replica as `core/raft` sees them: the log, the snapshots beside it, and `quorum-state`.

Nothing waits for the disk but what runs on the flusher's thread: the results of `prepare_flush` and `prepare_freeze`,
and `write_quorum_state`. A snapshot that is being fetched is a `.part` file, another one each time it is begun; frozen,
it has its name and is on the disk, and only then the log before it goes. If a crash comes between the two, the next
start finds a snapshot ahead of the log and begins behind it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from pathlib import Path
from typing import NamedTuple

from barnabas.core import raft
from barnabas.core.raft import EpochEnd, QuorumState, end_offset_for_epoch
from barnabas.node.raft.log import MetadataLog, MetadataLogConfig, log_config
from barnabas.node.raft.quorum_state import read_quorum_state, write_quorum_state
from barnabas.node.raft.snapshots import PARTIAL_SUFFIX, SnapshotId, list_snapshots
from barnabas.node.storage.directory.files import fsync_path, unlink_all, write_fully
from barnabas.node.storage.directory.flush_task import FlushTask
from barnabas.node.storage.directory.partition_metadata import write_partition_metadata
from barnabas.node.storage.log_opening import open_log
from barnabas.wire.errors import KafkaError
from barnabas.wire.schema import Buffer
from barnabas.wire.uuids import Uuid


class _Partial(NamedTuple):
    """A snapshot that is being fetched."""

    id: raft.SnapshotId
    path: Path
    file: int


class ReplicaLog:
    def __init__(
        self,
        directory: Path,
        metadata_log: MetadataLog,
        clock: Callable[[], int],
        snapshots: Iterable[SnapshotId] | None = None,
    ) -> None:
        """`snapshots` are those that can be read; without them all are."""
        self.directory = directory
        self._metadata_log = metadata_log
        self._log = metadata_log.partition_log
        self._clock = clock
        self._snapshots = sorted(list_snapshots(directory) if snapshots is None else snapshots)
        self._partial: _Partial | None = None
        self._partials = 0  # begun so far
        self._flushing: FlushTask | None = None

    @classmethod
    def open(
        cls,
        directory: Path,
        topic: str,
        topic_id: Uuid,
        flusher: Executor,
        clock: Callable[[], int],
        config: MetadataLogConfig | None = None,
    ) -> ReplicaLog:
        """What a crash left half-done is removed, and a torn tail cut."""
        directory.mkdir(exist_ok=True)
        unlink_all(str(path) for path in directory.iterdir() if path.name.endswith(PARTIAL_SUFFIX))
        if not (directory / "partition.metadata").exists():
            write_partition_metadata(str(directory), topic_id)
        partition_log = open_log(
            directory,
            topic,
            0,
            log_config(config or MetadataLogConfig()),
            clean=False,
            recovery_point=0,
            log_start_offset=0,
            now_ms=clock(),
        )
        log = cls(directory, MetadataLog(partition_log, flusher, clock), clock)
        latest = log.latest_snapshot
        if latest is not None and (latest.epoch, latest.end_offset) > (max(log._log.epochs.latest, 0), log.end_offset):
            log.start_at_snapshot(latest)
        return log

    def close(self, *, clean: bool) -> None:
        self._drop_partial()
        self._metadata_log.close(clean=clean)

    # What a replica sees.

    @property
    def start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def last_epoch(self) -> int:
        if self._log.epochs.latest >= 0:
            return self._log.epochs.latest
        latest = self.latest_snapshot
        return latest.epoch if latest is not None else 0

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        return end_offset_for_epoch(
            self._log.epochs.entries(),
            epoch,
            end_offset=self.end_offset,
            last_epoch=self.last_epoch,
            earliest_snapshot=self.earliest_snapshot,
        )

    def read(self, offset: int, max_bytes: int) -> Buffer:
        return self._log.read(offset, max_bytes)

    def append(self, batches: Buffer) -> None:
        self._metadata_log.append(batches)

    def truncate(self, offset: int) -> None:
        try:
            self._log.truncate_to(offset, now_ms=self._clock())
        except KafkaError as error:
            raise OSError(error.message) from error

    @property
    def latest_snapshot(self) -> raft.SnapshotId | None:
        return self._snapshots[-1] if self._snapshots else None

    @property
    def earliest_snapshot(self) -> raft.SnapshotId | None:
        return self._snapshots[0] if self._snapshots else None

    def snapshot_size(self, snapshot_id: raft.SnapshotId) -> int | None:
        if snapshot_id not in self._snapshots:
            return None
        try:
            return self._path(snapshot_id).stat().st_size
        except FileNotFoundError:
            return None

    def read_snapshot(self, snapshot_id: raft.SnapshotId, position: int, max_bytes: int) -> Buffer:
        with open(self._path(snapshot_id), "rb", buffering=0) as file:
            return os.pread(file.fileno(), max_bytes, position)

    def write_snapshot(self, snapshot_id: raft.SnapshotId, position: int, data: Buffer) -> None:
        if position == 0:
            self._drop_partial()
            self._partials += 1
            end_offset, epoch = snapshot_id
            path = self.directory / f"{end_offset:020}-{epoch:010}-{self._partials}.checkpoint{PARTIAL_SUFFIX}"
            self._partial = _Partial(snapshot_id, path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644))
        assert self._partial is not None
        assert self._partial.id == snapshot_id
        write_fully(self._partial.file, memoryview(data))

    def start_at_snapshot(self, snapshot_id: raft.SnapshotId) -> None:
        kept = SnapshotId(*snapshot_id)
        gone = [each for each in self._snapshots if each != kept]
        self._snapshots = [kept]
        try:
            self._log.truncate_fully_and_start_at(
                kept.end_offset, now_ms=self._clock(), log_start_offset=kept.end_offset
            )
        except KafkaError as error:
            raise OSError(error.message) from error
        unlink_all(str(self._path(each)) for each in gone)

    def snapshot_written(self, snapshot_id: SnapshotId) -> None:
        """This node has made a snapshot of its own."""
        if snapshot_id not in self._snapshots:
            self._snapshots = sorted([*self._snapshots, snapshot_id])

    def snapshots_deleted(self, before: SnapshotId) -> None:
        self._snapshots = [each for each in self._snapshots if each >= before]

    # What the driver does.

    def read_quorum_state(self) -> QuorumState | None:
        return read_quorum_state(self.directory)

    def write_quorum_state(self, state: QuorumState) -> None:
        write_quorum_state(self.directory, state)

    def prepare_flush(self) -> Callable[[], object]:
        self._flushing = self._metadata_log.prepare_sync()
        return self._flushing.run

    def flushed(self) -> None:
        assert self._flushing is not None
        self._metadata_log.synced(self._flushing)

    def prepare_freeze(self, snapshot_id: raft.SnapshotId) -> Callable[[], object]:
        """The snapshot is whole. What is fetched from now on, even of the same one, goes to a file of its own."""
        partial, self._partial = self._partial, None
        assert partial is not None
        assert partial.id == snapshot_id

        def freeze() -> None:
            os.fsync(partial.file)
            os.close(partial.file)
            partial.path.rename(self._path(snapshot_id))
            fsync_path(str(self.directory))

        return freeze

    def _drop_partial(self) -> None:
        if self._partial is not None:
            os.close(self._partial.file)
            unlink_all([str(self._partial.path)])
            self._partial = None

    def _path(self, snapshot_id: raft.SnapshotId) -> Path:
        return self.directory / SnapshotId(*snapshot_id).file_name
