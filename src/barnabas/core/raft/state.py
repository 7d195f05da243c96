"""The states of a replica.

Theory. Time is cut into epochs; each has at most one leader, elected by a majority of the voters, and only it appends
to the log. Followers fetch from it; a Fetch at offset N says that the follower has everything below N on its disk. An
entry is committed once a majority of the voters has it and one of the leader's own epoch (`decide.py`). Whoever is to
become leader must have a log at least as long as that of a majority, so what is committed stays.

Who is in which state, and what leads to another:

    Unattached   knows an epoch but no leader it can reach, and may have voted; asks bootstrap servers by Fetch.
        -> Follower      a leader of this or a later epoch is named
        -> Unattached    a later epoch is seen
        -> Prospective   the election timeout is over (of who may stand, `Replica.may_stand`)
    Prospective  asks the voters whether they would vote for it (pre-vote). It changes no epoch and writes nothing.
        -> Candidate     a majority would, or a voter does not know pre-votes
        -> Follower      a leader is named; or it lost, and the leader it knew can be reached
        -> Unattached    a later epoch is seen; or it lost, or time is over, and it knew no leader
    Candidate    has raised the epoch, voted for itself, and asks for votes.
        -> Leader        a majority voted for it
        -> Follower, Unattached    a leader or a later epoch is seen
        -> Prospective   the election timeout is over
    Leader       appends a LeaderChangeMessage first, then what it is asked to.
        -> Resigned      it is asked to, it stops, it was removed from the committed voters, or no majority of the
                         voters has fetched from it within the check-quorum timeout
        -> Follower, Unattached    a later epoch is seen
    Resigned     led this epoch, perhaps in an earlier life of the process; tells the voters by EndQuorumEpoch, and
                 never votes in this epoch.
        -> Unattached    in the next epoch, when the election timeout is over; or a later epoch is seen
        -> Follower      a later epoch with its leader is seen
    Follower     fetches from the leader.
        -> Prospective   the leader has not answered within the fetch timeout, or says that it resigns (as above), or
                         nobody listens at its address any more
        -> Follower, Unattached    a later epoch is seen; or more endpoints of the same leader

An observer, which is no voter now, is Unattached or Follower only. Every transition is written to `quorum-state`
before anything is said in the new state, but for those to Prospective and to Resigned, which change nothing in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from barnabas.core.raft.log import SnapshotId
from barnabas.core.raft.voters import Endpoints, ReplicaKey, VoterSet
from barnabas.wire.uuids import ZERO_UUID, Uuid

if TYPE_CHECKING:
    from barnabas.core.raft.messages import Asked

NEVER_MS = 1 << 62


class Election:
    """The votes of one election; a voter's own is cast at its start."""

    def __init__(self, voters: VoterSet, own_id: int) -> None:
        self._voters = {voter.key.id: voter.key for voter in voters}
        self._votes: dict[int, bool] = {own_id: True} if own_id in self._voters else {}

    def record(self, voter_id: int, granted: bool) -> None:
        """A voter's word stands: one that repeats itself changes nothing."""
        if voter_id in self._voters:
            self._votes.setdefault(voter_id, granted)

    @property
    def majority(self) -> int:
        return len(self._voters) // 2 + 1

    @property
    def is_won(self) -> bool:
        return sum(self._votes.values()) >= self.majority

    @property
    def is_lost(self) -> bool:
        rejected = len(self._votes) - sum(self._votes.values())
        return len(self._voters) - rejected < self.majority

    @property
    def granting(self) -> list[int]:
        return sorted(voter_id for voter_id, granted in self._votes.items() if granted)

    @property
    def unrecorded(self) -> list[ReplicaKey]:
        return [key for voter_id, key in self._voters.items() if voter_id not in self._votes]


@dataclass(slots=True)
class Unattached:
    leader_endpoints: ClassVar[Endpoints] = Endpoints()

    epoch: int
    election_deadline_ms: int
    leader_id: int | None = None
    voted_key: ReplicaKey | None = None


@dataclass(slots=True)
class Prospective:
    epoch: int
    election_deadline_ms: int
    election: Election
    leader_id: int | None = None
    leader_endpoints: Endpoints = field(default_factory=Endpoints)
    voted_key: ReplicaKey | None = None
    is_leader_gone: bool = False


@dataclass(slots=True)
class Candidate:
    leader_id: ClassVar[int | None] = None
    leader_endpoints: ClassVar[Endpoints] = Endpoints()

    epoch: int
    election_deadline_ms: int
    election: Election
    voted_key: ReplicaKey | None


