"""One seed, several lives of the partitions of a node on a disk that forgets; `PartitionsStory(seed, directory).run()`.

In each life the real `LogDirs` opens what the crash before has left, and everything is compared with what was written.
Then records, transactions, syncs, checkpoints, rolls, retention, compaction, truncations, deletions follow at random,
until the power goes, between any two file operations, those of recovery included; or until the node stops cleanly. In
some lives one operation fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from barnabas.node.storage.cleaning.cleaner import Cleaner, CleanerSettings
from barnabas.node.storage.directory.checkpoints import TopicPartition
from barnabas.node.storage.directory.log_dir import NewPartition
from barnabas.node.storage.directory.log_dirs import LogDirs
from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.origin import Origin
from barnabas.node.storage.placing import Appended
from barnabas.node.storage.producer_state import (
    ABORT_MARKER,
    COMMIT_MARKER,
    MARKER_KEY,
    MARKER_VALUE,
    NO_TRANSACTION,
    ProducerEntry,
)
from barnabas.node.storage.retention import Retention
from barnabas.wire.batch import Record, build_batch, stamp
from barnabas.wire.uuids import Uuid
from tests.support.simulated_disk_cleaner import Replicas, SimulatedCleanerProcess
from tests.support.simulated_disk_history import History, Stored
from tests.support.simulated_disk_story import Story
from tests.support.simulated_disk_threads import SimulatedThreads

BEGINNING_MS = 1_700_000_000_000
PRODUCERS = 3
KEYS = 5
LIVES_MAX = 4
CLEANER = CleanerSettings(enable=False)  # it is told when to work


class PartitionsStory(Story):
    lives_max = LIVES_MAX
    crash_after = (40, 200, 1000)
    cleanup_policies: tuple[tuple[str, ...], ...] = (("delete",), ("delete",), ("compact",))

    def __init__(self, seed: int, directory: Path) -> None:
        super().__init__(seed, directory)
        self.now_ms = BEGINNING_MS
        self.histories: dict[TopicPartition, History] = {}
        self.deleted: dict[TopicPartition, Uuid] = {}
        self.made = 0
        self.cleaner: Cleaner
        self.cleaning: asyncio.Task[bool] | None = None
        self.process: SimulatedCleanerProcess

    # -- one life

    async def _life(self, path: Path, threads: SimulatedThreads, check_only: bool) -> None:
        self.process = SimulatedCleanerProcess(threads.executor())
        dirs = LogDirs([str(path)], max_open_files=self.random.choice((8, 512)))
        dirs.identify("a-cluster", 1)
        dirs.begin()
        await dirs.load(self._config_for, now_ms=self.now_ms)
        self._check(dirs)
        if check_only:
            await dirs.close(clean=False)
            return
        await self._create(dirs)
        self.cleaning, self.cleaner = (
            None,
            Cleaner(Replicas(dirs, self.histories), dirs.dirs, lambda: self.now_ms, CLEANER),
        )
        self.cleaner.start()
        await self._do_things(dirs)
        await self.cleaner.stop()
        if self.cleaning is not None:
            await self.cleaning
        await dirs.close(clean=True)
        if dirs.dirs[0].offline is None:
            for history in self.histories.values():
                history.synced(history.end_offset, len(history.truncations))

    def _config_for(self, topic: str) -> LogConfig:
        history = self.histories.get((topic, 0))
        return history.config if history else LogConfig()

    def _check(self, dirs: LogDirs) -> None:
        assert dirs.dirs[0].offline is None or self.disk.failed, f"offline: {dirs.dirs[0].offline}"
        if dirs.dirs[0].offline is not None:
            raise dirs.dirs[0].offline
        undone = [each for each in dirs if (each.topic, each.partition) in self.deleted]
        for gone in undone:  # deletions that were not yet durable
            dirs.dir_of(gone).remove(gone)
        for (topic, partition), history in list(self.histories.items()):
            log = dirs.get(topic, partition)
            if log is None:
                assert not history.is_durable, f"{topic}-{partition} is gone"
                del self.histories[topic, partition]
                continue
            assert log.topic_id in (None, history.topic_id)
            history.check(log, self.random)

    async def _create(self, dirs: LogDirs) -> None:
        wanted = []
        for _ in range(len(self.histories), self.random.randint(1, 3)):
            self.made += 1
            topic = f"topic{self.made}"
            config = self._config()
            self.histories[topic, 0] = History(Uuid(self.random.randbytes(16)), config)
            wanted.append(NewPartition(topic, 0, self.histories[topic, 0].topic_id, config))
        if wanted:
            await dirs.create_partitions(wanted, now_ms=self.now_ms)

    def _config(self) -> LogConfig:
        choice = self.random.choice
        return LogConfig(
            segment_bytes=choice((2_000, 12_000, 40_000)),
            index_interval_bytes=choice((1, 500, 4096)),
            retention_bytes=choice((-1, 20_000)),
            file_delete_delay_ms=choice((0, 60_000)),
            preallocate=self.random.random() < 0.1,
            cleanup_policy=choice(self.cleanup_policies),
            min_cleanable_dirty_ratio=0.01,
        )

    async def _do_things(self, dirs: LogDirs) -> None:
        deeds: list[tuple[Callable[[LogDirs, PartitionLog, History], Awaitable[None] | None], float]] = [
            (self._append, 60),
            (self._sync, 10),
            (self._sync_and_wait, 5),
            (self._checkpoint, 5),
            (self._roll, 2),
            (self._delete_records, 2),
            (self._retain, 3),
            (self._begin_epoch, 2),
            (self._truncate, 1),
            (self._start_over, 0.3),
            (self._change_policy, 0.5),
            (self._delete, 0.2),
            (self._compact, 5),
            (self._pause, 10),
        ]
        for _ in range(self.random.choice((10, 60, 200))):
            if not self.histories:
                await self._create(dirs)
                continue
            key = self.random.choice(sorted(self.histories))
            log = dirs.get(*key)
            assert log is not None
            [deed] = self.random.choices([each for each, _ in deeds], [weight for _, weight in deeds])
            self.now_ms += self.random.randint(0, 50)
            done = deed(dirs, log, self.histories[key])
            if done is not None:
                await done

    # -- what may happen

    def _append(self, dirs: LogDirs, log: PartitionLog, history: History) -> None:
        for _ in range(self.random.choice((1, 1, 5))):
            kinds = ("plain", "idempotent", "idempotent", "transactional")
            kind = self.random.choice(kinds[:3] if history.may_have_holes else kinds)
            if kind == "plain":
                self._append_batch(log, history, build_batch(self._records()))
            else:
                self._append_as_producer(log, history, transactional=kind == "transactional")

    def _append_as_producer(self, log: PartitionLog, history: History, *, transactional: bool) -> None:
        producer_id = self.random.randrange(PRODUCERS) + PRODUCERS * transactional
        known = log.producers.producers.get(producer_id) or ProducerEntry(producer_epoch=0)
        if known.current_txn_first_offset != NO_TRANSACTION and self.random.random() < 0.4:
            kind = self.random.choice((ABORT_MARKER, COMMIT_MARKER))
            record = Record(0, self.now_ms, MARKER_KEY.pack(0, kind), MARKER_VALUE.pack(0, 0))
            marker = build_batch(
                [record], producer_id=producer_id, producer_epoch=known.producer_epoch, transactional=True, control=True
            )
            self._append_batch(log, history, marker, Origin.COORDINATOR)
            return
        epoch, sequence = known.producer_epoch, known.next_sequence
        if known.current_txn_first_offset == NO_TRANSACTION and self.random.random() < 0.1:
            epoch, sequence = epoch + 1, 0
        batch = build_batch(
            self._records(),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        self._append_batch(log, history, batch)

    def _records(self) -> list[Record]:
        size = self.random.choice((20, 20, 300, 1500, 6000))
        return [
            Record(number, self.now_ms - self.random.randint(0, 200), self._key(), self.random.randbytes(size))
            for number in range(self.random.randint(1, 3) if size < 1000 else 1)
        ]

    def _key(self) -> bytes:
        return b"key-%d" % self.random.randrange(KEYS)

    def _append_batch(
        self, log: PartitionLog, history: History, batch: bytearray, origin: Origin = Origin.CLIENT
    ) -> None:
        """Written down before it is tried: what a crash interrupts may be there or not."""
        if len(batch) > history.config.segment_bytes:
            return
        kept = bytearray(batch)
        stamp(kept, 0, base_offset=log.log_end_offset, leader_epoch=history.leader_epoch)
        history.append(Stored.of(bytes(kept)))
        appended: Appended = log.append(batch, leader_epoch=history.leader_epoch, now_ms=self.now_ms, origin=origin)
        assert not appended.duplicate
        assert appended.first_offset == history.batches[-1].header.base_offset

    def _sync(self, dirs: LogDirs, log: PartitionLog, history: History) -> None:
        end_offset, truncations = log.log_end_offset, len(history.truncations)
        future = dirs.sync(log)

        def note(done: asyncio.Future[int]) -> None:
            if not done.cancelled() and done.exception() is None:
                assert done.result() >= min([end_offset, *history.truncations[truncations:]])
                history.synced(end_offset, truncations)

        future.add_done_callback(note)

    async def _sync_and_wait(self, dirs: LogDirs, log: PartitionLog, history: History) -> None:
        end_offset, truncations = log.log_end_offset, len(history.truncations)
        await dirs.sync(log)
        history.synced(end_offset, truncations)

    async def _checkpoint(self, dirs: LogDirs, log: PartitionLog, history: History) -> None:
        if self.random.random() < 0.5:
            await dirs.write_checkpoints()
        else:
            asyncio.get_running_loop().create_task(dirs.write_checkpoints())

    def _roll(self, dirs: LogDirs, log: PartitionLog, history: History) -> None:
        log.roll(now_ms=self.now_ms)

    def _delete_records(self, dirs: LogDirs, log: PartitionLog, history: History) -> None:
        offset = self.random.randint(log.log_start_offset, log.log_end_offset)
        history.log_start_offset = max(history.log_start_offset, offset)
        log.advance_log_start_offset(offset)

    def _retain(self, dirs: LogDirs, log: PartitionLog, history: History) -> None:
        try:
            Retention(log, self.now_ms).delete_some(log.log_end_offset)
        finally:
            history.log_start_offset = max(history.log_start_offset, log.log_start_offset)

    def _begin_epoch(self, dirs: LogDirs, log: PartitionLog, history: History) -> None:
        history.leader_epoch += 1
        log.assign_epoch_start(history.leader_epoch)

    async def _truncate(self, dirs: LogDirs, log: PartitionLog, history: History) -> None:
        """As a follower does when there is a new leader."""
        lowest = 0 if self.random.random() < 0.1 else log.log_start_offset
        if history.may_have_holes:
            lowest = max(log.log_start_offset, history.committed_end)
        ends = [each.end_offset for each in history.batches if each.end_offset >= lowest]
        if not ends:
            return
        offset = self.random.choice(ends)
        history.truncated(offset)
        await dirs.truncate(log, offset, now_ms=self.now_ms)
        history.log_start_offset = min(history.log_start_offset, offset)
        self._begin_epoch(dirs, log, history)

    async def _start_over(self, dirs: LogDirs, log: PartitionLog, history: History) -> None:
        """As a follower does whose leader has later offsets only."""
        offset = log.log_end_offset + self.random.randint(1, 50)
        history.truncated(0)
        history.log_start_offset = offset
        log.truncate_fully_and_start_at(offset, now_ms=self.now_ms)
        await dirs.sync(log)
        history.synced(offset, len(history.truncations))
        self._begin_epoch(dirs, log, history)

    def _change_policy(self, dirs: LogDirs, log: PartitionLog, history: History) -> None:
        if max(history.producer_ids, default=-1) >= PRODUCERS:
            return  # what compaction makes of transactions is told by tests of its own
        history.configure(replace(history.config, cleanup_policy=self.random.choice(self.cleanup_policies)))
        log.config = history.config

    def _delete(self, dirs: LogDirs, log: PartitionLog, history: History) -> None:
        self.deleted[log.topic, log.partition] = history.topic_id
        del self.histories[log.topic, log.partition]
        dirs.dir_of(log).remove(log)

    def _compact(self, dirs: LogDirs, log: PartitionLog, history: History) -> None:
        """The dirtiest log, in the background."""
        if self.cleaning is None or self.cleaning.done():
            self.cleaning = asyncio.get_running_loop().create_task(self.cleaner._clean_dirtiest(self.process))

    async def _pause(self, dirs: LogDirs, log: PartitionLog, history: History) -> None:
        for _ in range(self.random.randint(1, 30)):
            await asyncio.sleep(0)
