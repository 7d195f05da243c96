"""Incremental fetch sessions (KIP-227): a client says once what it reads and afterwards only what changes.

Theory. A session remembers, per partition, what the client wants and what it was told last. The partitions that may
have news are its `dirty` ones; only these are looked at when the next request comes, so one busy partition among a
thousand idle ones costs one look. A partition is dirty from the moment it is added, renewed by a request, appended to
or changed, until an answer has found it without error and read to its end. While it is clean it watches its partition,
and is told once; a fetch that waits in the session needs no entry of its own for it, only for the dirty ones. So a
session that nobody uses any more costs an append nothing.

Legal transitions of a session
- A request with epoch 0 creates it, if there is room, with epoch 1; it closes the session whose id it names.
- Each following request carries the epoch expected (1, 2, ... 2^31-1, 1): it may renew, add and forget partitions.
- It ends by a request with epoch -1 or 0, by forgetting its last partition, by eviction, or soon after the connection
  that used it last, unless another one goes on with it.
Eviction: with no slot free, a session unused for `EVICTION_MS` goes first; else the smallest one that is older than
that, if the new one is larger. The partitions of all sessions together are limited: unused sessions go to make room,
and who finds none fetches without a session.

Dirty partitions stand in line: what has been served goes to the end, what found no room in an answer stays in front.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from barnabas.node.broker.waiting import WaitingFetch
from barnabas.node.requests import Session
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.fetch import FetchPartition
from barnabas.wire.uuids import Uuid

if TYPE_CHECKING:
    from barnabas.node.broker.partition import Partition, PartitionRead

INVALID_SESSION_ID = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MAX_EPOCH = MAX_SESSION_ID = 2**31 - 1
EVICTION_MS = 120_000
NEVER_MS = -(1 << 62)
# So long a session waits for its client to come back over another connection.
LEFT_S = 5.0
MAX_PARTITIONS = 200_000
# One session has a quarter of all partitions at most.
SHARE = 4
UNKNOWN_OFFSET = -1

TopicKey: TypeAlias = str | Uuid


class PartitionFetch:
    """What is asked of one partition. It watches the partition while its request waits."""

    __slots__ = (
        "available_bytes",
        "current_leader_epoch",
        "fetch_offset",
        "from_replica",
        "index",
        "is_held_back",
        "last_fetched_epoch",
        "max_bytes",
        "may_follow",
        "partition",
        "topic",
        "topic_key",
        "waiting",
    )

    def __init__(self, topic_key: TopicKey, asked: FetchPartition, from_replica: bool = False) -> None:
        self.topic_key = topic_key
        self.from_replica = from_replica
        self.may_follow = False  # whether a follower may answer
        self.is_held_back = False  # by the leader's throttle, so its records do not count
        self.index = asked.partition
        self.topic: str | None = None
        self.partition: Partition | None = None
        self.waiting: WaitingFetch | None = None
        self.available_bytes = 0
        self.renew(asked)

    def renew(self, asked: FetchPartition) -> None:
        self.fetch_offset = asked.fetch_offset
        self.max_bytes = asked.partition_max_bytes
        self.current_leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch

    def watch(self) -> None:
        if self.partition is not None:
            (self.partition.followers if self.from_replica else self.partition.watchers)[self] = None

    def release(self) -> None:
        if self.partition is not None:
            (self.partition.followers if self.from_replica else self.partition.watchers).pop(self, None)

    def readable_end(self, read_committed: bool) -> int:
        """A follower reads to the end of the log."""
        if self.partition is None:
            return 0
        return self.partition.log.log_end_offset if self.from_replica else self.partition.readable_end(read_committed)

    def advanced(self, size_bytes: int, stable_bytes: int) -> bool:
        if self.waiting is None:
            return False
        self.count(self.waiting, size_bytes, stable_bytes)
        return True

    def changed(self) -> None:
        if self.waiting is not None:
            self.waiting.wake()

    def count(self, waiting: WaitingFetch, size_bytes: int, stable_bytes: int) -> None:
        """No more than the partition's own limit counts, because no more would be sent."""
        if self.is_held_back:
            return
        size = min(stable_bytes if waiting.read_committed else size_bytes, self.max_bytes - self.available_bytes)
        if size > 0:
            self.available_bytes += size
            waiting.count_new(size)


