"""The metadata log on disk: `__cluster_metadata-0`, a partition log whose every group of batches is fsynced.

A commit needs the data of the `.log` file and nothing else: after a crash the log is scanned and its indexes written
anew. Only when a segment is new does the directory go along.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass

from barnabas.node.raft.errors import StartError
from barnabas.node.raft.load import LoadedMetadata
from barnabas.node.raft.snapshots import PARTIAL_SUFFIX
from barnabas.node.storage.directory.background import Foreground
from barnabas.node.storage.directory.files import DELETED_SUFFIX, unlink_all
from barnabas.node.storage.directory.flush_task import FlushTask
from barnabas.node.storage.directory.partition_metadata import write_partition_metadata
from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.log_config import LONG_MAX, SEGMENT_BYTES_MAX, LogConfig
from barnabas.node.storage.log_opening import open_log
from barnabas.node.storage.segment.verification import DamagedIndex
from barnabas.wire.errors import KafkaError
from barnabas.wire.schema import Buffer
from barnabas.wire.uuids import ONE_UUID

TOPIC = "__cluster_metadata"
TOPIC_ID = ONE_UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataLogConfig:
    """`metadata.log.segment.bytes` and `metadata.log.segment.ms`."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 3600 * 1000


class MetadataLog:
    def __init__(self, partition_log: PartitionLog, flusher: Executor, clock: Callable[[], int]) -> None:
        self.partition_log = self._log = partition_log
        self._flusher = flusher
        self._clock = clock
        self._synced_segment = -1
        self._syncing_segment = -1
        partition_log.background = self

    @classmethod
    def open(
        cls,
        loaded: LoadedMetadata,
        config: MetadataLogConfig,
        flusher: Executor,
        clock: Callable[[], int],
    ) -> MetadataLog:
        """The first writing to the directory: what a crash left half-done is removed, and a torn tail cut.

        Only the last segment can have one: the others were synced when they were left.
        """
        directory = loaded.directory
        directory.mkdir(exist_ok=True)
        leftovers = (".checkpoint" + PARTIAL_SUFFIX, ".checkpoint" + DELETED_SUFFIX, ".checkpoint.tmp")
        unlink_all(str(path) for path in directory.iterdir() if path.name.endswith(leftovers))
        if not (directory / "partition.metadata").exists():
            write_partition_metadata(str(directory), TOPIC_ID)
        partition_log = open_log(
            directory,
            TOPIC,
            0,
            log_config(config),
            clean=loaded.was_clean,
            recovery_point=min(loaded.last_segment + 1, loaded.end_offset),
            log_start_offset=loaded.end_offset if loaded.log_is_behind_snapshot else 0,
            now_ms=clock(),
        )
        if partition_log.log_end_offset != loaded.end_offset:
            raise StartError(
                f"The metadata log in {directory} ends at offset {partition_log.log_end_offset} for writing"
                f" and at {loaded.end_offset} for reading"
            )
        return cls(partition_log, flusher, clock)

    @property
    def end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def failed_for_good(self) -> bool:
        return self._log.offline

    def append(self, batches: Buffer) -> None:
        """Batches whose offsets begin where the log ends; an OSError if they are not in the log."""
        with _as_os_error():
            self._log.append_as_follower(batches, now_ms=self._clock())

    def prepare_sync(self) -> FlushTask:
        """What must run, on any thread, for everything appended to be on disk; one at a time."""
        segment = self._log.active_segment
        self._syncing_segment = segment.base_offset
        if segment.base_offset != self._synced_segment:
            with _as_os_error():
                return self._log.prepare_flush()
        task = FlushTask(self.end_offset)
        task.add_file(segment.file)
        return task

    def synced(self, task: FlushTask) -> None:
        if self._syncing_segment != self._synced_segment:
            self._synced_segment = self._syncing_segment
            self._log.flushed(task, now_ms=self._clock())

    def roll(self) -> None:
        with _as_os_error():
            self._log.roll(now_ms=self._clock())

    def delete_before(self, offset: int) -> None:
        """Deletes the segments that are wholly below `offset`."""
        with _as_os_error():
            self._log.delete_segments(offset)

    def close(self, *, clean: bool) -> None:
        with _as_os_error():
            self._log.close(clean=clean)

    # What the partition log wants done in the background.

    def flush_later(self, log: PartitionLog) -> None:
        """After a roll; the next sync finds the new segment and takes everything along."""

    def delete_below_start(self, log: PartitionLog) -> None:
        """It is moved by nobody: `delete_before` deletes what a snapshot holds."""

    def delete_later(self, paths: list[str], delay_ms: int) -> None:
        self._flusher.submit(unlink_all, paths)

    def repair_index(self, log: PartitionLog, damaged: DamagedIndex) -> None:
        """Nobody reads this log by its indexes once the node runs."""
        Foreground().repair_index(log, damaged)

    def failed(self, error: OSError) -> None:
        """Whoever called the log hears of it and gives up."""


@contextmanager
def _as_os_error() -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        raise OSError(error.message) from error


def log_config(config: MetadataLogConfig) -> LogConfig:
    return LogConfig(
        max_message_bytes=SEGMENT_BYTES_MAX,
        message_timestamp_after_max_ms=LONG_MAX,
        retention_ms=-1,
        segment_bytes=config.segment_bytes,
        segment_ms=config.segment_ms,
        file_delete_delay_ms=0,
    )
