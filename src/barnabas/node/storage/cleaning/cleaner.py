"""The log cleaner: again and again the dirtiest log that is due is cleaned by a process; the node brings the result in.

One task per `log.cleaner.threads`, each with a process of its own. A log is in one of these states:
  idle       no `cleaning`; it may be chosen
  cleaning   its `cleaning` is set; the process writes `.cleaned` files, group by group, and each is swapped in
  aborted    somebody changes the log, or the cleaner stops: the process is killed, what was swapped in stays, the rest
             is dropped, and the log is idle again
  failed     it cannot be cleaned (damaged, or the process died of it): said once, and left alone until the next start
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Protocol

from barnabas.node.storage.cleaning.choice import Dirt, examine
from barnabas.node.storage.cleaning.job import CleanedGroup, Failed, Finished, Job
from barnabas.node.storage.cleaning.process import CleanerProcess
from barnabas.node.storage.cleaning.swap import Swap
from barnabas.node.storage.directory.background import when_repaired
from barnabas.node.storage.directory.checkpoints import CLEANER_OFFSET_CHECKPOINT, TopicPartition, write_offsets
from barnabas.node.storage.directory.files import CLEANED_SUFFIX, fsync_path, unlink_all
from barnabas.node.storage.directory.log_dir import LogDir
from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.segment.verification import DamagedIndex, DamagedSegment
from barnabas.wire.errors import KafkaError

logger = logging.getLogger("barnabas.cleaner")

TURN_S = 0.002
REST_MS_MIN = 10
IDLE_PROCESS_S = 60.0
DISK_FULL_WAIT_MS = 60_000
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
MEGABYTE = 1_000_000


class Replica(Protocol):
    """A partition, as the cleaner sees it."""

    @property
    def log(self) -> PartitionLog: ...
    @property
    def last_stable_offset(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerSettings:
    """Kafka's defaults."""

    enable: bool = True
    threads: int = 1
    backoff_ms: int = 15_000
    dedupe_buffer_bytes: int = 134_217_728
    load_factor: float = 0.9
    io_max_bytes_per_second: float = 1.7976931348623157e308


@dataclass(slots=True, eq=False)
class LogCleaning:
    """One cleaning of one log; the log calls `abort` before anything else changes its segments."""

    log: PartitionLog
    process: CleanerProcess
    swaps: list[Swap] = field(default_factory=list)
    aborted: bool = False
    result: Finished | Failed | None = field(default=None)

    def abort(self) -> None:
        if not self.aborted:
            self.aborted = True
            self.process.kill()
            for swap in reversed(self.swaps):  # recovery may bring in some of them, but none without those before it
                swap.abandon()