@dataclass(slots=True)
class Resigned:
    voted_key: ClassVar[ReplicaKey | None] = None

    epoch: int
    election_deadline_ms: int
    leader_id: int
    leader_endpoints: Endpoints
    unacknowledged: set[int]
    preferred_successors: list[ReplicaKey]


@dataclass(slots=True)
class FetchedSnapshot:
    """A snapshot on its way: how much of it is here, and whether all of it is and it is being frozen."""

    id: SnapshotId
    position: int = 0
    is_whole: bool = False


@dataclass(slots=True)
class Follower:
    epoch: int
    leader_id: int
    leader_endpoints: Endpoints
    fetch_deadline_ms: int
    update_voter_deadline_ms: int
    voted_key: ReplicaKey | None = None
    has_fetched: bool = False
    has_updated_leader: bool = False
    # Nobody listened at its address when it was last asked, or it has said that it leads no more.
    is_leader_gone: bool = False
    snapshot: FetchedSnapshot | None = None


@dataclass(slots=True)
class Progress:
    """What the leader knows of a replica."""

    key: ReplicaKey
    endpoints: Endpoints = field(default_factory=Endpoints)
    # Where it said to fetch from the last time: static voters are told apart by their id alone.
    last_directory_id: Uuid = ZERO_UUID
    end_offset: int = -1
    last_fetch_ms: int = -1
    last_fetch_leader_end: int = -1
    last_caught_up_ms: int = -1

    def fetched(self, offset: int, leader_end: int, now_ms: int) -> None:
        if offset >= leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif 0 < self.last_fetch_leader_end <= offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.last_fetch_leader_end = leader_end
        self.last_fetch_ms = max(self.last_fetch_ms, now_ms)
        self.end_offset = offset


@dataclass(slots=True)
class ParkedFetch:
    asked: Asked
    fetch_offset: int
    deadline_ms: int


@dataclass(slots=True)
class VoterChange:
    """An AddRaftVoter or RemoveRaftVoter on its way. `last_offset` is that of its VotersRecord, once appended."""

    asked: Asked
    deadline_ms: int
    added: ReplicaKey | None = None
    endpoints: Endpoints = field(default_factory=Endpoints)
    ack_when_committed: bool = True
    last_offset: int | None = None
    is_answered: bool = False


@dataclass(slots=True)
class Leader:
    voted_key: ClassVar[ReplicaKey | None] = None

    epoch: int
    start_offset: int
    key: ReplicaKey
    leader_endpoints: Endpoints
    check_quorum_deadline_ms: int
    begin_quorum_deadline_ms: int
    voters: dict[int, Progress]
    observers: dict[ReplicaKey, Progress] = field(default_factory=dict)
    high_watermark: int | None = None
    fetched_voters: set[int] = field(default_factory=set)
    parked: list[ParkedFetch] = field(default_factory=list)
    change: VoterChange | None = None
    # With kraft.version 0: the configured voters with what they told about themselves, for an upgrade.
    updated_voters: VoterSet | None = None
    is_resigning: bool = False
    # The last records without others between them that were appended quietly: from where, to where.
    quiet: tuple[int, int] = (0, 0)

    @property
    def leader_id(self) -> int:
        return self.key.id

    def add_quiet(self, base_offset: int, end_offset: int) -> None:
        start_offset, quiet_end = self.quiet
        self.quiet = (start_offset if quiet_end == base_offset else base_offset, end_offset)

    def is_news(self, known_mark: int, mark: int) -> bool:
        """Whether somebody waits to hear that the high watermark is not `known_mark` but `mark`."""
        start_offset, end_offset = self.quiet
        return known_mark < mark and not start_offset <= known_mark < mark <= end_offset

    def progress(self, key: ReplicaKey) -> Progress:
        voter = self.voters.get(key.id)
        if voter is not None and voter.key.matches(key):
            return voter
        return self.observers.setdefault(key, Progress(key))

    def set_voters(self, voters: VoterSet) -> None:
        """The voters that count from now on; who is none any more becomes an observer."""
        before = self.voters
        self.voters = {}
        for voter in voters:
            known = before.get(voter.key.id)
            if known is not None and known.key.matches(voter.key):
                del before[voter.key.id]
                known.key, known.endpoints = voter.key, voter.endpoints
            else:
                known = self.observers.pop(voter.key, None) or Progress(voter.key)
                known.endpoints = voter.endpoints
            self.voters[voter.key.id] = known
        for gone in before.values():
            self.observers.setdefault(gone.key, gone)

    def followers_by_offset(self) -> list[ReplicaKey]:
        """The other voters, the furthest first."""
        others = (each for each in self.voters.values() if each.key.id != self.key.id)
        return [each.key for each in sorted(others, key=lambda each: -each.end_offset)]


State = Unattached | Prospective | Candidate | Leader | Resigned | Follower
