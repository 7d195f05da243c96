"""Records of __share_group_state."""

from __future__ import annotations

from barnabas.wire.schema import Int8, Int16, Int32, Int64, Record, Struct, field
from barnabas.wire.uuids import ZERO_UUID, Uuid


class ShareSnapshotKey(Record, key=0, versions="0"):
    group_id: str = ""
    topic_id: Uuid = ZERO_UUID
    partition: Int32 = 0


class ShareSnapshotValue(Record, key=0, versions="0", flexible="0+"):
    snapshot_epoch: Int32 = 0
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Int32 = field(default=-1, tag=0)
    create_timestamp: Int64 = 0
    write_timestamp: Int64 = 0
    state_batches: list[StateBatch] = field(default_factory=list)


class StateBatch(Struct):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_state: Int8 = 0
    delivery_count: Int16 = 0


class ShareUpdateKey(Record, key=1, versions="0"):
    group_id: str = ""
    topic_id: Uuid = ZERO_UUID
    partition: Int32 = 0


class ShareUpdateValue(Record, key=1, versions="0", flexible="0+"):
    snapshot_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Int32 = field(default=-1, tag=0)
    state_batches: list[StateBatch] = field(default_factory=list)