class CachedPartition(PartitionFetch):
    """A partition of a session: remembers what the client was told."""

    __slots__ = ("is_dirty", "session", "told_high_watermark", "told_log_start_offset")

    def __init__(self, topic_key: TopicKey, asked: FetchPartition, from_replica: bool = False) -> None:
        super().__init__(topic_key, asked, from_replica)
        self.session: FetchSession | None = None
        self.is_dirty = False
        self.told_high_watermark = UNKNOWN_OFFSET
        self.told_log_start_offset = UNKNOWN_OFFSET

    def advanced(self, size_bytes: int, stable_bytes: int) -> bool:
        session = self.session
        if session is None:
            return super().advanced(size_bytes, stable_bytes)
        self.mark()
        for waiting in session.waiting:
            self.count(waiting, size_bytes, stable_bytes)
        return bool(session.waiting)

    def changed(self) -> None:
        session = self.session
        if session is None:
            super().changed()
            return
        self.mark()
        for waiting in session.waiting:
            waiting.wake()

    def mark(self) -> None:
        if not self.is_dirty and self.session is not None:
            self.is_dirty = True
            self.available_bytes = 0
            self.session.dirty[self] = None

    def watch(self) -> None:
        """From now on until the first news, or as long as a request waits; unless the session has been closed."""
        if self.session is not None and self.session.is_open:
            super().watch()

    def settle(self, found: PartitionRead, end_offset: int, *, first: bool = False) -> bool:
        """Notes what the client is told now; whether there is anything to tell.

        `end_offset`: how far the client may read. `first`: the answer that creates the session, which gives everybody's
        place in the line.
        """
        failed = found.error_code != 0 or found.diverging_epoch is not None
        has_records = len(found.records) > 0
        news = (
            failed
            or has_records
            or found.high_watermark != self.told_high_watermark
            or found.log_start_offset != self.told_log_start_offset
        )
        # After an error the partition is told again, whatever it says then.
        self.told_high_watermark = UNKNOWN_OFFSET if found.error_code else found.high_watermark
        self.told_log_start_offset = found.log_start_offset
        session = self.session
        assert session is not None
        if not failed and self.fetch_offset >= end_offset:
            self.is_dirty = False
            session.dirty.pop(self, None)
            self.watch()
        elif has_records and not first:
            session.dirty.pop(self, None)
            session.dirty[self] = None
        return news


class FetchSession:
    __slots__ = (
        "created_ms",
        "dirty",
        "epoch",
        "from_replica",
        "id",
        "is_open",
        "last_used_ms",
        "owner",
        "partitions",
        "read_committed",
        "uses_topic_ids",
        "waiting",
    )

    def __init__(
        self, session_id: int, uses_topic_ids: bool, read_committed: bool, now_ms: int, from_replica: bool = False
    ) -> None:
        self.id = session_id
        self.from_replica = from_replica
        self.epoch = 1
        self.uses_topic_ids = uses_topic_ids
        self.read_committed = read_committed
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.is_open = True
        self.owner: Session | None = None
        self.partitions: dict[tuple[TopicKey, int], CachedPartition] = {}
        self.dirty: dict[CachedPartition, None] = {}
        self.waiting: list[WaitingFetch] = []

    def add(self, cached: CachedPartition) -> None:
        cached.session = self
        self.partitions[cached.topic_key, cached.index] = cached
        cached.mark()

    def renew(self, topic_key: TopicKey, asked: FetchPartition) -> None:
        cached = self.partitions.get((topic_key, asked.partition))
        if cached is None:
            self.add(CachedPartition(topic_key, asked, self.from_replica))
        else:
            cached.renew(asked)
            cached.mark()

    def forget(self, topic_key: TopicKey, index: int) -> None:
        cached = self.partitions.pop((topic_key, index), None)
        if cached is not None:
            self.dirty.pop(cached, None)
            cached.release()

    def read_with(self, read_committed: bool) -> None:
        """What was read to its end at one isolation level may not be at the other."""
        if read_committed != self.read_committed:
            self.read_committed = read_committed
            for cached in self.partitions.values():
                cached.mark()

    def close(self) -> None:
        self.is_open = False
        for cached in self.partitions.values():
            cached.release()
        for waiting in self.waiting:
            waiting.wake()


def next_epoch(epoch: int) -> int:
    return 1 if epoch == MAX_EPOCH else epoch + 1


