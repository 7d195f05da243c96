"""What goes into a replica and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from barnabas.core.raft.log import SnapshotId
from barnabas.core.raft.records import QuorumState
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.fetch import FetchRequest, ReplicaState
from barnabas.wire.messages.vote import VoteRequest
from barnabas.wire.schema import Request, Response


class NotLeader(Exception):
    """This replica does not lead the epoch in question."""


class UpgradeRefused(Exception):
    """Why the kraft.version cannot be raised, in a sentence."""


class Node(NamedTuple):
    """Where a message goes. A bootstrap server, whose id is not known, has an id below -1."""

    id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Asked:
    """A request. `request_id` comes back with its answer; `listener` is the name of the listener it came in by."""

    request_id: int
    version: int
    listener: str
    body: Request


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to the message that was sent with this id."""

    correlation_id: int
    body: Response


@dataclass(frozen=True, slots=True)
class Failed:
    """The message that was sent with this id will have no answer. `is_refused`: nobody listens where it was sent to."""

    correlation_id: int
    error: ErrorCode = ErrorCode.NETWORK_EXCEPTION
    is_refused: bool = False


Event = Asked | Answered | Failed


@dataclass(frozen=True, slots=True)
class Send:
    correlation_id: int
    to: Node
    body: Request


@dataclass(frozen=True, slots=True)
class Answer:
    request_id: int
    body: Response


@dataclass(frozen=True, slots=True)
class Flush:
    """Everything appended and truncated so far must reach the disk. The log ended at `end_offset` then."""

    id: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class LeaderAndEpoch:
    leader_id: int | None
    epoch: int
    # Where the epoch starts in the log, if this replica leads it.
    start_offset: int | None = None


@dataclass(slots=True)
class Ready:
    """What is to be done, in this order; see the package's opening."""

    notes: list[str] = field(default_factory=list)
    quorum_state: QuorumState | None = None
    messages: list[Send] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    flush: Flush | None = None
    freeze: SnapshotId | None = None
    leader: LeaderAndEpoch | None = None
    high_watermark: int | None = None
    stopped: bool = False


def fit_version(body: Request, version: int) -> Request | None:
    """The same request for a peer that knows `version`; None if that version cannot say it."""
    if isinstance(body, FetchRequest) and version < 15:
        replica_id = body.replica_state.replica_id
        fields = {**body.__dict__, "replica_id": replica_id, "replica_state": ReplicaState()}
        return FetchRequest(**fields)
    if isinstance(body, VoteRequest) and version < 2 and body.topics[0].partitions[0].pre_vote:
        return None
    return body
