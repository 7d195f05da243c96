"""What the rest of a node sees of the quorum, and what it is told.

Theory. The log is replicated by the quorum; a record is committed when a majority has it on disk, and never goes away
afterwards. Listeners are told of committed batches in the order of the log, each batch once, or of a snapshot that
stands for everything below its end; nothing uncommitted is ever told. `handle_leader_change` with this node's own id
comes after every batch below the start of the epoch was handed to the listeners, the leader change included: whoever
has replayed them has the whole log. A leader that loses its epoch is told before anybody appends in another one; what
it appended and did not hear of as committed may be truncated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from barnabas.node.raft.batches import MetadataBatch
from barnabas.node.raft.log import MetadataLog
from barnabas.node.raft.quorum import Quorum
from barnabas.node.raft.snapshots import SnapshotContent, SnapshotId
from barnabas.wire.schema import Record, Request, Response

NO_LEADER = -1


class Listener(Protocol):
    """None of these waits or raises: whoever has much to do remembers it and does it later."""

    def handle_commit(self, batches: Sequence[MetadataBatch]) -> None: ...

    def handle_load_snapshot(self, snapshot_id: SnapshotId, content: SnapshotContent) -> None:
        """Everything the listener knows is replaced by the snapshot, which is ahead of it."""
        ...

    def handle_leader_change(self, leader_id: int, epoch: int) -> None:
        """`NO_LEADER` while none is known."""
        ...


class Raft(Protocol):
    @property
    def leader_id(self) -> int: ...

    @property
    def epoch(self) -> int: ...

    @property
    def high_watermark(self) -> int:
        """The offset behind the last committed record."""
        ...

    def register(self, listener: Listener) -> None: ...

    def append(self, records: Sequence[Record], epoch: int, *, level: int) -> int:
        """The offset of the last of these records, which are committed together or not at all.

        They are encoded for the metadata.version `level`. Raises NOT_CONTROLLER unless this node leads in `epoch`.
        """
        ...

    def resign(self, epoch: int) -> None:
        """Gives the lead of this epoch up, if this node still has it."""
        ...

    def quorum(self) -> Quorum: ...

    @property
    def is_alone(self) -> bool:
        """Whether this node is the whole quorum."""
        ...

    @property
    def leader_address(self) -> tuple[str, int] | None:
        """Where another node that leads listens; None if none is known, or this node leads."""
        ...

    @property
    def voter_ids(self) -> list[int]: ...

    async def ask(self, request: Request, version: int, listener: str) -> Response:
        """What this replica answers to a request of the quorum's own APIs."""
        ...

    async def wait_for(self, condition: Callable[[], bool], timeout_s: float | None = None) -> bool:
        """Waits until the condition holds, looking again whenever the leader changes; False when the time is over."""
        ...

    def upgrade(self, epoch: int, kraft_version: int, *, validate_only: bool) -> int | None:
        """Raises the kraft.version: voters move into the log. UpgradeRefused says why not."""
        ...

    def snapshot_voters(self, snapshot_id: SnapshotId) -> Sequence[Record]:
        """The control records of a snapshot with this id."""
        ...

    def snapshot_written(self, snapshot_id: SnapshotId) -> None: ...

    def snapshots_kept_from(self, oldest: SnapshotId) -> None:
        """Older ones are about to be deleted."""
        ...

    @property
    def log(self) -> MetadataLog:
        """Changed by nobody else but `between_writes`."""
        ...

    def between_writes(self, work: Callable[[], None]) -> None:
        """Runs `work` on the loop when nobody is writing to the log; never, once the log has failed."""
        ...
