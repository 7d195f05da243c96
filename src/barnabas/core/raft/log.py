"""The log as a replica sees it, and the rule by which a leader compares a follower's log with its own.

A log is a run of whole record batches from `start_offset` to `end_offset`, each with the epoch of the leader that wrote
it, and snapshots: files that stand for everything below their end offset. If the log does not start at offset 0, a
snapshot ends at or behind its start.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from barnabas.wire.schema import Buffer


class SnapshotId(NamedTuple):
    """A snapshot of every record below `end_offset`, the last of which was written in `epoch`."""

    end_offset: int
    epoch: int


# What `kafka-storage format` writes: the voters and nothing else. It is never sent to others.
FIRST_SNAPSHOT = SnapshotId(0, 0)


class EpochEnd(NamedTuple):
    """An epoch, and the offset behind its last record."""

    epoch: int
    end_offset: int


class RaftLog(Protocol):
    """No method waits for the disk; an OSError from any of them is the end of the replica."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record; of the latest snapshot if the log is empty; 0 if there is none."""
        ...

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """`end_offset_for_epoch` below, on this log's epochs."""
        ...

    def read(self, offset: int, max_bytes: int) -> Buffer:
        """Batches from the one that holds `offset`, whole ones, at least one unless the log ends at `offset`."""
        ...

    def append(self, batches: Buffer) -> None:
        """Whole batches whose offsets begin at `end_offset`."""
        ...

    def truncate(self, offset: int) -> None:
        """The log ends at `offset` now, which is the end of a batch."""
        ...

    @property
    def latest_snapshot(self) -> SnapshotId | None: ...

    @property
    def earliest_snapshot(self) -> SnapshotId | None: ...

    def snapshot_size(self, snapshot_id: SnapshotId) -> int | None:
        """None if there is no such snapshot."""
        ...

    def read_snapshot(self, snapshot_id: SnapshotId, position: int, max_bytes: int) -> Buffer: ...

    def write_snapshot(self, snapshot_id: SnapshotId, position: int, data: Buffer) -> None:
        """A piece of a snapshot that is being fetched; position 0 begins it anew. No snapshot yet: see Ready.freeze."""
        ...

    def start_at_snapshot(self, snapshot_id: SnapshotId) -> None:
        """Drops the whole log; it is empty now and starts and ends where this (frozen) snapshot ends."""
        ...


def end_offset_for_epoch(
    epochs: Sequence[tuple[int, int]],
    epoch: int,
    *,
    end_offset: int,
    last_epoch: int,
    earliest_snapshot: SnapshotId | None,
) -> EpochEnd:
    """The greatest epoch of the log that is not above `epoch`, and where it ends.

    `epochs` are the epochs of the log in order, each with its first offset. An epoch above all of them ends nowhere
    here: the log's own end is the answer. An epoch below all of them ends where the log starts, and if the earliest
    snapshot ends there too, its epoch is the one that counts.
    """
    if not epochs or epoch > epochs[-1][0]:
        return EpochEnd(last_epoch, end_offset)
    if epoch == epochs[-1][0]:
        return EpochEnd(epoch, end_offset)
    behind = bisect_right(epochs, epoch, key=lambda entry: entry[0])
    if behind:
        return EpochEnd(epochs[behind - 1][0], epochs[behind][1])
    end = EpochEnd(epoch, epochs[0][1])
    if earliest_snapshot is not None and earliest_snapshot.end_offset == end.end_offset:
        return EpochEnd(earliest_snapshot.epoch, end.end_offset)
    return end


def compare_follower(log: RaftLog, offset: int, epoch: int) -> EpochEnd | SnapshotId | None:
    """None if a log that ends at `offset` with a record of `epoch` is the beginning of ours.

    Else where the two may still agree, or the snapshot to begin with.
    """
    latest = log.latest_snapshot
    if offset == 0 and latest is not None and latest != FIRST_SNAPSHOT:
        return latest
    if log.start_offset == 0 and offset == 0:
        return None
    earliest = log.earliest_snapshot
    if earliest is not None and latest is not None:
        start = log.start_offset
        if offset < start or (offset == start and epoch != earliest.epoch) or epoch < earliest.epoch:
            return latest
    end = log.end_offset_for_epoch(epoch)
    return end if end.epoch != epoch or end.end_offset < offset else None


def truncation_offset(log: RaftLog, diverging: EpochEnd) -> int:
    """Where a follower cuts its log when the leader's log has `diverging` as the end of the epoch in question."""
    if diverging.epoch == 0:
        return min(diverging.end_offset, log.end_offset)
    own = log.end_offset_for_epoch(diverging.epoch)
    return min(own.end_offset, diverging.end_offset) if own.epoch == diverging.epoch else own.end_offset


def is_ahead_of_log(log: RaftLog, snapshot_id: SnapshotId) -> bool:
    return (snapshot_id.epoch, snapshot_id.end_offset) > (log.last_epoch, log.end_offset)
