"""What the share coordinator persists in __share_group_state: snapshots of a share partition, and updates to them."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.core.coordinator.records import CoordinatorRecord, Kind, Kinds
from barnabas.core.share.batches import StateBatch
from barnabas.wire.records import share_state as wire
from barnabas.wire.uuids import Uuid

KINDS: Kinds = {
    0: Kind(wire.ShareSnapshotKey, wire.ShareSnapshotValue),
    1: Kind(wire.ShareUpdateKey, wire.ShareUpdateValue),
}


class ShareKey(NamedTuple):
    group_id: str
    topic_id: Uuid
    partition: int

    @property
    def coordinator_key(self) -> str:
        """By which the share coordinator is found."""
        return f"{self.group_id}:{self.topic_id}:{self.partition}"


class ShareState(NamedTuple):
    """`updates` counts the records since the last snapshot."""

    snapshot_epoch: int = 0
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = -1
    delivery_complete_count: int = -1
    created_ms: int = 0
    written_ms: int = 0
    batches: tuple[StateBatch, ...] = ()
    updates: int = 0


def snapshot_record(key: ShareKey, state: ShareState) -> CoordinatorRecord:
    value = wire.ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=state.created_ms,
        write_timestamp=state.written_ms,
        state_batches=_wired(state.batches),
    )
    return CoordinatorRecord(wire.ShareSnapshotKey(**key._asdict()), value)


def update_record(key: ShareKey, state: ShareState) -> CoordinatorRecord:
    """`state` has what is new only."""
    value = wire.ShareUpdateValue(
        snapshot_epoch=state.snapshot_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        state_batches=_wired(state.batches),
    )
    return CoordinatorRecord(wire.ShareUpdateKey(**key._asdict()), value)


def tombstone(key: ShareKey) -> CoordinatorRecord:
    return CoordinatorRecord(wire.ShareSnapshotKey(**key._asdict()), None)


def _wired(batches: tuple[StateBatch, ...]) -> list[wire.StateBatch]:
    return [wire.StateBatch(**each._asdict()) for each in batches]


def read_batches(listed: list[wire.StateBatch]) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count) for each in listed
    )
