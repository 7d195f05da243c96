"""The log directories of a node and all partitions in them."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import partial

from barnabas.node.storage.directory.checkpoints import REPLICATION_OFFSET_CHECKPOINT, TopicPartition
from barnabas.node.storage.directory.files import FileHandles
from barnabas.node.storage.directory.log_dir import FUTURE_SUFFIX, LogDir, NewPartition, make_directory, out_of_the_way
from barnabas.node.storage.directory.meta_properties import MetaProperties
from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.log_opening import create_log
from barnabas.node.storage.producer_state import DEFAULT_EXPIRATION_MS
from barnabas.node.storage.recovery.loading import Loading, WrongDirectory
from barnabas.node.turns import in_turns
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.uuids import Uuid

logger = logging.getLogger("barnabas.storage")

PREFERRED_MAX = 10_000
MADE_AT_ONCE = 64


async def in_turns_with_files(directory: LogDir, partitions: Sequence[NewPartition]) -> AsyncIterator[NewPartition]:
    """New partitions whose files are there: those of the next ones are made meanwhile, by the thread of the disk."""
    pieces = [partitions[at : at + MADE_AT_ONCE] for at in range(0, len(partitions), MADE_AT_ONCE)]
    try:
        files = directory.flusher.run(partial(directory.make_directories, pieces[0]))
        for number, piece in enumerate(pieces, 1):
            await files
            if number < len(pieces):
                files = directory.flusher.run(partial(directory.make_directories, pieces[number]))
            async for new in in_turns(piece):
                yield new
    except OSError as error:
        directory.failed(error)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{directory.path}: {error}") from error


class LogDirs:
    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]],
        *,
        on_failure: Callable[[LogDir, OSError], None] | None = None,
        max_open_files: int = 512,
        producer_id_expiration_ms: int = DEFAULT_EXPIRATION_MS,
    ) -> None:
        """Takes the locks: raises `DirectoryLocked` or `BadMetaProperties`, and then holds none.

        A directory that cannot be used is offline; an OSError if none can.
        """
        self.handles = FileHandles(max_open_files)
        self.producer_id_expiration_ms = producer_id_expiration_ms
        self.dirs: list[LogDir] = []
        self.preferred: dict[TopicPartition, LogDir] = {}
        try:
            for path in paths:
                self.dirs.append(self._take(os.fspath(path), on_failure))
            if not self.online and self.dirs:
                raise self.dirs[0].offline or OSError("no directory")
            for each in self.dirs:
                if each.offline is not None:
                    logger.error("The log directory %s cannot be used and is offline: %s", each.path, each.offline)
        except BaseException:
            for each in self.dirs:
                each.release()
            raise

    def _take(self, path: str, on_failure: Callable[[LogDir, OSError], None] | None) -> LogDir:
        try:
            return LogDir(path, handles=self.handles, on_failure=on_failure)
        except OSError as error:
            return LogDir(path, handles=self.handles, on_failure=on_failure, unusable=error)

    def __iter__(self) -> Iterator[PartitionLog]:
        return (log for each in self.dirs for log in each.logs.values())

    @property
    def online(self) -> list[LogDir]:
        return [each for each in self.dirs if each.offline is None]

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        for each in self.dirs:
            if log := each.logs.get((topic, partition)):
                return log
        return None

    def future_of(self, topic: str, partition: int) -> PartitionLog | None:
        """The replica that is on its way to another directory."""
        for each in self.dirs:
            if log := each.future_logs.get((topic, partition)):
                return log
        return None

    def dir_of(self, log: PartitionLog) -> LogDir:
        directory = log.background
        assert isinstance(directory, LogDir)
        return directory

    # -- identity

    def meta(self) -> MetaProperties | None:
        """What the directories say they belong to, None if all are new."""
        found = [(each.path, each.meta) for each in self.dirs if each.meta is not None]
        for path, meta in found[1:]:
            first_path, first = found[0]
            if (meta.cluster_id, meta.node_id) != (first.cluster_id, first.node_id):
                raise WrongDirectory(
                    f"{path} belongs to node {meta.node_id} of cluster {meta.cluster_id}, "
                    f"but {first_path} to node {first.node_id} of cluster {first.cluster_id}"
                )
        return found[0][1] if found else None

    def identify(self, cluster_id: str, node_id: int, *, first_directory_id: Uuid | None = None) -> None:
        """Refuse directories of another cluster or node, and write `meta.properties` where there is none yet."""
        meta = self.meta()
        if meta is not None and meta.cluster_id != cluster_id:
            raise WrongDirectory(f"{self.dirs[0].path} belongs to cluster {meta.cluster_id}, not to {cluster_id}")
        if meta is not None and meta.node_id != node_id:
            raise WrongDirectory(f"{self.dirs[0].path} belongs to node {meta.node_id}, not to node {node_id}")
        for slot, each in enumerate(self.dirs):
            if each.meta is None and each.offline is None:
                given = first_directory_id if slot == 0 else None
                each.write_meta(MetaProperties(cluster_id, node_id, given or Uuid.random()))

    # -- loading

    def begin(self) -> None:
        """Read and remove the marks of a clean stop; `was_clean` and `previous_broker_epoch` of each dir are known."""
        for each in self.online:
            try:
                each.begin()
            except OSError as error:
                each.failed(error)

    async def load(
        self,
        config_for: Callable[[str], LogConfig],
        *,
        now_ms: int,
        home_of: Callable[[str, int], Uuid | None] = lambda topic, partition: None,
        recovery_children_per_dir: int = 2,
    ) -> None:
        """Open every partition on disk, scanning those that were not closed cleanly; `config_for` takes a topic.

        `home_of` knows the directory of a partition, should there be two of them: a move that was cut short.
        """
        loading = Loading(
            config_for,
            home_of,
            now_ms=now_ms,
            producer_id_expiration_ms=self.producer_id_expiration_ms,
            children_per_dir=recovery_children_per_dir,
        )
        await loading.run(self.online)

    # -- partitions

    async def create_partitions(self, partitions: Sequence[NewPartition], *, now_ms: int) -> list[PartitionLog]:
        """New, empty logs. One that is there already, with the same topic id, is kept."""
        created: dict[TopicPartition, PartitionLog] = {}
        per_dir: dict[LogDir, list[NewPartition]] = {}
        counts = {each: len(each.all_logs()) for each in self.online}
        async for new in in_turns(partitions):
            present = self.get(new.topic, new.partition)
            if present is not None and present.topic_id in (None, new.topic_id):
                present.topic_id = new.topic_id
                created[new.topic, new.partition] = present
                continue
            if present is not None:
                self.dir_of(present).remove(present)
            chosen = self._choose(new, counts)
            counts[chosen] += 1
            per_dir.setdefault(chosen, []).append(new)
        for directory, news in per_dir.items():
            async for new in in_turns_with_files(directory, news):
                key = (new.topic, new.partition)
                created[key] = directory.logs[key] = self._create(directory, new, now_ms)
            directory.sync_directories()
        return [created[new.topic, new.partition] for new in partitions]

    def _create(self, directory: LogDir, new: NewPartition, now_ms: int) -> PartitionLog:
        return create_log(
            directory.directory_of(new.topic, new.partition),
            new.topic,
            new.partition,
            new.config,
            now_ms=now_ms,
            producer_id_expiration_ms=self.producer_id_expiration_ms,
            handles=self.handles,
            background=directory,
            topic_id=new.topic_id,
            files_exist=True,
        )

    def prefer(self, topic: str, partition: int, directory: LogDir) -> None:
        """Where a partition that does not exist yet is to be made."""
        if len(self.preferred) < PREFERRED_MAX:
            self.preferred[topic, partition] = directory

    async def create_future(self, log: PartitionLog, directory: LogDir, topic_id: Uuid, *, now_ms: int) -> PartitionLog:
        """An empty replica in another directory, to which this one's records will be copied."""
        start_offset = log.log_start_offset
        path = f"{directory.path}/{out_of_the_way(log.topic, log.partition, FUTURE_SUFFIX)}"

        def make() -> None:
            directory.forget_checkpointed([(log.topic, log.partition)])
            make_directory(path, topic_id, start_offset=start_offset)

        try:
            try:
                await directory.flusher.run(make)
            except asyncio.CancelledError:
                directory.flusher.run(lambda: shutil.rmtree(path, ignore_errors=True))
                raise
            future = create_log(
                path,
                log.topic,
                log.partition,
                log.config,
                now_ms=now_ms,
                start_offset=start_offset,
                producer_id_expiration_ms=self.producer_id_expiration_ms,
                handles=self.handles,
                background=directory,
                topic_id=topic_id,
                files_exist=True,
            )
        except OSError as error:
            directory.failed(error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{directory.path}: {error}") from error
        directory.future_logs[log.topic, log.partition] = future
        return future

    def _choose(self, new: NewPartition, counts: Mapping[LogDir, int]) -> LogDir:
        if not counts:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "All log directories are offline")
        wanted = next((each for each in counts if each.directory_id == new.directory_id), None)
        preferred = self.preferred.pop((new.topic, new.partition), None)
        if wanted is None and preferred is not None and preferred in counts:
            return preferred
        return wanted or min(counts, key=counts.__getitem__)

    async def truncate(self, log: PartitionLog, offset: int, *, now_ms: int) -> bool:
        """Keep what is below `offset`; False if there was nothing behind it. Until it is done nothing is appended."""
        if offset < log.log_start_offset:
            await self.dir_of(log).start_deletion.idle()  # the names of deleted segments may be needed again
        if not log.truncate_to(offset, now_ms=now_ms):
            return False
        await self.settle_cut(log)
        return True

    async def settle_cut(self, log: PartitionLog) -> None:
        """What was cut off stays so: otherwise a crash might undo it and keep what was appended behind it. So does the
        recovery point: one above the end would spare what is appended next from being looked at.
        """
        directory = self.dir_of(log)
        await directory.sync(log)
        try:
            await directory.write_checkpoints()
        except OSError as error:
            directory.failed(error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{directory.path}: {error}") from error

    # -- durability

    def sync(self, log: PartitionLog) -> asyncio.Future[int]:
        """Await it: everything appended to `log` so far is on the disk."""
        return self.dir_of(log).sync(log)

    def flush_overdue(self, now_ms: int) -> None:
        """Start flushing the logs whose `flush.ms` has passed."""
        for each in self.online:
            for log in each.all_logs():
                if log.is_flush_overdue(now_ms):
                    log.flushes.last_flush_ms = now_ms
                    each.flush_later(log)

    def read_high_watermarks(self) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for each in self.online:
            found |= each.read_checkpoint(REPLICATION_OFFSET_CHECKPOINT)
        return found

    async def write_checkpoints(self, high_watermarks: Mapping[TopicPartition, int] | None = None) -> None:
        """Recovery points, log start offsets and, if given, high watermarks: every minute and at the stop."""
        for each in self.online:
            try:
                await each.write_checkpoints(high_watermarks)
            except OSError as error:
                each.failed(error)

    async def close(
        self, *, clean: bool, broker_epoch: int = -1, high_watermarks: Mapping[TopicPartition, int] | None = None
    ) -> None:
        for each in self.dirs:
            await each.close(clean=clean, broker_epoch=broker_epoch, high_watermarks=high_watermarks)
