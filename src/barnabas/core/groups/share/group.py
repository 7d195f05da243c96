"""A share group: what its records add up to.

Partitions may be with several members at once, so members follow their target at once. A partition is assigned when its
state has been initialized at the share coordinator; which are, which are being, and which are being deleted is a record
of the group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from barnabas.core.coordinator.records import CoordinatorRecord, Kind, Kinds
from barnabas.core.coordinator.timeline import Timeline, TimelineDict
from barnabas.core.groups.cluster import Cluster
from barnabas.core.groups.modern import (
    LEAVING,
    NO_ASSIGNMENT_EPOCH,
    GroupState,
    ModernGroup,
    Target,
    as_target,
)
from barnabas.core.groups.state import GroupType
from barnabas.wire.records import share_groups as wire
from barnabas.wire.uuids import Uuid

KINDS: Kinds = {
    10: Kind(wire.ShareGroupMemberMetadataKey, wire.ShareGroupMemberMetadataValue),
    11: Kind(wire.ShareGroupMetadataKey, wire.ShareGroupMetadataValue),
    12: Kind(wire.ShareGroupTargetAssignmentMetadataKey, wire.ShareGroupTargetAssignmentMetadataValue),
    13: Kind(wire.ShareGroupTargetAssignmentMemberKey, wire.ShareGroupTargetAssignmentMemberValue),
    14: Kind(wire.ShareGroupCurrentMemberAssignmentKey, wire.ShareGroupCurrentMemberAssignmentValue),
    15: Kind(wire.ShareGroupStatePartitionMetadataKey, wire.ShareGroupStatePartitionMetadataValue),
}
STATES = "states"
SHARE_PROTOCOL = "share"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMember:
    id: str
    epoch: int = 0
    previous_epoch: int = -1
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    assigned: Target = field(default_factory=dict)

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.epoch == assignment_epoch


class Initialized(NamedTuple):
    """Topics with their names and partitions."""

    initializing: Mapping[Uuid, tuple[str, frozenset[int]]] = {}
    initialized: Mapping[Uuid, tuple[str, frozenset[int]]] = {}
    deleting: Mapping[Uuid, str] = {}


class ShareGroup(ModernGroup[ShareMember, Target]):
    type = GroupType.SHARE
    protocol_type = SHARE_PROTOCOL
    expires_from_commit = True

    def __init__(self, group_id: str, timeline: Timeline) -> None:
        super().__init__(group_id, timeline)
        self._states: TimelineDict[str, Initialized] = TimelineDict(timeline)
        # When each topic began to be initialized, to try again after a while; not in records.
        self.initializing_since_ms: dict[Uuid, int] = {}

    @property
    def states(self) -> Initialized:
        return self._states.get(STATES) or Initialized()

    @property
    def state(self) -> GroupState:
        """Members follow at once: there is nothing between empty and stable."""
        has_members = next(iter(self.members.committed_items()), None) is not None
        return GroupState.STABLE if has_members else GroupState.EMPTY

    def subscribed_ids(self, member: ShareMember, cluster: Cluster) -> set[Uuid]:
        return {cluster.topics[name].topic_id for name in member.topics if name in cluster.topics}

    # Replay

    def replay(self, record: CoordinatorRecord) -> None:
        key, value = record.key, record.value
        if isinstance(key, wire.ShareGroupMetadataKey):
            if isinstance(value, wire.ShareGroupMetadataValue):
                self.set_epochs(group=value.epoch, metadata_hash=value.metadata_hash)
        elif isinstance(key, wire.ShareGroupMemberMetadataKey):
            self._replay_member(key.member_id, value)  # type: ignore[arg-type]
        elif isinstance(key, wire.ShareGroupTargetAssignmentMetadataKey):
            if isinstance(value, wire.ShareGroupTargetAssignmentMetadataValue):
                self.set_epochs(assignment=value.assignment_epoch, assigned_ms=value.assignment_timestamp)
            else:
                self.set_epochs(assignment=NO_ASSIGNMENT_EPOCH, assigned_ms=0)
        elif isinstance(key, wire.ShareGroupTargetAssignmentMemberKey):
            is_there = isinstance(value, wire.ShareGroupTargetAssignmentMemberValue)
            self.set_target(key.member_id, as_target(value.topic_partitions) if is_there else None)  # type: ignore[union-attr]
        elif isinstance(key, wire.ShareGroupCurrentMemberAssignmentKey):
            self._replay_current(key.member_id, value)  # type: ignore[arg-type]
        elif isinstance(key, wire.ShareGroupStatePartitionMetadataKey):
            self._replay_states(value)  # type: ignore[arg-type]

    def _replay_member(self, member_id: str, value: wire.ShareGroupMemberMetadataValue | None) -> None:
        if value is None:
            self.remove_member(member_id)
            return
        old = self.members.get(member_id) or ShareMember(id=member_id)
        self.set_member(
            replace(
                old,
                rack_id=value.rack_id,
                client_id=value.client_id,
                client_host=value.client_host,
                topics=frozenset(value.subscribed_topic_names),
            )
        )

    def _replay_current(self, member_id: str, value: wire.ShareGroupCurrentMemberAssignmentValue | None) -> None:
        old = self.members.get(member_id)
        if value is None and old is None:
            return
        member = old or ShareMember(id=member_id)
        if value is None:
            self.members[member_id] = replace(member, epoch=LEAVING, previous_epoch=LEAVING, assigned={})
            return
        self.members[member_id] = replace(
            member,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            assigned=as_target(value.assigned_partitions),
        )

    def _replay_states(self, value: wire.ShareGroupStatePartitionMetadataValue | None) -> None:
        if value is None:
            self._states.pop(STATES)
            return
        self._states[STATES] = Initialized(
            {each.topic_id: (each.topic_name, frozenset(each.partitions)) for each in value.initializing_topics},
            {each.topic_id: (each.topic_name, frozenset(each.partitions)) for each in value.initialized_topics},
            {each.topic_id: each.topic_name for each in value.deleting_topics},
        )

    # Records

    def tombstones(self) -> list[CoordinatorRecord]:
        group = {"group_id": self.id}
        ids = list(self.members)
        return [
            *(CoordinatorRecord(wire.ShareGroupCurrentMemberAssignmentKey(**group, member_id=i), None) for i in ids),
            *(CoordinatorRecord(wire.ShareGroupTargetAssignmentMemberKey(**group, member_id=i), None) for i in ids),
            CoordinatorRecord(wire.ShareGroupTargetAssignmentMetadataKey(**group), None),
            *(CoordinatorRecord(wire.ShareGroupMemberMetadataKey(**group, member_id=i), None) for i in ids),
            CoordinatorRecord(wire.ShareGroupStatePartitionMetadataKey(**group), None),
            CoordinatorRecord(wire.ShareGroupMetadataKey(**group), None),
        ]


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    value = wire.ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return CoordinatorRecord(wire.ShareGroupMetadataKey(group_id=group_id), value)


def member_record(group_id: str, member: ShareMember) -> CoordinatorRecord:
    value = wire.ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
    )
    return CoordinatorRecord(wire.ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.id), value)


def target_record(group_id: str, member_id: str, target: Target) -> CoordinatorRecord:
    listed = [wire.TopicPartition(topic_id=topic, partitions=sorted(each)) for topic, each in target.items()]
    value = wire.ShareGroupTargetAssignmentMemberValue(topic_partitions=listed)
    return CoordinatorRecord(wire.ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def target_epoch_record(group_id: str, epoch: int, assigned_ms: int) -> CoordinatorRecord:
    value = wire.ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=assigned_ms)
    return CoordinatorRecord(wire.ShareGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def current_record(group_id: str, member: ShareMember) -> CoordinatorRecord:
    listed = [wire.TopicPartitions(topic_id=topic, partitions=sorted(each)) for topic, each in member.assigned.items()]
    value = wire.ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch, previous_member_epoch=member.previous_epoch, state=0, assigned_partitions=listed
    )
    return CoordinatorRecord(wire.ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.id), value)


def states_record(group_id: str, states: Initialized) -> CoordinatorRecord:
    value = wire.ShareGroupStatePartitionMetadataValue(
        initializing_topics=_infos(states.initializing),
        initialized_topics=_infos(states.initialized),
        deleting_topics=[
            wire.TopicInfo(topic_id=topic_id, topic_name=name) for topic_id, name in states.deleting.items()
        ],
    )
    return CoordinatorRecord(wire.ShareGroupStatePartitionMetadataKey(group_id=group_id), value)


def _infos(topics: Mapping[Uuid, tuple[str, Iterable[int]]]) -> list[wire.TopicPartitionsInfo]:
    return [
        wire.TopicPartitionsInfo(topic_id=topic_id, topic_name=name, partitions=sorted(partitions))
        for topic_id, (name, partitions) in topics.items()
    ]
