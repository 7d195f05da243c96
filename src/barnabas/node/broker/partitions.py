"""The partitions of this node: made, changed and removed as the committed metadata says, and looked after.

`start` pairs the logs found on disk with the image: a directory whose topic the cluster does not know, or knows by
another id, is set aside as stray; a partition without a directory gets one. `apply` follows every committed delta.
Afterwards the partitions' checkpoints are written, their overdue flushes started and their producer ids expired in the
background, at the intervals that the broker's configuration gives.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass

from barnabas.core.metadata.state import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataDelta, MetadataImage, PartitionState
from barnabas.node.broker.neighbours import Neighbours
from barnabas.node.broker.partition import Partition
from barnabas.node.storage.directory.log_dir import LogDir, NewPartition
from barnabas.node.storage.directory.log_dirs import LogDirs
from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.log_config import LONG_MAX, LogConfig
from barnabas.node.turns import in_turns
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.uuids import ZERO_UUID, Uuid

logger = logging.getLogger("barnabas.partitions")

# Directory ids below this are reserved: unassigned, lost, migrating.
RESERVED_DIRECTORIES = 100
FLUSH_CHECK_MS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """How often what is due is looked for; Kafka's defaults."""

    high_watermark_checkpoint_ms: int = 5_000
    recovery_point_checkpoint_ms: int = 60_000
    flush_check_ms: int = FLUSH_CHECK_MS
    producer_id_expiration_check_ms: int = 600_000


