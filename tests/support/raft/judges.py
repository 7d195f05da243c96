"""What must hold after every event, whatever is lost, late or killed.

- At most one leader in an epoch, ever; at most one vote of a replica in an epoch, written before it is given.
- A Fetch of another epoch than the leader's is not served.
- Epochs of a replica never go down, on disk neither; the high watermark never goes back while the process lives.
- What is committed stays: every replica agrees about everything below any high watermark, snapshots included.
- Whoever becomes leader has everything that is committed.
- A high watermark that a leader announces is on the disks of a majority of the voters, and at least its own first
  record is below it.
- A leader never loads a snapshot, and no snapshot lies above the high watermark.
- Voters change one at a time, and only when the change before is committed.
- A pre-vote raises no epoch: a new epoch begins with a candidate, or with the end of a resigned leader.
- A leader that has not heard of a majority for the check-quorum timeout leads no more.
"""

from __future__ import annotations

from typing import Any

from barnabas.core.raft import QuorumState, SnapshotId, VoterSet
from barnabas.core.raft.log import FIRST_SNAPSHOT
from barnabas.core.raft.state import Candidate, Leader, Resigned
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse
from barnabas.wire.messages.fetch_snapshot import FetchSnapshotRequest
from barnabas.wire.messages.update_raft_voter import UpdateRaftVoterRequest
from barnabas.wire.messages.vote import VoteRequest, VoteResponse
from barnabas.wire.schema import Request, Response
from tests.support.raft.cluster import Judges, SimulatedNode
from tests.support.raft.memory_log import snapshot_digest

SLACK_MS = 50


class Broken(AssertionError):
    """A property does not hold."""


