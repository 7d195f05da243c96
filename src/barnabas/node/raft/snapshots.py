"""Snapshot files of the metadata log, `<end offset>-<epoch>.checkpoint`: header, voters, image, footer.

The name says what is inside: every record below the end offset, the last of them written in that epoch. A file without
its footer, or with a batch that does not check, is no snapshot. `bootstrap.checkpoint` has the same framing and holds
the records that an empty log begins with.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from barnabas.core import raft
from barnabas.core.metadata.records import MetadataError
from barnabas.core.raft.records import build_control_batch
from barnabas.node.raft.batches import build_batch, read_batches
from barnabas.wire.records.raft import SnapshotFooterRecord, SnapshotHeaderRecord
from barnabas.wire.schema import Record

log = logging.getLogger(__name__)

BOOTSTRAP_FILE_NAME = "bootstrap.checkpoint"
PARTIAL_SUFFIX = ".part"
RECORDS_PER_BATCH = 128
# Enough for the first batch: the header, and the voters.
HEADER_BYTES_MAX = 256 * 1024
_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class SnapshotId(raft.SnapshotId):
    __slots__ = ()

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020}-{self.epoch:010}.checkpoint"


FIRST_SNAPSHOT = SnapshotId(0, 0)


class InvalidSnapshot(Exception):
    """Not a whole snapshot file."""


@dataclass(slots=True)
class SnapshotContent:
    size_bytes: int = 0
    last_contained_log_timestamp_ms: int = 0
    control_records: list[Record] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)


class SnapshotFraming:
    """Turns records into the bytes of a snapshot file, batch by batch."""

    def __init__(self, epoch: int, now_ms: int, level: int) -> None:
        self._epoch = epoch
        self._now_ms = now_ms
        self._level = level
        self._offset = 0

    def header(self, control_records: Sequence[Record], last_contained_log_timestamp_ms: int) -> bytes:
        header = SnapshotHeaderRecord(last_contained_log_timestamp=last_contained_log_timestamp_ms)
        return self._control([header, *control_records])

    def records(self, records: Sequence[Record]) -> bytes:
        data = build_batch(records, self._level, base_offset=self._offset, epoch=self._epoch, now_ms=self._now_ms)
        self._offset += len(records)
        return data

    def footer(self) -> bytes:
        return self._control([SnapshotFooterRecord()])

    def _control(self, records: Sequence[Record]) -> bytes:
        data = build_control_batch(records, base_offset=self._offset, epoch=self._epoch, now_ms=self._now_ms)
        self._offset += len(records)
        return data


def small_snapshot(
    control_records: Sequence[Record], records: Sequence[Record], *, level: int, last_contained_ms: int, now_ms: int
) -> bytes:
    """A whole snapshot file of epoch 0 in one go."""
    framing = SnapshotFraming(0, now_ms, level)
    header = framing.header(control_records, last_contained_ms)
    return header + (framing.records(records) if records else b"") + framing.footer()


def read_snapshot(path: Path) -> SnapshotContent:
    data = path.read_bytes()
    content, end, last = SnapshotContent(len(data)), 0, None
    for position, batch in read_batches(data):
        if not end:
            if not isinstance(batch.records[0], SnapshotHeaderRecord):
                raise InvalidSnapshot(f"{path} does not begin with a snapshot header")
            content.last_contained_log_timestamp_ms = batch.records[0].last_contained_log_timestamp
        (content.control_records if batch.is_control else content.records).extend(batch.records)
        end, last = position, batch.records[-1]
    if end != len(data) or not isinstance(last, SnapshotFooterRecord):
        raise InvalidSnapshot(f"{path} is not whole: {len(data) - end} of {len(data)} bytes cannot be read")
    return content


def last_contained_ms(path: Path) -> int:
    """When the last record was appended that the snapshot holds; 0 if the file does not say."""
    with open(path, "rb") as file:
        head = file.read(HEADER_BYTES_MAX)
    for _, batch in read_batches(head):
        if isinstance(batch.records[0], SnapshotHeaderRecord):
            return batch.records[0].last_contained_log_timestamp
        break
    return 0


def list_snapshots(directory: Path) -> list[SnapshotId]:
    """The newest first."""
    matches = (_NAME.fullmatch(path.name) for path in directory.iterdir()) if directory.exists() else iter(())
    return sorted((SnapshotId(int(match[1]), int(match[2])) for match in matches if match), reverse=True)


def readable_snapshots(directory: Path) -> Iterator[tuple[SnapshotId, SnapshotContent]]:
    for snapshot_id in list_snapshots(directory):
        try:
            yield snapshot_id, read_snapshot(directory / snapshot_id.file_name)
        except (InvalidSnapshot, OSError) as error:
            log.warning("A metadata snapshot is skipped: %s", error)


def read_bootstrap_records(directory: Path) -> list[Record] | None:
    """What `bootstrap.checkpoint` at the root of the metadata log directory says, if it is there."""
    path = directory / BOOTSTRAP_FILE_NAME
    if not path.exists():
        return None
    try:
        return read_snapshot(path).records
    except InvalidSnapshot as error:
        raise MetadataError(str(error)) from error
