"""Reads records: as a member of a group, or of given partitions.

    with GroupConsumer(settings, topics=["orders"]) as consumer:
        while True:
            for record in consumer.poll(1000):
                ...

Blocking and for one thread; heartbeats have their own. Offsets are committed as Kafka's consumer does it: of what the
former polls returned, every `auto.commit.interval.ms`, before partitions are given up, and at the end.
"""

from __future__ import annotations

import logging
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from types import TracebackType
from typing import Protocol, Self, TypeVar

from barnabas.client.cluster import Cluster
from barnabas.client.consumer_settings import ConsumerSettings
from barnabas.client.encryption import encryption_of
from barnabas.client.errors import (
    BrokerUnreachable,
    ClientError,
    InvalidSetting,
    OffsetOutOfRange,
    Refused,
    TimedOut,
    UnreadableAnswer,
)
from barnabas.client.fetcher import Fetched, Fetcher
from barnabas.client.membership import Membership
from barnabas.client.metadata import TopicPartition
from barnabas.client.offsets import CommittedOffset, commit_offsets, committed_offsets
from barnabas.client.records import ConsumerRecord, iterate_records
from barnabas.client.settings import ClientSettings
from barnabas.wire.errors import ErrorCode

__all__ = ["AssignedConsumer", "ConsumerRecord", "ConsumerSettings", "GroupConsumer"]

log = logging.getLogger(__name__)

LATEST, EARLIEST = -1, -2
RESET_AT = {"earliest": EARLIEST, "latest": LATEST}
# While a rebalance goes on, partitions that are kept are read in slices of this length.
REBALANCE_SLICE_S = 0.05
NEWS_SLICE_S = 0.25  # how long is read before it is asked what the heartbeats heard
MISSING_TOPIC_S = 1.0
COMMIT_WITHIN_MS = 1_000  # it comes again
LAST_COMMIT_WITHIN_MS = 5_000
T = TypeVar("T")
PartitionsCallback = Callable[[list[TopicPartition]], None]


