"""What groups persist in __consumer_offsets: a group's members and assignment as a whole, and each committed offset.

Offsets are written in version 3, which every Kafka from 4.0 on reads; whatever Kafka 4.3 wrote is read.
"""

from __future__ import annotations

from barnabas.core.coordinator.records import CoordinatorRecord, Kind, Kinds
from barnabas.core.groups.state import ClassicGroup, Member
from barnabas.wire.records.groups import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)

OFFSET_VERSION = 3
GROUP_VERSION = 3
NO_TIMESTAMP = -1

KINDS: Kinds = {
    LegacyOffsetCommitKey.api_key: Kind(OffsetCommitKey, OffsetCommitValue),
    OffsetCommitKey.api_key: Kind(OffsetCommitKey, OffsetCommitValue),
    GroupMetadataKey.api_key: Kind(GroupMetadataKey, GroupMetadataValue),
}


def offset_record(group_id: str, topic: str, partition: int, value: OffsetCommitValue) -> CoordinatorRecord:
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    # Only the first version has a place for the time that an old client asked its offset to be kept.
    version = OFFSET_VERSION if value.expire_timestamp == NO_TIMESTAMP else 1
    return CoordinatorRecord(key, value, version)


def offset_tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    return CoordinatorRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)


def group_record(group: ClassicGroup, assignment: dict[str, bytes]) -> CoordinatorRecord:
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=group.protocol_name,
        leader=group.leader,
        current_state_timestamp=group.phase_since_ms,
        members=[
            MemberMetadata(
                member_id=member.id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(group.protocol_name or ""),
                assignment=assignment.get(member.id, b""),
            )
            for member in group.members.values()
        ],
    )
    return CoordinatorRecord(GroupMetadataKey(group=group.id), value, GROUP_VERSION)


def group_tombstone(group_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(GroupMetadataKey(group=group_id), None)


def group_of_record(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """The group as its last generation left it: its members are expected to go on with heartbeats."""
    group = ClassicGroup(group_id, value.current_state_timestamp)
    group.generation_id = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol_name = value.protocol or None
    group.leader = value.leader or None
    for each in value.members:
        member = Member(
            id=each.member_id,
            instance_id=each.group_instance_id,
            client_id=each.client_id,
            client_host=each.client_host,
            session_timeout_ms=each.session_timeout,
            rebalance_timeout_ms=each.session_timeout if each.rebalance_timeout == -1 else each.rebalance_timeout,
            protocols=((value.protocol or "", each.subscription),),
        )
        member.assignment = each.assignment
        member.is_new = False
        group.restore(member)
    group.subscribed_topics = group.read_subscriptions()
    return group
