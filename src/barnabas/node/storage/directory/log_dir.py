"""One log directory: its lock and identity, the partitions in it, its checkpoints, and work for its disk."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from barnabas.node.storage.directory import clean_stop
from barnabas.node.storage.directory.checkpoints import (
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    CorruptCheckpoint,
    TopicPartition,
    read_offsets,
    write_offsets,
)
from barnabas.node.storage.directory.clean_stop import CLEAN_SHUTDOWN_FILE, CleanStop
from barnabas.node.storage.directory.directory_lock import DirectoryLock
from barnabas.node.storage.directory.files import (
    LOG_SUFFIX,
    FileHandles,
    can_sync_file_system,
    fsync_path,
    make_directories,
    offset_name,
    sync_file_system,
    write_atomically,
)
from barnabas.node.storage.directory.flush_task import FlushTask
from barnabas.node.storage.directory.flusher import LOGS_PER_ROUND, Flusher
from barnabas.node.storage.directory.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from barnabas.node.storage.directory.partition_metadata import PARTITION_METADATA, render_partition_metadata
from barnabas.node.storage.directory.removals import Removals
from barnabas.node.storage.directory.start_deletion import StartDeletion
from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.recovery.index_repair import IndexRepair
from barnabas.node.storage.segment.verification import DamagedIndex
from barnabas.wire.uuids import Uuid

logger = logging.getLogger("barnabas.storage")

CHECKPOINTS = (LOG_START_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT, REPLICATION_OFFSET_CHECKPOINT)
METADATA_DIRECTORY = "__cluster_metadata-0"  # the controller's, not ours
DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
FUTURE_SUFFIX = "-future"
NAME_BYTES_MAX = 255
SYNC_FILE_SYSTEM_FROM_LOGS = 16  # many files reach the disk faster by one sync of all than by an fsync each

PARTITION_DIRECTORY = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d+)")
FUTURE_DIRECTORY = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d+)\.[0-9a-f]{32}-future")


class NewPartition(NamedTuple):
    topic: str
    partition: int
    topic_id: Uuid
    config: LogConfig
    directory_id: Uuid | None = None  # where; without one the directory with the fewest partitions


class OnDisk(NamedTuple):
    """A replica's directory."""

    topic: str
    partition: int
    name: str

    @property
    def key(self) -> TopicPartition:
        return self.topic, self.partition

    @property
    def is_future(self) -> bool:
        """It is on its way here from another directory."""
        return self.name.endswith(FUTURE_SUFFIX)