class Reader:
    """Records out of a fetcher, a few at a time, and how far they have been taken."""

    def __init__(self, settings: ClientSettings, consumer_settings: ConsumerSettings | None = None) -> None:
        self.settings = consumer_settings or ConsumerSettings.from_properties(settings.properties)
        self._encryption = encryption_of(settings)
        self._cluster = Cluster(settings)
        self._fetcher = Fetcher(self._cluster, self.settings.fetch)
        self._waiting: deque[tuple[Fetched, Iterator[ConsumerRecord]]] = deque()
        self._consumed: dict[TopicPartition, int] = {}

    @property
    def assignment(self) -> set[TopicPartition]:
        return set(self._consumed)

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The offset of the next record that poll will return, of each partition."""
        return dict(self._consumed)

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """An offset, or -2 for the start and -1 for the end."""
        name = (topic, partition)
        if name not in self._consumed:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}-{partition} is not assigned to this consumer")
        if offset < 0:
            offset = self._offsets_at({name: offset})[name]
        self._forget_waiting({name})
        self._fetcher.seek(topic, partition, offset)
        self._consumed[name] = offset

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Nothing is returned of them until they are resumed, and nothing is skipped."""
        paused = set(partitions)
        for name in paused:
            self._fetcher.seek(*name, self._consumed[name])
        self._forget_waiting(paused)
        self._fetcher.pause(paused)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._fetcher.resume(partitions)

    def offsets_at(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Offsets at timestamps, or at -2 the start and -1 the end; -1 where there is none."""
        return self._offsets_at(wanted)

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        return committed_offsets(self._cluster, self._group_id(), partitions, require_stable=True)

    def close(self) -> None:
        self._fetcher.close()
        self._cluster.close()
        if self._encryption is not None:
            self._encryption.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _group_id(self) -> str:
        if not self.settings.group_id:
            raise InvalidSetting("group.id", "is missing, and offsets are committed by groups.")
        return self.settings.group_id

    def _read(self, deadline: float) -> list[ConsumerRecord]:
        records: list[ConsumerRecord] = []
        limit = self.settings.max_poll_records
        while True:
            while self._waiting and len(records) < limit:
                fetched, iterator = self._waiting[0]
                before = len(records)
                try:
                    records.extend(islice(iterator, limit - before))
                except UnreadableAnswer as error:
                    self._waiting[0] = fetched, raising(error)  # whoever polls again hears of it again
                    if not records:
                        raise
                    if len(records) > before:
                        self._consumed[fetched.topic, fetched.partition] = records[-1].offset + 1
                    return records
                if len(records) < limit:
                    self._consumed[fetched.topic, fetched.partition] = fetched.next_offset
                    self._waiting.popleft()
                else:
                    self._consumed[fetched.topic, fetched.partition] = records[-1].offset + 1
            if records:
                return records
            fetched_now = self._fetch(deadline)
            if not fetched_now:
                return records
            for each in fetched_now:
                found = iterate_records(each, check_crcs=self.settings.check_crcs)
                if self._encryption is not None:
                    found = map(self._encryption.open_record, found)
                self._waiting.append((each, found))

    def _read_batches(self, deadline: float) -> list[Fetched]:
        fetched = self._fetch(deadline)
        for each in fetched:
            self._consumed[each.topic, each.partition] = each.next_offset
        return fetched

    def _fetch(self, deadline: float) -> list[Fetched]:
        while True:
            try:
                return self._fetcher.poll(max(int((deadline - time.monotonic()) * 1000), 0))
            except OffsetOutOfRange as error:
                if self.settings.offset_reset == "none":
                    raise
                offset = error.log_start_offset if self.settings.offset_reset == "earliest" else error.log_end_offset
                log.info("%s; reading on from %s", error, offset)
                self._fetcher.seek(error.topic, error.partition, offset)
                self._consumed[error.topic, error.partition] = offset

    def _taken(self) -> dict[TopicPartition, CommittedOffset]:
        return {name: CommittedOffset(offset) for name, offset in self._consumed.items()}

    def _forget_waiting(self, partitions: set[TopicPartition]) -> None:
        self._waiting = deque(item for item in self._waiting if (item[0].topic, item[0].partition) not in partitions)

    def _assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Partitions that are kept go on where they are; others begin at these offsets."""
        self._forget_waiting(self._consumed.keys() - positions.keys())
        ahead = self._fetcher.positions
        kept = {name for name in positions if name in self._consumed}
        self._fetcher.assign({name: ahead[name] if name in kept else offset for name, offset in positions.items()})
        self._consumed = {name: self._consumed[name] if name in kept else at for name, at in positions.items()}

    def _offsets_at(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        found = self._cluster.list_offsets(wanted, isolation=self.settings.fetch.isolation) if wanted else {}
        return {name: at.offset for name, at in found.items()}


def raising(error: UnreadableAnswer) -> Iterator[ConsumerRecord]:
    raise error
    yield


class AssignedConsumer(Reader):
    """Reads the partitions it is told to, without a group; with a `group.id` it may commit offsets under that name."""

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Offsets, or -2 for the start and -1 for the end. Replaces what was assigned before."""
        named = {name: offset for name, offset in positions.items() if offset < 0}
        resolved = dict(positions) | self._offsets_at(named)
        self._assign({})
        self._assign(resolved)

    def poll(self, timeout_ms: int) -> list[ConsumerRecord]:
        """At most `max.poll.records`, as soon as there is one."""
        return self._read(time.monotonic() + timeout_ms / 1000)

    def poll_batches(self, timeout_ms: int) -> list[Fetched]:
        """As `poll`, but raw: `barnabas.client.records` counts and decodes them."""
        return self._read_batches(time.monotonic() + timeout_ms / 1000)

    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset] | None = None) -> None:
        given = self._taken() if offsets is None else offsets
        if given:
            commit_offsets(self._cluster, self._group_id(), given)


class TopicPattern(Protocol):
    """A compiled regular expression, of `re` or of an engine that takes bounded time."""

    def fullmatch(self, string: str, /) -> object | None: ...


class GroupConsumer(Reader):
    """A member of a classic group. The callbacks are called within `poll` and `close`."""

    def __init__(
        self,
        settings: ClientSettings,
        consumer_settings: ConsumerSettings | None = None,
        *,
        topics: Iterable[str] = (),
        pattern: str | TopicPattern | None = None,
        on_assigned: PartitionsCallback | None = None,
        on_revoked: PartitionsCallback | None = None,
        on_lost: PartitionsCallback | None = None,
    ) -> None:
        super().__init__(settings, consumer_settings)
        self._group_id()
        self._named = frozenset(topics)
        self._pattern: TopicPattern | None = re.compile(pattern) if isinstance(pattern, str) else pattern
        self._topics: frozenset[str] = frozenset()
        self._group_topics: frozenset[str] = frozenset()  # of all members, as the leader knows them
        self._counts: dict[str, int] = {}  # their partitions when they were last assigned
        self._look_at = 0.0
        self._committed_at = time.monotonic()
        self._on_assigned, self._on_revoked = on_assigned, on_revoked
        self._on_lost = on_lost or on_revoked
        self._membership = Membership(self._cluster, self.settings, self._partition_counts)
        self._joined_once = False
        self._rebalancing = False
        self._agreed: list[TopicPartition] | None = None  # what the group has given us and we have not begun to read
        self._revoked: set[TopicPartition] = set()
        self._closed = False

    @property
    def member_id(self) -> str:
        return self._membership.generation.member_id

    @property
    def generation_id(self) -> int:
        return self._membership.generation.id

    def poll(self, timeout_ms: int) -> list[ConsumerRecord]:
        """At most `max.poll.records`, as soon as there is one."""
        return self._polled(timeout_ms, self._read)

    def poll_batches(self, timeout_ms: int) -> list[Fetched]:
        """As `poll`, but raw: `barnabas.client.records` counts and decodes them."""
        return self._polled(timeout_ms, self._read_batches)

    def keep_up(self, timeout_ms: int) -> None:
        """Takes part in rebalances and commits as `poll` does, and reads nothing."""

        def wait(deadline: float) -> list[ConsumerRecord]:
            time.sleep(max(deadline - time.monotonic(), 0))
            return []

        self._polled(timeout_ms, wait)

    @property
    def is_rebalancing(self) -> bool:
        return self._rebalancing

    def commit(
        self, offsets: Mapping[TopicPartition, CommittedOffset] | None = None, *, within_ms: int | None = None
    ) -> None:
        """What the polls so far have returned, or what is given. Raises Refused if the group has moved on."""
        given = self._taken() if offsets is None else offsets
        if not given:
            return
        generation = self._membership.generation
        commit_offsets(
            self._cluster,
            self.settings.group_id,
            given,
            generation_id=generation.id,
            member_id=generation.member_id,
            group_instance_id=self.settings.group_instance_id,
            within_ms=within_ms,
        )

    def close(self) -> None:
        """Commits if it does so by itself, and leaves the group."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._cluster.ever_connected:
                self._give_up(set(self._consumed))
            self._membership.leave()
        finally:
            super().close()

    def _polled(self, timeout_ms: int, read: Callable[[float], list[T]]) -> list[T]:
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            self._membership.polled()
            self._follow_metadata()
            if self._membership.take_news():
                self._begin_rebalance()
            if self._rebalancing:
                # Partitions that are kept are read on while the others agree.
                limit = min(deadline, time.monotonic() + REBALANCE_SLICE_S) if self._consumed else deadline
                self._rebalance(limit)
            self._commit_now_and_then()
            found = read(min(deadline, time.monotonic() + NEWS_SLICE_S)) if self._consumed else []
            if found or time.monotonic() >= deadline:
                return found
            if not self._consumed and not self._rebalancing:
                time.sleep(max(min(deadline - time.monotonic(), NEWS_SLICE_S), 0))

    def _begin_rebalance(self) -> None:
        if self._membership.lost:
            self._lose()
        elif not self._membership.cooperative:
            self._give_up(set(self._consumed))
        self._membership.rejoin(self._topics)
        self._agreed, self._rebalancing = None, True
        self._revoked.clear()

    def _rebalance(self, limit: float) -> None:
        if self._agreed is None:
            self._agreed = self._membership.step(sorted(self._consumed), limit)
            if self._membership.lost:
                self._lose()
        if self._agreed is None:
            return
        assigned = set(self._agreed)
        self._revoked |= self._consumed.keys() - assigned
        if not self._consumed.keys() <= assigned:
            self._give_up(self._consumed.keys() - assigned)
        added = assigned - self._consumed.keys()
        positions = self._start_positions(added)  # if it raises, the next poll goes on here
        revoked, self._revoked = self._revoked, set()
        self._agreed, self._rebalancing = None, False
        self._assign(dict.fromkeys(self._consumed, 0) | positions)
        try:
            if self._on_assigned is not None:
                self._on_assigned(sorted(added))
        finally:
            if revoked and self._membership.cooperative:
                self._begin_rebalance()  # so that others get what we have given up

    def _lose(self) -> None:
        """The group went on without us: nothing can be committed for these partitions any more."""
        self._membership.lost = False
        lost = sorted(self._consumed)
        self._assign({})
        if lost and self._on_lost is not None:
            self._on_lost(lost)

    def _give_up(self, partitions: set[TopicPartition]) -> None:
        if not partitions:
            return
        if self.settings.auto_commit:
            offsets = {name: CommittedOffset(self._consumed[name]) for name in partitions}
            self._commit_quietly(offsets, LAST_COMMIT_WITHIN_MS)
        if self._on_revoked is not None:
            self._on_revoked(sorted(partitions))
        self._assign({name: 0 for name in self._consumed if name not in partitions})

    def _start_positions(self, partitions: set[TopicPartition]) -> dict[TopicPartition, int]:
        """Committed offsets, or where `auto.offset.reset` says."""
        if not partitions:
            return {}
        committed = self.committed(sorted(partitions))
        missing = sorted(partitions - committed.keys())
        if missing and self.settings.offset_reset == "none":
            names = ", ".join(f"{topic}-{partition}" for topic, partition in missing)
            raise ClientError(
                f"Group {self.settings.group_id} has no offset of {names}, and auto.offset.reset is none."
            )
        resets = self._offsets_at(dict.fromkeys(missing, RESET_AT[self.settings.offset_reset]))
        return {name: at.offset for name, at in committed.items()} | resets

    def _commit_now_and_then(self) -> None:
        interval_s = self.settings.auto_commit_interval_ms / 1000
        if self.settings.auto_commit and self._consumed and time.monotonic() - self._committed_at >= interval_s:
            self._commit_quietly(self._taken(), COMMIT_WITHIN_MS)

    def _commit_quietly(self, offsets: Mapping[TopicPartition, CommittedOffset], within_ms: int) -> None:
        """What fails here is committed next time, by us or by who reads it again."""
        self._committed_at = time.monotonic()
        try:
            self.commit(offsets, within_ms=within_ms)
        except ClientError as error:
            log.warning("could not commit offsets: %s", error)

    def _follow_metadata(self) -> None:
        """Joins anew when topics come, go or grow."""
        now = time.monotonic()
        if now < self._look_at:
            return
        try:
            topics, counts = self._look()
        except (BrokerUnreachable, TimedOut):
            if not self._cluster.ever_connected:
                raise
            self._look_at = now + self._cluster.settings.retry_backoff_max_ms / 1000
            return
        age_s = self._cluster.settings.metadata_max_age_ms / 1000
        self._look_at = now + (min(MISSING_TOPIC_S, age_s) if self._named - counts.keys() else age_s)
        leads = self._membership.is_leader
        grown = leads and any(counts.get(name) != self._counts.get(name) for name in self._group_topics)
        if not self._joined_once or topics != self._topics or grown:
            self._joined_once = True
            self._topics = topics
            self._begin_rebalance()

    def _look(self) -> tuple[frozenset[str], dict[str, int]]:
        """The topics we want that are there, and how many partitions the topics of the group have."""
        if self._pattern is None:
            names = sorted(self._named | self._group_topics)
            allow = self.settings.allow_auto_create_topics
            found = self._cluster.metadata(names, allow_auto_topic_creation=allow, timeout_ms=0).topics
        else:
            found = self._cluster.metadata(timeout_ms=0).topics
        counts = {name: len(topic.partitions) for name, topic in found.items() if not topic.error}
        if self._pattern is None:
            return self._named, counts
        hidden = self.settings.exclude_internal_topics
        matching = (name for name in counts if not (hidden and found[name].is_internal))
        return frozenset(name for name in matching if self._pattern.fullmatch(name)), counts

    def _partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        self._group_topics = frozenset(topics)
        found = self._cluster.metadata(sorted(self._group_topics)).topics
        self._counts = {name: len(topic.partitions) for name, topic in found.items() if not topic.error}
        return self._counts
