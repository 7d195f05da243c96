"""Records of __consumer_offsets: offsets and classic groups."""

from __future__ import annotations

from barnabas.wire.schema import Int32, Int64, Record, Struct, field, since
from barnabas.wire.uuids import ZERO_UUID, Uuid


class LegacyOffsetCommitKey(Record, key=0, versions="0"):
    group: str = ""
    topic: str = ""
    partition: Int32 = 0


class LegacyOffsetCommitValue(Record, key=0, versions="0"):
    offset: Int64 = 0
    metadata: str = ""
    commit_timestamp: Int64 = 0


class OffsetCommitKey(Record, key=1, versions="0"):
    group: str = ""
    topic: str = ""
    partition: Int32 = 0


class OffsetCommitValue(Record, key=1, versions="0-4", flexible="4+"):
    offset: Int64 = 0
    leader_epoch: Int32 = since(3, default=-1, ignorable=True)
    metadata: str = ""
    commit_timestamp: Int64 = 0
    expire_timestamp: Int64 = field("1", default=-1, ignorable=True)
    topic_id: Uuid = since(4, default=ZERO_UUID, tag=0, ignorable=True)


class GroupMetadataKey(Record, key=2, versions="0"):
    group: str = ""


class GroupMetadataValue(Record, key=2, versions="0-4", flexible="4+"):
    protocol_type: str = ""
    generation: Int32 = 0
    protocol: str | None = ""
    leader: str | None = ""
    current_state_timestamp: Int64 = since(2, default=-1, ignorable=True)
    members: list[MemberMetadata] = field(default_factory=list)


class MemberMetadata(Struct):
    member_id: str = ""
    group_instance_id: str | None = since(3, default=None, ignorable=True)
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: Int32 = since(1, default=-1, ignorable=True)
    session_timeout: Int32 = 0
    subscription: bytes = b""
    assignment: bytes = b""
