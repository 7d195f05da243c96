"""A partition's log: batches in, batches out, offsets in between.

Everything here is called on the event loop and touches the page cache only; what waits for a disk (fsync, removal of
files) is handed to `Background`. Offsets: `log_start_offset`, `recovery_point` and high watermark are not above
`log_end_offset`; what is below the recovery point survives a crash as it is, the rest is scanned after one.

A log is made of its segments, its leader epochs, its producers and its flushes (what is on the disk). `log_opening`
makes one from a directory.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from barnabas.node.storage.admission import Opening, admit
from barnabas.node.storage.directory.background import Abortable, Background, Foreground, IndexBeingRepaired
from barnabas.node.storage.directory.files import FileHandles, FileRange, fsync_path, rename_all
from barnabas.node.storage.directory.flush_task import FlushTask
from barnabas.node.storage.leader_epochs import LeaderEpochs
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.log_flushes import LogFlushes
from barnabas.node.storage.origin import Origin
from barnabas.node.storage.placing import Appended, place_own, place_replicated, placed_at, with_append_time
from barnabas.node.storage.producer_state import DEFAULT_EXPIRATION_MS, ActiveProducer, ProducerState
from barnabas.node.storage.recovery.index_rebuild import Rebuilt, rebuild
from barnabas.node.storage.recovery.producer_replay import load_producers
from barnabas.node.storage.segment.segment import Placed, RollLimits, Segment, TimestampOffset, stamped
from barnabas.node.storage.segment.segments import Segments
from barnabas.node.storage.segment.txn_index import AbortedTransaction
from barnabas.node.storage.segment.verification import DamagedIndex
from barnabas.wire.batch import NO_TIMESTAMP, STAMP, BatchHeader, pack_batch
from barnabas.wire.compression import Buffer
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.uuids import Uuid

logger = logging.getLogger("barnabas.storage")

P = ParamSpec("P")
T = TypeVar("T")


def reading(method: Callable[Concatenate[PartitionLog, P], T]) -> Callable[Concatenate[PartitionLog, P], T]:
    """A read that needs an index written anew is done after that, or by who asks again: `IndexBeingRepaired`."""

    @wraps(method)
    def read(log: PartitionLog, /, *args: P.args, **kwargs: P.kwargs) -> T:
        while True:
            try:
                return method(log, *args, **kwargs)
            except DamagedIndex as damaged:
                log.repair_index(damaged)
            except OSError as error:
                raise log._failed(error) from error

    return read


def changing(method: Callable[Concatenate[PartitionLog, P], T]) -> Callable[Concatenate[PartitionLog, P], T]:
    """An I/O error on the way takes the log's directory offline."""

    @wraps(method)
    def change(log: PartitionLog, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(log, *args, **kwargs)
        except OSError as error:
            raise log._failed(error) from error

    return change


class PartitionLog:
    def __init__(
        self,
        directory: str,
        topic: str,
        partition: int,
        config: LogConfig,
        *,
        producer_id_expiration_ms: int = DEFAULT_EXPIRATION_MS,
        handles: FileHandles | None = None,
        background: Background | None = None,
    ) -> None:
        """Use `open_log` or `create_log`."""
        self.directory = directory
        self.topic = topic
        self.partition = partition
        self.name = f"{topic}-{partition}"
        self.topic_id: Uuid | None = None
        self.background: Background = background or Foreground()
        self.segments = Segments(FileHandles() if handles is None else handles, directory)
        self.epochs = LeaderEpochs()
        self.producers = ProducerState(self.name, directory, expiration_ms=producer_id_expiration_ms)
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.flushes = LogFlushes()
        self.offline = False
        self.config = config
        # Everything below is compacted, None if nothing was; and who compacts right now.
        self.first_dirty_offset: int | None = None
        self.had_replaced_segments = False  # or truncated ones: a base offset may come again
        self.cleaning: Abortable | None = None

    @property
    def config(self) -> LogConfig:
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self._limits = RollLimits.of(config)
        for segment in self.segments:
            segment.index_interval_bytes = config.index_interval_bytes

    @property
    def recovery_point(self) -> int:
        return self.flushes.recovery_point

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def active_segment(self) -> Segment:
        return self.segments.active

    def start_empty(self, offset: int, now_ms: int, *, touch: bool = True) -> None:
        self.segments.create(offset, self._config, now_ms, touch=touch)
        self.flushes.directory_changed = True
        self.log_start_offset = self.log_end_offset = self.flushes.recovery_point = offset
        self.producers.clear(offset)
        self.producers.snapshot_offset = offset

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
        if header.producer_id >= 0:
            offset = self.log_end_offset
            duplicate = self.producers.duplicate_of(header)
            if duplicate is not None:
                flush_due = offset - self.flushes.recovery_point >= self._config.flush_messages
                first, last, start = duplicate.first_offset, duplicate.last_offset, self.log_start_offset
                return Appended(first, last, duplicate.timestamp, start, 0, True, flush_due)
            self.producers.check(header, offset, sequences=True)
        append_time_ms = header.max_timestamp if self._config.log_append_time else NO_TIMESTAMP
        return self._write_one(view, header, leader_epoch, now_ms, append_time_ms)

    def _append_own(self, batches: Buffer, leader_epoch: int, now_ms: int, origin: Origin) -> Appended:
        view = memoryview(batches)
        log_append_time = self._config.log_append_time and origin is Origin.COORDINATOR
        if log_append_time:
            view = with_append_time(view, now_ms)
        placed = place_own(view, self.log_end_offset, leader_epoch, self.producers)
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
        return self._write_one(memoryview(batch), header, leader_epoch, now_ms, NO_TIMESTAMP)

    def append_as_follower(self, batches: Buffer, *, now_ms: int) -> Appended:
        """Append the leader's bytes, whose offsets and epochs stay; a batch cut off at the end is left out."""
        view = memoryview(batches)
        placed, end = place_replicated(view, self.log_end_offset, self.name)
        if not placed:
            return Appended(self.log_end_offset, self.log_end_offset - 1, -1, self.log_start_offset, 0)
        if end <= self._limits.segment_bytes:
            return self._write(view[:end], placed, now_ms, NO_TIMESTAMP, stamp=False)
        pieces = [
            self._write(view[at : at + header.size], [(0, header)], now_ms, NO_TIMESTAMP, stamp=False)
            for at, header in placed
        ]
        return pieces[-1]._replace(first_offset=pieces[0].first_offset, size=end)

    def _write_one(
        self, view: memoryview, header: BatchHeader, leader_epoch: int, now_ms: int, log_append_time_ms: int
    ) -> Appended:
        """As `_write`, for the one batch that nearly every append consists of. It gets its offset here."""
        size = len(view)
        limits = self._limits
        offset = self.log_end_offset
        if view.readonly or size > limits.segment_bytes or self.offline:
            return self._write(view, [(0, placed_at(offset, leader_epoch, header))], now_ms, log_append_time_ms)
        last_offset = offset + header.last_offset_delta
        max_timestamp = header.max_timestamp
        try:
            segment = self.segments.active
            if segment.should_roll(size, max_timestamp, last_offset, now_ms, limits):
                segment = self._roll(offset, now_ms)
            STAMP.pack_into(view, 0, offset, header.batch_length, leader_epoch)
            segment.append_one(view, last_offset, max_timestamp, size)
            self.log_end_offset = last_offset + 1
            if leader_epoch != self.epochs.latest or header.producer_id >= 0:
                self._remember(segment, view, [(0, placed_at(offset, leader_epoch, header))])
            self.producers.map_end_offset = last_offset + 1
        except OSError as error:
            raise self._failed(error) from error
        flush_due = last_offset + 1 - self.flushes.recovery_point >= self._config.flush_messages
        return Appended(offset, last_offset, log_append_time_ms, self.log_start_offset, size, False, flush_due)

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
        flush_due = self.log_end_offset - self.flushes.recovery_point >= self._config.flush_messages
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

    @changing
    def roll(self, *, now_ms: int) -> Segment:
        """Begin a new segment at the log's end; an empty active one stays."""
        return self._roll(self.log_end_offset, now_ms)

    def _roll(self, base_offset: int, now_ms: int) -> Segment:
        old = self.segments.active
        if old.base_offset == base_offset:
            return old
        old.finish()
        old.forget_ring()
        segment = self.segments.create(base_offset, self._config, now_ms)
        self.flushes.directory_changed = True
        self.producers.map_end_offset = base_offset
        self._snapshot()
        self.background.flush_later(self)
        return segment

    def _snapshot(self) -> None:
        self.flushes.add_snapshot(self.producers.take_snapshot())

    def assign_epoch_start(self, leader_epoch: int) -> None:
        """A new leader epoch starts at the current log end offset."""
        self.epochs.assign(leader_epoch, self.log_end_offset)

    # -- reading

    @reading
    def read(
        self, offset: int, max_bytes: int, *, upper_bound_offset: int | None = None, min_one_batch: bool = True
    ) -> bytes:
        """Whole batches below the upper bound, from the one that holds `offset` on; empty if there is none yet."""
        end = self._readable_end(offset, upper_bound_offset)
        return self.segments.read(offset, max_bytes, end, min_one_batch) if offset < end else b""

    @reading
    def fetch(
        self, offset: int, max_bytes: int, *, upper_bound_offset: int, min_one_batch: bool, eager_bytes: int
    ) -> bytes | FileRange:
        """As `read`, but more than `eager_bytes` are left in the file until they are sent."""
        end = self._readable_end(offset, upper_bound_offset)
        found = self.segments.find(offset, max_bytes, end, min_one_batch) if offset < end else None
        if found is None:
            return b""
        segment, start, stop = found
        return segment.read(start, stop) if stop - start <= eager_bytes else FileRange(segment.file, start, stop)

    @reading
    def find(self, offset: int, max_bytes: int) -> tuple[Segment, int, int] | None:
        """Where whole batches from the one that holds `offset` on begin and end, up to the end of the log."""
        return self.segments.find(offset, max_bytes, self.log_end_offset, True)

    @reading
    def bytes_from(self, offset: int) -> int:
        segments = self.segments.from_offset(offset)
        return sum(segment.size for segment in segments) - segments[0].position_of(offset)

    def past_empty_batches(self, offset: int, upper_bound_offset: int) -> int:
        """`offset`, or that of the next batch that has records, where compaction left none of them in the rest of a
        segment: librdkafka takes an answer without a record for one that was cut too short, and asks for twice as much.
        """
        if not self._config.compacted or not self.log_start_offset <= offset < upper_bound_offset:
            return offset
        try:
            return self.segments.past_empty_batches(offset, upper_bound_offset)
        except (OSError, KafkaError):
            return offset  # the read itself says what is wrong

    def _readable_end(self, offset: int, upper_bound_offset: int | None) -> int:
        end = self.log_end_offset
        if offset < self.log_start_offset or offset > end:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Received request for offset {offset} for partition {self.name}, "
                f"but we only have log segments in the range {self.log_start_offset} to {end}.",
            )
        return end if upper_bound_offset is None else min(end, upper_bound_offset)

    # -- places

    @reading
    def batch_for_timestamp(
        self, timestamp: int, from_offset: int = 0, max_batches: int | None = None
    ) -> memoryview | None:
        """The first batch, from an offset on, that says to have a record not earlier than `timestamp`; `NotFoundYet`
        if it is not among so many."""
        return self.segments.batch_for_timestamp(timestamp, max(from_offset, self.log_start_offset), max_batches)

    def earliest(self) -> TimestampOffset:
        entries = self.epochs.entries()
        known = entries and entries[0][1] <= self.log_start_offset
        return TimestampOffset(NO_TIMESTAMP, self.log_start_offset, entries[0][0] if known else -1)

    def latest(self) -> TimestampOffset:
        return TimestampOffset(NO_TIMESTAMP, self.log_end_offset, self.epochs.latest)

    @reading
    def batch_of_max_timestamp(self) -> memoryview | None:
        return self.segments.batch_of_max_timestamp(self.log_start_offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) as OffsetForLeaderEpoch answers it, (-1, -1) if unknown."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Up to where nothing is undecided."""
        producers = self.producers
        if producers.all_decided:
            return high_watermark
        producers.high_watermark_moved(high_watermark)
        first = producers.first_unstable_offset()
        return high_watermark if first is None else min(max(first, self.log_start_offset), high_watermark)

    @reading
    def aborted_transactions(self, first_offset: int, upper_bound_offset: int) -> list[AbortedTransaction]:
        return self.segments.aborted_transactions(first_offset, upper_bound_offset)

    @reading
    def check_transactions(self) -> None:
        """Every segment's transaction index is there, and right as far as can be told without reading the batches."""
        self.segments.check_transactions()

    @reading
    def aborted_in_read(self, offset: int, size: int, upper_bound_offset: int) -> list[AbortedTransaction]:
        """Those to which records may belong that a read of `size` bytes has found."""
        return self.segments.aborted_in_read(offset, size, upper_bound_offset)

    def active_producers(self) -> list[ActiveProducer]:
        return list(self.producers.active())

    # -- truncation and deletion

    @changing
    def truncate_to(self, offset: int, *, now_ms: int = 0) -> bool:
        """Keep what is below `offset`; False if there was nothing behind it. On the loop use `LogDirs.truncate`."""
        if offset >= self.log_end_offset:
            self.epochs.truncate_from_end(self.log_end_offset)
            return False
        self._abort_cleaning()
        if offset < self.segments.first_offset:
            self.truncate_fully_and_start_at(offset, now_ms=now_ms)
            return True
        self._remove_for_good(self.segments.remove_behind(offset))
        self.with_right_indexes(lambda: self.segments.active.truncate_to(offset, now_ms))
        self._end_at(offset)
        self.epochs.truncate_from_end(offset)
        self.log_start_offset = min(self.log_start_offset, offset)
        load_producers(self.producers, self.segments, self.log_start_offset, self.log_end_offset, now_ms)
        return True

    @changing
    def truncate_fully_and_start_at(self, offset: int, *, now_ms: int = 0, log_start_offset: int | None = None) -> None:
        """Forget everything and continue at `offset`."""
        self._abort_cleaning()
        self._remove_for_good(self.segments.clear())
        self.epochs.clear()
        self.producers.remove_snapshots(after=-1)
        self._end_at(offset)
        self.start_empty(offset, now_ms)
        if log_start_offset is not None:
            self.log_start_offset = log_start_offset

    def _end_at(self, offset: int) -> None:
        self.log_end_offset = offset
        self.flushes.truncate_to(offset)
        if self.first_dirty_offset is not None:
            self.first_dirty_offset = min(self.first_dirty_offset, offset)

    def advance_log_start_offset(self, offset: int) -> bool:
        """No longer offer what is below `offset`; segments wholly below it are deleted, in the background. False if it
        already was so."""
        if offset > self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Cannot increment the log start offset to {offset} of partition {self.name} "
                f"since it is larger than the log end offset {self.log_end_offset}",
            )
        if offset <= self.log_start_offset:
            return False
        self._start_at(offset)
        self.producers.high_watermark_moved(offset)
        self.delete_below_start()
        return True

    def _start_at(self, offset: int) -> None:
        self.log_start_offset = offset
        self.epochs.truncate_from_start(offset)

    def delete_below_start(self) -> None:
        if self.segments.count_below(self.log_start_offset):
            self.background.delete_below_start(self)

    @changing
    def delete_segments(self, offset: int) -> None:
        """Delete the segments that are wholly below `offset`, here and now. After a crash some of them may be back."""
        removed = self.give_up_segments(offset)
        if removed:
            self.remove_segments(removed)
            self.producers.remove_snapshots(before=self.segments.first_offset)

    def give_up_segments(self, offset: int, limit: int | None = None) -> list[Segment]:
        """Segments that are wholly below `offset`, the first ones; their files are left to whoever calls this."""
        removed = self.segments.remove_below(offset, limit)
        if removed:
            self._abort_cleaning()
            self.flushes.directory_changed = True
            first = self.segments.first_offset
            if first > self.log_start_offset:
                self._start_at(first)
            self.flushes.recovery_point = max(self.recovery_point, first)
        return removed

    def _remove_for_good(self, segments: list[Segment]) -> None:
        """The end of the log, the last first, and before anything is written: after a crash they must not come back."""
        if segments:
            self.remove_segments(segments[::-1])
            fsync_path(self.directory)

    def replace_segments(self, old: list[Segment], new: Segment) -> None:
        """Compaction has made one of several; their files are removed later, so who reads them may finish."""
        self.segments.replace(old, new)
        self.remove_segments(old)
        self.producers.remove_snapshots_at(segment.base_offset for segment in old[1:])

    def remove_segments(self, segments: list[Segment]) -> None:
        self.had_replaced_segments = True
        names = [each for segment in segments for each in segment.mark_deleted()]
        if names:
            rename_all(self.directory, names)
            self.flushes.directory_changed = True
            paths = [f"{self.directory}/{name}" for _, name in names]
            self.background.delete_later(paths, self._config.file_delete_delay_ms)

    def _abort_cleaning(self) -> None:
        if self.cleaning is not None:
            self.cleaning.abort()

    # -- flushing and closing

    @changing
    def prepare_flush(self, *, closing: bool = False, segments_max: int | None = None) -> FlushTask:
        """Gather what must be fsynced for everything appended so far; after it ran, give it to `flushed`."""
        if self.offline:  # an fsync that succeeds after one that failed proves nothing
            raise self._offline_error()
        return self.flushes.gather(
            self.segments, self.epochs, self.log_end_offset, closing=closing, segments_max=segments_max
        )

    def flushed(self, task: FlushTask, *, now_ms: int = 0) -> None:
        self.flushes.done(task, self.log_end_offset, now_ms)

    @changing
    def flush(self, *, now_ms: int = 0) -> int:
        """Everything to the disk, here and now; the recovery point it reached. On the loop use `LogDir.sync`."""
        task = self.prepare_flush()
        task.run()
        self.flushed(task, now_ms=now_ms)
        return self.recovery_point

    def is_flush_overdue(self, now_ms: int) -> bool:
        waited_ms = now_ms - self.flushes.last_flush_ms
        return self.recovery_point < self.log_end_offset and waited_ms >= self._config.flush_ms

    def prepare_close(self) -> FlushTask:
        """Write what a clean stop leaves behind, and gather what must be fsynced for it; then close the files."""
        self.segments.active.finish()
        self._snapshot()
        task = self.prepare_flush(closing=True)
        self.close_files()
        return task

    @changing
    def close(self, *, clean: bool) -> None:
        """A clean close trims indexes, writes the producers' snapshot and flushes; the other one only lets go."""
        if not clean or self.offline:
            self.close_files()
            return
        task = self.prepare_close()
        task.run()
        self.flushed(task)

    def close_files(self) -> None:
        self._abort_cleaning()
        for segment in self.segments:
            segment.close()

    def relocate(self, directory: str) -> None:
        """The log's directory has been renamed to this."""
        self.directory = self.segments.directory = self.producers.directory = directory
        for segment in self.segments:
            segment.relocate(directory)
        self.flushes.relocate(directory)

    # -- indexes that are wrong

    @changing
    def repair_index(self, damaged: DamagedIndex) -> None:
        """Returns when the index is right. Raises `IndexBeingRepaired` if that takes too long for the loop."""
        done = self.background.repair_index(self, damaged)
        if done is not None:
            raise IndexBeingRepaired(done)

    def repair_index_now(self, damaged: DamagedIndex) -> list[str]:
        """The files that were written; they have to be synced."""
        segment, kind = damaged.segment, damaged.kind
        return self.take_rebuilt(damaged, rebuild(self.segments.order(segment, kind)))

    def take_rebuilt(self, damaged: DamagedIndex, found: Rebuilt) -> list[str]:
        written = damaged.segment.take_rebuilt(damaged.kind, found)
        if written:  # none, if a transaction index was missed where no transaction was aborted
            logger.warning("%s; rebuilding it", damaged.message)
        return written

    def with_right_indexes(self, work: Callable[[], T]) -> T:
        """What cannot be left half done waits for the index."""
        while True:
            try:
                return work()
            except DamagedIndex as damaged:
                for path in self.repair_index_now(damaged):
                    fsync_path(path)

    # -- failures

    def _failed(self, error: OSError) -> KafkaError:
        """An I/O error takes the whole directory offline: what the disk holds is no longer known."""
        if not self.offline:
            self.offline = True
            self.background.failed(error)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.name} in {os.path.dirname(self.directory)}: {error}")

    def _offline_error(self) -> KafkaError:
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The log directory of {self.name} is offline")
