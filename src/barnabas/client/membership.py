"""A member's life in a classic group.

    out --join sent--> joining --answer--> syncing --answer--> member
     ^                    |                   |                   |
     +--------------------+-------------------+---- rejoin -------+

`step` goes as far as it can in the time it is given; joining may take as long as the other members need, so it can be
left and taken up again. While a member, a thread of its own sends heartbeats; it only notes what they say (somebody
joined, we were removed), and the next `step` acts on it. A member that is not polled within `max.poll.interval.ms`
leaves, so that its partitions are read by somebody who is alive.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from barnabas.client.assignors import (
    ASSIGNORS,
    NO_GENERATION,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from barnabas.client.cluster import NOT_YET, Attempts, Cluster
from barnabas.client.connection import Connection, wait_readable
from barnabas.client.consumer_settings import ConsumerSettings
from barnabas.client.errors import BrokerUnreachable, ClientError, Refused, TimedOut, known_code
from barnabas.client.metadata import TopicPartition
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

log = logging.getLogger(__name__)

REMOVED = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})
PROTOCOL_TYPE = "consumer"
# The coordinator answers a join by the rebalance timeout at the latest; this much later nobody will.
JOIN_GRACE_MS = 5_000
JOIN_THREAD_S = 1.0
LEAVE_WITHIN_MS = 5_000


class Generation(NamedTuple):
    id: int
    member_id: str
    protocol: str = ""


NOBODY = Generation(NO_GENERATION, "")


class Membership:
    """`partitions_of` tells how many partitions each topic has; the leader needs it."""

    def __init__(
        self, cluster: Cluster, settings: ConsumerSettings, partitions_of: Callable[[Iterable[str]], dict[str, int]]
    ) -> None:
        self.generation = NOBODY
        self.is_leader = False
        self.lost = False  # what was assigned may be read by somebody else already; for the consumer to take back
        self._cluster = cluster
        self._settings = settings
        self._partitions_of = partitions_of
        self._topics: frozenset[str] = frozenset()
        self._state = "out"
        self._member_id = ""
        self._connection: Connection | None = None
        self._retry_at = 0.0
        self._heartbeat = Heartbeat(cluster, settings)

    def polled(self) -> None:
        """Somebody reads: `max.poll.interval.ms` begins anew."""
        self._heartbeat.polled_at = time.monotonic()

    def rejoin(self, topics: Iterable[str]) -> None:
        """Begins a rebalance at the next step, for these topics."""
        self._topics = frozenset(topics)
        if self._state in ("joining", "syncing"):
            self._drop_connection()
        self._state = "out"

    def take_news(self) -> bool:
        """Whether a rebalance is due, by what the heartbeats heard."""
        heartbeat = self._heartbeat
        if self._state != "member" or not heartbeat.news:
            return False
        if heartbeat.error is not None:
            raise heartbeat.error
        if heartbeat.removed:
            self._forget_generation()
        return True

    @property
    def cooperative(self) -> bool:
        """Whether partitions are kept through a rebalance."""
        return self._settings.cooperative

    def step(self, owned: Iterable[TopicPartition], deadline: float) -> list[TopicPartition] | None:
        """What is assigned to us once the group has agreed; None if that takes longer."""
        while True:
            now = time.monotonic()
            if now < self._retry_at:
                if self._retry_at > deadline:
                    time.sleep(max(deadline - now, 0))
                    return None
                time.sleep(self._retry_at - now)
            try:
                if self._state == "out":
                    self._send_join(list(owned), deadline)
                answer = self._answer(deadline)
                if answer is None:
                    return None
                if isinstance(answer, JoinGroupResponse):
                    self._joined(answer)
                elif self._synced(answer):
                    return decode_assignment(answer.assignment)
            except (BrokerUnreachable, TimedOut) as error:
                if not self._cluster.ever_connected:
                    raise
                log.info("could not join group %s, trying again: %s", self._settings.group_id, error)
                self._lose_coordinator()

    def leave(self) -> None:
        """Says good-bye, if anybody would notice; a static member keeps its place."""
        self._heartbeat.end()
        self._drop_connection()
        member_id, self._member_id = self._member_id, ""
        if not member_id or self._settings.group_instance_id is not None:
            return
        try:
            leave_group(self._cluster, self._settings.group_id, member_id)
        except ClientError as error:
            log.info("could not tell group %s that the member leaves: %s", self._settings.group_id, error)

    def _send_join(self, owned: list[TopicPartition], deadline: float) -> None:
        settings = self._settings
        self._heartbeat.pause()
        connection = self._coordinator_connection(deadline)
        metadata = encode_subscription(self._topics, owned, self.generation.id)
        request = JoinGroupRequest(
            group_id=settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.max_poll_interval_ms,
            member_id=self._member_id,
            group_instance_id=settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in settings.assignors],
        )
        connection.send(request, timeout_ms=settings.max_poll_interval_ms + JOIN_GRACE_MS)
        self._state = "joining"

    def _answer(self, deadline: float) -> Any:
        connection = self._connection
        assert connection is not None
        if not connection.has_buffered:
            until = min(deadline, connection.oldest_deadline)
            ready = wait_readable([connection], max(until - time.monotonic(), 0))
            if not ready and time.monotonic() < connection.oldest_deadline:
                return None
        return connection.receive()

    def _joined(self, answer: JoinGroupResponse) -> None:
        code = known_code(answer.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = answer.member_id
            self._state = "out"
            return
        if code:
            self._refused(code, "join")
            return
        self._member_id = answer.member_id
        self.generation = Generation(answer.generation_id, answer.member_id, answer.protocol_name or "")
        self.is_leader = answer.leader == answer.member_id
        assignments = self._assign(answer) if self.is_leader and not answer.skip_assignment else []
        request = SyncGroupRequest(
            group_id=self._settings.group_id,
            generation_id=answer.generation_id,
            member_id=answer.member_id,
            group_instance_id=self._settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=answer.protocol_name,
            assignments=assignments,
        )
        assert self._connection is not None
        self._connection.send(request, timeout_ms=self._settings.max_poll_interval_ms + JOIN_GRACE_MS)
        self._state = "syncing"

    def _assign(self, answer: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        members = [
            decode_subscription(each.member_id, each.group_instance_id, each.metadata) for each in answer.members
        ]
        topics = sorted({topic for member in members for topic in member.topics})
        assign = ASSIGNORS[answer.protocol_name or ""]
        given = assign(members, self._partitions_of(topics))
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=encode_assignment(partitions))
            for member_id, partitions in given.items()
        ]

    def _synced(self, answer: SyncGroupResponse) -> bool:
        code = known_code(answer.error_code)
        if code:
            self._refused(code, "sync with")
            return False
        self._state = "member"
        self._heartbeat.begin(self.generation)
        return True

    def _refused(self, code: ErrorCode, what: str) -> None:
        self._state = "out"
        if code in REMOVED:
            self._forget_generation()
        elif code in NOT_YET:
            self._lose_coordinator()
        elif code is not ErrorCode.REBALANCE_IN_PROGRESS:
            raise Refused(code, f"This consumer cannot {what} group {self._settings.group_id}")

    def _forget_generation(self) -> None:
        self.generation, self._member_id = NOBODY, ""
        self.lost = True

    def _coordinator_connection(self, deadline: float) -> Connection:
        if self._connection is None or self._connection.closed:
            attempts = Attempts(self._cluster.settings, max(int((deadline - time.monotonic()) * 1000), 0))
            node_id = self._cluster.coordinator("group", self._settings.group_id, attempts)
            self._connection = self._cluster.new_connection(node_id)
        return self._connection

    def _lose_coordinator(self) -> None:
        self._cluster.forget_coordinator("group", self._settings.group_id)
        self._drop_connection()
        self._state = "out"
        self._retry_at = time.monotonic() + self._cluster.settings.retry_backoff_ms / 1000

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Heartbeat(threading.Thread):
    """Begins with each generation. It has connections of its own, for the group's may be busy."""

    def __init__(self, cluster: Cluster, settings: ConsumerSettings) -> None:
        super().__init__(name=f"barnabas-heartbeat-{settings.group_id}", daemon=True)
        self.rebalance = False
        self.removed = False
        self.error: ClientError | None = None
        self.polled_at = time.monotonic()
        self._cluster = Cluster(cluster.settings)
        self._settings = settings
        self._generation: Generation | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()

    @property
    def news(self) -> bool:
        return self.rebalance or self.removed or self.error is not None

    def begin(self, generation: Generation) -> None:
        with self._lock:
            self.rebalance, self.removed, self.error = False, False, None
            self._generation = generation
        if self.ident is None:
            self.start()

    def pause(self) -> None:
        with self._lock:
            self.rebalance, self.removed, self.error = False, False, None
            self._generation = None

    def end(self) -> None:
        """A heartbeat that is under way is waited for, but not for long."""
        self.pause()
        self._ended.set()
        if self.ident is not None:
            self.join(JOIN_THREAD_S)

    def run(self) -> None:
        interval_s = self._settings.heartbeat_interval_ms / 1000
        try:
            while not self._ended.wait(interval_s):
                with self._lock:
                    generation = self._generation
                if generation is None or self.removed or self.error is not None:
                    continue
                if time.monotonic() - self.polled_at > self._settings.max_poll_interval_ms / 1000:
                    self._leave(generation)
                else:
                    self._beat(generation)
        finally:
            self._cluster.close()

    def _beat(self, generation: Generation) -> None:
        group_id = self._settings.group_id
        request = HeartbeatRequest(
            group_id=group_id,
            generation_id=generation.id,
            member_id=generation.member_id,
            group_instance_id=self._settings.group_instance_id,
        )
        try:
            answer = self._cluster.ask_coordinator(
                "group", group_id, request, within_ms=self._settings.session_timeout_ms
            )
            code = known_code(answer.error_code)
            refusal: ClientError = Refused(code, f"This consumer is not a member of group {group_id} any more")
        except (BrokerUnreachable, TimedOut) as error:
            log.info("a heartbeat of group %s failed, trying again: %s", group_id, error)
            return
        except ClientError as error:
            code, refusal = ErrorCode.UNKNOWN_SERVER_ERROR, error
        with self._lock:
            if self._generation is not generation:
                return  # it was about another
            if code is ErrorCode.REBALANCE_IN_PROGRESS:
                self.rebalance = True
            elif code in REMOVED:
                self.removed = True
            elif code:
                self.error = refusal

    def _leave(self, generation: Generation) -> None:
        group_id = self._settings.group_id
        log.warning("leaving group %s: nothing was polled for %s ms", group_id, self._settings.max_poll_interval_ms)
        with self._lock:
            if self._generation is not generation:
                return
            self.removed = True
        try:
            leave_group(self._cluster, group_id, generation.member_id)
        except ClientError as error:
            log.info("could not tell group %s that the member leaves: %s", group_id, error)


def leave_group(cluster: Cluster, group_id: str, member_id: str) -> None:
    attempts = Attempts(cluster.settings, LEAVE_WITHIN_MS)
    version = cluster.coordinator_version("group", group_id, LeaveGroupRequest, attempts)
    if version >= 3:
        request = LeaveGroupRequest(group_id=group_id, members=[MemberIdentity(member_id=member_id)])
    else:
        request = LeaveGroupRequest(group_id=group_id, member_id=member_id)
    cluster.ask_coordinator("group", group_id, request, version=version, within_ms=LEAVE_WITHIN_MS)
