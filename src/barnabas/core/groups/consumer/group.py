"""A consumer group: what its records add up to.

Beside members and targets it knows, of each partition, the epoch of the member that has it (or has to give it back):
nobody else is given a partition while it is held. Regular expressions are resolved to topics once for all members that
share them; the result is a record too, so that every coordinator sees the same topics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from barnabas.core.coordinator.records import CoordinatorRecord
from barnabas.core.coordinator.timeline import Timeline, TimelineDict
from barnabas.core.groups.cluster import Cluster
from barnabas.core.groups.consumer.member import ConsumerMember, MemberState
from barnabas.core.groups.consumer.records import group_tombstones
from barnabas.core.groups.modern import LEAVING, NO_ASSIGNMENT_EPOCH, ModernGroup, Target, as_target
from barnabas.core.groups.state import CONSUMER_PROTOCOL, GroupType
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.records.consumer_groups import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from barnabas.wire.uuids import Uuid

NOTHING: Target = {}


class Resolved(NamedTuple):
    """The topics that a regular expression matches, and as of when."""

    topics: frozenset[str]
    version: int
    resolved_ms: int


class ConsumerGroup(ModernGroup[ConsumerMember, Target]):
    type = GroupType.CONSUMER
    protocol_type = CONSUMER_PROTOCOL
    expires_from_commit = True

    def __init__(self, group_id: str, timeline: Timeline) -> None:
        super().__init__(group_id, timeline)
        self.static_members: TimelineDict[str, str] = TimelineDict(timeline)
        self.resolved: TimelineDict[str, Resolved] = TimelineDict(timeline)
        # How many members subscribe by an expression; the epochs in which partitions are held.
        self.regexes: TimelineDict[str, int] = TimelineDict(timeline)
        self._held: TimelineDict[tuple[Uuid, int], int] = TimelineDict(timeline)
        self._flags: TimelineDict[str, bool] = TimelineDict(timeline)

    # Members

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target(self, member_id: str) -> Target:
        return self.targets.get(member_id) or NOTHING

    def is_held(self, topic_id: Uuid, partition: int) -> bool:
        return (topic_id, partition) in self._held

    @property
    def classic_members(self) -> int:
        return sum(member.is_classic for member in self.members.values())

    def subscribed_ids(self, member: ConsumerMember, image: Cluster) -> set[Uuid]:
        names: Iterable[str] = member.topics
        resolved = self.resolved.get(member.regex) if member.regex else None
        if resolved is not None:
            names = member.topics | resolved.topics
        return {image.topics[name].topic_id for name in names if name in image.topics}

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether a partition that the member should have is still held by somebody."""
        return member.state is MemberState.UNRELEASED_PARTITIONS and any(
            partition not in member.assigned.get(topic_id, {}) and self.is_held(topic_id, partition)
            for topic_id, partitions in self.target(member.id).items()
            for partition in partitions
        )

    # Replay

    def replay_epoch(self, value: ConsumerGroupMetadataValue) -> None:
        self.set_epochs(group=value.epoch, metadata_hash=value.metadata_hash)

    def replay_target_epoch(self, value: ConsumerGroupTargetAssignmentMetadataValue | None) -> None:
        if value is None:
            self.set_epochs(assignment=NO_ASSIGNMENT_EPOCH, assigned_ms=0)
        else:
            self.set_epochs(assignment=value.assignment_epoch, assigned_ms=value.assignment_timestamp)

    def replay_target(self, member_id: str, value: ConsumerGroupTargetAssignmentMemberValue | None) -> None:
        self.set_target(member_id, None if value is None else as_target(value.topic_partitions))

    def replay_member(self, member_id: str, value: ConsumerGroupMemberMetadataValue | None) -> None:
        if value is None:
            old = self.remove_member(member_id)
            if old is not None:
                self._hold(old, None)
                self._count_regex(old.regex, "")
                if old.instance_id is not None and self.static_members.get(old.instance_id) == member_id:
                    self.static_members.pop(old.instance_id)
            return
        old = self.members.get(member_id)
        member = (old or ConsumerMember(id=member_id)).described_by(value)
        self.set_member(member)
        self._count_regex(old.regex if old is not None else "", member.regex)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member_id

    def replay_current(self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None) -> None:
        old = self.members.get(member_id)
        if value is None:
            if old is None:
                return
            value = ConsumerGroupCurrentMemberAssignmentValue(member_epoch=LEAVING, previous_member_epoch=LEAVING)
        member = (old or ConsumerMember(id=member_id)).assigned_by(value)
        self._hold(old, member)
        self.members[member_id] = member

    def replay_regex(self, regex: str, value: ConsumerGroupRegularExpressionValue | None) -> None:
        old = self.resolved.pop(regex)
        new = None if value is None else Resolved(frozenset(value.topics), value.version, value.timestamp)
        if new is not None:
            self.resolved[regex] = new
        self.count_matches(old.topics if old else (), new.topics if new else ())

    def replay_partition_metadata(self, exists: bool) -> None:
        self._flags["partition metadata"] = exists

    @property
    def has_partition_metadata(self) -> bool:
        return self._flags.get("partition metadata") or False

    def _hold(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        """A partition belongs to who has it in the latest epoch: records may come in another order after compaction."""
        for partitions in (old.assigned, old.revoking) if old is not None else ():
            for topic_id, epochs in partitions.items():
                for partition in epochs:
                    if self._held.get((topic_id, partition)) == old.epoch:  # type: ignore[union-attr]
                        self._held.pop((topic_id, partition))
        for partitions in (new.assigned, new.revoking) if new is not None else ():
            for topic_id, epochs in partitions.items():
                for partition in epochs:
                    held = self._held.get((topic_id, partition))
                    if held is None or held < new.epoch:  # type: ignore[union-attr]
                        self._held[topic_id, partition] = new.epoch  # type: ignore[union-attr]

    def _count_regex(self, old: str, new: str) -> None:
        if old == new:
            return
        if old:
            left = (self.regexes.get(old) or 0) - 1
            if left > 0:
                self.regexes[old] = left
            else:
                self.regexes.pop(old)
        if new:
            self.regexes[new] = (self.regexes.get(new) or 0) + 1

    # Offsets and removal

    def check_partition(self, member_id: str, epoch: int, topic: str, topic_id: Uuid | None, partition: int) -> None:
        member = self.member(member_id)
        since = None if topic_id is None else member.assigned_in(topic_id, partition)
        if since is None:
            raise self.stale(member, f"Partition {partition} is not assigned or pending revocation for member.")
        if epoch < since:
            raise self.stale(member, f"Received member epoch {epoch} is older than assignment epoch {since}.")

    def stale(self, member: ConsumerMember, message: str) -> KafkaError:
        return (
            KafkaError(ErrorCode.ILLEGAL_GENERATION, message) if member.is_classic else super().stale(member, message)
        )

    def tombstones(self, renamed: Mapping[str, str] | None = None) -> list[CoordinatorRecord]:
        """`renamed` are members whose records are already those of another name."""
        names = [(renamed or {}).get(member_id, member_id) for member_id in self.members]
        return group_tombstones(self.id, names, self.resolved)
