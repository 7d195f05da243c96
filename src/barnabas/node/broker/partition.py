"""One partition of this node: its log, which role this node has in it, how far it is committed, and who waits for it.

The leader appends what clients send and gives it offsets and its epoch. A follower appends the leader's batches as they
are, and cuts its log where the leader's differs. Which role it is comes from the committed metadata (`apply`).

All of it happens on the event loop. An append that advances the high watermark tells the watchers (waiting fetches and
produces, fetch sessions) by how many bytes; nobody looks for news in a partition that has none. Followers read what is
not committed yet, so their fetches are told of every append (`followers`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from barnabas.core.metadata.state import PartitionState
from barnabas.core.replication.decide import Reaction, diverges, leader_epoch_error, truncation_offset
from barnabas.core.replication.following import Resume
from barnabas.core.replication.state import ANY_BROKER_EPOCH, Committed, FollowerState, LeaderState, Proposal
from barnabas.node.broker.fetch_sessions import PartitionFetch
from barnabas.node.broker.neighbours import Alone, Neighbours
from barnabas.node.broker.waiting import Watcher
from barnabas.node.requests import Region
from barnabas.node.storage.admission import Opening
from barnabas.node.storage.directory.background import IndexBeingRepaired
from barnabas.node.storage.directory.log_dirs import LogDirs
from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.origin import Origin
from barnabas.node.storage.placing import Appended
from barnabas.wire.batch import iterate_batches
from barnabas.wire.compression import Buffer
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.uuids import Uuid

UNDEFINED = -1
ANY_SIZE = 1 << 62
NEVER_FLUSHED = 1 << 62  # `flush.messages` as it is by default, and more than any log has


class PartitionRead(NamedTuple):
    """What a fetch found in a partition, or why it found nothing."""

    error_code: int = 0
    high_watermark: int = UNDEFINED
    last_stable_offset: int = UNDEFINED
    log_start_offset: int = UNDEFINED
    records: bytes | bytearray | memoryview | Region = b""
    # Pairs of producer id and first offset; None where the client reads uncommitted records.
    aborted_transactions: list[tuple[int, int]] | None = None
    diverging_epoch: tuple[int, int] | None = None
    # The leader and its epoch, where this node is not it.
    current_leader: tuple[int, int] | None = None
    # Whom a consumer should read from instead.
    preferred_read_replica: int = UNDEFINED


def committed_state(state: PartitionState) -> Committed:
    return Committed(state.leader_epoch, state.partition_epoch, tuple(state.replicas), tuple(state.isr))


class Partition:
    __slots__ = (
        "_leads",
        "_neighbours",
        "_uncommitted",
        "_undecided_bytes",
        "followers",
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

    def __init__(
        self,
        node_id: int,
        state: PartitionState,
        log: PartitionLog,
        high_watermark: int,
        *,
        neighbours: Neighbours | None = None,
        now_ms: int = 0,
    ) -> None:
        self.node_id = node_id
        self.topic = state.topic
        self.index = state.index
        self.topic_id: Uuid = state.topic_id
        self.log = log
        self.leader = state.leader
        self.watchers: dict[Watcher, None] = {}
        self.followers: dict[Watcher, None] = {}
        self.is_gone = False
        self._neighbours = neighbours or Alone()
        self._leads = state.leader == node_id
        # Appended and not yet committed: end offset and size of each append.
        self._uncommitted: deque[tuple[int, int]] = deque()
        # Committed, but held back from readers of committed records by an open transaction.
        self._undecided_bytes = 0
        high_watermark = min(max(high_watermark, log.log_start_offset), log.log_end_offset)
        committed = committed_state(state)
        self.replication: LeaderState | FollowerState = FollowerState(committed, high_watermark)
        if self._leads:
            self.replication = self._leader_state(committed, high_watermark, now_ms)
        self.last_stable_offset = log.last_stable_offset(self.high_watermark)
        if self._leads:
            log.assign_epoch_start(state.leader_epoch)

    def _leader_state(self, committed: Committed, high_watermark: int, now_ms: int) -> LeaderState:
        return LeaderState(
            self.node_id,
            committed,
            self.log.log_end_offset,
            high_watermark,
            now_ms=now_ms,
            min_in_sync=self.log.config.min_insync_replicas,
            lag_max_ms=self._neighbours.lag_max_ms,
            eligible_epoch=partial(self._neighbours.eligible_epoch, self.topic, self.index),
        )

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

    def apply(self, state: PartitionState, now_ms: int = 0) -> None:
        """The partition as the committed image has it now."""
        led_by_other = (state.leader, state.leader_epoch) != (self.leader, self.leader_epoch)
        self.leader, self._leads = state.leader, state.leader == self.node_id
        if self._leads:
            self._lead(committed_state(state), now_ms)
        else:
            self._follow(committed_state(state))
        if led_by_other:
            self.wake_all()

    def _lead(self, committed: Committed, now_ms: int) -> None:
        replication = self.replication
        before = replication.high_watermark
        if isinstance(replication, FollowerState):
            replication = self.replication = self._leader_state(committed, before, now_ms)
            self.log.assign_epoch_start(committed.leader_epoch)
        elif committed.leader_epoch != replication.leader_epoch:
            self.log.assign_epoch_start(committed.leader_epoch)
            replication.lead(committed, self.log.log_end_offset, now_ms)
        else:
            replication.commit(committed, now_ms)
        if replication.high_watermark > before:
            self._advanced(self._take_committed())

    def _follow(self, committed: Committed) -> None:
        replication = self.replication
        if isinstance(replication, FollowerState):
            replication.follow(committed)
        else:
            self.replication = FollowerState(committed, replication.high_watermark)

    def reconfigure(self, config: LogConfig, now_ms: int) -> None:
        self.log.config = config
        if isinstance(self.replication, LeaderState) and self.replication.require(config.min_insync_replicas, now_ms):
            self._advanced(self._take_committed())

    def move_to(self, log: PartitionLog) -> None:
        """The same records in another directory. Nobody notices."""
        self.log = log

    def retire(self) -> None:
        """Deleted, or its disk has failed: whoever waits for it need not wait any longer."""
        self.is_gone = True
        self.wake_all()
        self.watchers.clear()
        self.followers.clear()

    def log_start_moved(self) -> None:
        """By DeleteRecords or retention: sessions tell their clients with the next answer, nobody is woken."""
        self.last_stable_offset = self.log.last_stable_offset(self.replication.high_watermark)
        _tell(self.watchers, 0, 0)
        _tell(self.followers, 0, 0)

    def wake_all(self) -> None:
        for watcher in (*self.watchers, *self.followers):
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
        assert isinstance(self.replication, LeaderState)
        if not self.replication.has_enough:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

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
            self._appended(appended, now_ms)
        return appended

    def append_records(self, records: Sequence[tuple[bytes, bytes | None]], now_ms: int) -> Appended:
        """Keys and values of a coordinator of ours, which waits for all in-sync replicas."""
        self._require_writable(-1)
        appended = self.log.append_records(records, leader_epoch=self.replication.leader_epoch, now_ms=now_ms)
        self._appended(appended, now_ms)
        return appended

    def _require_writable(self, acks: int) -> None:
        if not self._leads:
            self.require_available()
        replication = self.replication
        assert isinstance(replication, LeaderState)
        if acks == -1 and not replication.is_alone and not replication.has_enough:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{len(replication.in_sync)} in-sync replicas of {self.log.name} are fewer than "
                f"min.insync.replicas={self.log.config.min_insync_replicas}.",
            )

    def _appended(self, appended: Appended, now_ms: int) -> None:
        replication = self.replication
        assert isinstance(replication, LeaderState)
        end_offset = appended.last_offset + 1
        advanced = replication.appended(end_offset, now_ms)
        if advanced and replication.high_watermark == end_offset and not self._uncommitted:
            self._advanced(appended.size)
        else:
            self._uncommitted.append((end_offset, appended.size))
            if advanced:
                self._advanced(self._take_committed())
        if self.followers:
            _tell(self.followers, appended.size, appended.size)

    # In-sync replicas

    def fetched_by(self, replica_id: int, offset: int, broker_epoch: int, now_ms: int) -> None:
        """A follower has everything below this offset."""
        replication = self.replication
        assert isinstance(replication, LeaderState)
        if replication.fetched(replica_id, offset, broker_epoch, now_ms):
            self._advanced(self._take_committed())
        if replica_id not in replication.in_sync:
            self._propose(replication.expand(replica_id))

    def review_in_sync(self, now_ms: int) -> None:
        """Proposes to go on without followers that have lagged for too long, and with those that may join by now.

        A follower that has everything asks for nothing new, so its next fetch may be far away.
        """
        replication = self.replication
        if not isinstance(replication, LeaderState) or replication.is_alone or self.log.offline:
            return
        if replication.review(now_ms):
            self._advanced(self._take_committed())
        self._propose(replication.shrink(now_ms))
        for replica_id in replication.replicas:
            if replica_id not in replication.in_sync and replication.follows(replica_id):
                self._propose(replication.expand(replica_id))

    def _propose(self, proposal: Proposal | None) -> None:
        if proposal is not None:
            self._neighbours.propose(self, proposal)

    def proposal_accepted(self, committed: Committed, now_ms: int) -> None:
        """The controller has answered before its metadata came."""
        replication = self.replication
        if not isinstance(replication, LeaderState) or replication.leader_epoch != committed.leader_epoch:
            return
        if replication.commit(committed._replace(replicas=replication.replicas), now_ms):
            self._advanced(self._take_committed())

    def proposal_refused(self, proposal: Proposal, error: ErrorCode) -> Reaction:
        replication = self.replication
        return replication.answered(proposal, error) if isinstance(replication, LeaderState) else Reaction.NONE

    # Following

    @property
    def fetch_position(self) -> tuple[int, int]:
        """From where a follower asks its leader on: the end of its log, and the epoch of its last record."""
        return self.log.log_end_offset, self.log.epochs.latest

    def append_as_follower(
        self, batches: Buffer, leader_epoch: int, leader_high_watermark: int, now_ms: int
    ) -> Appended:
        """What the leader of this epoch has answered: its batches as they are, and how far they are committed.

        Raises `KafkaError`, and appends nothing, if it is no longer the leader or its answer cannot be.
        """
        replication = self._require_following(leader_epoch)
        for _, header in iterate_batches(memoryview(batches)):
            if header.leader_epoch > leader_epoch:
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"A batch for {self.log.name} is of epoch {header.leader_epoch}, its leader of {leader_epoch}.",
                )
        appended = self.log.append_as_follower(batches, now_ms=now_ms)
        if appended.size:
            self._uncommitted.append((appended.last_offset + 1, appended.size))
        if replication.follow_high_watermark(leader_high_watermark, self.log.log_end_offset):
            self._advanced(self._take_committed())
        return appended

    def follow_log_start(self, leader_epoch: int, leader_start_offset: int) -> None:
        """What the leader no longer offers is not offered here either, as far as it is known to be committed."""
        replication = self._require_following(leader_epoch)
        start_offset = min(leader_start_offset, replication.high_watermark)
        if start_offset > self.log.log_start_offset and self.log.advance_log_start_offset(start_offset):
            self.log_start_moved()

    async def truncate_as_follower(
        self, leader_epoch: int, diverging_epoch: tuple[int, int], log_dirs: LogDirs, now_ms: int
    ) -> int:
        """Cuts the log where the leader's differs; the offset at which it ends now. The leader is then asked again.

        The cut is on the disk when this returns; nobody may append before.
        """
        self._require_following(leader_epoch)
        log = self.log
        ours = log.end_offset_for_epoch(diverging_epoch[0])
        return await self.resume_as_follower(
            leader_epoch, Resume(truncation_offset(diverging_epoch, ours, log.log_end_offset)), log_dirs, now_ms
        )

    async def resume_as_follower(self, leader_epoch: int, at: Resume, log_dirs: LogDirs, now_ms: int) -> int:
        """Cuts the log there, or begins anew there; the offset at which it ends now."""
        log = self.log
        if at.offset < log.log_start_offset:
            await log_dirs.dir_of(log).start_deletion.idle()  # the names of deleted segments may be needed again
        replication = self._require_following(leader_epoch)
        # The high watermark goes back before anybody can lead with it.
        if at.empties:
            log.truncate_fully_and_start_at(at.offset, now_ms=now_ms)
            self._cut(at.offset)
            # The leader has nothing older, so that is committed.
            replication.follow_high_watermark(at.offset, at.offset)
            await log_dirs.sync(log)
        else:
            self._cut(min(at.offset, log.log_end_offset))
            await log_dirs.truncate(log, at.offset, now_ms=now_ms)
        return log.log_end_offset

    def _cut(self, end_offset: int) -> None:
        while self._uncommitted and self._uncommitted[-1][0] > end_offset:
            self._uncommitted.pop()
        if isinstance(self.replication, FollowerState):
            self.replication.truncated(end_offset)
        self.last_stable_offset = self.log.last_stable_offset(self.replication.high_watermark)

    def _require_following(self, leader_epoch: int) -> FollowerState:
        replication = self.replication
        if self.log.offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.log.name} is offline.")
        if not isinstance(replication, FollowerState) or replication.leader_epoch != leader_epoch:
            raise KafkaError(
                ErrorCode.FENCED_LEADER_EPOCH, f"{self.log.name} does not follow a leader of epoch {leader_epoch}."
            )
        return replication

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
            _tell(self.watchers, size_bytes, stable_bytes)
        if self.followers:
            _tell(self.followers, 0, 0)  # nobody is woken for it, the next answer says it

    def read(
        self,
        fetch: PartitionFetch,
        max_bytes: int,
        min_one_batch: bool,
        read_committed: bool,
        eager_bytes: int = ANY_SIZE,
    ) -> PartitionRead:
        """More than `eager_bytes` of records stay on disk."""
        try:
            max_bytes = min(max_bytes, fetch.max_bytes)
            if fetch.from_replica:
                return self._read_as_replica(fetch, max_bytes, min_one_batch, eager_bytes)
            return self._read(fetch, max_bytes, min_one_batch, read_committed, eager_bytes)
        except IndexBeingRepaired as repair:
            # Nothing yet, as if it had still to be written; who waits for more is woken.
            repair.done.add_done_callback(lambda _: self.wake_all())
            return self._found(b"", [] if read_committed else None)
        except KafkaError as error:
            return PartitionRead(error.code)

    def _read(
        self, fetch: PartitionFetch, max_bytes: int, min_one_batch: bool, read_committed: bool, eager_bytes: int
    ) -> PartitionRead:
        log = self.log
        if not self._leads or log.offline or fetch.current_leader_epoch >= 0:
            self._require_readable(fetch)
        if max_bytes < 0:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{max_bytes} bytes cannot be fetched")
        offset = fetch.fetch_offset
        if fetch.last_fetched_epoch >= 0:
            diverging_epoch = self._diverging_epoch(fetch.last_fetched_epoch, offset)
            if diverging_epoch is not None:
                return self._found(b"", [] if read_committed else None, diverging_epoch)
        end_offset = self.last_stable_offset if read_committed else self.replication.high_watermark
        offset = log.past_empty_batches(offset, end_offset)
        records = log.fetch(
            offset, max_bytes, upper_bound_offset=end_offset, min_one_batch=min_one_batch, eager_bytes=eager_bytes
        )
        if not read_committed:
            return self._found(records, None)
        aborted = log.aborted_in_read(offset, len(records), end_offset) if records else ()
        return self._found(records, [(each.producer_id, each.first_offset) for each in aborted])

    def _require_readable(self, fetch: PartitionFetch) -> None:
        """Consumers that know of followers may read from one."""
        error = self.availability_error(max(fetch.current_leader_epoch, UNDEFINED))
        if error is ErrorCode.NOT_LEADER_OR_FOLLOWER and fetch.may_follow and not self.log.offline:
            return
        if error is not ErrorCode.NONE:
            raise KafkaError(error, f"{self.log.name} is not led here in epoch {fetch.current_leader_epoch}.")

    def _read_as_replica(
        self, fetch: PartitionFetch, max_bytes: int, min_one_batch: bool, eager_bytes: int
    ) -> PartitionRead:
        """A follower reads up to the end of the log."""
        self.require_available(max(fetch.current_leader_epoch, UNDEFINED))
        offset, end_offset = fetch.fetch_offset, self.log.log_end_offset
        if fetch.last_fetched_epoch >= 0:
            diverging_epoch = self._diverging_epoch(fetch.last_fetched_epoch, offset)
            if diverging_epoch is not None:
                return self._found(b"", None, diverging_epoch)
        records = self.log.fetch(
            offset, max_bytes, upper_bound_offset=end_offset, min_one_batch=min_one_batch, eager_bytes=eager_bytes
        )
        return self._found(records, None)

    def replica_error(self, replica_id: int, broker_epoch: int, current_leader_epoch: int) -> ErrorCode:
        """Why a broker is not served as a follower of this leader."""
        error = self.availability_error(max(current_leader_epoch, UNDEFINED))
        if error is not ErrorCode.NONE:
            return error
        replication = self.replication
        if isinstance(replication, LeaderState) and not replication.follows(replica_id):
            knows_epoch = current_leader_epoch >= 0
            return ErrorCode.UNKNOWN_LEADER_EPOCH if knows_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER
        if broker_epoch != ANY_BROKER_EPOCH and self._neighbours.registered_epoch(replica_id) > broker_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER  # a process that was replaced
        return ErrorCode.NONE

    def _found(
        self,
        records: bytes | bytearray | memoryview | Region,
        aborted_transactions: list[tuple[int, int]] | None,
        diverging_epoch: tuple[int, int] | None = None,
    ) -> PartitionRead:
        return PartitionRead(
            0,
            self.replication.high_watermark,
            self.last_stable_offset,
            self.log.log_start_offset,
            records,
            aborted_transactions,
            diverging_epoch,
        )

    def _diverging_epoch(self, fetched_epoch: int, offset: int) -> tuple[int, int] | None:
        epoch, end_offset = self.log.end_offset_for_epoch(fetched_epoch)
        if epoch == UNDEFINED or end_offset == UNDEFINED or offset < self.log.log_start_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{self.log.name} knows nothing of epoch {fetched_epoch}.")
        return (epoch, end_offset) if diverges(fetched_epoch, offset, epoch, end_offset) else None

    @property
    def knows_committed(self) -> bool:
        """A new leader must hear of its followers before it can say how far the log is committed: it may know less
        than its predecessor has told."""
        replication = self.replication
        return not isinstance(replication, LeaderState) or (
            replication.is_alone or replication.high_watermark >= replication.epoch_start_offset
        )

    def replica_with(self, offset: int, rack: str, rack_of: Callable[[int], str | None]) -> int:
        """An in-sync replica in this rack that has the offset, the one with the most; -1 if the leader is as good."""
        replication = self.replication
        if not isinstance(replication, LeaderState) or rack_of(self.node_id) == rack:
            return UNDEFINED
        near = [
            (replication.follower_end_offset(replica), -replica)
            for replica in replication.in_sync
            if replica != self.node_id and rack_of(replica) == rack
        ]
        ends = [each for each in near if each[0] >= offset >= self.log.log_start_offset]
        return -max(ends)[1] if ends else UNDEFINED

    def follows_in(self, leader_epoch: int) -> bool:
        return isinstance(self.replication, FollowerState) and self.replication.leader_epoch == leader_epoch

    def readable_end(self, read_committed: bool) -> int:
        return self.last_stable_offset if read_committed else self.replication.high_watermark


def _tell(watchers: dict[Watcher, None], size_bytes: int, stable_bytes: int) -> None:
    satisfied = [watcher for watcher in watchers if not watcher.advanced(size_bytes, stable_bytes)]
    for watcher in satisfied:
        del watchers[watcher]
