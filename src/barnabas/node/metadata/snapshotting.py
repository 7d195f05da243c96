"""When an image snapshot is due, how it is written without holding up the loop, and what it makes superfluous.

A snapshot is due after so many bytes of records, or so much time with at least one record; and earlier if the records
have become twice as much as the last snapshot, because a start has to replay them. It is encoded from a copy of
the image in small slices between other work, written and fsynced beside, and renamed into place. The newest and the one
before are kept, with the log from the latter on: should the newest be damaged, nothing is lost.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from barnabas.core.metadata.records import KRAFT_VERSION
from barnabas.core.metadata.snapshot import snapshot
from barnabas.core.metadata.state import MetadataImage
from barnabas.node.metadata.load import LoadedMetadata
from barnabas.node.metadata.log import MetadataLog
from barnabas.node.metadata.snapshots import PARTIAL_SUFFIX, SnapshotFraming, SnapshotId, list_snapshots
from barnabas.node.storage.files import fsync_path, unlink_all
from barnabas.wire.records.raft import KRaftVersionRecord, VotersRecord
from barnabas.wire.schema import Record

log = logging.getLogger(__name__)

RECORDS_PER_SLICE = 64
SNAPSHOTS_KEPT = 2
BYTES_REPLAYED_EASILY = 512 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPolicy:
    """`metadata.log.max.record.bytes.between.snapshots` and `metadata.log.max.snapshot.interval.ms` (0 is never)."""

    max_bytes_between: int = 20 * 1024 * 1024
    max_interval_ms: int = 3_600_000


class Snapshotting:
    def __init__(
        self,
        loaded: LoadedMetadata,
        metadata_log: MetadataLog,
        clock: Callable[[], int],
        policy: SnapshotPolicy,
        wake: Callable[[], None],
    ) -> None:
        self._directory = loaded.directory
        self._log = metadata_log
        self._clock = clock
        self._policy = policy
        self._wake = wake
        self._bytes = loaded.bytes_since_snapshot
        self._timestamp_ms = loaded.timestamp_ms
        self._latest = loaded.snapshot_id or SnapshotId(0, 0)
        self._latest_bytes = loaded.snapshot_bytes
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._due = False
        self._superfluous = False

    def committed(self, count: int) -> None:
        """`count` more bytes were committed."""
        self._bytes += count
        self._timestamp_ms = self._clock()
        enough = max(BYTES_REPLAYED_EASILY, 2 * self._latest_bytes)
        if self._bytes >= min(enough, self._policy.max_bytes_between):
            self._due = True
            self._wake()
        elif self._timer is None and self._policy.max_interval_ms > 0:
            self._timer = asyncio.get_running_loop().call_later(self._policy.max_interval_ms / 1000, self._time_is_up)

    def _time_is_up(self) -> None:
        self._timer = None
        self._due = True
        self._wake()

    def proceed(self, image: MetadataImage, voters: VotersRecord | None) -> None:
        """Starts and finishes what is due; called while nobody else is at work on the log, with all of it committed."""
        if self._superfluous:
            self._superfluous = False
            self._clean_up()
        if not self._due or self._task is not None or image.transaction is not None:
            return
        self._due = False
        self._bytes = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if image.offset + 1 > self._latest.end_offset:
            self._log.roll()
            self._task = asyncio.create_task(self._write(image.copy(), voters), name="metadata-snapshot")

    def _clean_up(self) -> None:
        snapshots = list_snapshots(self._directory)
        if len(snapshots) >= SNAPSHOTS_KEPT:
            self._log.delete_before(snapshots[SNAPSHOTS_KEPT - 1].end_offset)
            unlink_all(str(self._directory / each.file_name) for each in snapshots[SNAPSHOTS_KEPT:])

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _write(self, image: MetadataImage, voters: VotersRecord | None) -> None:
        snapshot_id = SnapshotId(image.offset + 1, image.epoch)
        try:
            parts = await self._encode(snapshot_id, image, voters)
            path = self._directory / snapshot_id.file_name
            await asyncio.get_running_loop().run_in_executor(None, _write_file, path, parts)
        except OSError as error:
            log.error("The metadata snapshot %s could not be written: %s", snapshot_id.file_name, error)
        else:
            self._latest, self._latest_bytes = snapshot_id, sum(map(len, parts))
            self._superfluous = True
            self._wake()
        finally:
            self._task = None

    async def _encode(self, snapshot_id: SnapshotId, image: MetadataImage, voters: VotersRecord | None) -> list[bytes]:
        framing = SnapshotFraming(snapshot_id.epoch, self._clock(), image.metadata_version)
        control: list[Record] = []
        if voters is not None:
            control = [KRaftVersionRecord(k_raft_version=image.features.get(KRAFT_VERSION, 0)), voters]
        parts = [framing.header(control, self._timestamp_ms)]
        records = snapshot(image)
        while piece := list(islice(records, RECORDS_PER_SLICE)):
            parts.append(framing.records(piece))
            await asyncio.sleep(0)
        parts.append(framing.footer())
        return parts


def _write_file(path: Path, parts: list[bytes]) -> None:
    partial = path.with_name(path.name + PARTIAL_SUFFIX)
    with open(partial, "wb") as file:
        file.writelines(parts)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    fsync_path(str(path.parent))
