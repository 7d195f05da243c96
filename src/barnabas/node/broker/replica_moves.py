"""Replicas on their way from one log directory of this node to another.

A move makes a future replica (`topic-0.<uuid>-future`) in the new directory and copies the records there, while the
partition goes on being written and read in the old one. Then:

    caught up    the future replica is flushed, and the controller told that the replica lies in the new directory
    told         what came in meanwhile is copied; in one turn of the loop, in which nobody can write, the rest is
                 copied, the old directory renamed to `-delete` and the future one to the replica's name
    stopped      by a restart, whenever: the move is resumed, or completed if only the renaming was missing
    given up     the topic is deleted, or another directory asked for: the future replica is removed
    failed       a disk is offline, or the controller does not answer: the next start resumes the move
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine
from functools import partial

from barnabas.node.broker.partition import Partition
from barnabas.node.broker.partitions import Partitions
from barnabas.node.broker.registration import BrokerLife
from barnabas.node.broker.replication.throttles import BrokerThrottle
from barnabas.node.storage.directory.background import IndexBeingRepaired
from barnabas.node.storage.directory.log_dir import FUTURE_SUFFIX, NAME_BYTES_MAX, LogDir
from barnabas.node.storage.directory.log_dirs import LogDirs
from barnabas.node.storage.leader_epochs import LeaderEpochs
from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.placing import begins_before
from barnabas.wire.compression import Buffer
from barnabas.wire.errors import ErrorCode, KafkaError

logger = logging.getLogger("barnabas.moves")

COPY_BYTES = 128 * 1024
LAST_BYTES = 256 * 1024  # so much is copied in the turn that ends a move
SETTLE_ROUNDS = 50
THROTTLED_S = 0.5  # then it is asked again: the rate may be another one
UUID_CHARACTERS = 32

TopicPartition = tuple[str, int]


class GivenUp(Exception):
    """The move has lost its point."""


class ReplicaMoves:
    def __init__(
        self,
        partitions: Partitions,
        log_dirs: LogDirs,
        broker: BrokerLife,
        clock: Callable[[], int],
        throttle: BrokerThrottle,
        replicas_at_once: int,
    ) -> None:
        self._partitions = partitions
        self._log_dirs = log_dirs
        self._broker = broker
        self._clock = clock
        self._throttle = throttle
        self._slots = asyncio.Semaphore(max(replicas_at_once, 1))
        self._moves: dict[TopicPartition, tuple[LogDir, asyncio.Task[None]]] = {}
        self._telling: set[asyncio.Task[None]] = set()

    def resume(self) -> None:
        """At the start: the future replicas that were found on disk."""
        for directory in self._log_dirs.online:
            for key in list(directory.future_logs):
                partition = self._partitions.get(*key)
                if partition is not None:
                    self._begin(partition, directory)

    def ask(self, topic: str, index: int, path: str, missing_error: ErrorCode) -> None:
        """Begin to move a replica, or remember where one that is not here yet shall be made. Raises `KafkaError`."""
        name = f"{topic}-{index}.{'0' * UUID_CHARACTERS}{FUTURE_SUFFIX}"
        if len(name) > NAME_BYTES_MAX:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic name is too long.")
        directory = next((each for each in self._log_dirs.dirs if each.path == path), None)
        if directory is None:
            raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is no log directory of this node.")
        partition = self._partitions.get(topic, index)
        if directory.offline is not None or (partition is not None and partition.log.offline):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{path} or the directory of {topic}-{index} is offline.")
        if partition is None:
            self._log_dirs.prefer(topic, index, directory)
            if missing_error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                missing_error = ErrorCode.REPLICA_NOT_AVAILABLE
            raise KafkaError(missing_error, f"{topic}-{index} is not on this node.")
        under_way = self._moves.get((topic, index))
        if under_way is not None and under_way[0] is directory:
            return
        current = self._log_dirs.dir_of(partition.log)
        if under_way is not None:
            under_way[1].cancel()
            self._discard((topic, index))
        if current is directory:
            if under_way is not None:  # the controller may have been told already
                self._keep(self._stay(partition, directory))
            return
        if len(self._log_dirs.online) < len(self._log_dirs.dirs):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "No replica is moved while a log directory is offline.")
        self._begin(partition, directory)

    def directory_lost(self, directory: LogDir) -> None:
        """The controller learns of a failed disk, and clients from it that its partitions have no leader."""
        if directory.directory_id is not None:
            self._keep(self._broker.report_lost_directory(directory.directory_id, directory.path))

    async def stop(self) -> None:
        """Ends what is under way; it is resumed at the next start."""
        tasks = [*self._telling, *(task for _, task in self._moves.values())]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _begin(self, partition: Partition, directory: LogDir) -> None:
        key = partition.topic, partition.index
        task = asyncio.get_running_loop().create_task(self._run(partition, directory))
        self._moves[key] = directory, task
        task.add_done_callback(partial(self._ended, key))

    def _keep(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    def _ended(self, key: TopicPartition, task: asyncio.Task[None]) -> None:
        if key in self._moves and self._moves[key][1] is task:
            del self._moves[key]

    def _discard(self, key: TopicPartition) -> None:
        future = self._log_dirs.future_of(*key)
        directory = self._log_dirs.dir_of(future) if future is not None else None
        if future is not None and directory is not None and directory.offline is None:
            try:
                directory.remove(future)
            except OSError as error:
                directory.failed(error)

    async def _run(self, partition: Partition, directory: LogDir) -> None:
        key = partition.topic, partition.index
        try:
            async with self._slots:
                await self._move_with_indexes(partition, directory)
            logger.info("%s-%d has moved to %s", *key, directory.path)
        except GivenUp as reason:
            logger.info("gave up moving %s-%d to %s: %s", *key, directory.path, reason)
            self._discard(key)
        except (KafkaError, OSError) as error:
            logger.error("could not move %s-%d to %s: %s", *key, directory.path, error)

    async def _move_with_indexes(self, partition: Partition, directory: LogDir) -> None:
        while True:
            try:
                return await self._move(partition, directory)
            except IndexBeingRepaired as repair:  # it goes on where it was
                await asyncio.shield(repair.done)

    async def _move(self, partition: Partition, directory: LogDir) -> None:
        source = partition.log
        future = directory.future_logs.get((partition.topic, partition.index))
        if future is None:
            topic_id = partition.topic_id
            future = await self._log_dirs.create_future(source, directory, topic_id, now_ms=self._clock())
        copy = Copy(partition, source, future, self._log_dirs, self._clock)
        await copy.catch_up(self._throttle)
        await directory.sync(future)
        await copy.catch_up(self._throttle)
        await self._place(partition, directory)
        old = self._log_dirs.dir_of(source)
        for _ in range(SETTLE_ROUNDS):
            await copy.catch_up(self._throttle)
            if old.flusher.is_awaited(source) or source.recovery_point > future.recovery_point:
                await directory.sync(future)
                continue
            break
        copy.rest()
        if source.recovery_point > future.recovery_point or old.flusher.is_awaited(source):
            future.flush()  # what was, or is about to be, acknowledged as being on the disk has to be on it
        old.flusher.settle(source, future.recovery_point)
        copy.hand_over()
        rename(old, partial(old.remove, source))
        rename(directory, partial(directory.promote, future))

    async def _place(self, partition: Partition, directory: LogDir) -> None:
        """The replica lies in this directory, or will in a moment."""
        assert directory.directory_id is not None
        await self._broker.assign_replicas({(partition.topic_id, partition.index): directory.directory_id})

    async def _stay(self, partition: Partition, directory: LogDir) -> None:
        try:
            await self._place(partition, directory)
        except KafkaError as error:
            logger.warning(
                "could not tell the controller that %s stays in %s: %s",
                partition.log.name,
                directory.path,
                error.message,
            )


def rename(directory: LogDir, work: Callable[[], None]) -> None:
    """The replica is the one in the new directory by now, whatever becomes of the names: it must get its own, or the
    next start would take the old one for the replica, and cut the new one where that ends."""
    try:
        work()
    except OSError as error:
        directory.failed(error)


class Copy:
    def __init__(
        self,
        partition: Partition,
        source: PartitionLog,
        future: PartitionLog,
        log_dirs: LogDirs,
        clock: Callable[[], int],
    ) -> None:
        self._partition = partition
        self._source = source
        self._future = future
        self._log_dirs = log_dirs
        self._clock = clock
        self._was_cut = False  # and that is not surely on the disk

    async def catch_up(self, throttle: BrokerThrottle) -> None:
        """Until no more is missing than can be copied in one turn. All moves together keep the rate."""
        while self._align() or self._was_cut:
            if self._was_cut:
                self._was_cut = False
                await self._log_dirs.settle_cut(self._future)
            elif self._missing_bytes() <= LAST_BYTES:
                break
            elif rest_s := throttle.rest_s:
                await asyncio.sleep(min(rest_s, THROTTLED_S))
            else:
                throttle.record(await self._step())

    def rest(self) -> None:
        """The last part, in one turn."""
        while self._align():
            offset = self._future.log_end_offset
            self._append(self._source.read(offset, COPY_BYTES))

    def _append(self, batches: Buffer) -> None:
        future = self._future
        base_offset = begins_before(batches, future.log_start_offset, future.log_end_offset)
        if base_offset is not None:
            future.truncate_fully_and_start_at(base_offset, now_ms=self._clock())
        future.append_as_follower(batches, now_ms=self._clock())

    def hand_over(self) -> None:
        """What is known of the log and not in its batches alone."""
        source, future = self._source, self._future
        future.epochs = LeaderEpochs(source.epochs.entries())
        future.epochs.dirty = True
        source.producers.snapshot_offset = future.producers.snapshot_offset
        future.producers = source.producers
        future.config = source.config
        self._partition.move_to(future)
        source.producers = type(source.producers)(source.name, source.directory)
        future.relocate(future.directory)

    def _align(self) -> bool:
        """The future log starts where the source does, and has nothing that the source has lost. False: it is equal."""
        source, future = self._source, self._future
        if self._partition.is_gone or self._partition.log is not source:
            raise GivenUp("the partition is gone")
        if source.offline or future.offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "a log directory is offline")
        if future.config is not source.config:
            future.config = source.config
        now_ms = self._clock()
        epoch, end_offset = source.end_offset_for_epoch(future.epochs.latest)
        end_offset = min(end_offset if epoch >= 0 else source.log_end_offset, source.log_end_offset)
        if end_offset < future.log_end_offset:
            future.truncate_to(end_offset, now_ms=now_ms)
            self._was_cut = True
        if source.log_start_offset > future.log_end_offset:
            future.truncate_fully_and_start_at(source.log_start_offset, now_ms=now_ms)
            self._was_cut = True
        elif source.log_start_offset > future.log_start_offset:
            future.advance_log_start_offset(source.log_start_offset)
        return future.log_end_offset < source.log_end_offset

    def _missing_bytes(self) -> int:
        return self._source.bytes_from(self._future.log_end_offset)

    async def _step(self) -> int:
        source, future = self._source, self._future
        found = source.find(future.log_end_offset, COPY_BYTES)
        if found is None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "nothing is found behind the copied records")
        segment, start, end = found
        fd = os.dup(segment.file.fileno())
        try:
            read = partial(os.pread, fd, end - start, start)
            chunk = await asyncio.get_running_loop().run_in_executor(None, read)
        finally:
            os.close(fd)
        if self._align() and not self._was_cut:
            self._append(chunk)
        return len(chunk)
