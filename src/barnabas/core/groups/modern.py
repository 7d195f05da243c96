"""What groups have in common whose coordinator assigns: epochs, members, a target assignment, subscriptions.

The group epoch rises whenever something happened that may change who consumes what. The coordinator then computes a
target assignment, which carries the epoch that it answers to. Members come to their part of it in their heartbeats, one
by one; nobody waits for all. Everything here comes from records: `replay` is the only way in, and a timeline can take
it back.

    EMPTY         no members
    ASSIGNING     the group epoch is ahead of the target assignment
    RECONCILING   members are on their way to the target assignment
    STABLE        all of them have arrived
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from barnabas.core.coordinator.timeline import Timeline, TimelineDict
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.uuids import Uuid

FIRST_EPOCH = 1
NO_ASSIGNMENT_EPOCH = -1
LEAVING = -1
LEAVING_FOR_A_WHILE = -2
# Partitions by topic; as a target, and with the epoch in which the member got each.
Target = Mapping[Uuid, frozenset[int]]
Assigned = Mapping[Uuid, Mapping[int, int]]


class GroupState(Enum):
    EMPTY = "Empty"
    NOT_READY = "NotReady"  # of streams groups alone
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ModernMember(Protocol):
    @property
    def id(self) -> str: ...

    @property
    def epoch(self) -> int: ...

    @property
    def topics(self) -> frozenset[str]: ...

    def is_reconciled_to(self, assignment_epoch: int) -> bool: ...


class Epochs(NamedTuple):
    """What a group's own records say; `changed_ms` is when the target assignment was computed."""

    group: int = FIRST_EPOCH
    metadata_hash: int = 0
    assignment: int = FIRST_EPOCH
    assigned_ms: int = 0


class Count(NamedTuple):
    """How many members name a topic, and how many regular expressions match it."""

    by_name: int = 0
    by_regex: int = 0


M = TypeVar("M", bound=ModernMember)
T = TypeVar("T")
_EPOCHS = "epochs"


class ModernGroup(Generic[M, T]):
    """`T` is a member's part of the target assignment."""

    def __init__(self, group_id: str, timeline: Timeline) -> None:
        self.id = group_id
        self.members: TimelineDict[str, M] = TimelineDict(timeline)
        self.targets: TimelineDict[str, T] = TimelineDict(timeline)
        self.topics: TimelineDict[str, Count] = TimelineDict(timeline)
        self._scalars: TimelineDict[str, Epochs] = TimelineDict(timeline)
        # Asked to compare its topics with the metadata at the next heartbeat; a change that was taken back leaves an
        # epoch behind that the group has not reached.
        self._refreshed_at_epoch: int | None = None

    @property
    def epochs(self) -> Epochs:
        return self._scalars.get(_EPOCHS) or Epochs()

    @property
    def committed_epochs(self) -> Epochs:
        return self._scalars.committed(_EPOCHS) or Epochs()

    @property
    def is_empty(self) -> bool:
        return not len(self.members)

    def member(self, member_id: str) -> M:
        member = self.members.get(member_id)
        if member is None:
            raise self._no_member(member_id)
        return member

    def _no_member(self, member_id: str | None) -> KafkaError:
        return KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.id}.")

    # What records say

    def set_epochs(self, **changes: int) -> None:
        self._scalars[_EPOCHS] = self.epochs._replace(**changes)

    def set_target(self, member_id: str, target: T | None) -> None:
        if target is None:
            self.targets.pop(member_id)
        else:
            self.targets[member_id] = target

    def set_member(self, member: M) -> None:
        old = self.members.get(member.id)
        self.members[member.id] = member
        self.count_names(old.topics if old is not None else (), member.topics)

    def remove_member(self, member_id: str) -> M | None:
        old = self.members.pop(member_id)
        if old is not None:
            self.count_names(old.topics, ())
        return old

    def count_names(self, old: Iterable[str], new: Iterable[str]) -> None:
        if old is not new and old != new:
            self._count(old, Count(by_name=-1))
            self._count(new, Count(by_name=1))

    def count_matches(self, old: Iterable[str], new: Iterable[str]) -> None:
        self._count(old, Count(by_regex=-1))
        self._count(new, Count(by_regex=1))

    def _count(self, topics: Iterable[str], by: Count) -> None:
        for topic in topics:
            count = self.topics.get(topic) or Count()
            changed = Count(count.by_name + by.by_name, count.by_regex + by.by_regex)
            if changed.by_name > 0 or changed.by_regex > 0:
                self.topics[topic] = changed
            else:
                self.topics.pop(topic)

    # Noticing that topics have changed

    def request_refresh(self) -> None:
        self._refreshed_at_epoch = None

    def refreshed(self, group_epoch: int) -> None:
        self._refreshed_at_epoch = group_epoch

    @property
    def needs_refresh(self) -> bool:
        return self._refreshed_at_epoch is None or self.epochs.group < self._refreshed_at_epoch

    def is_settled(self, member: M) -> bool:
        """Unless the member says something new, nothing is to be decided: most heartbeats end here."""
        epochs, refreshed_at = self.epochs, self._refreshed_at_epoch
        return (
            refreshed_at is not None
            and refreshed_at <= epochs.group <= epochs.assignment
            and member.is_reconciled_to(epochs.assignment)
        )

    def subscribes_to(self, topic: str) -> bool:
        return topic in self.topics

    # Offsets

    def check_commit(self, member_id: str, instance_id: str | None, epoch: int, *, transactional: bool) -> bool:
        """Whether each partition has to be looked at, since the member's epoch is an older one."""
        if epoch < 0 and self.is_empty:
            return False
        if transactional and epoch == -1 and not member_id and instance_id is None:
            return False
        member = self.member(member_id)
        if epoch > member.epoch:
            raise self.stale(
                member, f"Received member epoch {epoch} is newer than current member epoch {member.epoch}."
            )
        return epoch < member.epoch

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        if member_id is None and epoch < 0:
            return
        member = self.members.committed(member_id or "")
        if member is None:
            raise self._no_member(member_id)
        if epoch != member.epoch:
            raise self.stale(member, f"The received member epoch {epoch} does not match the expected {member.epoch}.")

    def stale(self, member: M, message: str) -> KafkaError:
        return KafkaError(ErrorCode.STALE_MEMBER_EPOCH, message)

    # Reading what is committed

    @property
    def state(self) -> GroupState:
        epochs = self.committed_epochs
        members = [member for _, member in self.members.committed_items()]
        if not members:
            return GroupState.EMPTY
        if epochs.group > epochs.assignment:
            return GroupState.ASSIGNING
        if all(member.is_reconciled_to(epochs.assignment) for member in members):
            return GroupState.STABLE
        return GroupState.RECONCILING

    @property
    def state_name(self) -> str:
        return self.state.value


def most_wanted(names: Iterable[str | None]) -> str | None:
    """What most ask for; the first of them if several are asked for as often."""
    counted = Counter(name for name in names if name is not None)
    return counted.most_common(1)[0][0] if counted else None


def as_target(topic_partitions: Iterable[Any]) -> dict[Uuid, frozenset[int]]:
    """Of records and requests, whose entries have `topic_id` and `partitions`."""
    return {each.topic_id: frozenset(each.partitions) for each in topic_partitions}