class Cleaner:
    def __init__(
        self, partitions: Iterable[Replica], dirs: Sequence[LogDir], clock: Callable[[], int], settings: CleanerSettings
    ) -> None:
        self._partitions = partitions
        self._dirs = dirs
        self._clock = clock
        self._settings = settings
        self._running: set[LogCleaning] = set()
        self._uncleanable: weakref.WeakSet[PartitionLog] = weakref.WeakSet()
        self._not_before_ms: weakref.WeakKeyDictionary[PartitionLog, int] = weakref.WeakKeyDictionary()
        self._written: dict[LogDir, dict[TopicPartition, int]] = {}
        self._workers: dict[int, asyncio.Task[None]] = {}
        self._news = asyncio.Event()
        self._stopping = False

    def start(self) -> None:
        for directory in self._dirs:
            offsets = directory.read_checkpoint(CLEANER_OFFSET_CHECKPOINT)
            self._written[directory] = offsets
            for key, log in directory.logs.items():
                log.first_dirty_offset = offsets.get(key)
        self._employ()

    def reconfigure(self, settings: CleanerSettings) -> None:
        """What runs is dropped and begun again, so that memory and throttle are those asked for."""
        if settings != self._settings:
            self._settings = settings
            for cleaning in self._running:
                cleaning.abort()
            self._news.set()
            self._employ()

    async def stop(self) -> None:
        """A swap that was begun is ended first."""
        self._stopping = True
        self._news.set()
        for cleaning in self._running:
            cleaning.abort()
        if self._workers:
            await asyncio.wait(self._workers.values())
        for directory in self._dirs:
            await self._write_checkpoint(directory)

    def _employ(self) -> None:
        if self._settings.enable and not self._stopping:
            for number in range(self._settings.threads):
                if number not in self._workers:
                    self._workers[number] = asyncio.get_running_loop().create_task(self._work(number))

    async def _work(self, number: int) -> None:
        process = CleanerProcess()
        try:
            while not self._stopping and number < self._settings.threads:
                try:
                    cleaned = await self._clean_dirtiest(process)
                except Exception:
                    logger.exception("a round of the log cleaner failed; the next one tries again")
                    cleaned = False
                if not cleaned and not self._stopping:
                    if process.idle_s > IDLE_PROCESS_S:
                        await process.end()
                    await self._rest()
        finally:
            self._workers.pop(number, None)
            await process.end()

    async def _rest(self) -> None:
        self._news.clear()
        try:
            async with asyncio.timeout(max(self._settings.backoff_ms, REST_MS_MIN) / 1000):
                await self._news.wait()
        except TimeoutError:
            pass

    # Choosing

    async def _clean_dirtiest(self, process: CleanerProcess) -> bool:
        chosen: tuple[PartitionLog, Dirt] | None = None
        turn_ends = time.monotonic() + TURN_S
        for partition in list(self._partitions):
            dirt = self._dirt_of(partition)
            if dirt is not None and (chosen is None or dirt.ratio > chosen[1].ratio):
                chosen = partition.log, dirt
            if time.monotonic() > turn_ends:
                await asyncio.sleep(0)
                turn_ends = time.monotonic() + TURN_S
        if chosen is None or self._stopping or chosen[0].offline or chosen[0].cleaning is not None:
            return False
        return await self._clean(*chosen, process)

    def _dirt_of(self, partition: Replica) -> Dirt | None:
        """None if the log is not to be cleaned now."""
        log = partition.log
        if not log.config.compacted or log.offline or log.cleaning is not None or len(log.segments) < 2:
            return None
        now_ms = self._clock()
        if log in self._uncleanable or self._not_before_ms.get(log, 0) > now_ms:
            return None
        if log.recovery_point < log.active_segment.base_offset:
            log.background.flush_later(log)
        try:
            dirt = examine(
                list(log.segments),
                checkpoint=log.first_dirty_offset,
                log_start_offset=log.log_start_offset,
                log_end_offset=log.log_end_offset,
                # A record goes only if the disk surely has the one that supersedes it.
                last_stable_offset=min(partition.last_stable_offset, log.recovery_point),
                config=log.config,
                now_ms=now_ms,
            )
        except OSError as error:
            log.background.failed(error)
            return None
        except DamagedIndex as damaged:
            log.background.repair_index(log, damaged)
            return None
        except DamagedSegment as error:
            logger.error("%s cannot be compacted and stays as it is: %s", log.name, error.message)
            self._uncleanable.add(log)
            return None
        return dirt if dirt.is_due(log.config.min_cleanable_dirty_ratio) else None

    # Cleaning

    async def _clean(self, log: PartitionLog, dirt: Dirt, process: CleanerProcess) -> bool:
        """True if the log is cleaner than before."""
        log.cleaning = cleaning = LogCleaning(log, process)
        self._running.add(cleaning)
        try:
            await self._checkpoint_recovery_point(log, dirt.first_uncleanable_offset)
            # Which transactions were aborted decides what may go.
            await when_repaired(log.check_transactions)
            if cleaning.aborted:
                return False
            job = job_for(log, dirt, self._settings, self._clock())
            bunch: list[CleanedGroup] = []
            async with aclosing(process.run(job)) as messages:
                async for message in messages:
                    if isinstance(message, CleanedGroup):
                        bunch.append(message)
                        if not message.more:
                            await self._swap_in(cleaning, bunch)
                            bunch = []
                    else:
                        cleaning.result = message
                        break
            return await self._end(cleaning, job)
        except OSError as error:
            log.background.failed(error)
            return False
        except KafkaError as error:
            logger.error("could not compact %s now: %s", log.name, error.message)
            return False
        finally:
            if cleaning.aborted or not isinstance(cleaning.result, Finished):
                await process.end()
                await self._directory_of(log).flusher.run(lambda: remove_cleaned(log.directory))
            self._running.discard(cleaning)
            log.cleaning = None

    async def _checkpoint_recovery_point(self, log: PartitionLog, end_offset: int) -> None:
        """Compaction makes holes, and above its recovery point a log that is recovered must have none."""
        directory = self._directory_of(log)
        if directory.checkpointed.get((log.topic, log.partition), 0) < end_offset:
            await directory.write_checkpoints()

    async def _swap_in(self, cleaning: LogCleaning, groups: list[CleanedGroup]) -> None:
        """Several at once: each fsync of the directory is a moment in which appends may wait for the file system."""
        log = cleaning.log
        flusher = self._directory_of(log).flusher
        cleaning.swaps = swaps = [Swap(log, group, self._clock()) for group in groups]
        taken: list[Swap] = []
        try:
            for swap in swaps:
                if cleaning.aborted:
                    return
                swap.prepare()
                await asyncio.sleep(0)
            await flusher.run(lambda: fsync_path(log.directory))
            for swap in swaps:
                if cleaning.aborted:
                    break
                swap.take_over()
                taken.append(swap)
                await asyncio.sleep(0)
            if taken:
                await flusher.run(lambda: fsync_path(log.directory))
                for swap in taken:
                    swap.finish()
                    await asyncio.sleep(0)
                await flusher.run(lambda: fsync_path(log.directory))
        finally:
            cleaning.swaps = []

    async def _end(self, cleaning: LogCleaning, job: Job) -> bool:
        log, result = cleaning.log, cleaning.result
        if isinstance(result, Finished) and not cleaning.aborted:
            log.first_dirty_offset = result.end_offset
            tell(log, job, result)
            await self._write_checkpoint(self._directory_of(log))
            return True
        if cleaning.aborted or log.offline:
            logger.info(
                "%s: stopped compacting from offset %d",
                log.name,
                job.first_dirty_offset,
            )
        elif isinstance(result, Failed) and result.errno:
            self._disk_failed(log, result)
        else:
            reason = result.reason if isinstance(result, Failed) else "its process has died"
            logger.error("%s cannot be compacted and stays as it is: %s", log.name, reason)
            self._uncleanable.add(log)
        return False

    def _disk_failed(self, log: PartitionLog, failed: Failed) -> None:
        if failed.errno in DISK_FULL:
            logger.warning("the disk is full, compacting %s later: %s", log.name, failed.reason)
            self._not_before_ms[log] = self._clock() + DISK_FULL_WAIT_MS
        else:
            log.background.failed(OSError(failed.errno, failed.reason))

    def _directory_of(self, log: PartitionLog) -> LogDir:
        assert isinstance(log.background, LogDir)
        return log.background

    async def _write_checkpoint(self, directory: LogDir) -> None:
        found = {key: log.first_dirty_offset for key, log in directory.logs.items()}
        offsets = {key: offset for key, offset in found.items() if offset is not None}
        if directory.offline is not None or offsets == self._written.get(directory):
            return
        try:
            await directory.flusher.run(lambda: write_offsets(directory.path, CLEANER_OFFSET_CHECKPOINT, offsets))
            self._written[directory] = offsets
        except OSError as error:
            directory.failed(error)