class FetchSessions:
    def __init__(
        self,
        slots: int,
        clock: Callable[[], int],
        new_id: Callable[[], int] = lambda: random.randint(1, MAX_SESSION_ID),
        max_partitions: int = MAX_PARTITIONS,
        call_later: Callable[[float, Callable[[], None]], object] | None = None,
    ) -> None:
        """`call_later` is the event loop's."""
        self._call_later = call_later or (lambda delay_s, call: asyncio.get_running_loop().call_later(delay_s, call))
        self._slots = slots
        self._max_partitions = max_partitions
        self._clock = clock
        self._new_id = new_id
        # By time of last use, the longest unused first.
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def cached_partitions(self) -> int:
        return sum(len(session.partitions) for session in self._sessions.values())

    def open(self, session_id: int, epoch: int, uses_topic_ids: bool) -> FetchSession:
        """The session that an incremental request continues, else the KafkaError that sends the client back to 0."""
        session = self._sessions.get(session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"There is no fetch session {session_id}.")
        if session.epoch != epoch:
            raise KafkaError(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                f"Fetch session {session_id} is at epoch {session.epoch}, the request at {epoch}.",
            )
        if session.uses_topic_ids != uses_topic_ids:
            raise KafkaError(
                ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, "A fetch session uses either topic ids or topic names."
            )
        return session

    def proceed(self, session: FetchSession) -> int:
        """To the epoch that the next request has to carry."""
        session.last_used_ms = self._clock()
        session.epoch = next_epoch(session.epoch)
        if session.id in self._sessions:
            self._sessions.move_to_end(session.id)
        return session.epoch

    def create(
        self,
        partitions: Iterable[CachedPartition],
        size: int,
        uses_topic_ids: bool,
        read_committed: bool,
        from_replica: bool = False,
    ) -> FetchSession | None:
        """A new session of these partitions, or None where there is no room for it."""
        now_ms = self._clock()
        if len(self._sessions) >= self._slots and not self._evict(size, now_ms):
            return None
        if not self._make_room(size, now_ms):
            return None
        session_id = self._new_id()
        while session_id in self._sessions:
            session_id = self._new_id()
        session = FetchSession(session_id, uses_topic_ids, read_committed, now_ms, from_replica)
        for cached in partitions:
            session.add(cached)
        self._sessions[session_id] = session
        return session

    def require_room(self, session: FetchSession) -> None:
        """Of a session that has grown; it ends where there is none."""
        if len(session.partitions) > self._max_partitions // SHARE or not self._make_room(0, self._clock()):
            self.close(session.id)
            raise KafkaError(
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"There is no room for the partitions of session {session.id}."
            )

    def own(self, session: FetchSession, owner: Session) -> None:
        """The connection that used the session last takes it along when it goes."""
        if session.owner is not owner:
            session.owner = owner
            owner.fetch_session_ids.add(session.id)
            owner.on_closed = self.owner_gone

    def owner_gone(self, owner: Session) -> None:
        """Its sessions are evicted before all others, and are closed if nobody goes on with them."""
        for session_id in owner.fetch_session_ids:
            session = self._sessions.get(session_id)
            if session is not None and session.owner is owner:
                session.owner = None
                session.last_used_ms = NEVER_MS
                self._sessions.move_to_end(session_id, last=False)
                self._call_later(LEFT_S, partial(self._close_left, session))
        owner.fetch_session_ids.clear()

    def _close_left(self, session: FetchSession) -> None:
        if session.owner is None and self._sessions.get(session.id) is session:
            self.close(session.id)

    def _make_room(self, size: int, now_ms: int) -> bool:
        if size > self._max_partitions // SHARE:
            return False
        while self.cached_partitions + size > self._max_partitions:
            victim = self._stale(now_ms)
            if victim is None:
                return False
            self.evictions += 1
            self.close(victim.id)
        return True

    def close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()

    def _evict(self, size: int, now_ms: int) -> bool:
        victim = self._stale(now_ms) or self._smaller_than(size)
        if victim is None:
            return False
        self.evictions += 1
        self.close(victim.id)
        return True

    def _stale(self, now_ms: int) -> FetchSession | None:
        longest_unused = next(iter(self._sessions.values()), None)
        if longest_unused is None or now_ms - longest_unused.last_used_ms <= EVICTION_MS:
            return None
        return longest_unused

    def _smaller_than(self, size: int) -> FetchSession | None:
        return min(
            (
                each
                for each in self._sessions.values()
                if len(each.partitions) < size and each.last_used_ms - each.created_ms > EVICTION_MS
            ),
            key=lambda each: (len(each.partitions), each.id),
            default=None,
        )