class StrictJudges(Judges):
    def __init__(self) -> None:
        self.leaders: dict[int, int] = {}
        self.votes: dict[tuple[int, int], int] = {}
        self.epochs: dict[int, int] = {}
        # Of every committed batch: the digest of the log at its end.
        self.digests: dict[int, int] = {0: 0}
        self.committed_end = 0
        self.marks: dict[tuple[int, int], int] = {}
        self.highest_epoch = 0
        self._states: dict[int, Any] = {}
        self._contacts: dict[tuple[int, int], dict[int, int]] = {}
        self._led_since: dict[tuple[int, int], int] = {}
        # Of each node: the offset of its voters, they, and its epoch then.
        self._voters_seen: dict[int, tuple[int | None, VoterSet, int]] = {}

    def persisted(self, node: SimulatedNode, state: QuorumState) -> None:
        if state.epoch < self.epochs.get(node.id, 0):
            raise Broken(f"the epoch of {node.id} goes back from {self.epochs[node.id]} to {state.epoch} on disk")
        self.epochs[node.id] = state.epoch
        if state.leader_id >= 0:
            self._note_leader(state.epoch, state.leader_id)
        if state.voted_id >= 0:
            self._note_vote(node.id, state.epoch, state.voted_id)

    def _note_leader(self, epoch: int, leader_id: int) -> None:
        if self.leaders.setdefault(epoch, leader_id) != leader_id:
            raise Broken(f"epoch {epoch} has two leaders, {self.leaders[epoch]} and {leader_id}")

    def _note_vote(self, node_id: int, epoch: int, candidate_id: int) -> None:
        if self.votes.setdefault((node_id, epoch), candidate_id) != candidate_id:
            raise Broken(f"{node_id} votes for {self.votes[node_id, epoch]} and {candidate_id} in epoch {epoch}")

    def answered(self, node: SimulatedNode, request: Request, response: Response) -> None:
        if isinstance(request, VoteRequest) and isinstance(response, VoteResponse) and response.topics:
            asked, answer = request.topics[0].partitions[0], response.topics[0].partitions[0]
            if answer.vote_granted and not asked.pre_vote:
                self._note_vote(node.id, asked.replica_epoch, asked.replica_id)
                written = node.disk.quorum_state
                if written is None or (written.epoch, written.voted_id) < (asked.replica_epoch, asked.replica_id):
                    raise Broken(f"{node.id} votes for {asked.replica_id} in epoch {asked.replica_epoch}, unwritten")
        if isinstance(request, FetchRequest) and isinstance(response, FetchResponse) and response.responses:
            answer_partition = response.responses[0].partitions[0]
            epoch = request.topics[0].partitions[0].current_leader_epoch
            if answer_partition.error_code == 0 and answer_partition.current_leader.leader_epoch != epoch:
                raise Broken(f"{node.id} serves a fetch of epoch {epoch} in another one")

    def asked(self, node: SimulatedNode, body: Request) -> None:
        """Who was heard of by a leader, as far as the network knows."""
        assert node.raft is not None
        match body:
            case FetchRequest():
                partition = body.topics[0].partitions[0]
                replica_id = max(body.replica_state.replica_id, body.replica_id)
                epoch = partition.current_leader_epoch
            case FetchSnapshotRequest():
                replica_id, epoch = body.replica_id, body.topics[0].partitions[0].current_leader_epoch
            case UpdateRaftVoterRequest():
                replica_id, epoch = body.voter_id, body.current_leader_epoch
            case _:
                return
        if epoch == node.raft.epoch:
            self._contacts.setdefault((node.id, epoch), {})[replica_id] = self.cluster.now_ms

    def look(self, node: SimulatedNode) -> None:
        raft = node.raft
        if raft is None:
            return
        state = raft.state
        before = self._states.get(node.id)
        if before is None or before[0] != node.life or before[1] is not state:
            self._state_changed(node, state, None if before is None or before[0] != node.life else before[1])
            self._states[node.id] = (node.life, state)
        self._check_voters(node)
        if isinstance(state, Leader):
            self._check_quorum(node, state)
        self._check_snapshots(node)
        if node.disk.log.end_offset < self.marks.get((node.id, node.life), 0):
            raise Broken(f"the log of {node.id} ends at {node.disk.log.end_offset}, below its high watermark")

    def _state_changed(self, node: SimulatedNode, state: Any, before: Any) -> None:
        self.cluster.tell(f"{node.id} is {type(state).__name__} in epoch {state.epoch}")
        if before is not None and state.epoch < before.epoch:
            raise Broken(f"the epoch of {node.id} goes back from {before.epoch} to {state.epoch}")
        if state.epoch > self.highest_epoch:
            is_restored = before is None and state.epoch == self.epochs.get(node.id)
            if not is_restored and not isinstance(state, Candidate | Leader) and not isinstance(before, Resigned):
                raise Broken(f"{node.id} raises the epoch to {state.epoch} as {type(state).__name__}")
            self.highest_epoch = state.epoch
        if isinstance(state, Leader):
            self._became_leader(node, state)

    def _became_leader(self, node: SimulatedNode, leader: Leader) -> None:
        self._note_leader(leader.epoch, node.id)
        self._led_since[node.id, leader.epoch] = self.cluster.now_ms
        log = node.disk.log
        if leader.start_offset < self.committed_end:
            raise Broken(f"{node.id} leads from {leader.start_offset}, but {self.committed_end} is committed")
        if log.start_offset <= self.committed_end and log.digest_at(self.committed_end) != self._committed_digest():
            raise Broken(f"{node.id} leads epoch {leader.epoch} and lacks what is committed at {self.committed_end}")

    def _committed_digest(self) -> int:
        return self.digests[self.committed_end]

    def _check_quorum(self, node: SimulatedNode, leader: Leader) -> None:
        voters = [voter.key.id for voter in leader.voters.values()]
        if voters == [node.id]:
            self._led_since[node.id, leader.epoch] = self.cluster.now_ms
            return
        contacts = self._contacts.get((node.id, leader.epoch), {})
        since = self._led_since[node.id, leader.epoch]
        heard = sorted((max(contacts.get(voter, 0), since) for voter in voters if voter != node.id), reverse=True)
        needed = len(voters) // 2 + 1 - (node.id in voters)
        # The timer begins anew when enough were heard of since it began: of one, that is whenever it is heard of.
        allowed_ms = min(needed, 2) * node.config.check_quorum_timeout_ms + SLACK_MS
        if needed and self.cluster.now_ms - heard[needed - 1] > allowed_ms:
            raise Broken(f"{node.id} leads epoch {leader.epoch} and has not heard of a majority for {allowed_ms} ms")

    def _check_voters(self, node: SimulatedNode) -> None:
        raft = node.raft
        assert raft is not None
        offset = raft._replica.history.last_offset
        seen_offset, seen, seen_epoch = self._voters_seen.get(node.id, (None, None, 0))
        if seen is not None and offset == seen_offset:
            return
        self._voters_seen[node.id] = (offset, raft.voters, raft.epoch)
        self._led_since[node.id, raft.epoch] = self.cluster.now_ms  # Another majority is to be heard of.
        if not isinstance(raft.state, Leader) or offset is None or offset < raft.state.start_offset:
            return  # It is not a change of this leader.
        if seen is not None and seen_offset is not None:
            if seen_epoch < raft.epoch and seen_offset >= raft.state.start_offset:
                return  # What was seen went with the power before it was flushed: this epoch begins in its place.
            now, then = {voter.key for voter in raft.voters}, {voter.key for voter in seen}
            if len(now - then) + len(then - now) > 1:
                raise Broken(f"{node.id} changes more than one voter at offset {offset}")
            mark = raft.state.high_watermark
            if now != then and 0 <= seen_offset < raft.state.start_offset and mark is None:
                raise Broken(f"{node.id} changes voters at {offset} before anything of its epoch is committed")
            if now != then and seen_offset >= (mark or 0):
                raise Broken(f"{node.id} changes voters at {offset}, but the change at {seen_offset} is not committed")

    def _check_snapshots(self, node: SimulatedNode) -> None:
        for snapshot_id in node.disk.log.snapshots:
            if snapshot_id.end_offset > self.committed_end:
                raise Broken(f"{node.id} has a snapshot at {snapshot_id.end_offset}, committed is {self.committed_end}")

    def committed(self, node: SimulatedNode, high_watermark: int) -> None:
        raft = node.raft
        assert raft is not None
        life = (node.id, node.life)
        if high_watermark < self.marks.get(life, 0):
            raise Broken(f"the high watermark of {node.id} goes back from {self.marks[life]} to {high_watermark}")
        self.marks[life] = high_watermark
        if isinstance(raft.state, Leader):
            self._announced(node, raft.state, high_watermark)
        self._apply(node, high_watermark)

    def _announced(self, node: SimulatedNode, leader: Leader, high_watermark: int) -> None:
        if high_watermark <= leader.start_offset:
            raise Broken(f"{node.id} commits {high_watermark}, but its epoch starts at {leader.start_offset}")
        digest = node.disk.log.digest_at(high_watermark)
        voters = list(leader.voters)
        have = [voter for voter in voters if self.cluster.nodes[voter].disk.log.has_durably(high_watermark, digest)]
        if len(have) < len(voters) // 2 + 1:
            raise Broken(f"{node.id} commits {high_watermark}, which of {voters} only {have} have on disk")

    def _apply(self, node: SimulatedNode, high_watermark: int) -> None:
        """Hands the node's state machine what is committed, as a driver's listener gets it."""
        log = node.disk.log
        latest = log.latest_snapshot
        is_new = node.applied_offset < 0
        if (is_new and latest not in (None, FIRST_SNAPSHOT)) or (not is_new and node.applied_offset < log.start_offset):
            self._load(node, latest)
        node.applied_offset = max(node.applied_offset, 0)
        for batch in log.boundaries(node.applied_offset, high_watermark):
            if self.digests.setdefault(batch.end_offset, batch.digest) != batch.digest:
                raise Broken(f"{node.id} has other records below {batch.end_offset} than were committed")
            node.applied_offset, node.applied_digest = batch.end_offset, batch.digest
        if node.applied_offset != high_watermark:
            raise Broken(f"{node.id} commits {high_watermark}, which is inside a batch or not in its log")
        self.committed_end = max(self.committed_end, high_watermark)

    def _load(self, node: SimulatedNode, snapshot_id: SnapshotId | None) -> None:
        assert snapshot_id is not None
        assert node.raft is not None
        if isinstance(node.raft.state, Leader) and node.applied_offset >= 0:
            raise Broken(f"{node.id} leads and loads a snapshot")
        digest = snapshot_digest(node.disk.log.snapshots[snapshot_id])
        if self.digests.get(snapshot_id.end_offset, digest) != digest:
            raise Broken(f"the snapshot of {node.id} at {snapshot_id.end_offset} is not what was committed")
        node.applied_offset, node.applied_digest = snapshot_id.end_offset, digest
