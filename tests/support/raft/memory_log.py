"""A log in memory with a disk beneath it: what was not flushed may be lost, or torn, when the power goes.

Every batch knows the digest of the whole log up to its end, so two logs are compared at an offset by comparing two
numbers. A snapshot holds the digest at its end.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from barnabas.core.raft import EpochEnd, SnapshotId, SnapshotVoters, end_offset_for_epoch
from barnabas.core.raft.log import FIRST_SNAPSHOT
from barnabas.core.raft.records import build_batch, build_control_batch
from barnabas.wire import batch as wire
from barnabas.wire.records.raft import SnapshotFooterRecord, SnapshotHeaderRecord
from barnabas.wire.schema import Buffer


class Batch(NamedTuple):
    base_offset: int
    end_offset: int
    epoch: int
    data: bytes
    digest: int


@dataclass(frozen=True, slots=True)
class Image:
    """The files at one moment."""

    version: int
    start_offset: int
    batches: tuple[Batch, ...]

    @property
    def end_offset(self) -> int:
        return self.batches[-1].end_offset if self.batches else self.start_offset


class MemoryLog:
    def __init__(self) -> None:
        self.start_offset = 0
        self.snapshots: dict[SnapshotId, bytes] = {}
        self.flushes = 0
        self._batches: list[Batch] = []
        self._partial: tuple[SnapshotId, bytearray] | None = None
        # The files as the disk surely has them, and how they looked after each write since.
        self._durable = Image(0, 0, ())
        self._unflushed: list[Image] = []
        self._version = 0

    # What a replica sees.

    @property
    def end_offset(self) -> int:
        return self._batches[-1].end_offset if self._batches else self.start_offset

    @property
    def last_epoch(self) -> int:
        if self._batches:
            return self._batches[-1].epoch
        latest = self.latest_snapshot
        return latest.epoch if latest is not None else 0

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        starts: list[tuple[int, int]] = []
        for batch in self._batches:
            if not starts or starts[-1][0] != batch.epoch:
                starts.append((batch.epoch, batch.base_offset))
        return end_offset_for_epoch(
            starts,
            epoch,
            end_offset=self.end_offset,
            last_epoch=self.last_epoch,
            earliest_snapshot=self.earliest_snapshot,
        )

    def read(self, offset: int, max_bytes: int) -> bytes:
        found: list[bytes] = []
        size = 0
        for batch in self._batches[self._index(offset) :]:
            if found and size + len(batch.data) > max_bytes:
                break
            found.append(batch.data)
            size += len(batch.data)
        return b"".join(found)

    def append(self, batches: Buffer) -> None:
        data = bytes(batches)
        for position, header in wire.iterate_batches(data):
            assert header.base_offset == self.end_offset, f"{header.base_offset} behind {self.end_offset}"
            piece = data[position : position + header.size]
            digest = zlib.crc32(piece, self.digest_at(self.end_offset))
            self._batches.append(Batch(header.base_offset, header.last_offset + 1, header.leader_epoch, piece, digest))
        self._written()

    def truncate(self, offset: int) -> None:
        index = self._index(offset)
        assert index == len(self._batches) or self._batches[index].base_offset == offset, "not at the end of a batch"
        del self._batches[index:]
        self._written()

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return max(self.snapshots, default=None)

    @property
    def earliest_snapshot(self) -> SnapshotId | None:
        return min(self.snapshots, default=None)

    def snapshot_size(self, snapshot_id: SnapshotId) -> int | None:
        data = self.snapshots.get(snapshot_id)
        return len(data) if data is not None else None

    def read_snapshot(self, snapshot_id: SnapshotId, position: int, max_bytes: int) -> bytes:
        return self.snapshots[snapshot_id][position : position + max_bytes]

    def write_snapshot(self, snapshot_id: SnapshotId, position: int, data: Buffer) -> None:
        if position == 0:
            self._partial = (snapshot_id, bytearray())
        assert self._partial is not None
        assert self._partial[0] == snapshot_id
        assert len(self._partial[1]) == position
        self._partial[1].extend(data)

    def start_at_snapshot(self, snapshot_id: SnapshotId) -> None:
        assert snapshot_id in self.snapshots, "the snapshot is not frozen"
        self.start_offset, self._batches = snapshot_id.end_offset, []
        self._forget_snapshots_before(snapshot_id)
        self._written()

    # What the driver does.

    def image(self) -> Image:
        return Image(self._version, self.start_offset, tuple(self._batches))

    def flush(self, image: Image) -> None:
        """The files reach the disk as they were when the flush began, or later."""
        if image.version >= self._durable.version:
            self._durable = image
            self._unflushed = [each for each in self._unflushed if each.version > image.version]
        self.flushes += 1

    def prepare_freeze(self, snapshot_id: SnapshotId) -> Callable[[], None]:
        partial, self._partial = self._partial, None
        assert partial is not None
        assert partial[0] == snapshot_id

        def freeze() -> None:
            self.snapshots[snapshot_id] = bytes(partial[1])

        return freeze

    def add_snapshot(self, snapshot_id: SnapshotId, voters: SnapshotVoters, now_ms: int) -> None:
        digest = self.digest_at(snapshot_id.end_offset)
        self.snapshots[snapshot_id] = build_snapshot(snapshot_id, voters, digest, now_ms)

    def delete_before(self, snapshot_id: SnapshotId) -> None:
        """The log starts at this snapshot now."""
        if snapshot_id.end_offset > self.end_offset or snapshot_id.end_offset <= self.start_offset:
            return
        self._batches = self._batches[self._index(snapshot_id.end_offset) :]
        self.start_offset = snapshot_id.end_offset
        self._forget_snapshots_before(snapshot_id)
        self._durable = _starting_at(self._durable, self.start_offset)
        self._unflushed = [_starting_at(each, self.start_offset) for each in self._unflushed]

    def stop(self, random: Random | None) -> None:
        """The process ends; with `random` the power goes, too, and what was not flushed is there in part."""
        self._partial = None
        if random is not None:
            images = [self._durable, *self._unflushed]
            kept = images[random.randrange(len(images))]
            if kept is not self._durable and kept.batches and random.random() < 0.3:
                kept = _torn(kept, self._durable)
            self.start_offset, self._batches = kept.start_offset, list(kept.batches)
            self._durable, self._unflushed = kept, []
        latest = self.latest_snapshot
        if latest in (None, FIRST_SNAPSHOT):
            return
        assert latest is not None
        if (latest.epoch, latest.end_offset) > (self._log_epoch, self.end_offset):
            self.start_at_snapshot(latest)

    # What the judges see.

    def digest_at(self, offset: int) -> int:
        """The digest of everything below `offset`, which is the end of a batch, or where a snapshot ends."""
        if offset == self.start_offset:
            return self._digest_at_start()
        batch = self._batches[self._index(offset - 1)]
        assert batch.end_offset == offset, f"{offset} is not the end of a batch"
        return batch.digest

    def has_durably(self, offset: int, digest: int) -> bool:
        """Would the log agree up to `offset` after the power went, whatever is lost?"""
        if any(each.end_offset >= offset for each in self.snapshots if each != FIRST_SNAPSHOT):
            return True
        image = self._durable
        if offset == image.start_offset:
            return True
        return any(batch.end_offset == offset and batch.digest == digest for batch in image.batches)

    def boundaries(self, after: int, up_to: int) -> list[Batch]:
        return [batch for batch in self._batches[self._index(after) :] if batch.end_offset <= up_to]

    @property
    def _log_epoch(self) -> int:
        return self._batches[-1].epoch if self._batches else 0

    def _digest_at_start(self) -> int:
        if self.start_offset == 0:
            return 0
        for snapshot_id, data in self.snapshots.items():
            if snapshot_id.end_offset == self.start_offset:
                return snapshot_digest(data)
        raise AssertionError(f"no snapshot ends where the log starts, at {self.start_offset}")

    def _index(self, offset: int) -> int:
        return bisect_right(self._batches, offset, key=lambda batch: batch.end_offset)

    def _written(self) -> None:
        self._version += 1
        self._unflushed.append(self.image())

    def _forget_snapshots_before(self, snapshot_id: SnapshotId) -> None:
        self.snapshots = {each: data for each, data in self.snapshots.items() if each >= snapshot_id}


def build_snapshot(snapshot_id: SnapshotId, voters: SnapshotVoters, digest: int, now_ms: int) -> bytes:
    header = [SnapshotHeaderRecord(), *voters.records]
    head = build_control_batch(header, base_offset=0, epoch=snapshot_id.epoch, now_ms=now_ms)
    middle = build_batch([str(digest).encode()], base_offset=len(header), epoch=snapshot_id.epoch, now_ms=now_ms)
    footer = [SnapshotFooterRecord()]
    tail = build_control_batch(footer, base_offset=len(header) + 1, epoch=snapshot_id.epoch, now_ms=now_ms)
    return head + middle + tail


def snapshot_digest(data: bytes) -> int:
    positions = [position for position, _ in wire.iterate_batches(data)]
    (record,) = wire.decode_records(data, positions[1])
    return int(record.value or b"")


def _torn(image: Image, durable: Image) -> Image:
    """The last batch of `image` is not whole, unless the disk had it before."""
    if image.batches[-1] in durable.batches:
        return image
    return Image(image.version, image.start_offset, image.batches[:-1])


def _starting_at(image: Image, offset: int) -> Image:
    if image.end_offset < offset:
        return image  # When it is opened, the snapshot is ahead of it.
    return Image(image.version, offset, tuple(batch for batch in image.batches if batch.base_offset >= offset))
