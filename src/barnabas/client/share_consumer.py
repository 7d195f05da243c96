"""Works through topics as one of a share group: records are taken one by one, and others take what is given back.

    with ShareConsumer(settings, "workers", ["tasks"]) as consumer:
        while True:
            for record in consumer.poll(1000):
                try:
                    work(record.value)
                    consumer.ack(record)
                except Busy:
                    consumer.nack(record, delay_s=5)   # later, to anybody
                except Malformed:
                    consumer.reject(record)            # to nobody any more

A record is the consumer's until it says what became of it, or until its lock runs out; then it goes to whoever asks
next. What is said is sent with the next poll, with `commit`, and at the end. Blocking and for one thread; heartbeats
have their own.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple, Self

from barnabas.client.cluster import Cluster
from barnabas.client.errors import BrokerUnreachable, ClientError, Refused, TimedOut, known_code
from barnabas.client.fetcher import Fetched
from barnabas.client.metadata import NO_LEADER, TopicPartition
from barnabas.client.records import ConsumerRecord, iterate_records
from barnabas.client.settings import ClientSettings
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.share_acknowledge import AcknowledgementBatch as AcknowledgedBatch
from barnabas.wire.messages.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from barnabas.wire.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ShareFetchRequest,
)
from barnabas.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from barnabas.wire.uuids import Uuid

log = logging.getLogger(__name__)

GAP, ACCEPT, RELEASE, REJECT, RENEW = 0, 1, 2, 3, 4
FINAL_EPOCH = -1
LEAVING = -1
RETRY_S = 0.1
WAIT_MS, WAIT_BESIDE_OTHERS_MS = 500, 50
FETCH_BYTES = 52_428_800
SESSION_LOST = frozenset({ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH})
REJOIN = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND})
NOT_YET = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)

At = tuple[Uuid, int]


class ShareRecord(NamedTuple):
    """A record that is ours for a while; `delivery_count` says how often it has been given out."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    delivery_count: int


@dataclass(eq=False)
class _Session:
    """With one broker; what was taken in it can be answered in it only."""

    epoch: int = 0
    partitions: set[At] = field(default_factory=set)
    said: dict[At, dict[int, int]] = field(default_factory=dict)
    is_lost: bool = False

    def say(self, at: At, offset: int, kind: int) -> None:
        self.said.setdefault(at, {})[offset] = kind


class _Held(NamedTuple):
    """A record that was taken: in which session, and until when its lock lasts."""

    session: _Session
    at: At
    until: float