class Partitions:
    def __init__(
        self,
        node_id: int,
        log_dirs: LogDirs,
        config_for: Callable[[str], LogConfig],
        clock: Callable[[], int],
        intervals: Intervals | None = None,
        neighbours: Neighbours | None = None,
    ) -> None:
        """`config_for` gives the configuration of a topic's logs as it is now."""
        self._neighbours = neighbours
        self._node_id = node_id
        self._log_dirs = log_dirs
        self._config_for = config_for
        self._clock = clock
        self._intervals = intervals or Intervals()
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._tasks: set[asyncio.Future[None]] = set()
        self._written_high_watermarks: dict[tuple[str, int], int] = {}
        self._flushes_by_time = False
        # Topics with a partition whose directory was not there at the start.
        self._elsewhere: set[Uuid] = set()

    def get(self, topic: str, index: int) -> Partition | None:
        return self._partitions.get((topic, index))

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)

    def missing_error(self, image: MetadataImage, topic: str, index: int) -> ErrorCode:
        """Why `get` has found nothing."""
        known = image.topics.get(topic)
        if known is None or index not in known.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        directory_is_gone = known.topic_id in self._elsewhere or len(self._log_dirs.online) < len(self._log_dirs.dirs)
        if self._node_id in known.partitions[index].replicas and directory_is_gone:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def high_watermarks(self) -> dict[tuple[str, int], int]:
        return {key: partition.high_watermark for key, partition in self._partitions.items()}

    # Following the metadata

    async def start(self, image: MetadataImage) -> None:
        """After `LogDirs.load`: takes over the logs on disk and makes those that are missing."""
        high_watermarks = self._log_dirs.read_high_watermarks()
        for log in list(self._log_dirs):
            state = self._state_of(image, log)
            if state is None:
                logger.warning("%s belongs to no partition of this node; it is renamed to *-stray", log.directory)
                self._log_dirs.dir_of(log).set_aside(log)
            else:
                log.topic_id = state.topic_id
                self._add(state, log, high_watermarks.get((log.topic, log.partition), log.log_start_offset))
        self._take_futures(image, high_watermarks)
        states = [state for topic in image.topics.values() for state in topic.partitions.values()]
        missing = [state for state in states if (state.topic, state.index) not in self._partitions]
        gone = [state for state in missing if not self._is_elsewhere(state)]
        self._report_gone(gone)
        await self._create(gone)
        self._written_high_watermarks = high_watermarks
        self._look_after()

    def _take_futures(self, image: MetadataImage, high_watermarks: dict[tuple[str, int], int]) -> None:
        """Replicas that were on their way to another directory.

        One that the metadata already has there, and that is nowhere else, has arrived: the node stopped before it could
        be renamed.
        """
        for directory in self._log_dirs.online:
            for key, log in list(directory.future_logs.items()):
                state = self._state_of(image, log)
                if state is None or self._log_dirs.future_of(*key) is not log or key in directory.logs:
                    directory.remove(log)
                elif key not in self._partitions and self._directory_of(state) == directory.directory_id:
                    directory.promote(log)
                    self._add(state, log, high_watermarks.get(key, log.log_start_offset))

    async def apply(self, delta: MetadataDelta) -> None:
        """A committed change. New partitions can be written to when this returns."""
        for topic in delta.deleted_topics:
            await self._delete([(topic.name, index) for index in topic.partitions], topic.topic_id)
        new: list[PartitionState] = []
        async for state in in_turns(delta.partitions):
            partition = self._partitions.get((state.topic, state.index))
            if partition is None:
                if not self._is_lost(state):
                    new.append(state)
            elif self._node_id in state.replicas:
                partition.apply(state, self._clock())
            else:
                await self._delete([(state.topic, state.index)], state.topic_id)
        await self._create(new)
        self._configure(delta)

    def home_of(self, image: MetadataImage, topic: str, index: int) -> Uuid | None:
        """The directory in which the metadata has this node's replica."""
        known = image.topics.get(topic)
        state = known.partitions.get(index) if known is not None else None
        return self._directory_of(state) if state is not None and self._node_id in state.replicas else None

    def log_dir_failed(self, directory: LogDir) -> None:
        """Its partitions are no longer served; whoever waits for one of them is told."""
        for key in directory.logs:
            partition = self._partitions.get(key)
            if partition is not None:
                partition.wake_all()

    def _state_of(self, image: MetadataImage, log: PartitionLog) -> PartitionState | None:
        topic = image.topics.get(log.topic)
        if topic is None or log.topic_id not in (None, topic.topic_id):
            return None
        state = topic.partitions.get(log.partition)
        return state if state is not None and self._node_id in state.replicas else None

    def _is_elsewhere(self, state: PartitionState) -> bool:
        """It was in a directory that is not there now: an empty one in its place would hide its records."""
        if self._node_id not in state.replicas:
            return False
        online = {each.directory_id for each in self._log_dirs.online}
        directory = self._directory_of(state)
        if directory in online or (directory is None and len(online) == len(self._log_dirs.dirs)):
            return False
        if self._is_copied_anew(state):
            return False
        logger.error("%s-%d is offline: its log directory %s is not there", state.topic, state.index, directory or "")
        self._elsewhere.add(state.topic_id)
        return True

    def _is_copied_anew(self, state: PartitionState) -> bool:
        """A disk was replaced: others have what this replica had, and every directory there should be is there."""
        needed = {*state.isr, *state.eligible_leader_replicas, *state.last_known_elr}
        others_have_it = bool(state.isr) and self._node_id not in needed
        if not others_have_it or len(self._log_dirs.online) < len(self._log_dirs.dirs):
            return False
        text = "%s-%d is not in the log directory that it was in, and is copied anew from the replicas in sync"
        logger.warning(text, state.topic, state.index)
        return True

    def _report_gone(self, states: Iterable[PartitionState]) -> None:
        for state in states:
            for directory in self._log_dirs.online:
                if end_offset := directory.gone.get((state.topic, state.index)):
                    path = directory.directory_of(state.topic, state.index)
                    text = "%s is gone, although records up to offset %d were on the disk: the partition begins empty"
                    logger.error(text, path, end_offset)

    def _is_lost(self, state: PartitionState) -> bool:
        """It is not new: its directory was not there at the start, or has failed since."""
        if self._node_id not in state.replicas:
            return False
        directory = self._directory_of(state)
        if directory is not None:
            is_online = directory in {each.directory_id for each in self._log_dirs.online}
            return not is_online and not self._is_copied_anew(state)
        return state.topic_id in self._elsewhere and state.partition_epoch > 0

    async def _create(self, states: Iterable[PartitionState]) -> None:
        """A directory that fails on the way costs only those that the metadata has there: the others are made anew."""
        wanted = [state for state in states if self._node_id in state.replicas]
        while wanted:
            online = len(self._log_dirs.online)
            try:
                return await self._create_all(wanted)
            except KafkaError as error:
                logger.error("could not create the logs of %d partitions: %s", len(wanted), error.message)
            if not 0 < len(self._log_dirs.online) < online:
                return None
            wanted = [state for state in wanted if not self._is_lost(state)]

    async def _create_all(self, states: list[PartitionState]) -> None:
        wanted = [
            NewPartition(
                state.topic, state.index, state.topic_id, self._config_for(state.topic), self._directory_of(state)
            )
            async for state in in_turns(states)
        ]
        logs = await self._log_dirs.create_partitions(wanted, now_ms=self._clock())
        async for state, log in in_turns(zip(states, logs, strict=True)):
            self._add(state, log, log.log_start_offset)

    def _directory_of(self, state: PartitionState) -> Uuid | None:
        directory = state.directories[state.replicas.index(self._node_id)] if state.directories else ZERO_UUID
        return None if int.from_bytes(directory, "big") < RESERVED_DIRECTORIES else directory

    def _add(self, state: PartitionState, log: PartitionLog, high_watermark: int) -> None:
        self._partitions[state.topic, state.index] = Partition(
            self._node_id, state, log, high_watermark, neighbours=self._neighbours, now_ms=self._clock()
        )
        self._flushes_by_time = self._flushes_by_time or log.config.flush_ms < LONG_MAX

    async def _delete(self, keys: list[tuple[str, int]], topic_id: Uuid) -> None:
        """The directory is out of the way when this returns, so that a topic of the same name can follow at once."""
        async for key in in_turns(keys):
            partition = self._partitions.get(key)
            if partition is None or partition.topic_id != topic_id:
                continue
            del self._partitions[key]
            partition.retire()
            directory = self._log_dirs.dir_of(partition.log)
            try:
                directory.remove(partition.log)
            except OSError as error:
                directory.failed(error)

    def _configure(self, delta: MetadataDelta) -> None:
        everywhere = any(kind == BROKER_RESOURCE for kind, _ in delta.configs)
        topics = {name for kind, name in delta.configs if kind == TOPIC_RESOURCE}
        if everywhere or topics:
            for partition in self._partitions.values():
                if everywhere or partition.topic in topics:
                    partition.reconfigure(self._config_for(partition.topic), self._clock())
            self._flushes_by_time = any(each.log.config.flush_ms < LONG_MAX for each in self)

    # Looking after them

    def _look_after(self) -> None:
        intervals = self._intervals
        self._repeat(intervals.high_watermark_checkpoint_ms, self._checkpoint_high_watermarks)
        self._repeat(intervals.recovery_point_checkpoint_ms, self._log_dirs.write_checkpoints)
        self._repeat(intervals.flush_check_ms, self._flush_overdue)
        self._repeat(intervals.producer_id_expiration_check_ms, self._expire_producer_ids)

    async def _checkpoint_high_watermarks(self) -> None:
        high_watermarks = self.high_watermarks()
        if high_watermarks != self._written_high_watermarks:
            self._written_high_watermarks = high_watermarks
            await self._log_dirs.write_checkpoints(high_watermarks)

    async def _flush_overdue(self) -> None:
        if self._flushes_by_time:
            self._log_dirs.flush_overdue(self._clock())

    async def _expire_producer_ids(self) -> None:
        now_ms = self._clock()
        for partition in self:
            partition.log.producers.expire(now_ms)

    def _repeat(self, interval_ms: int, work: Callable[[], Awaitable[None]]) -> None:
        async def forever() -> None:
            while True:
                await asyncio.sleep(interval_ms / 1000)
                try:
                    await work()
                except Exception:
                    logger.exception("could not write checkpoints, flush logs or expire producer ids; trying again")

        if interval_ms < LONG_MAX:
            self._keep(asyncio.ensure_future(forever()))

    def _keep(self, work: asyncio.Future[None]) -> None:
        """Until it is done; a task that nobody refers to may vanish."""
        self._tasks.add(work)
        work.add_done_callback(self._done)

    def _done(self, work: asyncio.Future[None]) -> None:
        self._tasks.discard(work)
        if not work.cancelled() and (error := work.exception()) is not None:
            logger.error(
                "the task that writes checkpoints and flushes logs has failed",
                exc_info=error,
            )

    async def stop(self) -> None:
        """Nobody is served any more: wakes who waits, and ends what runs in the background."""
        for partition in self:
            partition.wake_all()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
