"""What groups persist in __consumer_offsets: a group's members and assignment as a whole, and each committed offset.

Offsets are written in version 3, which every Kafka from 4.0 on reads; whatever Kafka 4.3 wrote is read.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from barnabas.core.coordinator.records import CoordinatorRecord, Kind, Kinds
from barnabas.core.groups.consumer.records import KINDS as CONSUMER_KINDS
from barnabas.core.groups.share.group import KINDS as SHARE_KINDS
from barnabas.core.groups.state import ClassicGroup, Member
from barnabas.core.groups.streams.records import KINDS as STREAMS_KINDS
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
    **CONSUMER_KINDS,
    **SHARE_KINDS,
    **STREAMS_KINDS,
    LegacyOffsetCommitKey.api_key: Kind(OffsetCommitKey, OffsetCommitValue),
    OffsetCommitKey.api_key: Kind(OffsetCommitKey, OffsetCommitValue),
    GroupMetadataKey.api_key: Kind(GroupMetadataKey, GroupMetadataValue),
}


_INT32 = struct.Struct(">i")
_WITHOUT_METADATA = struct.Struct(">hqihq")


class OffsetRecord(CoordinatorRecord):
    """A committed offset in version 3. Most of what a coordinator writes is these, so they are packed by hand."""

    __slots__ = ()

    def encode(self) -> tuple[bytes, bytes | None]:
        key, value = self.key, self.value
        assert isinstance(key, OffsetCommitKey)
        assert isinstance(value, OffsetCommitValue)
        packed_key = _key_prefix(key.group, key.topic) + _INT32.pack(key.partition)
        offset, leader_epoch, metadata = value.offset, value.leader_epoch, value.metadata
        if not metadata:
            return packed_key, _WITHOUT_METADATA.pack(OFFSET_VERSION, offset, leader_epoch, 0, value.commit_timestamp)
        text = metadata.encode()
        packed = struct.pack(f">hqih{len(text)}sq", 3, offset, leader_epoch, len(text), text, value.commit_timestamp)
        return packed_key, packed


@lru_cache(maxsize=4096)
def _key_prefix(group_id: str, topic: str) -> bytes:
    group, name = group_id.encode(), topic.encode()
    return struct.pack(f">hh{len(group)}sh{len(name)}s", OffsetCommitKey.api_key, len(group), group, len(name), name)


def offset_record(group_id: str, topic: str, partition: int, value: OffsetCommitValue) -> CoordinatorRecord:
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    if value.expire_timestamp == NO_TIMESTAMP:
        return OffsetRecord(key, value, OFFSET_VERSION)
    # Only the first version has a place for the time that an old client asked its offset to be kept.
    return CoordinatorRecord(key, value, 1)


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