class ShareConsumer:
    def __init__(
        self,
        settings: ClientSettings | Mapping[str, str],
        group_id: str,
        topics: Iterable[str],
        *,
        max_records: int = 500,
        fetch_max_bytes: int = FETCH_BYTES,
    ) -> None:
        """`settings` may be properties, as clients have them: bootstrap.servers, security.protocol and so on."""
        if not isinstance(settings, ClientSettings):
            settings = ClientSettings.from_properties(settings)
        self._cluster = Cluster(settings)
        self._group_id = group_id
        self._max_records = max_records
        self._fetch_max_bytes = fetch_max_bytes
        self._topics = list(topics)
        self._member_id = str(Uuid.random())
        self._names: dict[Uuid, str] = {}
        self._sessions: dict[int, _Session] = {}
        self._held: dict[tuple[str, int, int], _Held] = {}
        self._later: dict[tuple[str, int, int], float] = {}
        self._lock_s = 30.0
        self._lost = False  # a session or a leader, in the last round
        self._unheard = 0  # answers that no broker took since the last commit
        self._membership = _Membership(settings, group_id, self._member_id, self._topics)

    # Taking

    def poll(self, timeout_ms: int = 1000) -> list[ShareRecord]:
        """Records, or none if there were none in this time."""
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            self._membership.check()
            self._release_what_is_due()
            found = self._fetch(deadline)
            if found or time.monotonic() >= deadline:
                return found
            if not self._sessions or self._lost:
                time.sleep(min(RETRY_S, max(deadline - time.monotonic(), 0)))

    def __iter__(self) -> Iterator[ShareRecord]:
        while True:
            yield from self.poll()

    def _fetch(self, deadline: float) -> list[ShareRecord]:
        self._lost = False
        by_leader = self._partitions_by_leader()
        found: list[ShareRecord] = []
        for leader in [*by_leader, *(each for each in self._sessions if each not in by_leader)]:
            left_ms = int(max(deadline - time.monotonic(), 0) * 1000)
            # What has been found does not wait for another broker, and no broker's records wait long for the others.
            wait_ms = 0 if found else min(left_ms, WAIT_MS if len(by_leader) < 2 else WAIT_BESIDE_OTHERS_MS)
            found += self._fetch_from(leader, by_leader.get(leader, set()), wait_ms)
        return found

    def _partitions_by_leader(self) -> dict[int, set[At]]:
        """Those that have one: they do not wait for the others."""
        by_leader: dict[int, set[At]] = {}
        unknown: set[str] = set()
        try:
            for topic_id, partition in self._membership.assigned:
                name = self._name_of(topic_id)
                found = None if name is None else self._cluster.topic(name).partitions.get(partition)
                if found is not None and found.leader != NO_LEADER:
                    by_leader.setdefault(found.leader, set()).add((topic_id, partition))
                elif name is not None:
                    unknown.add(name)
                else:  # our broker has not heard of the topic yet
                    self._lost = True
        except (BrokerUnreachable, TimedOut) as error:
            log.info("no broker tells who leads the topics of share group %s: %s", self._group_id, error)
            self._lost = True
        for name in unknown:
            self._cluster.forget_leader(name)
            self._lost = True
        return by_leader

    def _fetch_from(self, leader: int, wanted: set[At], wait_ms: int) -> Iterator[ShareRecord]:
        session = self._sessions.setdefault(leader, _Session())
        if session.epoch == 0:
            session.said.clear()
        said, session.said = session.said, {}
        forgotten = session.partitions - wanted
        asked = (wanted if session.epoch == 0 else wanted - session.partitions) | set(said)
        request = ShareFetchRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=session.epoch,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=self._fetch_max_bytes,
            max_records=self._max_records,
            batch_size=self._max_records,
            topics=[
                FetchTopic(topic_id=topic_id, partitions=list(parts))
                for topic_id, parts in _by_topic(
                    {
                        at: FetchPartition(partition_index=at[1], acknowledgement_batches=_batches(said.get(at, {})))
                        for at in asked
                    }
                ).items()
            ],
            forgotten_topics_data=[
                ForgottenTopic(topic_id=topic_id, partitions=list(parts))
                for topic_id, parts in _by_topic({at: at[1] for at in forgotten}).items()
            ],
        )
        try:
            # Once: if the broker is gone, another one leads.
            answer: Any = self._cluster.connection(leader).request(request, timeout_ms=wait_ms + 30_000)
        except (BrokerUnreachable, TimedOut) as error:
            log.info("the share session with broker %d is lost: %s", leader, error)
            session.said = said
            self._lose(leader)
            return
        code = known_code(answer.error_code)
        if code in SESSION_LOST:
            session.said = said
            self._lose(leader)
            return
        if code is not ErrorCode.NONE:
            raise Refused(answer.error_code, answer.error_message)
        session.epoch += 1
        session.partitions = set(wanted)
        self._lock_s = answer.acquisition_lock_timeout_ms / 1000 or self._lock_s
        for topic in answer.responses:
            for part in topic.partitions:
                if part.acknowledge_error_code:
                    self._unheard += len(said.get((topic.topic_id, part.partition_index), ()))
                yield from self._records(session, topic.topic_id, part)

    def _records(self, session: _Session, topic_id: Uuid, part: PartitionData) -> Iterator[ShareRecord]:
        name = self._name_of(topic_id)
        if name is None:
            return
        if part.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise Refused(part.error_code, part.error_message or f"Topic {name} may not be read")
        if part.error_code:
            self._cluster.forget_leader(name)
            self._lost = True
            return
        counts: dict[int, int] = {}
        for each in part.acquired_records:
            counts |= dict.fromkeys(range(each.first_offset, each.last_offset + 1), each.delivery_count)
        if not counts:
            return
        at, until = (topic_id, part.partition_index), time.monotonic() + self._lock_s
        fetched = Fetched(name, part.partition_index, min(counts), max(counts) + 1, part.records or b"", -1, -1, -1)
        for record in iterate_records(fetched):
            deliveries = counts.pop(record.offset, None)
            if deliveries is not None:
                self._held[name, part.partition_index, record.offset] = _Held(session, at, until)
                yield _share_record(record, deliveries)
        for offset in counts:
            # Taken, and not in the log any more.
            session.say(at, offset, GAP)

    # Saying what became of a record

    def ack(self, record: ShareRecord) -> None:
        """It is done: nobody gets it again."""
        self._answer(record, ACCEPT)

    def nack(self, record: ShareRecord, delay_s: float = 0.0) -> None:
        """It is to be tried again by anybody, at once or after a while (as long as this consumer is polled)."""
        if delay_s <= 0:
            self._answer(record, RELEASE)
        else:
            key = self._require_held(record)
            self._later[key] = time.monotonic() + delay_s

    def reject(self, record: ShareRecord) -> None:
        """It cannot be worked off by anybody."""
        self._answer(record, REJECT)

    def _answer(self, record: ShareRecord, kind: int) -> None:
        key = self._require_held(record)
        held = self._held.pop(key)
        self._later.pop(key, None)
        held.session.say(held.at, record.offset, kind)
        if held.session.is_lost:
            self._unheard += 1

    def _require_held(self, record: ShareRecord) -> tuple[str, int, int]:
        key = (record.topic, record.partition, record.offset)
        if key not in self._held:
            raise Refused(ErrorCode.INVALID_RECORD_STATE, f"{key[0]}-{key[1]} at {key[2]} is not ours (any more)")
        return key

    def _release_what_is_due(self) -> None:
        """Delays that are over; locks that would run out before their delay is over are renewed."""
        now = time.monotonic()
        for key, due in list(self._later.items()):
            if due <= now:
                del self._later[key]
                held = self._held.pop(key)
                held.session.say(held.at, key[2], RELEASE)
            elif self._held[key].until - now < self._lock_s / 2:
                held = self._held[key]
                held.session.say(held.at, key[2], RENEW)
                self._held[key] = held._replace(until=now + self._lock_s)
        for leader, session in list(self._sessions.items()):
            if any(RENEW in kinds.values() for kinds in session.said.values()):
                self._send(leader, session, session.epoch)

    def commit(self) -> None:
        """Sends what has been said; raises `Refused` if something that was said since the last commit was not taken.

        That is so if a record had gone to somebody else meanwhile, or its broker is gone: it is given out again.
        """
        for leader, session in list(self._sessions.items()):
            if session.said and session.epoch > 0:
                self._send(leader, session, session.epoch)
        if self._unheard:
            count, self._unheard = self._unheard, 0
            raise Refused(ErrorCode.INVALID_RECORD_STATE, f"{count} records are not ours any more")

    def _send(self, leader: int, session: _Session, epoch: int) -> None:
        said, session.said = session.said, {}
        parts = {
            at: AcknowledgePartition(
                partition_index=at[1],
                acknowledgement_batches=[
                    AcknowledgedBatch(
                        first_offset=each.first_offset,
                        last_offset=each.last_offset,
                        acknowledge_types=each.acknowledge_types,
                    )
                    for each in _batches(kinds)
                ],
            )
            for at, kinds in said.items()
        }
        request = ShareAcknowledgeRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=epoch,
            is_renew_ack=any(RENEW in kinds.values() for kinds in said.values()),
            topics=[
                AcknowledgeTopic(topic_id=topic_id, partitions=each) for topic_id, each in _by_topic(parts).items()
            ],
        )
        try:
            answer: Any = self._cluster.connection(leader).request(request)
        except (BrokerUnreachable, TimedOut) as error:
            log.info("the share session with broker %d is lost: %s", leader, error)
            session.said = said
            self._lose(leader)
            return
        if known_code(answer.error_code) in SESSION_LOST:
            session.said = said
            self._lose(leader)
            return
        if answer.error_code:
            raise Refused(answer.error_code, answer.error_message)
        session.epoch += 1
        for topic in answer.responses:
            for part in topic.partitions:
                if part.error_code:
                    self._unheard += len(said.get((topic.topic_id, part.partition_index), ()))

    def _lose(self, leader: int) -> None:
        """Whatever was taken from the broker is free again, or will be; what is said of it goes nowhere."""
        session = self._sessions.pop(leader, None)
        if session is not None:
            session.is_lost = True
            self._unheard += sum(len(each) for each in session.said.values())
        self._lost = True
        for topic in self._topics:
            self._cluster.forget_leader(topic)

    # The end

    def close(self) -> None:
        for leader, session in list(self._sessions.items()):
            if session.epoch > 0:
                try:
                    self._send(leader, session, FINAL_EPOCH)
                except ClientError as error:
                    log.info("could not close the share session with broker %d: %s", leader, error)
        self._sessions.clear()
        self._membership.leave()
        self._cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _name_of(self, topic_id: Uuid) -> str | None:
        if topic_id not in self._names:
            for name in self._topics:  # made, or made anew, since they were asked for
                self._cluster.forget_leader(name)
            self._cluster.know_topics(set(self._topics))
            self._names |= {self._cluster.known_topic(name).topic_id: name for name in self._topics}
        return self._names.get(topic_id)

    @property
    def assignment(self) -> set[TopicPartition]:
        named = ((self._name_of(topic_id), partition) for topic_id, partition in self._membership.assigned)
        return {(name, partition) for name, partition in named if name is not None}


