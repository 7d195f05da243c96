"""What a log consists of: segments, offsets, leader epochs, producers; and what a failing disk means for it."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TypeVar

from barnabas.node.storage.directory.background import Abortable, Background, Foreground, IndexBeingRepaired
from barnabas.node.storage.directory.files import FileHandles, fsync_path, rename_all
from barnabas.node.storage.directory.flush_task import FlushTask
from barnabas.node.storage.leader_epochs import LeaderEpochs
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.producer_state import DEFAULT_EXPIRATION_MS, ProducerState
from barnabas.node.storage.recovery import recovery
from barnabas.node.storage.recovery.index_rebuild import Rebuilt, rebuild
from barnabas.node.storage.segment.segment import RollLimits, Segment
from barnabas.node.storage.segment.segments import Segments
from barnabas.node.storage.segment.verification import DamagedIndex
from barnabas.wire.batch import BatchHeader
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.uuids import Uuid

logger = logging.getLogger("barnabas.storage")

T = TypeVar("T")


class LogState:
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
        """Use `open` or `create`."""
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
        self.start_on_disk = 0  # a start offset that the checkpoint has: no crash brings back what lies below
        self.log_end_offset = 0
        self.recovery_point = 0
        self.last_flush_ms = 0
        self.offline = False
        self.config = config
        self._snapshots_to_sync: list[str] = []
        self._directory_changed = False
        self._flushing: list[FlushTask] = []
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
        self._limits = RollLimits(config.roll_bytes, config.roll_ms, config.segment_index_bytes)
        for segment in self.segments:
            segment.index_interval_bytes = config.index_interval_bytes

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def active_segment(self) -> Segment:
        return self.segments.active

    def _start_empty(self, offset: int, now_ms: int, *, touch: bool = True) -> None:
        self.segments.create(offset, self._config, now_ms, touch=touch)
        self._directory_changed = True
        self.log_start_offset = self.log_end_offset = self.recovery_point = offset
        self.producers.clear(offset)
        self.producers.snapshot_offset = offset

    def _load_producers(self, now_ms: int) -> None:
        """A snapshot, and the batches behind it: none after a clean stop or a recovery.

        Snapshots from behind the end tell of batches that are gone.
        """
        self.producers.remove_snapshots(after=self.log_end_offset)
        self.producers.load(self.log_start_offset, self.log_end_offset, now_ms)
        known = self.producers.map_end_offset
        for segment in self.segments.from_offset(known) if known < self.log_end_offset else ():
            for header, _, view, at in recovery.scan(segment.file.fileno(), segment.size):
                if header.producer_id >= 0 and header.last_offset >= known:
                    self._remember_producer(header, view, at)
        self.producers.map_end_offset = self.log_end_offset

    def suspect_transaction_indexes(self, *, below: int | None = None) -> None:
        """Segments that begin below this offset, or all, may have lost their transaction index."""
        for segment in self.segments:
            if below is None or segment.base_offset < below:
                segment.suspect_transaction_indexes()

    def transaction_indexes_suspected_below(self) -> int | None:
        """The same after the next start, for those that nobody has looked at until now."""
        bases = [segment.base_offset for segment in self.segments if segment.may_lack_transactions]
        return bases[-1] + 1 if bases else None

    def _remember_producer(self, header: BatchHeader, view: memoryview, at: int) -> None:
        try:
            recovery.ensure_valid(view, at, header)
            self.producers.update(header, view, at)
        except KafkaError as error:
            logger.error(
                "%s: could not read the producer's batch at offset %d; its sequence number is not known: %s",
                self.name,
                header.base_offset,
                error.message,
            )

    def _remove(self, segments: list[Segment]) -> None:
        self.had_replaced_segments = True
        names = [each for segment in segments for each in segment.mark_deleted()]
        if names:
            rename_all(self.directory, names)
            self._directory_changed = True
            paths = [f"{self.directory}/{name}" for _, name in names]
            self.background.delete_later(paths, self._config.file_delete_delay_ms)

    def _abort_cleaning(self) -> None:
        if self.cleaning is not None:
            self.cleaning.abort()

    # -- indexes that are wrong

    def repair_index(self, damaged: DamagedIndex) -> None:
        """Returns when the index is right. Raises `IndexBeingRepaired` if that takes too long for the loop."""
        try:
            done = self.background.repair_index(self, damaged)
        except OSError as error:
            raise self._failed(error) from error
        if done is not None:
            raise IndexBeingRepaired(done)

    def repair_index_now(self, damaged: DamagedIndex) -> list[str]:
        """The files that were written; they have to be synced."""
        segment, kind = damaged.segment, damaged.kind
        return self.take_rebuilt(damaged, rebuild(self.segments.order(segment, kind)))

    def take_rebuilt(self, damaged: DamagedIndex, found: Rebuilt) -> list[str]:
        logger.warning("%s; rebuilding it", damaged.message)
        return damaged.segment.take_rebuilt(damaged.kind, found)

    def _insist(self, work: Callable[[], T]) -> T:
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
