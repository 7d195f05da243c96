"""The controller: decisions become records, records become metadata.

Theory. Two images. The working image holds everything that was appended, so the next decision builds on the last one
without waiting; the committed image is what the node acts on and answers from. `submit` runs a decision on the working
image, replays its records there at once, and returns the answer when they are committed: on disk, replayed into the
committed image, and acted upon by everyone in `on_committed`. A decision without records waits for those before it, as
its answer may rest on them.

One task writes. Whatever was submitted while it was busy is its next group: one batch, one write and one fsync for all
of them. So a group is there whole or not at all, and nothing lies behind a batch that a crash has torn: who finds more
there at the next start knows that the disk has lost what it had.

If a group cannot be written, nothing of it nor behind it happened: the working image is the committed one again, and
who waits gets NOT_CONTROLLER. If the log does not end then where the committed image ends (an fsync failed, and nobody
knows what is on disk), the controller has failed for good: `on_failed` is told, and nothing is accepted any more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from barnabas.core.decision import Decision
from barnabas.core.metadata.decide import allocate_producer_ids, leave
from barnabas.core.metadata.state import MetadataDelta, MetadataImage
from barnabas.node.metadata.batches import encode_records, frame_batch
from barnabas.node.metadata.commit import CommitRule, OwnFsync
from barnabas.node.metadata.epoch import EpochStart, Registration, Term
from barnabas.node.metadata.errors import StartError
from barnabas.node.metadata.load import LoadedMetadata, load_metadata
from barnabas.node.metadata.log import MetadataLog, MetadataLogConfig
from barnabas.node.metadata.quorum import Quorum, QuorumReplica
from barnabas.node.metadata.quorum_state import QuorumState, write_quorum_state
from barnabas.node.metadata.snapshotting import SnapshotPolicy, Snapshotting
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.records.raft import VotersRecord
from barnabas.wire.schema import Record
from barnabas.wire.uuids import Uuid

log = logging.getLogger(__name__)

GROUP_BYTES_MAX = 1024 * 1024

T = TypeVar("T")
CommitCallback = Callable[[MetadataDelta], Awaitable[None] | None]


@dataclass(slots=True)
class _Entry:
    """One decision on its way to the disk."""

    records: Sequence[Record]
    encoded: list[bytes]
    end_offset: int
    waiters: list[asyncio.Future[None]] = field(default_factory=list)


class Controller:
    def __init__(
        self,
        loaded: LoadedMetadata,
        metadata_log: MetadataLog,
        flusher: Executor,
        *,
        node_id: int,
        directory_id: Uuid,
        clock: Callable[[], int],
        snapshots: SnapshotPolicy | None = None,
        commit_rule: CommitRule | None = None,
    ) -> None:
        self.node_id = node_id
        self.directory_id = directory_id
        self.image: MetadataImage = loaded.image
        self.working: MetadataImage = loaded.image.copy()
        self.epoch = loaded.epoch
        self.broker_epoch = -1
        self.on_committed: list[CommitCallback] = []
        self.on_failed: Callable[[BaseException], None] | None = None
        self.failure: BaseException | None = None
        self._loaded = loaded
        self._log = metadata_log
        self._clock = clock
        self._voters: VotersRecord | None = loaded.voters
        self._flusher = flusher
        self._commit_rule = commit_rule or OwnFsync(metadata_log, flusher)
        self._unwritten: list[_Entry] = []
        self._in_flight: list[_Entry] = []
        self._wake = asyncio.Event()
        self._snapshotting = Snapshotting(loaded, metadata_log, clock, snapshots or SnapshotPolicy(), self._wake.set)
        self._writer: asyncio.Task[None] | None = None
        self._stopping = False

    async def activate(self, registration: Registration) -> None:
        """Becomes the leader of a new epoch and registers this process.

        `on_committed` is not told: nobody is served yet, and the node builds itself from the image afterwards.
        """
        loaded, loop = self._loaded, asyncio.get_running_loop()
        self.epoch = loaded.epoch + 1
        state = QuorumState(
            leader_id=self.node_id,
            epoch=self.epoch,
            data_version=1 if loaded.kraft_version else 0,
            static_voters=() if loaded.kraft_version else (self.node_id,),
        )
        await loop.run_in_executor(self._flusher, write_quorum_state, loaded.directory, state)
        term = Term(
            node_id=self.node_id,
            directory_id=self.directory_id,
            epoch=self.epoch,
            kraft_version=loaded.kraft_version,
            level=loaded.level,
            now_ms=self._clock(),
        )
        start = EpochStart(self.working, term)
        start.append(registration, loaded.bootstrap_records, loaded.voters)
        try:
            for data, end_offset in start.batches:  # one by one, as groups are
                self._log.append(data, self.epoch)
                await self._commit_rule.committed(end_offset)
        except OSError as error:
            raise StartError(f"The metadata log in {loaded.directory} cannot be written: {error}") from error
        self.image, self.working = self.working, self.working.copy()
        loaded.image = self.image
        self._voters, self.broker_epoch = start.voters, start.broker_epoch
        self._snapshotting.committed(sum(len(data) for data, _ in start.batches))
        self._writer = asyncio.create_task(self._write(), name="metadata-writer")

    async def submit(self, decide: Callable[[MetadataImage], Decision[T]]) -> T:
        if self._writer is None or self.failure is not None or self._stopping:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "This node is not the active controller.")
        decision = decide(self.working)
        await self._committed(decision.records)
        return decision.response

    async def allocate_producer_ids(self) -> range:
        return await self.submit(lambda image: allocate_producer_ids(image, self.node_id, self.broker_epoch))

    def quorum(self) -> Quorum:
        now_ms = self._clock()
        replica = QuorumReplica(
            replica_id=self.node_id,
            directory_id=self.directory_id,
            log_end_offset=self._log.end_offset,
            last_fetch_timestamp_ms=now_ms,
            last_caught_up_timestamp_ms=now_ms,
        )
        return Quorum(
            leader_id=self.node_id,
            leader_epoch=self.epoch,
            high_watermark=self.image.offset + 1,
            voters=[replica],
            voters_record=self._voters,
        )

    async def stop(self) -> None:
        """Gives up the lead, fences this broker and closes the log; whoever opens the directory next need not wait."""
        self._stopping = True
        if self._writer is not None:
            if self.failure is None:
                try:
                    await self._committed([])
                    self.on_committed.clear()  # What leads is gone already, and need not hear that it leads no more.
                    await self._committed(leave(self.working, self.node_id))
                except KafkaError as error:
                    log.warning("The node leaves without saying so: %s", error.message)
            self._writer.cancel()
            await asyncio.wait([self._writer])
        await self._snapshotting.stop()
        close = partial(self._log.close, clean=self.failure is None)
        try:
            await asyncio.get_running_loop().run_in_executor(self._flusher, close)
        except OSError as error:
            log.error("The metadata log could not be closed: %s", error)
            self.failure = self.failure or error
        self._flusher.shutdown()

    async def _committed(self, records: Sequence[Record]) -> None:
        """Appends these records, and waits for them and all before them."""
        if records:
            self._append(records)
        ahead = self._unwritten or self._in_flight
        if ahead:
            waiter = asyncio.get_running_loop().create_future()
            ahead[-1].waiters.append(waiter)
            await waiter

    def _append(self, records: Sequence[Record]) -> None:
        base_offset = self.working.offset + 1
        encoded = encode_records(records, self.working.metadata_version)
        try:
            self.working.replay_all(records)
        except Exception:
            self._rebuild_working()
            raise
        self.working.offset, self.working.epoch = base_offset + len(records) - 1, self.epoch
        self._unwritten.append(_Entry(records, encoded, base_offset + len(records)))
        self._wake.set()

    def _rebuild_working(self) -> None:
        working = self.image.copy()
        for entry in self._in_flight + self._unwritten:
            working.replay_all(entry.records)
            working.offset, working.epoch = entry.end_offset - 1, self.epoch
        self.working = working

    async def _write(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                while self._unwritten:
                    self._in_flight = self._next_group()
                    await self._write_group(self._in_flight)
                if self.failure is None:  # else nobody knows what of the log is on the disk
                    self._snapshotting.proceed(self.image, self._voters)
            except OSError as error:
                self._revert(error)
            except Exception as error:
                log.exception("The controller is broken")
                self._revert(error)

    def _next_group(self) -> list[_Entry]:
        """All that wait, as far as they fit into one batch."""
        size = count = 0
        for entry in self._unwritten:
            size += sum(map(len, entry.encoded))
            if count and size > GROUP_BYTES_MAX:
                break
            count += 1
        group, self._unwritten = self._unwritten[:count], self._unwritten[count:]
        return group

    async def _write_group(self, group: list[_Entry]) -> None:
        end_offset = group[-1].end_offset
        encoded = [value for entry in group for value in entry.encoded]
        data = frame_batch(encoded, base_offset=end_offset - len(encoded), epoch=self.epoch, now_ms=self._clock())
        self._log.append(data, self.epoch)
        await self._commit_rule.committed(end_offset)
        delta = MetadataDelta()
        for entry in group:
            self.image.replay_all(entry.records, delta)
        self.image.offset, self.image.epoch = end_offset - 1, self.epoch
        await self._publish(delta)
        self._in_flight = []
        for waiter in (waiter for entry in group for waiter in entry.waiters):
            if not waiter.done():
                waiter.set_result(None)
        self._snapshotting.committed(len(data))

    async def _publish(self, delta: MetadataDelta) -> None:
        for callback in self.on_committed:
            try:
                result = callback(delta)
                if result is not None:
                    await result
            except Exception:
                log.exception("Committed metadata could not be applied")

    def _revert(self, error: BaseException) -> None:
        log.error("The metadata log could not be written: %s", error)
        dropped, self._in_flight, self._unwritten = self._in_flight + self._unwritten, [], []
        self.working = self.image.copy()
        if self._log.failed_for_good or self._log.end_offset != self.image.offset + 1:
            self.failure = error
        for waiter in (waiter for entry in dropped for waiter in entry.waiters):
            if not waiter.done():
                waiter.set_exception(KafkaError(ErrorCode.NOT_CONTROLLER, "The metadata log could not be written."))
        if self.failure is not None and self.on_failed is not None:
            self.on_failed(error)


def open_controller(
    root: Path,
    *,
    node_id: int,
    directory_id: Uuid,
    clock: Callable[[], int],
    log_config: MetadataLogConfig | None = None,
    snapshots: SnapshotPolicy | None = None,
) -> Controller:
    """Opens the metadata log of a formatted directory whose lock we hold; a StartError comes before any writing.

    Called before `LogDir.begin`, so that the log need not be scanned after a clean stop.
    """
    loaded = load_metadata(root, node_id=node_id, directory_id=directory_id)
    flusher = ThreadPoolExecutor(1, thread_name_prefix="metadata-flusher")
    try:
        metadata_log = MetadataLog.open(loaded, log_config or MetadataLogConfig(), flusher, clock)
    except OSError as error:
        raise StartError(f"The metadata log in {loaded.directory} cannot be opened: {error}") from error
    return Controller(
        loaded, metadata_log, flusher, node_id=node_id, directory_id=directory_id, clock=clock, snapshots=snapshots
    )
