"""The share partitions of one partition of __share_group_state: what the shared runtime drives.

A share partition is initialized by the group coordinator in an epoch of the group. The leader of the topic's partition
reads its state when it begins to serve it, by which leaders before it are fenced, and writes what changes. Each write
is an update; after so many of them, and whenever the leader's epoch changes, the whole state is written as a snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from barnabas.core.coordinator.decision import Decision, Marker, Producer
from barnabas.core.coordinator.records import CoordinatorRecord, Kinds
from barnabas.core.coordinator.timeline import Timeline, TimelineDict
from barnabas.core.coordinator.timers import Timers
from barnabas.core.share.batches import StateBatch, combine
from barnabas.core.share.records import (
    KINDS,
    ShareKey,
    ShareState,
    read_batches,
    snapshot_record,
    tombstone,
    update_record,
)
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.records import share_state as wire

UNKNOWN = -1


class ShareStateShard:
    # Updates add up: none of them may be left out when the log is loaded.
    keeps_last_only = False

    def __init__(
        self,
        timers: Timers,
        clock: Callable[[], int],
        partition_exists: Callable[[ShareKey], bool] = lambda key: True,
        updates_per_snapshot: Callable[[], int] = lambda: 500,
    ) -> None:
        self.timeline = Timeline()
        self.timers = timers
        self._clock = clock
        self._exists = partition_exists
        self._updates_per_snapshot = updates_per_snapshot
        self.states: TimelineDict[ShareKey, ShareState] = TimelineDict(self.timeline)

    # What the runtime tells

    @property
    def kinds(self) -> Kinds:
        return KINDS

    def load(self, entries: Sequence[tuple[bytes, bytes | None]], start: int) -> int:
        return start

    def replay(self, record: CoordinatorRecord, producer: Producer | None) -> None:
        key, value = record.key, record.value
        assert isinstance(key, wire.ShareSnapshotKey | wire.ShareUpdateKey)
        at = ShareKey(key.group_id, key.topic_id, key.partition)
        if isinstance(value, wire.ShareSnapshotValue):
            self.states[at] = ShareState(
                value.snapshot_epoch,
                value.state_epoch,
                value.leader_epoch,
                value.start_offset,
                value.delivery_complete_count,
                value.create_timestamp,
                value.write_timestamp,
                read_batches(value.state_batches),
            )
        elif isinstance(value, wire.ShareUpdateValue):
            old = self.states.get(at) or ShareState(snapshot_epoch=value.snapshot_epoch)
            start_offset = old.start_offset if value.start_offset == UNKNOWN else value.start_offset
            self.states[at] = old._replace(
                leader_epoch=max(old.leader_epoch, value.leader_epoch),
                start_offset=start_offset,
                delivery_complete_count=value.delivery_complete_count,
                batches=combine(old.batches, read_batches(value.state_batches), start_offset),
                updates=old.updates + 1,
            )
        elif isinstance(key, wire.ShareSnapshotKey):
            self.states.pop(at)

    def replay_marker(self, marker: Marker) -> None:
        pass

    def loaded(self) -> Decision[None] | None:
        return None

    def unloaded(self, error: KafkaError) -> None:
        pass

    # Requests about one share partition

    def initialize(self, key: ShareKey, state_epoch: int, start_offset: int) -> Decision[None]:
        self._check(key)
        old = self.states.get(key)
        if old is not None and state_epoch != UNKNOWN and old.state_epoch > state_epoch:
            raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
        now_ms = self._clock()
        new = ShareState(
            snapshot_epoch=old.snapshot_epoch + 1 if old is not None else 0,
            state_epoch=state_epoch,
            start_offset=start_offset,
            delivery_complete_count=UNKNOWN if start_offset == UNKNOWN else 0,
            created_ms=now_ms,
            written_ms=now_ms,
        )
        return Decision([snapshot_record(key, new)], None)

    def read(self, key: ShareKey, leader_epoch: int) -> Decision[ShareState]:
        """Who reads in a later epoch leads from now on."""
        state = self._require(key, leader_epoch, "read")
        if leader_epoch in (UNKNOWN, state.leader_epoch):
            return Decision([], state)
        new = self._next_snapshot(state)._replace(leader_epoch=leader_epoch)
        return Decision([snapshot_record(key, new)], state)

    def write(
        self,
        key: ShareKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> Decision[None]:
        state = self._require(key, leader_epoch, "write")
        if state_epoch != UNKNOWN and state.state_epoch > state_epoch:
            raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
        new_leader_epoch = state.leader_epoch if leader_epoch == UNKNOWN else leader_epoch
        new_start = state.start_offset if start_offset == UNKNOWN else start_offset
        if state.updates >= self._updates_per_snapshot() or state_epoch > state.state_epoch:
            new = self._next_snapshot(state)._replace(
                state_epoch=max(state.state_epoch, state_epoch),
                leader_epoch=new_leader_epoch,
                start_offset=new_start,
                delivery_complete_count=delivery_complete_count,
                batches=combine(state.batches, batches, new_start),
            )
            return Decision([snapshot_record(key, new)], None)
        update = ShareState(
            snapshot_epoch=state.snapshot_epoch,
            leader_epoch=new_leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=delivery_complete_count,
            batches=combine((), batches, start_offset),
        )
        return Decision([update_record(key, update)], None)

    def write_snapshot(self, key: ShareKey) -> Decision[None]:
        """The state as it is, so that nothing before it in the log is needed."""
        state = self.states.get(key)
        return Decision([] if state is None else [snapshot_record(key, self._next_snapshot(state))], None)

    def delete(self, key: ShareKey) -> Decision[None]:
        self._check(key)
        return Decision([tombstone(key)] if key in self.states else [], None)

    def summary(self, key: ShareKey) -> ShareState | None:
        """None of a share partition that nobody has initialized."""
        self._check(key)
        return self.states.committed(key)

    def _next_snapshot(self, state: ShareState) -> ShareState:
        return state._replace(snapshot_epoch=state.snapshot_epoch + 1, written_ms=self._clock(), updates=0)

    def _check(self, key: ShareKey) -> None:
        if key.partition < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number.")
        if not self._exists(key):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _require(self, key: ShareKey, leader_epoch: int, what: str) -> ShareState:
        if key.partition < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number.")
        state = self.states.get(key)
        if state is None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"The {what} operation failed: the share partition is not initialized."
            )
        if leader_epoch != UNKNOWN and state.leader_epoch > leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        self._check(key)
        return state
