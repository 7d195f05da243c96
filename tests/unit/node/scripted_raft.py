"""A quorum whose events the test writes: what is committed when, who leads, what is truncated, which snapshot comes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from barnabas.node.raft.batches import MetadataBatch
from barnabas.node.raft.interface import NO_LEADER, Listener
from barnabas.node.raft.quorum import Quorum
from barnabas.node.raft.snapshots import SnapshotContent, SnapshotId
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.records.raft import LeaderChangeMessage
from barnabas.wire.schema import Record, Request, Response


class ScriptedRaft:
    def __init__(self, node_id: int = 1) -> None:
        self.node_id = node_id
        self.leader_id = NO_LEADER
        self.epoch = 0
        self.high_watermark = 0
        self.uncommitted: list[MetadataBatch] = []
        self.resigned: list[int] = []
        self._listeners: list[Listener] = []

    @property
    def end_offset(self) -> int:
        return self.uncommitted[-1].last_offset + 1 if self.uncommitted else self.high_watermark

    def register(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def append(self, records: Sequence[Record], epoch: int, *, level: int) -> int:
        if self.leader_id != self.node_id or epoch != self.epoch:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        self._append(records)
        return self.end_offset - 1

    def resign(self, epoch: int) -> None:
        self.resigned.append(epoch)

    def quorum(self) -> Quorum:
        raise NotImplementedError

    def between_writes(self, work: Callable[[], None]) -> None:
        raise NotImplementedError

    @property
    def log(self) -> None:  # type: ignore[override]
        raise NotImplementedError

    is_alone = False
    leader_address = None
    voter_ids: tuple[int, ...] = ()

    async def ask(self, request: Request, version: int, listener: str) -> Response:
        raise NotImplementedError

    async def wait_for(self, condition: Callable[[], bool], timeout_s: float | None = None) -> bool:
        raise NotImplementedError

    # The script

    def lead(self, epoch: int) -> None:
        """This node is elected: whatever its log holds is committed with its own leader change."""
        self.epoch = epoch
        self._append([LeaderChangeMessage(leader_id=self.node_id)], is_control=True)
        self.commit()
        self.leader_id = self.node_id
        self._tell_leader()

    def follow(self, leader_id: int, epoch: int, *batches: Sequence[Record]) -> None:
        """Another node leads; what is not committed is truncated, and it commits these batches."""
        self.leader_id, self.epoch = leader_id, epoch
        self.uncommitted.clear()
        self._tell_leader()
        for records in batches:
            self._append(records)
        self.commit()

    def commit(self, end_offset: int | None = None) -> None:
        end_offset = self.end_offset if end_offset is None else end_offset
        batches = [batch for batch in self.uncommitted if batch.last_offset < end_offset]
        self.uncommitted = self.uncommitted[len(batches) :]
        if batches:
            self.high_watermark = batches[-1].last_offset + 1
            for listener in self._listeners:
                listener.handle_commit(batches)

    def install(self, end_offset: int, epoch: int, records: Sequence[Record]) -> None:
        """The leader's log begins behind ours: a snapshot takes its place."""
        self.uncommitted.clear()
        self.high_watermark = end_offset
        for listener in self._listeners:
            listener.handle_load_snapshot(SnapshotId(end_offset, epoch), SnapshotContent(records=list(records)))

    def _append(self, records: Sequence[Record], *, is_control: bool = False) -> None:
        base_offset = self.end_offset
        self.uncommitted.append(
            MetadataBatch(base_offset, base_offset + len(records) - 1, self.epoch, 0, is_control, list(records), 10)
        )

    def _tell_leader(self) -> None:
        for listener in self._listeners:
            listener.handle_leader_change(self.leader_id, self.epoch)
