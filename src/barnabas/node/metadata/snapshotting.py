"""When an image snapshot is due, how it is written without holding up the loop, and what it makes superfluous.

A snapshot is due after so many bytes of records, or so much time with at least one record; and earlier if the records
have become twice as much as the last snapshot, because a start has to replay them. It is encoded from a copy of
the image in small slices between other work, written and fsynced beside, and renamed into place. The newest and the one
before are kept, with the log from the latter on: should the newest be damaged, nothing is lost. Older ones, and the log
from the oldest of them on, are kept as long as all of it is neither too large nor too old.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from barnabas.core.metadata.snapshot import snapshot
from barnabas.core.metadata.state import MetadataImage
from barnabas.node.metadata.loader import MetadataLoader
from barnabas.node.raft.interface import Raft
from barnabas.node.raft.load import LoadedMetadata
from barnabas.node.raft.snapshots import (
    PARTIAL_SUFFIX,
    SnapshotFraming,
    SnapshotId,
    last_contained_ms,
    list_snapshots,
)
from barnabas.node.storage.directory.files import fsync_path, unlink_all
from barnabas.wire.schema import Record

log = logging.getLogger(__name__)

RECORDS_PER_SLICE = 64
SNAPSHOTS_KEPT = 2
BYTES_REPLAYED_EASILY = 512 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPolicy:
    """`metadata.log.max.record.bytes.between.snapshots` and `metadata.log.max.snapshot.interval.ms` (0 is never);
    `metadata.max.retention.bytes` and `.ms` (below 0 is without a limit)."""

    max_bytes_between: int = 20 * 1024 * 1024
    max_interval_ms: int = 3_600_000
    retention_bytes: int = 100 * 1024 * 1024
    retention_ms: int = 7 * 24 * 3_600_000


class Snapshotting:
    def __init__(
        self,
        loaded: LoadedMetadata,
        loader: MetadataLoader,
        raft: Raft,
        clock: Callable[[], int],
        policy: SnapshotPolicy,
    ) -> None:
        self._directory = loaded.directory
        self._loader = loader
        self._raft = raft
        self._clock = clock
        self._policy = policy
        self._bytes = loaded.bytes_since_snapshot
        self._timestamp_ms = loaded.timestamp_ms
        self._latest = loaded.snapshot_id or SnapshotId(0, 0)
        self._latest_bytes = loaded.snapshot_bytes
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._due = False
        self._started = False
        loader.on_replayed = self._replayed

    def start(self) -> None:
        """Once the node has registered: a start is not kept waiting by a snapshot."""
        self._started = True
        self._consider()

    def _replayed(self, size_bytes: int, timestamp_ms: int) -> None:
        self._bytes += size_bytes
        self._timestamp_ms = timestamp_ms
        if self._started:
            self._consider()

    def _consider(self) -> None:
        enough = max(BYTES_REPLAYED_EASILY, 2 * self._latest_bytes)
        if self._bytes >= min(enough, self._policy.max_bytes_between):
            self._begin_soon()
        elif self._timer is None and self._policy.max_interval_ms > 0:
            self._timer = asyncio.get_running_loop().call_later(self._policy.max_interval_ms / 1000, self._time_is_up)

    def _time_is_up(self) -> None:
        self._timer = None
        self._begin_soon()

    def _begin_soon(self) -> None:
        if not self._due:
            self._due = True
            self._raft.between_writes(self._begin)

    def _begin(self) -> None:
        """While nobody writes to the log, so that a segment of its own begins with what the snapshot does not hold."""
        image = self._loader.image
        if self._task is not None:
            return  # it begins when that one is written
        self._due = False
        if image.transaction is not None:
            return  # the end of the transaction brings it up again
        self._bytes = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if image.offset + 1 > self._latest.end_offset:
            self._raft.log.roll()
            self._task = asyncio.get_running_loop().create_task(self._write(image.copy()), name="metadata-snapshot")

    def _clean_up(self) -> None:
        snapshots = list_snapshots(self._directory)
        if len(snapshots) >= SNAPSHOTS_KEPT:
            kept = self._count_kept(snapshots)
            self._raft.snapshots_kept_from(snapshots[kept - 1])
            self._raft.log.delete_before(snapshots[kept - 1].end_offset)
            unlink_all(str(self._directory / each.file_name) for each in snapshots[kept:])

    def _count_kept(self, snapshots: Sequence[SnapshotId]) -> int:
        """How many of them, the newest first: no snapshot is kept behind one that must go."""
        policy, oldest_ms = self._policy, self._clock() - self._policy.retention_ms
        kept = SNAPSHOTS_KEPT
        for snapshot_id in snapshots[SNAPSHOTS_KEPT:]:
            if 0 <= policy.retention_bytes < kept_bytes(self._directory, snapshot_id):
                break
            if policy.retention_ms >= 0 and last_contained_ms(self._directory / snapshot_id.file_name) < oldest_ms:
                break
            kept += 1
        return kept

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _write(self, image: MetadataImage) -> None:
        snapshot_id = SnapshotId(image.offset + 1, image.epoch)
        try:
            parts = await self._encode(snapshot_id, image, self._raft.snapshot_voters(snapshot_id))
            path = self._directory / snapshot_id.file_name
            await asyncio.get_running_loop().run_in_executor(None, _write_file, path, parts)
        except OSError as error:
            log.error("could not write the metadata snapshot %s: %s", snapshot_id.file_name, error)
        else:
            self._latest, self._latest_bytes = snapshot_id, sum(map(len, parts))
            self._raft.snapshot_written(snapshot_id)
            self._raft.between_writes(self._clean_up)
        finally:
            self._task = None
            if self._due:
                self._raft.between_writes(self._begin)

    async def _encode(self, snapshot_id: SnapshotId, image: MetadataImage, control: Sequence[Record]) -> list[bytes]:
        framing = SnapshotFraming(snapshot_id.epoch, self._clock(), image.metadata_version)
        parts = [framing.header(control, self._timestamp_ms)]
        records = snapshot(image)
        while piece := list(islice(records, RECORDS_PER_SLICE)):
            parts.append(framing.records(piece))
            await asyncio.sleep(0)
        parts.append(framing.footer())
        return parts


def kept_bytes(directory: Path, oldest: SnapshotId) -> int:
    """How large the log and the snapshots are from this one on."""
    segments = sorted((int(path.stem), path.stat().st_size) for path in directory.glob("*.log"))
    ends = [*(start for start, _ in segments[1:]), oldest.end_offset + 1]
    size = sum(size for (_, size), end in zip(segments, ends, strict=True) if end > oldest.end_offset)
    kept = (each for each in list_snapshots(directory) if each >= oldest)
    return size + sum((directory / each.file_name).stat().st_size for each in kept)


def _write_file(path: Path, parts: list[bytes]) -> None:
    partial = path.with_name(path.name + PARTIAL_SUFFIX)
    with open(partial, "wb") as file:
        file.writelines(parts)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    fsync_path(str(path.parent))
