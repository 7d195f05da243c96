"""A group whose members agree among themselves who consumes what (the classic protocol).

Members join, the group picks a protocol that all of them know and one of them to be the leader, the leader assigns, and
everybody fetches its assignment. One such round is a generation. A group is always in one of these phases:

    EMPTY                  no members; perhaps offsets
    PREPARING_REBALANCE    members are asked to join (again); those who did wait for the others
    COMPLETING_REBALANCE   all have joined and know the generation; they wait for the leader's assignment
    STABLE                 everybody has an assignment
    DEAD                   given up: deleted, or coordinated elsewhere

    EMPTY                -> PREPARING_REBALANCE    the first member joins; it waits a while for others
    PREPARING_REBALANCE  -> COMPLETING_REBALANCE   all have joined, or the rebalance timeout is over: others are out
    PREPARING_REBALANCE  -> EMPTY                  the last member has left or timed out
    COMPLETING_REBALANCE -> STABLE                 the leader's assignment is committed
    COMPLETING_REBALANCE -> PREPARING_REBALANCE    a member joins, leaves or times out; the assignment was not written
    STABLE               -> PREPARING_REBALANCE    a member joins, leaves, times out or has changed what it wants
    any                  -> DEAD

Only what a generation agreed on is in the log (`records`); who waits for what lives here and dies with the process,
after which members join again.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable
from enum import Enum

from barnabas.core.coordinator.promise import Promise
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from barnabas.wire.messages.sync_group import SyncGroupResponse

CONSUMER_PROTOCOL = "consumer"
Protocols = tuple[tuple[str, bytes], ...]


class GroupType(Enum):
    """The kinds of groups a coordinator may keep; those not classic have protocols of their own."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class Phase(Enum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Member:
    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "id",
        "instance_id",
        "is_new",
        "joining",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "syncing",
    )

    def __init__(
        self,
        *,
        id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        protocols: Protocols,
    ) -> None:
        self.id = id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.protocols = protocols
        self.assignment = b""
        # The answers it waits for.
        self.joining: Promise[JoinGroupResponse] | None = None
        self.syncing: Promise[SyncGroupResponse] | None = None
        # Not yet part of a generation: it does not know its id and cannot send heartbeats.
        self.is_new = True

    @property
    def is_waiting(self) -> bool:
        """Its request is here, so it need not send heartbeats."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)

    def metadata(self, protocol_name: str) -> bytes:
        return next((metadata for name, metadata in self.protocols if name == protocol_name), b"")

    @property
    def protocol_names(self) -> set[str]:
        return {name for name, _ in self.protocols}

    def vote(self, candidates: set[str]) -> str:
        return next(name for name, _ in self.protocols if name in candidates)


class ClassicGroup:
    type = GroupType.CLASSIC

    def __init__(self, group_id: str, phase_since_ms: int) -> None:
        self.id = group_id
        self.phase = Phase.EMPTY
        self.previous_phase = Phase.DEAD
        self.phase_since_ms = phase_since_ms
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        # Those who were given an id and have not come back with it; those who have not fetched their assignment.
        self.pending: set[str] = set()
        self.pending_sync: set[str] = set()
        self.new_member_added = False
        # None if they are not known.
        self.subscribed_topics: set[str] | None = None
        # The protocols that all members know; None until somebody asks. Looked at with every request to join.
        self._common: set[str] | None = None

    @property
    def is_empty(self) -> bool:
        return self.phase is Phase.EMPTY

    @property
    def state_name(self) -> str:
        return self.phase.value

    @property
    def expires_from_commit(self) -> bool:
        """Nobody ever joined: its offsets are kept for a time after each commit."""
        return self.protocol_type is None

    @property
    def joined(self) -> list[Member]:
        return [member for member in self.members.values() if member.joining is not None]

    @property
    def have_all_joined(self) -> bool:
        return not self.pending and all(member.joining is not None for member in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def move_to(self, phase: Phase, now_ms: int) -> None:
        self.previous_phase, self.phase = self.phase, phase
        self.phase_since_ms = now_ms

    # Members

    def add(self, member: Member, joining: Promise[JoinGroupResponse], protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        member.joining = joining
        self.restore(member)
        self.pending.discard(member.id)

    def restore(self, member: Member) -> None:
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.id
        self.leader = self.leader or member.id
        if self._common is not None:
            self._common = self._common & member.protocol_names if self.members else None
        self.members[member.id] = member
        if self.is_empty and member.joining is None:
            self.phase = Phase.STABLE

    def remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        self._common = None
        if member is not None and member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending.discard(member_id)
        self.pending_sync.discard(member_id)

    def replace_static(self, old_id: str, new_id: str) -> Member:
        """The same instance under another id; whoever still uses the old one is fenced."""
        old = self.members[old_id]
        assert old.instance_id is not None
        fenced = ErrorCode.FENCED_INSTANCE_ID
        answer_join(old, JoinGroupResponse(member_id=old_id, protocol_name=None, error_code=fenced))
        answer_sync(old, SyncGroupResponse(error_code=fenced))
        new = Member(
            id=new_id,
            instance_id=old.instance_id,
            client_id=old.client_id,
            client_host=old.client_host,
            session_timeout_ms=old.session_timeout_ms,
            rebalance_timeout_ms=old.rebalance_timeout_ms,
            protocols=old.protocols,
        )
        new.assignment = old.assignment
        new.is_new = False
        self.members = {new_id if key == old_id else key: each for key, each in self.members.items()}
        self.members[new_id] = new
        self.static_members[old.instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        return new

    def check_member(self, member_id: str, instance_id: str | None) -> None:
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is not None and known != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID, f"{instance_id} is the member {known} now.")
            if known is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if member_id not in self.members:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    def check_generation(self, generation_id: int) -> None:
        if generation_id != self.generation_id:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)

    def elect_leader(self) -> bool:
        """One that has joined; False if nobody has."""
        if self.leader is None:
            return False
        if self.members[self.leader].joining is not None:
            return True
        joined = self.joined
        if joined:
            self.leader = joined[0].id
        return bool(joined)

    # Protocols

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member with these could be in the group."""
        if self.is_empty:
            return bool(protocol_type) and any(True for _ in names)
        return protocol_type == self.protocol_type and not self._common_protocols().isdisjoint(names)

    def select_protocol(self) -> str:
        """What most members like best of what all of them know; what the first of them likes, if it is a draw."""
        candidates = self._common_protocols()
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def set_protocols(self, member: Member, protocols: Protocols) -> None:
        names = member.protocol_names
        member.protocols = protocols
        if member.protocol_names != names:
            self._common = None

    def _common_protocols(self) -> set[str]:
        if self._common is None:
            known = [member.protocol_names for member in self.members.values()]
            self._common = set.intersection(*known) if known else set()
        return self._common

    def next_generation(self, now_ms: int) -> None:
        self.generation_id += 1
        self.pending_sync.clear()
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self.read_subscriptions()
        self.move_to(Phase.COMPLETING_REBALANCE if self.members else Phase.EMPTY, now_ms)

    def read_subscriptions(self) -> set[str] | None:
        if self.protocol_type != CONSUMER_PROTOCOL:
            return None
        if not self.members:
            return set()
        if self.protocol_name is None:
            return None
        try:
            topics = [topics_of(member.metadata(self.protocol_name)) for member in self.members.values()]
        except (struct.error, UnicodeDecodeError):
            return None
        return {topic for each in topics for topic in each}

    def subscribes_to(self, topic: str) -> bool:
        """If what its members subscribe to cannot be known, a consumer group is taken to need every topic."""
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER_PROTOCOL
        return topic in self.subscribed_topics

    # Answers

    def join_response(self, member: Member, *, skip_assignment: bool = False) -> JoinGroupResponse:
        members = []
        if member.id == self.leader:
            members = [
                JoinGroupResponseMember(
                    member_id=each.id,
                    group_instance_id=each.instance_id,
                    metadata=each.metadata(self.protocol_name or ""),
                )
                for each in self.members.values()
            ]
        return JoinGroupResponse(
            generation_id=self.generation_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.leader or "",
            skip_assignment=skip_assignment,
            member_id=member.id,
            members=members,
        )


def answer_join(member: Member, response: JoinGroupResponse) -> None:
    promise, member.joining = member.joining, None
    if promise is not None:
        promise.set(response)


def answer_sync(member: Member, response: SyncGroupResponse) -> bool:
    promise, member.syncing = member.syncing, None
    if promise is not None:
        promise.set(response)
    return promise is not None


def topics_of(subscription: bytes) -> list[str]:
    """The topics at the beginning of a consumer's subscription, which all its versions share."""
    _, count = struct.unpack_from(">hi", subscription)
    position = 6
    topics = []
    for _ in range(min(count, len(subscription))):
        (length,) = struct.unpack_from(">h", subscription, position)
        position += 2
        if length < 0 or position + length > len(subscription):
            raise struct.error("a topic's name is longer than the subscription")
        topics.append(subscription[position : position + length].decode())
        position += length
    return topics
