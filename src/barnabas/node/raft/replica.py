"""This node's replica of the metadata log: `core/raft` under its driver, as the rest of the node sees it.

Theory. Everything appended while a flush is under way is the next group: one batch, one write and one fsync for all of
it. So what a crash may tear is the last batch alone, and a quorum of one knows a damaged disk from a torn tail. The
offsets of a group are promised before it is written; whatever could make the replica append something of its own
(a change of voters) therefore comes after the group is in the log.

Committed batches are handed to the listeners in the order of the log: those that this node appended as they are, all
others as they are read from the log, a part at a time. A listener that is behind the log's start gets the snapshot.
That this node leads is told once everything before its epoch, and its leader change, was handed over.

A write that fails and leaves nothing in the log costs this node the lead; a failed fsync, or a write that leaves
anything, is the end: nobody knows what is on the disk. `on_failed` is told, and nothing is appended any more.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from random import Random
from typing import NamedTuple

from barnabas.client.peer import PeerSettings
from barnabas.core.raft import LeaderAndEpoch, Raft, RaftConfig
from barnabas.core.raft.state import Leader, Progress
from barnabas.node.raft.batches import MetadataBatch, encode_records, read_batches
from barnabas.node.raft.driver import RaftDriver
from barnabas.node.raft.interface import NO_LEADER, Listener
from barnabas.node.raft.load import LoadedMetadata
from barnabas.node.raft.log import MetadataLog
from barnabas.node.raft.quorum import Quorum, QuorumReplica
from barnabas.node.raft.replica_log import ReplicaLog
from barnabas.node.raft.snapshots import SnapshotId, read_snapshot
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.records.metadata import NoOpRecord
from barnabas.wire.schema import Record, Request, Response

log = logging.getLogger(__name__)

GROUP_BYTES_MAX = 1024 * 1024
# What is read from the log and handed over before others have their turn.
DELIVERED_BYTES = 256 * 1024
PAUSE_AFTER_FAILED_WRITE_S = 0.02
SHUTDOWN_TIMEOUT_MS = 5000
BATCH_OVERHEAD_BYTES, RECORD_OVERHEAD_BYTES = 61, 8


class _Entry(NamedTuple):
    """Records that are committed together."""

    records: Sequence[Record]
    encoded: list[bytes]


class RaftReplica:
    def __init__(
        self,
        loaded: LoadedMetadata,
        metadata_log: MetadataLog,
        config: RaftConfig,
        flusher: Executor,
        *,
        clock: Callable[[], int],
        peers: PeerSettings,
        random: Random | None = None,
    ) -> None:
        """`clock` never goes back. `loaded` is what the listeners know already."""
        self.node_id = config.node_id
        self.directory_id = config.directory_id
        self.leader_id = NO_LEADER
        self.epoch = loaded.epoch
        self.log = metadata_log
        self.failure: BaseException | None = None
        self.on_failed: Callable[[BaseException], None] | None = None
        known = loaded.snapshot_id
        usable = [] if known is None else [each for each in loaded.snapshots if each <= known]
        self.replica_log = ReplicaLog(loaded.directory, metadata_log, clock, usable)
        self._directory = loaded.directory
        self._flusher = flusher
        self._clock = clock
        self._raft = Raft(config, self.replica_log, loaded.quorum_state, random or Random(), clock())
        self._driver = RaftDriver(self._raft, self.replica_log, flusher, clock, peers)
        self._driver.on_failed = self._fail
        self._driver.on_leader_change = self._leader_changed
        self._driver.on_commit = self._committed
        self._driver.before_event = self._write_all
        self._driver.on_flushed = self._flushed
        self._listeners: list[Listener] = []
        self._entries: deque[_Entry] = deque()
        self._queued = 0  # records in them
        self._is_write_due = False
        self._written: deque[MetadataBatch] = deque()  # appended by this node and not committed yet
        self._chores: deque[Callable[[], None]] = deque()
        self._next_offset = loaded.image.offset + 1  # of what the listeners have not got
        self._commit_end = self._next_offset
        self._lead_start: int | None = None  # where the epoch that this node leads starts, until it is told
        self._is_paused = False  # after a failed write
        self._changed = asyncio.Event()

    # What others see.

    @property
    def high_watermark(self) -> int:
        return self._next_offset

    @property
    def is_alone(self) -> bool:
        """Whether this node is the whole quorum."""
        return self._raft.is_only_voter

    @property
    def voter_ids(self) -> list[int]:
        return self._raft.voters.ids

    @property
    def kraft_version(self) -> int:
        return self._raft.kraft_version

    @property
    def leader_address(self) -> tuple[str, int] | None:
        """Where the leader listens for this node; None if it is not known, or is this node."""
        node = self._raft.leader_node
        return None if node is None or node.id == self.node_id else (node.host, node.port)

    def register(self, listener: Listener) -> None:
        self._listeners.append(listener)

    async def ask(self, request: Request, version: int, listener: str) -> Response:
        """What the replica answers to a request of the quorum's own APIs."""
        return await self._driver.ask(request, version, listener)

    async def wait_for(self, condition: Callable[[], bool], timeout_s: float | None = None) -> bool:
        """Waits until it holds, looking again whenever the leader changes; False when the time is over."""
        try:
            async with asyncio.timeout(timeout_s):
                while not condition():
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def quorum(self) -> Quorum:
        state = self._raft.state
        voters = self._raft.voters if self._raft.kraft_version else None
        shown = Quorum(
            leader_id=self.leader_id,
            leader_epoch=self.epoch,
            high_watermark=self.high_watermark,
            voters=[],
            voters_record=None if voters is None else voters.to_record(),
        )
        if isinstance(state, Leader):
            shown.voters.extend(self._shown(state, each) for each in state.voters.values())
            shown.observers.extend(self._shown(state, each) for each in state.observers.values())
        return shown

    def _shown(self, leader: Leader, progress: Progress) -> QuorumReplica:
        is_leader, now_ms = progress.key.id == leader.key.id, self._clock()
        return QuorumReplica(
            replica_id=progress.key.id,
            directory_id=progress.key.directory_id,
            log_end_offset=self.log.end_offset if is_leader else progress.end_offset,
            last_fetch_timestamp_ms=now_ms if is_leader else progress.last_fetch_ms,
            last_caught_up_timestamp_ms=now_ms if is_leader else progress.last_caught_up_ms,
        )

    def snapshot_voters(self, snapshot_id: SnapshotId) -> Sequence[Record]:
        return self._raft.snapshot_voters(snapshot_id).records

    def snapshot_written(self, snapshot_id: SnapshotId) -> None:
        self.replica_log.snapshot_written(snapshot_id)

    def snapshots_kept_from(self, oldest: SnapshotId) -> None:
        self.replica_log.snapshots_deleted(oldest)

    # Life.

    async def start(self) -> None:
        """Returns at once, unless this node is the whole quorum: then it leads. An OSError if it cannot."""
        self._driver.start()
        if self.is_alone:
            await self.wait_for(lambda: self.leader_id == self.node_id or self.failure is not None)
            if self.failure is not None:
                raise self.failure

    async def stop(self) -> None:
        """Writes what was appended, hands the lead over, and closes the log."""
        while self._is_writing and self.failure is None:
            self._changed.clear()
            await self._changed.wait()
        await self._driver.shut_down(SHUTDOWN_TIMEOUT_MS)
        self.leader_id = NO_LEADER
        close = partial(self.log.close, clean=self.failure is None)
        try:
            await asyncio.get_running_loop().run_in_executor(self._flusher, close)
        except OSError as error:
            log.error("The metadata log in %s could not be closed: %s", self._directory, error)
            self.failure = self.failure or error

    async def kill(self) -> None:
        """As if the process ended: nothing more is written."""
        await self._driver.stop()

    @property
    def _is_writing(self) -> bool:
        return bool(self._entries or self._chores) or self._driver.is_flushing

    # Appending.

    def append(self, records: Sequence[Record], epoch: int, *, level: int) -> int:
        if self.leader_id != self.node_id or epoch != self.epoch or self._is_paused:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "This node is not the active controller.")
        self._entries.append(_Entry(records, encode_records(records, level)))
        self._queued += len(records)
        self._write_soon()
        return self.log.end_offset + self._queued - 1

    def resign(self, epoch: int) -> None:
        if self.leader_id == self.node_id and epoch == self.epoch:
            self._driver.resign(epoch)

    def upgrade(self, epoch: int, kraft_version: int, *, validate_only: bool) -> int | None:
        """Raises the kraft.version. The offset to wait for, or UpgradeRefused with the reason."""
        return self._driver.upgrade(epoch, kraft_version, validate_only=validate_only)

    def between_writes(self, work: Callable[[], None]) -> None:
        if self._driver.is_running:
            self._chores.append(work)
            self._write_soon()

    def _write_soon(self) -> None:
        if not self._is_write_due and not self._driver.is_flushing:
            self._is_write_due = True
            asyncio.get_running_loop().call_soon(self._flushed)

    def _flushed(self) -> None:
        """Nothing is being written now: the next group, or whoever waits for such a moment."""
        self._is_write_due = False
        if not self._driver.is_running or self._driver.is_flushing:
            return
        if self._entries:
            self._write_group()
        while self._chores and not self._driver.is_flushing:
            try:
                self._chores.popleft()()
            except OSError as error:
                self._write_failed(error)
        if not self._is_writing:
            self._wake()

    def _write_all(self) -> None:
        while self._entries:
            self._write_group()

    def _write_group(self) -> None:
        """All that wait, as far as they fit into one batch."""
        group: list[_Entry] = []
        size = 0
        while self._entries:
            size += sum(map(len, self._entries[0].encoded))
            if group and size > GROUP_BYTES_MAX:
                break
            group.append(self._entries.popleft())
        records = [record for entry in group for record in entry.records]
        self._queued -= len(records)
        base_offset = self.log.end_offset
        batch = MetadataBatch(
            base_offset=base_offset,
            last_offset=base_offset + len(records) - 1,
            epoch=self.epoch,
            timestamp_ms=self._clock(),
            is_control=False,
            records=records,
            size_bytes=size + BATCH_OVERHEAD_BYTES + RECORD_OVERHEAD_BYTES * len(records),
        )
        self._written.append(batch)
        try:
            values = [value for entry in group for value in entry.encoded]
            is_idle = all(isinstance(record, NoOpRecord) for record in records)
            last_offset = self._driver.append(self.epoch, values, quietly=is_idle)
        except KafkaError:
            self._drop_appended()  # The lead is lost, and whoever waits is about to hear of it.
        except OSError as error:
            self._write_failed(error, base_offset)
        else:
            assert last_offset == batch.last_offset

    def _write_failed(self, error: OSError, end_offset: int | None = None) -> None:
        if self.log.failed_for_good or end_offset not in (None, self.log.end_offset):
            self._driver.fail(error)
            return
        log.error("The metadata log in %s could not be written: %s", self._directory, error)
        if self.leader_id == self.node_id:
            self._is_paused = True
            self._tell_leader(NO_LEADER)
            loop = asyncio.get_running_loop()
            loop.call_later(PAUSE_AFTER_FAILED_WRITE_S, self._driver.resign, self.epoch)

    def _drop_appended(self) -> None:
        self._entries.clear()
        self._written.clear()
        self._queued = 0

    # What the replica says.

    def _leader_changed(self, leader: LeaderAndEpoch) -> None:
        self._is_paused = False
        leads = leader.leader_id == self.node_id and leader.start_offset is not None
        self._lead_start = leader.start_offset if leads else None
        told = NO_LEADER if leads or leader.leader_id is None else leader.leader_id
        if not leads or self.leader_id != NO_LEADER:
            self._tell_leader(told, leader.epoch)
        self.epoch = leader.epoch
        self._tell_own_lead()

    def _tell_own_lead(self) -> None:
        if self._lead_start is not None and self._next_offset > self._lead_start:
            self._lead_start = None
            self._tell_leader(self.node_id)

    def _tell_leader(self, leader_id: int, epoch: int | None = None) -> None:
        if leader_id != self.node_id:
            self._drop_appended()
        self.leader_id = leader_id
        self.epoch = self.epoch if epoch is None else epoch
        for listener in self._listeners:
            listener.handle_leader_change(leader_id, self.epoch)
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _fail(self, error: BaseException) -> None:
        self.failure = error
        self._lead_start = None
        self._chores.clear()
        self._tell_leader(NO_LEADER)
        if self.on_failed is not None:
            self.on_failed(error)

    def _committed(self, high_watermark: int) -> None:
        is_delivering = self._next_offset < self._commit_end
        self._commit_end = max(high_watermark, self._commit_end)
        if not is_delivering:
            self._deliver()

    def _deliver(self) -> None:
        """Hands over what is committed, a part at a time."""
        if self.failure is not None:
            return
        try:
            while self._next_offset < self._commit_end:
                if self._next_offset < self.replica_log.start_offset:
                    self._deliver_snapshot()
                elif self._written and self._written[0].base_offset == self._next_offset:
                    self._hand_over([self._written.popleft()])
                else:
                    self._hand_over(self._read())
                    asyncio.get_running_loop().call_soon(self._deliver)
                    return
        except Exception as error:
            self._driver.fail(error)
            return
        self._tell_own_lead()

    def _hand_over(self, batches: Sequence[MetadataBatch]) -> None:
        self._next_offset = batches[-1].last_offset + 1
        for listener in self._listeners:
            listener.handle_commit(batches)

    def _read(self) -> list[MetadataBatch]:
        data = self.replica_log.read(self._next_offset, DELIVERED_BYTES)
        batches = [batch for _, batch in read_batches(data)]
        committed = [each for each in batches if self._next_offset <= each.last_offset < self._commit_end]
        if not committed:
            raise OSError(f"the metadata log cannot be read at offset {self._next_offset}")
        return committed

    def _deliver_snapshot(self) -> None:
        latest = self.replica_log.latest_snapshot
        assert latest is not None
        snapshot_id = SnapshotId(*latest)
        content = read_snapshot(self._directory / snapshot_id.file_name)
        self._written.clear()
        self._next_offset = snapshot_id.end_offset
        for listener in self._listeners:
            listener.handle_load_snapshot(snapshot_id, content)