def job_for(log: PartitionLog, dirt: Dirt, settings: CleanerSettings, now_ms: int) -> Job:
    config, end_offset, share = log.config, dirt.first_uncleanable_offset, max(settings.threads, 1)
    return Job(
        directory=log.directory,
        inode=os.stat(log.directory).st_ino,
        segments=[(each.base_offset, each.size) for each in log.segments if each.base_offset < end_offset],
        transaction_indexes=[each.base_offset for each in log.segments if each.transactions.exists],
        first_dirty_offset=dirt.first_dirty_offset,
        first_uncleanable_offset=end_offset,
        producers=log.producers.last_offsets(),
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=config.roll_bytes,
        index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        dedupe_bytes=settings.dedupe_buffer_bytes // share,
        load_factor=settings.load_factor,
        io_max_bytes_per_second=settings.io_max_bytes_per_second / share,
    )


def remove_cleaned(directory: str) -> None:
    """What a process that was killed has left."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return
    unlink_all(f"{directory}/{name}" for name in names if name.endswith(CLEANED_SUFFIX))


def tell(log: PartitionLog, job: Job, result: Finished) -> None:
    read, written = result.bytes_read / MEGABYTE, result.bytes_written / MEGABYTE
    logger.info(
        "%s is clean from offset %d to %d: %d of %d records stay, %.1f MB became %.1f MB in %.1f s (%.0f MB/s)",
        log.name,
        job.first_dirty_offset,
        result.end_offset,
        result.records_kept,
        result.records_read,
        read,
        written,
        result.total_s,
        read / max(result.total_s, 1e-9),
    )
