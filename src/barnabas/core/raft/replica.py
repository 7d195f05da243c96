"""One replica: who it is, its log, its state and the transitions between states, and what it wants done.

The modules beside this one say what happens in which state: `voting`, `epochs`, `leading`, `following`, `changing`,
`polling`. They all work on a `Replica`.
"""

from __future__ import annotations

from random import Random

from barnabas.core.raft import answers
from barnabas.core.raft.config import EPOCH_MAX, RaftConfig
from barnabas.core.raft.log import RaftLog, SnapshotId
from barnabas.core.raft.messages import Answer, Flush, LeaderAndEpoch, Node, Ready, Send
from barnabas.core.raft.records import QuorumState, build_control_batch, load_voters, note_voters, read_control_records
from barnabas.core.raft.requests import Requests
from barnabas.core.raft.state import (
    NEVER_MS,
    Candidate,
    Election,
    Follower,
    Leader,
    Progress,
    Prospective,
    Resigned,
    State,
    Unattached,
)
from barnabas.core.raft.voters import Endpoints, ReplicaKey, Voter, VoterHistory, VoterSet
from barnabas.wire.errors import ErrorCode
from barnabas.wire.records import raft as records
from barnabas.wire.schema import Buffer, Record, Request, Response


class Replica:
    def __init__(
        self, config: RaftConfig, log: RaftLog, stored: QuorumState | None, random: Random, now_ms: int
    ) -> None:
        self.config = config
        self.log = log
        self.history = VoterHistory(config.static_voters)
        self.high_watermark: int | None = None
        self.shutdown_deadline_ms: int | None = None
        self.effects = Ready()
        self._random = random
        self._told_leader = LeaderAndEpoch(None, 0)
        self._flush: Flush | None = None
        self._flush_count = 0
        # What lies in the log when it is opened may be in memory only: the last process may have died before its flush.
        self._flushed_offset = log.start_offset
        load_voters(self.history, log)
        self.requests = Requests(
            _bootstrap_nodes(config),
            random,
            request_timeout_ms=config.request_timeout_ms,
            retry_backoff_ms=config.retry_backoff_ms,
        )
        stored = stored or QuorumState()
        self.state: State = Unattached(stored.epoch, NEVER_MS)
        self.state = self._first_state(stored, now_ms)
        self._persist()
        if self.voters.is_only(config.key):
            if not isinstance(self.state, Candidate):
                self.become_prospective(now_ms)
            else:
                self.become_leader(now_ms)

    # Who this is, and what it knows.

    @property
    def voters(self) -> VoterSet:
        return self.history.last

    @property
    def is_voter(self) -> bool:
        return self.config.key in self.voters

    @property
    def may_stand(self) -> bool:
        """May it stand for election? A voter may, and who was one until a change that may not be committed yet.

        The longest log may be that of a leader which appended its own removal: if it did not stand, nobody could win.
        (Apache Kafka's do not, and such a quorum is stuck.) It does not count itself, and goes once that is committed.
        """
        if self.epoch >= EPOCH_MAX - 1:
            return False
        if self.is_voter:
            return True
        offset = self.history.last_offset
        if offset is None or offset < (self.high_watermark or 0):
            return False
        former = self.history.voters_before(offset)
        return former is not None and self.config.key in former

    @property
    def epoch(self) -> int:
        return self.state.epoch

    @property
    def own_voter(self) -> Voter:
        return Voter(self.config.key, self.config.endpoints, self.config.kraft_versions)

    @property
    def is_stopping(self) -> bool:
        return self.shutdown_deadline_ms is not None

    def voter_node(self, voter_id: int) -> Node | None:
        address = self.voters.endpoints(voter_id).address(self.config.listener_name)
        return Node(voter_id, *address) if address is not None else None

    def leader_node(self) -> Node | None:
        address = self.state.leader_endpoints.address(self.config.listener_name)
        return Node(self.state.leader_id, *address) if self.state.leader_id is not None and address else None

    # What it wants done.

    def note(self, sentence: str) -> None:
        self.effects.notes.append(sentence)

    def send(self, node: Node, body: Request, now_ms: int) -> bool:
        correlation_id = self.requests.start(node, body, now_ms)
        if correlation_id is None:
            return False
        self.effects.messages.append(Send(correlation_id, node, body))
        return True

    def answer(self, request_id: int, body: Response) -> None:
        self.effects.answers.append(Answer(request_id, body))

    def advance_high_watermark(self, offset: int) -> bool:
        if self.high_watermark is not None and offset <= self.high_watermark:
            return False
        self.high_watermark = self.effects.high_watermark = offset
        return True

    def take_effects(self) -> Ready:
        self._tell_leader()
        self._want_flush()
        effects, self.effects = self.effects, Ready()
        return effects

    # The log.

    @property
    def must_flush(self) -> bool:
        """Only voters, and those who may become voters, promise anything about their disk."""
        return self.is_voter or self.config.can_become_voter

    @property
    def flushed_offset(self) -> int:
        return self._flushed_offset

    @property
    def is_log_flushed(self) -> bool:
        return not self.must_flush or self._flushed_offset >= self.log.end_offset

    def append(self, batches: Buffer) -> None:
        self.log.append(batches)
        note_voters(self.history, read_control_records(batches))

    def append_control(self, control_records: list[Record], now_ms: int) -> int:
        """The offset of the last of them."""
        base_offset = self.log.end_offset
        self.append(build_control_batch(control_records, base_offset=base_offset, epoch=self.epoch, now_ms=now_ms))
        return base_offset + len(control_records) - 1

    def truncate(self, offset: int) -> None:
        self.log.truncate(offset)
        self.history.truncate(offset)
        self._flushed_offset = min(self._flushed_offset, offset)
        if self._flush is not None:
            # The flush may be over before the truncation: it says nothing about what is appended after it.
            self._flush = Flush(self._flush.id, min(self._flush.end_offset, offset))

    def start_at_snapshot(self, snapshot_id: SnapshotId) -> None:
        self.log.start_at_snapshot(snapshot_id)
        load_voters(self.history, self.log)
        self._flushed_offset, self._flush = snapshot_id.end_offset, None

    def flushed(self, flush: Flush) -> None:
        if self._flush is not None and self._flush.id == flush.id:
            self._flushed_offset = max(self._flushed_offset, self._flush.end_offset)
            self._flush = None

    def _want_flush(self) -> None:
        if self._flush is None and not self.is_log_flushed:
            self._flush_count += 1
            self._flush = self.effects.flush = Flush(self._flush_count, self.log.end_offset)

    # Transitions.

    def become_unattached(self, epoch: int, now_ms: int, leader_id: int | None = None) -> None:
        before = self.state
        assert epoch > before.epoch or (epoch == before.epoch and isinstance(before, Prospective))
        deadline_ms = self._unattached_deadline_ms(now_ms)
        voted_key = before.voted_key if epoch == before.epoch else None
        self._change(Unattached(epoch, deadline_ms, leader_id, voted_key))
        self._persist()

    def become_follower(self, epoch: int, leader_id: int, endpoints: Endpoints, now_ms: int) -> None:
        before = self.state
        assert epoch >= before.epoch
        assert leader_id != self.config.node_id
        assert epoch > before.epoch or not isinstance(before, Leader)
        voted_key = before.voted_key if epoch == before.epoch else None
        timeout_ms = self.config.fetch_timeout_ms
        self._change(Follower(epoch, leader_id, endpoints, now_ms + timeout_ms, now_ms + timeout_ms, voted_key))
        self._persist()

    def become_prospective(self, now_ms: int) -> None:
        before = self.state
        assert self.may_stand
        assert not isinstance(before, Leader | Prospective)
        self._change(
            Prospective(
                before.epoch,
                now_ms + self._election_timeout_ms(),
                Election(self.voters, self.config.node_id),
                before.leader_id,
                before.leader_endpoints,
                before.voted_key,
                isinstance(before, Follower) and before.is_leader_gone,
            )
        )
        if self.voters.is_only(self.config.key):
            self.become_candidate(now_ms)

    def become_candidate(self, now_ms: int) -> None:
        assert self.may_stand
        assert isinstance(self.state, Prospective)
        election = Election(self.voters, self.config.node_id)
        deadline_ms = now_ms + self._election_timeout_ms()
        self._change(Candidate(self.epoch + 1, deadline_ms, election, self.config.key))
        self._persist()
        if election.is_won:
            self.become_leader(now_ms)

    def become_leader(self, now_ms: int) -> None:
        candidate = self.state
        assert isinstance(candidate, Candidate)
        assert candidate.election.is_won
        config, voters = self.config, self.voters
        leader = Leader(
            epoch=candidate.epoch,
            start_offset=self.log.end_offset,
            key=config.key,
            leader_endpoints=config.endpoints,
            check_quorum_deadline_ms=now_ms + config.check_quorum_timeout_ms,
            begin_quorum_deadline_ms=now_ms,
            voters={voter.key.id: Progress(voter.key, voter.endpoints) for voter in voters},
        )
        if self.history.kraft_version == 0:
            leader.updated_voters = voters.update(self.own_voter, any_directory=True)
        self._change(leader)
        self._persist()
        self.append_control(self._first_records(candidate.election.granting), now_ms)
        leader.set_voters(self.voters)

    def become_resigned(self, now_ms: int) -> None:
        leader = self.state
        assert isinstance(leader, Leader)
        others = {voter_id for voter_id in self.voters.ids if voter_id != self.config.node_id}
        self._change(
            Resigned(
                leader.epoch,
                now_ms + self._election_timeout_ms(),
                leader.leader_id,
                leader.leader_endpoints,
                others,
                leader.followers_by_offset(),
            )
        )

    def _change(self, state: State) -> None:
        before, self.state = self.state, state
        self.requests.clear()
        self.effects.freeze = None  # whoever follows anew fetches anew
        if isinstance(before, Leader):
            self._dismiss(before)

    def _dismiss(self, leader: Leader) -> None:
        """Answers all who still wait for this replica as the leader."""
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        for parked in leader.parked:
            self.answer(parked.asked.request_id, answers.fetch(self, parked.asked, error))
        change = leader.change
        if change is not None and not change.is_answered:
            self.answer(change.asked.request_id, answers.voter_change(change.asked.body, error))

    def _first_records(self, granting: list[int]) -> list[Record]:
        """What the log of an epoch begins with."""
        change: Record = records.LeaderChangeMessage(
            leader_id=self.config.node_id,
            voters=[records.Voter(voter_id=voter_id) for voter_id in self.voters.ids],
            granting_voters=[records.Voter(voter_id=voter_id) for voter_id in granting],
        )
        version = self.history.kraft_version
        if version == 0:
            return [change]
        if self.history.last_offset != -1 and not self.voters.needs_update(self.own_voter):
            return [change]
        updated = self.voters.update(self.own_voter)
        assert updated is not None
        return [change, records.KRaftVersionRecord(k_raft_version=version), updated.to_record()]

    def _first_state(self, stored: QuorumState, now_ms: int) -> State:
        own, epoch, deadline_ms = self.config.key, stored.epoch, now_ms + self._election_timeout_ms()
        if epoch < self.log.last_epoch:
            return Unattached(self.log.last_epoch, deadline_ms if self.may_stand else NEVER_MS)
        voted_for_itself = stored.voted_key is not None and stored.voted_key.matches(own)
        others = {voter_id for voter_id in self.voters.ids if voter_id != own.id}
        # With its own vote and a record of that epoch in its log it led, though it had no time to write so.
        led = voted_for_itself and stored.leader_id < 0 and epoch == self.log.last_epoch and epoch > 0
        if stored.leader_id == own.id or led:
            return Resigned(epoch, deadline_ms, own.id, self.config.endpoints, others, [])
        if stored.leader_id >= 0:
            endpoints = self.voters.endpoints(stored.leader_id)
            if endpoints:
                fetch_deadline_ms = now_ms + self.config.fetch_timeout_ms
                return Follower(
                    epoch, stored.leader_id, endpoints, fetch_deadline_ms, fetch_deadline_ms, stored.voted_key
                )
        elif voted_for_itself and self.may_stand:
            return Candidate(epoch, deadline_ms, Election(self.voters, own.id), stored.voted_key)
        leader_id = stored.leader_id if stored.leader_id >= 0 else None
        return Unattached(epoch, deadline_ms if self.may_stand else NEVER_MS, leader_id, stored.voted_key)

    def _unattached_deadline_ms(self, now_ms: int) -> int:
        before = self.state
        if not self.may_stand:
            return NEVER_MS
        if isinstance(before, Candidate | Unattached | Resigned):
            return before.election_deadline_ms
        if isinstance(before, Prospective) and not before.election.is_lost:
            return before.election_deadline_ms
        return now_ms + self._election_timeout_ms()

    def _election_timeout_ms(self) -> int:
        return self.config.election_timeout_ms + self._random.randrange(self.config.election_timeout_ms)

    def vote_for(self, candidate: ReplicaKey, now_ms: int) -> None:
        state = self.state
        assert isinstance(state, Unattached | Prospective)
        assert state.voted_key is None
        state.voted_key = candidate
        if state.election_deadline_ms != NEVER_MS:
            state.election_deadline_ms = now_ms + self._election_timeout_ms()
        self._persist()

    def _persist(self) -> None:
        state, voted = self.state, self.state.voted_key
        is_dynamic = self.history.kraft_version > 0
        self.effects.quorum_state = QuorumState(
            leader_id=state.leader_id if state.leader_id is not None else -1,
            epoch=state.epoch,
            voted_id=voted.id if voted is not None else -1,
            voted_directory_id=voted.directory_id if voted is not None else ReplicaKey(-1).directory_id,
            static_voters=() if is_dynamic else tuple(self.voters.ids),
            data_version=1 if is_dynamic else 0,
        )

    def _tell_leader(self) -> None:
        state = self.state
        if isinstance(state, Resigned | Prospective) and state.leader_id == self.config.node_id:
            told = LeaderAndEpoch(None, state.epoch)
        else:
            start_offset = state.start_offset if isinstance(state, Leader) else None
            told = LeaderAndEpoch(state.leader_id, state.epoch, start_offset)
        if told != self._told_leader:
            self._told_leader = self.effects.leader = told


def _bootstrap_nodes(config: RaftConfig) -> list[Node]:
    if config.bootstrap_servers:
        return [Node(-2 - index, host, port) for index, (host, port) in enumerate(config.bootstrap_servers)]
    nodes = []
    for voter in config.static_voters:
        address = voter.endpoints.address(config.listener_name)
        if address is not None and voter.key.id != config.node_id:
            nodes.append(Node(voter.key.id, *address))
    return nodes