class _Membership(threading.Thread):
    """Heartbeats, on a connection of their own."""

    def __init__(self, settings: ClientSettings, group_id: str, member_id: str, topics: list[str]) -> None:
        super().__init__(name=f"share-heartbeat-{group_id}", daemon=True)
        self._cluster = Cluster(settings)
        self._group_id = group_id
        self._member_id = member_id
        self._topics = topics
        self._epoch = 0
        self._ended = threading.Event()
        self._failure: ClientError | None = None
        self.assigned: tuple[At, ...] = ()
        self.start()

    def check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def run(self) -> None:
        while not self._ended.is_set():
            try:
                wait_s = self._beat()
            except (BrokerUnreachable, TimedOut):
                wait_s = RETRY_S
            except ClientError as error:
                self._failure = error
                return
            self._ended.wait(wait_s)

    def _beat(self) -> float:
        request = ShareGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            member_epoch=self._epoch,
            subscribed_topic_names=self._topics if self._epoch == 0 else None,
        )
        answer: Any = self._cluster.ask_coordinator("group", self._group_id, request)
        code = known_code(answer.error_code)
        if code in REJOIN and self._epoch != 0:
            self._epoch, self.assigned = 0, ()
            return 0.0
        if code in NOT_YET:
            return RETRY_S
        if code is not ErrorCode.NONE:
            raise Refused(answer.error_code, answer.error_message)
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            self.assigned = tuple(
                (topic.topic_id, partition)
                for topic in answer.assignment.topic_partitions
                for partition in topic.partitions
            )
        # Partitions are assigned when they are initialized: nobody should wait a whole interval for that moment.
        return answer.heartbeat_interval_ms / 1000 if self.assigned else RETRY_S

    def leave(self) -> None:
        self._ended.set()
        self.join(10)
        try:
            if self._epoch > 0:
                request = ShareGroupHeartbeatRequest(
                    group_id=self._group_id, member_id=self._member_id, member_epoch=LEAVING
                )
                self._cluster.ask_coordinator("group", self._group_id, request, within_ms=5_000)
        except ClientError as error:
            log.info("could not tell the share group %s that the member leaves: %s", self._group_id, error)
        finally:
            self._cluster.close()


def _share_record(record: ConsumerRecord, deliveries: int) -> ShareRecord:
    return ShareRecord(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        record.key,
        record.value,
        record.headers,
        deliveries,
    )


def _by_topic(entries: dict[At, Any]) -> dict[Uuid, list[Any]]:
    found: dict[Uuid, list[Any]] = {}
    for (topic_id, _), entry in entries.items():
        found.setdefault(topic_id, []).append(entry)
    return found


def _batches(kinds: dict[int, int]) -> list[AcknowledgementBatch]:
    """Neighbours of one kind are one batch."""
    found: list[AcknowledgementBatch] = []
    for offset in sorted(kinds):
        last = found[-1] if found else None
        if last is not None and last.last_offset + 1 == offset and last.acknowledge_types == [kinds[offset]]:
            last.last_offset = offset
        else:
            found.append(
                AcknowledgementBatch(first_offset=offset, last_offset=offset, acknowledge_types=[kinds[offset]])
            )
    return found
