"""A partition's log: batches in, batches out, offsets in between.

Everything here is called on the event loop and touches the page cache only; what waits for a disk (fsync, removal of
files) is handed to `Background`. Offsets: `log_start_offset`, `recovery_point` and high watermark are not above
`log_end_offset`; what is below the recovery point survives a crash as it is, the rest is scanned after one.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import NamedTuple

from barnabas.node.storage.admission import Opening, admit
from barnabas.node.storage.directory.background import Background
from barnabas.node.storage.directory.files import FileHandles
from barnabas.node.storage.directory.flush_task import FlushTask
from barnabas.node.storage.directory.partition_metadata import PARTITION_METADATA, read_partition_metadata
from barnabas.node.storage.leader_epochs import LEADER_EPOCH_CHECKPOINT, LeaderEpochs
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.log_cuts import ShrinkingLog
from barnabas.node.storage.log_reads import ReadableLog
from barnabas.node.storage.origin import Origin
from barnabas.node.storage.producer_state import DEFAULT_EXPIRATION_MS
from barnabas.node.storage.recovery import recovery
from barnabas.node.storage.recovery.index_rebuild import write_indexes
from barnabas.node.storage.segment.segment import Placed, Segment, stamped
from barnabas.node.storage.segment.segments import Segments
from barnabas.node.storage.segment.verification import DamagedSegment
from barnabas.wire.batch import (
    CONTROL_FLAG,
    NO_TIMESTAMP,
    STAMP,
    BatchHeader,
    iterate_batches,
    pack_batch,
    set_timestamp,
    validate,
)
from barnabas.wire.compression import Buffer
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.uuids import Uuid

logger = logging.getLogger("barnabas.storage")


class Appended(NamedTuple):
    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    size: int
    duplicate: bool = False
    flush_due: bool = False  # `flush.messages` asks for a sync before the answer


class PartitionLog(ReadableLog, ShrinkingLog):
    # -- opening

    @classmethod
    def create(
        cls,
        directory: str | os.PathLike[str],
        topic: str,
        partition: int,
        config: LogConfig,
        *,
        now_ms: int,
        start_offset: int = 0,
        producer_id_expiration_ms: int = DEFAULT_EXPIRATION_MS,
        handles: FileHandles | None = None,
        background: Background | None = None,
        topic_id: Uuid | None = None,
        files_exist: bool = False,
    ) -> PartitionLog:
        """An empty log in a directory that has none. The directory is made, unless somebody did it already."""
        path = os.fspath(directory)
        if not files_exist:
            os.makedirs(path, exist_ok=True)
        log = cls(
            path,
            topic,
            partition,
            config,
            producer_id_expiration_ms=producer_id_expiration_ms,
            handles=handles,
            background=background,
        )
        log.topic_id = topic_id
        log._start_empty(start_offset, now_ms, touch=not files_exist)
        log.last_flush_ms = now_ms
        return log

    @classmethod
    def open(
        cls,
        directory: str | os.PathLike[str],
        topic: str,
        partition: int,
        config: LogConfig,
        *,
        clean: bool,
        recovery_point: int,
        log_start_offset: int,
        now_ms: int,
        producer_id_expiration_ms: int = DEFAULT_EXPIRATION_MS,
        handles: FileHandles | None = None,
        background: Background | None = None,
        recovered: recovery.Recovered | None = None,
        continuous: bool = False,
    ) -> PartitionLog:
        """The log of a directory. Unless it was closed cleanly, it is scanned from the recovery point on.

        `recovered` is what such a scan found if somebody else did it; for `continuous` see `recovery`.
        """
        path = os.fspath(directory)
        job = recovery.Job(
            directory=path,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            index_interval_bytes=config.index_interval_bytes,
            now_ms=now_ms,
            producer_id_expiration_ms=producer_id_expiration_ms,
            continuous=continuous,
        )
        recovery.tidy(path)
        if not clean and recovered is None:
            recovered = recovery.recover(job)
        log = cls(
            path,
            topic,
            partition,
            config,
            producer_id_expiration_ms=producer_id_expiration_ms,
            handles=handles,
            background=background,
        )
        log.last_flush_ms = now_ms
        log.topic_id = read_partition_metadata(path)
        if not log._load(log_start_offset, now_ms, recovered):
            logger.warning("%s: the last segment is damaged or lacks an index; scanning it", log.name)
            log._close_files()
            clean = False
            recovered = recovery.recover(job)
            log.segments = Segments(log.segments.handles, path)
            log._load(log_start_offset, now_ms, recovered)
        if not clean:
            # From the segment of the recovery point on, recovery has written them anew.
            log.suspect_transaction_indexes(below=log.segments.from_offset(recovery_point - 1)[0].base_offset)
        if log.log_end_offset < recovery_point:
            end = log.log_end_offset
            logger.error(
                "%s ends at offset %d, but it was flushed up to offset %d: the records between are lost",
                log.name,
                end,
                recovery_point,
            )
        log.recovery_point = log.log_end_offset if clean else min(recovery_point, log.log_end_offset)
        if recovered is not None and recovered.cut:
            end, removed = log.log_end_offset, recovered.truncated_bytes
            logger.warning(
                "%s: removed the last %d bytes, the log now ends at offset %d: %s",
                log.name,
                removed,
                end,
                recovered.cut,
            )
        if recovered is not None and recovered.damage:
            logger.error("%s: left damaged bytes below the recovery point in place: %s", log.name, recovered.damage)
        return log

    def _load(self, log_start_offset: int, now_ms: int, recovered: recovery.Recovered | None) -> bool:
        """False if the files need recovery after all."""
        incomplete = self.segments.load(self._config, now_ms)
        if not len(self.segments):
            self._start_empty(log_start_offset, now_ms)
            return True
        active = self.segments.active
        for segment in self.segments:
            if not segment.size and segment is not active and not self._config.compacted:
                logger.error(
                    "%s: the segment at offset %d is empty: its records are lost", self.name, segment.base_offset
                )
        for base_offset in incomplete:
            if base_offset != active.base_offset:
                logger.warning("%s: the segment at offset %d lacks an index; rebuilding it", self.name, base_offset)
                write_indexes(self.directory, base_offset, self._config.index_interval_bytes)
        if active.base_offset in incomplete:
            return False
        try:
            self.log_end_offset = self._insist(active.load_end)
        except (OSError, DamagedSegment):
            return False
        self.log_start_offset = max(log_start_offset, self.segments.first_offset)
        if recovered is None:
            self.epochs = LeaderEpochs.load(self.directory)
        else:
            self.epochs = LeaderEpochs(recovered.epochs)
            self.epochs.dirty = self._directory_changed = True
        self._learn_first_epochs()
        if self.log_end_offset < self.log_start_offset:
            self._remove(self.segments.clear())
            self.epochs.clear()
            self._start_empty(log_start_offset, now_ms)
            return True
        self.epochs.truncate_from_end(self.log_end_offset)
        self.epochs.truncate_from_start(self.log_start_offset)
        self._load_producers(now_ms)
        if recovered is not None:
            self.producers.recall(recovered.windows)
        return True

    def _learn_first_epochs(self) -> None:
        """The start may have fallen back behind what the checkpoint of epochs knows, or the checkpoint may be gone: the
        batches there know theirs."""
        entries = self.epochs.entries()
        known_from = entries[0][1] if entries else self.log_end_offset
        if known_from <= self.log_start_offset:
            return
        found = LeaderEpochs()
        for segment in self.segments.from_offset(self.log_start_offset):
            for _, header in segment.headers(0):
                if header.base_offset >= known_from:
                    break
                if header.last_offset >= self.log_start_offset:
                    found.assign(header.leader_epoch, max(header.base_offset, self.log_start_offset))
        for epoch, offset in entries:
            found.assign(epoch, offset)
        self.epochs = found
        self.epochs.dirty = True

    # -- appending

    def append(
        self,
        batches: Buffer,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        opening: Opening = Opening.HERE,
    ) -> Appended:
        """Append and give offsets; raises `KafkaError`. A writable buffer gets offset and epoch written into it."""
        if origin is Origin.REPLICATION:
            return self.append_as_follower(batches, now_ms=now_ms)
        if origin is not Origin.CLIENT:
            return self._append_own(batches, leader_epoch, now_ms, origin)
        view, header = admit(batches, self.name, self._config, now_ms, opening)
        offset = self.log_end_offset
        header = tuple.__new__(BatchHeader, (offset, header[1], leader_epoch, *header[3:]))
        if header.producer_id >= 0:
            duplicate = self.producers.duplicate_of(header)
            if duplicate is not None:
                flush_due = offset - self.recovery_point >= self._config.flush_messages
                first, last, start = duplicate.first_offset, duplicate.last_offset, self.log_start_offset
                return Appended(first, last, duplicate.timestamp, start, 0, True, flush_due)
            self.producers.check(header, offset, sequences=True)
        return self._write_one(view, header, now_ms, header.max_timestamp if self._config.log_append_time else -1)

    def _append_own(self, batches: Buffer, leader_epoch: int, now_ms: int, origin: Origin) -> Appended:
        view = memoryview(batches)
        log_append_time = self._config.log_append_time and origin is Origin.COORDINATOR
        if log_append_time and view.readonly:
            view = memoryview(bytearray(view))
        placed: Placed = []
        position, offset = 0, self.log_end_offset
        while position < len(view):
            if log_append_time:
                set_timestamp(view, position, max_timestamp=now_ms, log_append_time=True)
            header = validate(view, position)._replace(base_offset=offset, leader_epoch=leader_epoch)
            if header.producer_id >= 0:
                self.producers.check(header, offset, sequences=False)
                if header.attributes & CONTROL_FLAG:
                    self.producers.check_coordinator(header, view, position)
            placed.append((position, header))
            position += header.size
            offset = header.last_offset + 1
        if not placed:
            raise KafkaError(ErrorCode.INVALID_RECORD, f"An append to {self.name} without a record batch")
        return self._write(view, placed, now_ms, now_ms if log_append_time else NO_TIMESTAMP)

    def append_records(
        self, records: Sequence[tuple[bytes, bytes | None]], *, leader_epoch: int, now_ms: int
    ) -> Appended:
        """Keys and values of a coordinator of ours, as one batch: it is made here, so there is nothing to check."""
        batch, header = pack_batch(records, now_ms, base_offset=self.log_end_offset, leader_epoch=leader_epoch)
        if self._config.log_append_time:
            return self._append_own(batch, leader_epoch, now_ms, Origin.COORDINATOR)
        return self._write_one(memoryview(batch), header, now_ms, NO_TIMESTAMP)

    def append_as_follower(self, batches: Buffer, *, now_ms: int) -> Appended:
        """Append the leader's bytes, whose offsets and epochs stay; a batch cut off at the end is left out."""
        view = memoryview(batches)
        placed: Placed = []
        end, expected = 0, self.log_end_offset
        for position, header in iterate_batches(view):
            recovery.ensure_valid(view, position, header)
            if header.base_offset < expected:
                raise KafkaError(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    f"Unexpected offset in append to {self.name}: {header.base_offset} is less than {expected}",
                )
            placed.append((position, header))
            end, expected = position + header.size, header.last_offset + 1
        if not placed:
            return Appended(self.log_end_offset, self.log_end_offset - 1, -1, self.log_start_offset, 0)
        if end <= self._limits.segment_bytes:
            return self._write(view[:end], placed, now_ms, NO_TIMESTAMP, stamp=False)
        pieces = [
            self._write(view[at : at + header.size], [(0, header)], now_ms, NO_TIMESTAMP, stamp=False)
            for at, header in placed
        ]
        return pieces[-1]._replace(first_offset=pieces[0].first_offset, size=end)

    def _write_one(self, view: memoryview, header: BatchHeader, now_ms: int, log_append_time_ms: int) -> Appended:
        """As `_write`, for the one batch that nearly every append consists of."""
        size = len(view)
        limits = self._limits
        if view.readonly or size > limits.segment_bytes or self.offline:
            return self._write(view, [(0, header)], now_ms, log_append_time_ms)
        base_offset, length, leader_epoch = header[:3]
        end_offset = base_offset + header.last_offset_delta + 1
        try:
            segment = self.segments.active
            if segment.should_roll(size, header.max_timestamp, end_offset - 1, now_ms, limits):
                segment = self._roll(base_offset, now_ms)
            STAMP.pack_into(view, 0, base_offset, length, leader_epoch)
            segment.append_one(view, header, size)
            self.log_end_offset = end_offset
            if leader_epoch != self.epochs.latest or header.producer_id >= 0:
                self._remember(segment, view, [(0, header)])
            self.producers.map_end_offset = end_offset
        except OSError as error:
            raise self._failed(error) from error
        flush_due = end_offset - self.recovery_point >= self._config.flush_messages
        return Appended(base_offset, end_offset - 1, log_append_time_ms, self.log_start_offset, size, False, flush_due)

    def _write(
        self, view: memoryview, placed: Placed, now_ms: int, log_append_time_ms: int, *, stamp: bool = True
    ) -> Appended:
        size = len(view)
        first, last = placed[0][1], placed[-1][1]
        last_offset = last.base_offset + last.last_offset_delta
        if size > self._limits.segment_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"Message batch size is {size} bytes in append to partition {self.name}, "
                f"which exceeds the maximum configured segment size of {self._limits.segment_bytes}.",
            )
        if self.offline:
            raise self._offline_error()
        max_timestamp = first.max_timestamp if first is last else max(header.max_timestamp for _, header in placed)
        try:
            segment = self.segments.active
            if segment.should_roll(size, max_timestamp, last_offset, now_ms, self._limits):
                segment = self._roll(first.base_offset, now_ms)
            segment.append(stamped(view, placed) if stamp else [view], placed, size)
            self.log_end_offset = last_offset + 1
            self._remember(segment, view, placed)
        except OSError as error:
            raise self._failed(error) from error
        flush_due = self.log_end_offset - self.recovery_point >= self._config.flush_messages
        return Appended(
            first.base_offset, last_offset, log_append_time_ms, self.log_start_offset, size, False, flush_due
        )

    def _remember(self, segment: Segment, view: memoryview, placed: Placed) -> None:
        for position, header in placed:
            if header.leader_epoch != self.epochs.latest:
                self.epochs.assign(header.leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                aborted = self.producers.update(header, view, position)
                if aborted is not None:
                    segment.transactions.append(aborted)
        self.producers.map_end_offset = self.log_end_offset

    def roll(self, *, now_ms: int) -> Segment:
        """Begin a new segment at the log's end; an empty active one stays."""
        try:
            return self._roll(self.log_end_offset, now_ms)
        except OSError as error:
            raise self._failed(error) from error

    def _roll(self, base_offset: int, now_ms: int) -> Segment:
        old = self.segments.active
        if old.base_offset == base_offset:
            return old
        old.finish()
        old.forget_ring()
        segment = self.segments.create(base_offset, self._config, now_ms)
        self._directory_changed = True
        self.producers.map_end_offset = base_offset
        self._snapshot()
        self.background.flush_later(self)
        return segment

    def _snapshot(self) -> None:
        path = self.producers.take_snapshot()
        if path is not None:
            self._snapshots_to_sync.append(path)

    def assign_epoch_start(self, leader_epoch: int) -> None:
        """A leader's time begins at the end of the log."""
        self.epochs.assign(leader_epoch, self.log_end_offset)

    # -- flushing and closing

    def prepare_flush(self, *, closing: bool = False, segments_max: int | None = None) -> FlushTask:
        """Gather what must be fsynced for everything appended so far; after it ran, give it to `flushed`.

        The active segment's indexes are left out, since recovery writes those of the last segment anew; so the segment
        in which the last flush ended goes along, even if nothing was appended to it since. Two segments at least are
        needed to get on.
        """
        if self.offline:  # an fsync that succeeds after one that failed proves nothing
            raise self._offline_error()
        task = FlushTask(self.log_end_offset)
        try:
            segments = self.segments.from_offset(max(self.recovery_point - 1, self.start_on_disk))
            if segments_max is not None and len(segments) > segments_max:
                task.end_offset, task.is_part = segments[segments_max].base_offset, True
                del segments[segments_max:]
            task.segments = len(segments)
            for segment in segments:
                whole = closing or segment is not self.segments.active
                for file in segment.files() if whole else (segment.file,):
                    task.add_file(file)
        except OSError as error:
            task.discard()
            raise self._failed(error) from error
        task.paths, self._snapshots_to_sync = self._snapshots_to_sync, []
        if self.epochs.dirty:
            self.epochs.dirty = False
            task.files.append((f"{self.directory}/{LEADER_EPOCH_CHECKPOINT}", self.epochs.render()))
        if self._directory_changed:
            self._directory_changed = False
            task.paths += (f"{self.directory}/{PARTITION_METADATA}", self.directory, os.path.dirname(self.directory))
        elif closing:  # the last segment's indexes may be new
            task.paths.append(self.directory)
        self._flushing.append(task)
        return task

    def flushed(self, task: FlushTask, *, now_ms: int = 0) -> None:
        self._flushing.remove(task)
        self.recovery_point = max(self.recovery_point, min(task.end_offset, self.log_end_offset))
        self.last_flush_ms = max(self.last_flush_ms, now_ms)

    def flush(self, *, now_ms: int = 0) -> int:
        """Everything to the disk, here and now; the recovery point it reached. On the loop use `LogDir.sync`."""
        task = self.prepare_flush()
        try:
            task.run()
        except OSError as error:
            raise self._failed(error) from error
        self.flushed(task, now_ms=now_ms)
        return self.recovery_point

    def is_flush_overdue(self, now_ms: int) -> bool:
        return self.recovery_point < self.log_end_offset and now_ms - self.last_flush_ms >= self._config.flush_ms

    def prepare_close(self) -> FlushTask:
        """Write what a clean stop leaves behind, and gather what must be fsynced for it; then close the files."""
        self.segments.active.finish()
        self._snapshot()
        task = self.prepare_flush(closing=True)
        self._close_files()
        return task

    def close(self, *, clean: bool) -> None:
        """A clean close trims indexes, writes the producers' snapshot and flushes; the other one only lets go."""
        if not clean or self.offline:
            self._close_files()
            return
        try:
            task = self.prepare_close()
            task.run()
        except OSError as error:
            raise self._failed(error) from error
        self.flushed(task)

    def _close_files(self) -> None:
        self._abort_cleaning()
        for segment in self.segments:
            segment.close()

    def relocate(self, directory: str) -> None:
        """The log's directory has been renamed to this."""
        self.directory = self.segments.directory = self.producers.directory = directory
        for segment in self.segments:
            segment.relocate(directory)
        self._snapshots_to_sync = [f"{directory}/{os.path.basename(path)}" for path in self._snapshots_to_sync]
        self._directory_changed = True