class LogDir:
    def __init__(
        self,
        path: str,
        *,
        handles: FileHandles,
        on_failure: Callable[[LogDir, OSError], None] | None = None,
        unusable: OSError | None = None,
    ) -> None:
        """Makes the directory if need be and takes its lock; raises `DirectoryLocked`, `BadMetaProperties`, OSError.

        One that is known to be `unusable` is offline from the beginning, and nothing of it is touched.
        """
        self.path = os.path.abspath(path)
        self.handles = handles
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.future_logs: dict[TopicPartition, PartitionLog] = {}
        self.offline = unusable
        self.meta: MetaProperties | None = None
        self.was_clean = False
        self.previous_broker_epoch = -1
        self._left = CleanStop()
        self.checkpointed: dict[TopicPartition, int] = {}  # the recovery points that a crash now would find
        self.gone: dict[TopicPartition, int] = {}  # recovery points of partitions that had no directory at the start
        self._written: dict[str, Mapping[TopicPartition, int]] = {}  # checkpoints, as they are on the disk
        self._on_failure = on_failure
        self._lock: DirectoryLock | None = None
        if unusable is None:
            self._take()
        self.flusher = Flusher(os.path.basename(self.path), self.failed)
        self._removals = Removals(self.flusher, self.failed)
        self._index_repair = IndexRepair(self._in_background, self.failed)
        self.start_deletion = StartDeletion(self)

    def _take(self) -> None:
        make_directories(self.path)
        self._lock = DirectoryLock(self.path)
        try:
            self.meta = read_meta_properties(self.path)
        except BaseException:
            self._lock.release()
            raise

    @property
    def directory_id(self) -> Uuid | None:
        return self.meta.directory_id if self.meta else None

    def write_meta(self, meta: MetaProperties) -> None:
        write_meta_properties(self.path, meta)
        self.meta = meta

    # -- background work of the logs

    def flush_later(self, log: PartitionLog) -> None:
        self.flusher.flush_later(log)

    def sync(self, log: PartitionLog) -> asyncio.Future[int]:
        return self.flusher.sync(log)

    def repair_index(self, log: PartitionLog, damaged: DamagedIndex) -> asyncio.Future[None] | None:
        return self._index_repair.begin(log, damaged)

    def delete_later(self, paths: list[str], delay_ms: int) -> None:
        self._removals.remove_files(paths, delay_ms)

    def delete_below_start(self, log: PartitionLog) -> None:
        self.start_deletion.ask_for(log)

    def _in_background(self, work: Callable[[], None]) -> None:
        self.flusher.run(work).add_done_callback(self._work_done)

    def _work_done(self, done: asyncio.Future[None]) -> None:
        error = None if done.cancelled() else done.exception()
        if isinstance(error, OSError):
            self.failed(error)

    def failed(self, error: OSError) -> None:
        """The disk cannot be trusted any more: nothing is written here until the next start."""
        if self.offline is None:
            self.offline = error
            for log in self.all_logs():
                log.offline = True
            if self._on_failure is not None:
                self._on_failure(self, error)

    # -- start

    def begin(self) -> None:
        """Learn how the last owner stopped, and forget it on the disk: from now on a crash is an unclean stop."""
        path = f"{self.path}/{CLEAN_SHUTDOWN_FILE}"
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read()
        except FileNotFoundError:
            return
        self.was_clean = True
        self._left = clean_stop.parse(text)
        self.previous_broker_epoch = self._left.broker_epoch
        os.unlink(path)
        fsync_path(self.path)

    def look_for_lost_transaction_indexes(self) -> None:
        """After a clean stop, once the logs are open: whether their transaction indexes are those that were left."""
        left, logs = self._left, self.all_logs()
        for log in logs:
            if (offset := left.doubted.get(os.path.basename(log.directory))) is not None:
                log.segments.suspect_transaction_indexes(below=offset)
        found = clean_stop.sum_of_transaction_indexes(logs)
        if left.transaction_indexes is not None and left.transaction_indexes != found:
            logger.warning(
                "%s: transaction indexes were lost or added since the last stop; checking all",
                self.path,
            )
            for log in logs:
                log.segments.suspect_transaction_indexes()

    def partition_directories(self) -> Iterator[OnDisk]:
        """The replicas on disk; directories that were about to be removed go on being removed."""
        for entry in sorted(os.scandir(self.path), key=lambda each: each.name):
            if not entry.is_dir() or entry.name == METADATA_DIRECTORY:  # a link to a directory is one
                continue
            if entry.name.endswith(DELETE_SUFFIX):
                self._removals.remove_directory(entry.path, 0)
            elif not entry.name.endswith(STRAY_SUFFIX):
                match = PARTITION_DIRECTORY.fullmatch(entry.name) or FUTURE_DIRECTORY.fullmatch(entry.name)
                if match:
                    yield OnDisk(match[1], int(match[2]), entry.name)

    def all_logs(self) -> list[PartitionLog]:
        return [*self.logs.values(), *self.future_logs.values()]

    def directory_of(self, topic: str, partition: int) -> str:
        return f"{self.path}/{topic}-{partition}"

    def read_checkpoint(self, name: str) -> dict[TopicPartition, int]:
        """A damaged checkpoint is as good as none: more is scanned, nothing is lost."""
        try:
            offsets = read_offsets(self.path, name)
        except CorruptCheckpoint as error:
            logger.warning("ignoring a damaged checkpoint: %s", error)
            return {}
        if offsets and name in CHECKPOINTS:
            self._written[name] = offsets
        return offsets

    def has_checkpoint(self, name: str) -> bool:
        try:
            read_offsets(self.path, name)
        except CorruptCheckpoint:
            return False
        return os.path.exists(f"{self.path}/{name}")

    # -- partitions

    def make_directories(self, partitions: Sequence[NewPartition]) -> None:
        """The files of new partitions; in the flusher's thread. What makes them last is `sync_directories`."""
        if not self.logs and not os.path.exists(f"{self.path}/{RECOVERY_POINT_CHECKPOINT}"):
            # That it is there says that no partition was compacted whose recovery point it does not tell.
            write_atomically(f"{self.path}/{RECOVERY_POINT_CHECKPOINT}", b"", sync=False)
        self.forget_checkpointed([(new.topic, new.partition) for new in partitions])
        for new in partitions:
            directory = self.directory_of(new.topic, new.partition)
            try:
                os.mkdir(directory)
            except FileExistsError:
                self._keep_what_is_there(directory, new)
            make_directory(directory, new.topic_id)

    def sync_directories(self) -> None:
        """Nobody need wait for it: a partition whose directory a crash takes away gets a new one at the next start, and
        its records are not on the disk before the first flush, which comes after this in the same thread."""
        self._in_background(lambda: fsync_path(self.path))

    def _keep_what_is_there(self, directory: str, new: NewPartition) -> None:
        """A new log never begins where segments of another one are: it would write over them."""
        if not has_segments(directory):
            return
        name = out_of_the_way(new.topic, new.partition, STRAY_SUFFIX)
        os.rename(directory, f"{self.path}/{name}")
        logger.error(
            "%s holds segments that were not loaded; it is renamed to %s, and the partition begins empty",
            directory,
            name,
        )

    def forget_checkpointed(self, keys: Iterable[TopicPartition]) -> None:
        """What is known of a partition that had the same name, and is gone, does not hold for the next one; in the
        flusher's thread, and before anybody could take the one for the other."""
        gone = set(keys)
        for name, offsets in list(self._written.items()):
            if any(key in offsets for key in gone):
                self._write_checkpoint(name, {key: offset for key, offset in offsets.items() if key not in gone})
        if any(key in self.checkpointed for key in gone):
            self.checkpointed = {key: offset for key, offset in self.checkpointed.items() if key not in gone}

    def remove(self, log: PartitionLog) -> None:
        """Rename the replica's directory out of the way; its content goes after `file.delete.delay.ms`."""
        self._forget(log)
        log.close(clean=False)
        log.offline = True
        path = f"{self.path}/{out_of_the_way(log.topic, log.partition, DELETE_SUFFIX)}"
        os.rename(log.directory, path)
        log.relocate(path)
        self._in_background(lambda: fsync_path(self.path))
        self._removals.remove_directory(path, log.config.file_delete_delay_ms)

    def set_aside(self, log: PartitionLog) -> None:
        """A directory that the cluster does not know: kept for the operator, out of the way."""
        self._forget(log)
        log.close(clean=False)
        os.rename(log.directory, f"{self.path}/{out_of_the_way(log.topic, log.partition, STRAY_SUFFIX)}")
        fsync_path(self.path)

    def set_aside_unopened(self, found: OnDisk) -> None:
        name = out_of_the_way(found.topic, found.partition, STRAY_SUFFIX)
        os.rename(f"{self.path}/{found.name}", f"{self.path}/{name}")
        fsync_path(self.path)

    def promote(self, log: PartitionLog) -> None:
        """A future replica becomes the replica."""
        self._forget(log)
        path = self.directory_of(log.topic, log.partition)
        os.rename(log.directory, path)
        log.relocate(path)
        self.logs[log.topic, log.partition] = log
        self._in_background(lambda: fsync_path(self.path))

    def _forget(self, log: PartitionLog) -> None:
        for logs in (self.logs, self.future_logs):
            if logs.get((log.topic, log.partition)) is log:
                del logs[log.topic, log.partition]

    # -- checkpoints and stop

    def write_checkpoints(self, high_watermarks: Mapping[TopicPartition, int] | None = None) -> asyncio.Future[None]:
        # A future replica is never beside the replica itself, so the names are unique.
        logs = self.future_logs | self.logs
        recovery_points = {key: log.recovery_point for key, log in logs.items()}
        # Deleted segments may come back after a crash, and what is below the recovery point is not looked at then: the
        # start is known before.
        files = [(LOG_START_OFFSET_CHECKPOINT, self._log_starts()), (RECOVERY_POINT_CHECKPOINT, recovery_points)]
        if high_watermarks is not None:
            mine = {key: offset for key, offset in high_watermarks.items() if key in self.logs}
            files.append((REPLICATION_OFFSET_CHECKPOINT, mine))

        def write() -> None:
            for name, offsets in files:
                self._write_checkpoint(name, offsets)
            self.checkpointed = recovery_points

        return self.flusher.run(write)

    def write_log_starts(self) -> asyncio.Future[None]:
        return self.flusher.run(partial(self._write_checkpoint, LOG_START_OFFSET_CHECKPOINT, self._log_starts()))

    def _log_starts(self) -> dict[TopicPartition, int]:
        """Also where the first segment begins with it."""
        logs = self.future_logs | self.logs
        return {key: log.log_start_offset for key, log in logs.items() if log.log_start_offset}

    def _write_checkpoint(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        if self._written.get(name) != offsets:
            write_offsets(self.path, name, offsets)
            self._written[name] = offsets

    async def close(
        self, *, clean: bool, broker_epoch: int = -1, high_watermarks: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """A clean stop flushes everything, then says so; an unclean one only lets go."""
        await self._index_repair.stop()
        await self.start_deletion.stop()
        await self.flusher.idle()
        is_clean = clean and self.offline is None
        await self._removals.stop(finish=is_clean)
        try:
            if is_clean and self.offline is None:
                await self._close_cleanly(broker_epoch, high_watermarks)
        except OSError as error:
            self.failed(error)
        finally:
            for log in self.all_logs():
                log.close(clean=False)
            self.release()

    def release(self) -> None:
        self.flusher.close()
        if self._lock is not None:
            self._lock.release()

    async def _close_cleanly(self, broker_epoch: int, high_watermarks: Mapping[TopicPartition, int] | None) -> None:
        logs = self.all_logs()
        if len(logs) >= SYNC_FILE_SYSTEM_FROM_LOGS and can_sync_file_system():
            await self._close_logs(logs, sync_each=False)
            await self.flusher.run(lambda: sync_file_system(self.path))
        else:
            await self._close_logs(logs, sync_each=True)
        await self.write_checkpoints(high_watermarks)
        marker = clean_stop.render(broker_epoch, logs)
        await self.flusher.run(lambda: write_atomically(f"{self.path}/{CLEAN_SHUTDOWN_FILE}", marker))

    async def _close_logs(self, logs: list[PartitionLog], *, sync_each: bool) -> None:
        for start in range(0, len(logs), LOGS_PER_ROUND):
            chunk = logs[start : start + LOGS_PER_ROUND]
            tasks = [log.prepare_close() for log in chunk]
            await self.flusher.run(partial(finish_all, tasks, sync_each))
            for log, task in zip(chunk, tasks, strict=True):
                log.flushed(task)


def make_directory(directory: str, topic_id: Uuid, *, start_offset: int = 0) -> None:
    """An empty log's files."""
    if not os.path.isdir(directory):
        os.makedirs(directory)
    name = offset_name(start_offset, LOG_SUFFIX)
    os.close(os.open(f"{directory}/{name}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    fd = os.open(f"{directory}/{PARTITION_METADATA}", flags, 0o644)
    os.write(fd, render_partition_metadata(topic_id))
    os.close(fd)


def has_segments(directory: str) -> bool:
    """Whether the directory holds a log. An empty first segment is none: making the directory was cut short."""
    try:
        entries = list(os.scandir(directory))
    except FileNotFoundError:
        return False
    first = offset_name(0, LOG_SUFFIX)
    return any(each.name.endswith(LOG_SUFFIX) and (each.name != first or each.stat().st_size) for each in entries)


def finish_all(tasks: list[FlushTask], sync_each: bool) -> None:
    for task in tasks:
        if sync_each:
            task.run()
        else:
            task.write_files(sync=False)
            task.discard()


def out_of_the_way(topic: str, partition: int, suffix: str) -> str:
    """`topic-0.<uuid>-delete`, the topic cut so that the name fits."""
    tail = f"-{partition}.{uuid.uuid4().hex}{suffix}"
    return topic[: NAME_BYTES_MAX - len(tail)] + tail
