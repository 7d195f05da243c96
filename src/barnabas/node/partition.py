"""One partition of this node: its log, who leads it, how far it is committed, and who waits for it.

All of it happens on the event loop. An append that advances the high watermark tells the watchers (waiting fetches and
produces, fetch sessions) by how many bytes; nobody looks for news in a partition that has none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from barnabas.core.metadata.state import PartitionState
from barnabas.core.replication.decide import diverges, has_enough_replicas, leader_epoch_error
from barnabas.core.replication.state import LeaderState
from barnabas.node.fetch_sessions import PartitionFetch
from barnabas.node.storage.admission import Opening
from barnabas.node.storage.background import BeingMended
from barnabas.node.storage.log import Appended, PartitionLog
from barnabas.node.storage.origin import Origin
from barnabas.node.waiting import Watcher
from barnabas.wire.compression import Buffer
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.uuids import Uuid

UNDEFINED = -1
ANY_SIZE = 1 << 62
NEVER_FLUSHED = 1 << 62  # `flush.messages` as it is by default, and more than any log has


class Partition:
    __slots__ = (
        "_leads",
        "_replica_count",
        "_uncommitted",
        "_undecided_bytes",
        "index",
        "is_gone",
        "last_stable_offset",
        "leader",
        "log",
        "node_id",
        "replication",
        "topic",
        "topic_id",
        "watchers",
    )

    def __init__(self, node_id: int, state: PartitionState, log: PartitionLog, high_watermark: int) -> None:
        self.node_id = node_id
        self.topic = state.topic
        self.index = state.index
        self.topic_id: Uuid = state.topic_id
        self.log = log
        self.leader = state.leader
        self.watchers: dict[Watcher, None] = {}
        self.is_gone = False
        self._leads = state.leader == node_id
        self._replica_count = len(state.replicas)
        # Appended and not yet committed: end offset and size of each append.
        self._uncommitted: deque[tuple[int, int]] = deque()
        # Committed, but held back from readers of committed records by an open transaction.
        self._undecided_bytes = 0
        high_watermark = min(max(high_watermark, log.log_start_offset), log.log_end_offset)
        self.replication = LeaderState(node_id, state.leader_epoch, state.isr, log.log_end_offset, high_watermark)
        self.last_stable_offset = log.last_stable_offset(self.high_watermark)
        if self._leads:
            log.assign_epoch_start(state.leader_epoch)

    @property
    def leader_epoch(self) -> int:
        return self.replication.leader_epoch

    @property
    def high_watermark(self) -> int:
        return self.replication.high_watermark

    @property
    def isr(self) -> tuple[int, ...]:
        return self.replication.in_sync

    @property
    def is_leader(self) -> bool:
        return self._leads

    @property
    def commits_at_once(self) -> bool:
        """What is appended is committed with that: nobody else is in sync, and no disk is waited for."""
        return self._leads and self.replication.is_alone and self.log.config.flush_messages >= NEVER_FLUSHED

    # What the metadata says

    def apply(self, state: PartitionState) -> None:
        """The partition as the committed image has it now."""
        leads = state.leader == self.node_id
        led_by_other = (state.leader, state.leader_epoch) != (self.leader, self.leader_epoch)
        self.leader, self._leads = state.leader, leads
        self._replica_count = len(state.replicas)
        if state.leader_epoch != self.leader_epoch:
            if leads:
                self.log.assign_epoch_start(state.leader_epoch)
            advanced = self.replication.lead(state.leader_epoch, state.isr, self.log.log_end_offset)
        else:
            advanced = self.replication.set_in_sync(state.isr)
        if advanced:
            self._advanced(self._take_committed())
        if led_by_other:
            self.wake_all()

    def move_to(self, log: PartitionLog) -> None:
        """The same records in another directory. Nobody notices."""
        self.log = log

    def retire(self) -> None:
        """Deleted, or its disk has failed: whoever waits for it need not wait any longer."""
        self.is_gone = True
        self.wake_all()
        self.watchers.clear()

    def log_start_moved(self) -> None:
        """By DeleteRecords or retention: sessions tell their clients with the next answer, nobody is woken."""
        self.last_stable_offset = self.log.last_stable_offset(self.replication.high_watermark)
        self._tell(0, 0)

    def wake_all(self) -> None:
        for watcher in self.watchers:
            watcher.changed()

    # Errors

    def availability_error(self, current_leader_epoch: int = UNDEFINED) -> ErrorCode:
        """Why a client that believes in this leader epoch is not served here, NONE if it is."""
        if self.log.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        error = leader_epoch_error(self.leader_epoch, current_leader_epoch)
        if error is ErrorCode.NONE and not self._leads:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return error

    def require_available(self, current_leader_epoch: int = UNDEFINED) -> None:
        error = self.availability_error(current_leader_epoch)
        if error is not ErrorCode.NONE:
            raise KafkaError(error, f"{self.log.name} is not led here in epoch {current_leader_epoch}.")

    def acknowledgement_error(self, leader_epoch: int) -> ErrorCode:
        """What a produce with acks=-1 is told once its records are on the in-sync replicas."""
        if self.is_gone or not self._leads or leader_epoch != self.leader_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.log.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if not self._has_enough_replicas(-1):
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def _has_enough_replicas(self, acks: int) -> bool:
        in_sync, minimum = len(self.replication.in_sync), self.log.config.min_insync_replicas
        return in_sync >= minimum or has_enough_replicas(acks, in_sync, self._replica_count, minimum)

    # Records

    def append(
        self,
        records: Buffer,
        acks: int,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        opening: Opening = Opening.HERE,
    ) -> Appended:
        self._require_writable(acks)
        leader_epoch = self.replication.leader_epoch
        appended = self.log.append(records, leader_epoch=leader_epoch, now_ms=now_ms, origin=origin, opening=opening)
        if not appended.duplicate:
            self._appended(appended)
        return appended

    def append_records(self, records: Sequence[tuple[bytes, bytes | None]], now_ms: int) -> Appended:
        """Keys and values of a coordinator of ours, which waits for all in-sync replicas."""
        self._require_writable(-1)
        appended = self.log.append_records(records, leader_epoch=self.replication.leader_epoch, now_ms=now_ms)
        self._appended(appended)
        return appended

    def _require_writable(self, acks: int) -> None:
        if not self._leads:
            self.require_available()
        if acks == -1 and not self._has_enough_replicas(acks):
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{len(self.replication.in_sync)} in-sync replicas of {self.log.name} are fewer than "
                f"min.insync.replicas={self.log.config.min_insync_replicas}.",
            )

    def _appended(self, appended: Appended) -> None:
        replication = self.replication
        end_offset = appended.last_offset + 1
        advanced = replication.appended(end_offset)
        if advanced and replication.high_watermark == end_offset and not self._uncommitted:
            self._advanced(appended.size)
        else:
            self._uncommitted.append((end_offset, appended.size))
            if advanced:
                self._advanced(self._take_committed())

    def follower_at(self, replica_id: int, end_offset: int) -> None:
        """A follower has everything below this offset."""
        if self.replication.follower_at(replica_id, end_offset):
            self._advanced(self._take_committed())

    def _take_committed(self) -> int:
        size = 0
        while self._uncommitted and self._uncommitted[0][0] <= self.replication.high_watermark:
            size += self._uncommitted.popleft()[1]
        return size

    def _advanced(self, size_bytes: int) -> None:
        stable_offset = self.log.last_stable_offset(self.replication.high_watermark)
        stable_bytes = 0
        if stable_offset != self.last_stable_offset:
            self.last_stable_offset = stable_offset
            stable_bytes = self._undecided_bytes + size_bytes
            self._undecided_bytes = 0
        else:
            self._undecided_bytes += size_bytes
        if self.watchers:
            self._tell(size_bytes, stable_bytes)

    def _tell(self, size_bytes: int, stable_bytes: int) -> None:
        satisfied = [watcher for watcher in self.watchers if not watcher.advanced(size_bytes, stable_bytes)]
        for watcher in satisfied:
            del self.watchers[watcher]

    def read(
        self,
        fetch: PartitionFetch,
        max_bytes: int,
        min_one_batch: bool,
        read_committed: bool,
        eager_bytes: int = ANY_SIZE,
    ) -> int:
        """Fills in what is found for the fetch; returns the bytes of records. More than `eager_bytes` stay on disk."""
        try:
            return self._read(fetch, min(max_bytes, fetch.max_bytes), min_one_batch, read_committed, eager_bytes)
        except BeingMended as mending:
            # Nothing yet, as if it had still to be written; who waits for more is woken.
            fetch.records, fetch.aborted_transactions = b"", [] if read_committed else None
            mending.done.add_done_callback(lambda _: self.wake_all())
            return 0
        except KafkaError as error:
            fetch.fail(error.code)
            return 0

    def _read(
        self, fetch: PartitionFetch, max_bytes: int, min_one_batch: bool, read_committed: bool, eager_bytes: int
    ) -> int:
        log = self.log
        if not self._leads or log.offline or fetch.current_leader_epoch >= 0:
            self.require_available(max(fetch.current_leader_epoch, UNDEFINED))
        if max_bytes < 0:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{max_bytes} bytes cannot be fetched")
        offset = fetch.fetch_offset
        fetch.error_code = 0
        fetch.high_watermark = self.replication.high_watermark
        fetch.last_stable_offset = self.last_stable_offset
        fetch.log_start_offset = log.log_start_offset
        fetch.diverging_epoch = fetch.current_leader = None
        fetch.aborted_transactions = [] if read_committed else None
        fetch.records = b""
        if fetch.last_fetched_epoch >= 0:
            fetch.diverging_epoch = self._diverging_epoch(fetch.last_fetched_epoch, offset)
            if fetch.diverging_epoch is not None:
                return 0
        end_offset = fetch.last_stable_offset if read_committed else fetch.high_watermark
        offset = log.past_empty_batches(offset, end_offset)
        records = log.fetch(
            offset, max_bytes, upper_bound_offset=end_offset, min_one_batch=min_one_batch, eager_bytes=eager_bytes
        )
        fetch.records = records
        if records and read_committed:
            fetch.aborted_transactions = [
                (each.producer_id, each.first_offset) for each in log.aborted_in_read(offset, len(records), end_offset)
            ]
        return len(records)

    def _diverging_epoch(self, fetched_epoch: int, offset: int) -> tuple[int, int] | None:
        epoch, end_offset = self.log.end_offset_for_epoch(fetched_epoch)
        if epoch == UNDEFINED or end_offset == UNDEFINED or offset < self.log.log_start_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{self.log.name} knows nothing of epoch {fetched_epoch}.")
        return (epoch, end_offset) if diverges(fetched_epoch, offset, epoch, end_offset) else None

    def readable_end(self, read_committed: bool) -> int:
        return self.last_stable_offset if read_committed else self.replication.high_watermark
