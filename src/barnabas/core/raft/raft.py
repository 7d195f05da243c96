"""The replica from outside; see the package's opening for the loop around it."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from barnabas.core.raft import answers, changing, epochs, following, leading, polling, voting
from barnabas.core.raft.config import RaftConfig
from barnabas.core.raft.log import RaftLog, SnapshotId
from barnabas.core.raft.messages import Answered, Asked, Event, Failed, Flush, LeaderAndEpoch, Node, Ready
from barnabas.core.raft.records import QuorumState, SnapshotVoters
from barnabas.core.raft.replica import Replica
from barnabas.core.raft.state import NEVER_MS, Follower, Leader, Resigned, State
from barnabas.core.raft.voters import VoterSet
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from barnabas.wire.messages.describe_quorum import DescribeQuorumRequest
from barnabas.wire.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse
from barnabas.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from barnabas.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from barnabas.wire.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from barnabas.wire.messages.vote import VoteRequest, VoteResponse
from barnabas.wire.schema import Request, Response


class Raft:
    def __init__(
        self, config: RaftConfig, log: RaftLog, stored: QuorumState | None, random: Random, now_ms: int
    ) -> None:
        """`stored` is what `quorum-state` holds, None if there is no such file."""
        self._replica = Replica(config, log, stored, random, now_ms)
        self._has_news = True
        self._is_stopped = False
        self.deadline_ms = now_ms
        self._poll(now_ms)

    # What happens.

    def step(self, event: Event, now_ms: int) -> None:
        match event:
            case Asked():
                self._asked(event, now_ms)
            case Answered():
                self._answered(event, now_ms)
            case Failed():
                self._failed(event, now_ms)
        self._poll(now_ms)

    def tick(self, now_ms: int) -> None:
        """Time has passed; to be called at `deadline_ms` at the latest."""
        self._poll(now_ms)

    def append(self, epoch: int, values: Sequence[bytes], now_ms: int, *, quietly: bool = False) -> int:
        """Appends these records as one batch, and returns the offset of the last; NotLeader if we do not lead.

        Quietly: no other node has to hear at once that they are committed.
        """
        last_offset = leading.append(self._replica, epoch, list(values), now_ms, quietly=quietly)
        self._poll(now_ms)
        return last_offset

    def flushed(self, flush: Flush, now_ms: int) -> None:
        self._replica.flushed(flush)
        if isinstance(self._replica.state, Leader):
            leading.count_own_log(self._replica, self._replica.state)
        self._poll(now_ms)

    def snapshot_frozen(self, snapshot_id: SnapshotId, now_ms: int) -> None:
        following.snapshot_frozen(self._replica, snapshot_id, now_ms)
        self._poll(now_ms)

    def resign(self, epoch: int, now_ms: int) -> None:
        """Gives up the lead of this epoch, if it is still ours."""
        state = self._replica.state
        if isinstance(state, Leader) and state.epoch == epoch:
            state.is_resigning = True
        self._poll(now_ms)

    def shut_down(self, timeout_ms: int, now_ms: int) -> None:
        """`Ready.stopped` comes when another leads, or nobody else can, or the time is over."""
        self._replica.shutdown_deadline_ms = now_ms + timeout_ms
        self._poll(now_ms)

    def upgrade(self, epoch: int, kraft_version: int, now_ms: int, *, validate_only: bool = False) -> int | None:
        """Raises the kraft.version: voters move into the log. The offset to wait for; UpgradeRefused says why not."""
        offset = changing.upgrade(self._replica, epoch, kraft_version, now_ms, validate_only=validate_only)
        self._poll(now_ms)
        return offset

    # What is to be done.

    def ready(self) -> Ready | None:
        if not self._has_news:
            return None
        self._has_news = False
        effects = self._replica.take_effects()
        effects.stopped = self._is_stopped
        return effects if effects != Ready() else None

    # What others may know.

    @property
    def state(self) -> State:
        return self._replica.state

    @property
    def epoch(self) -> int:
        return self._replica.epoch

    @property
    def leader(self) -> LeaderAndEpoch:
        state = self._replica.state
        if isinstance(state, Leader):
            return LeaderAndEpoch(state.leader_id, state.epoch, state.start_offset)
        return LeaderAndEpoch(None if isinstance(state, Resigned) else state.leader_id, state.epoch)

    @property
    def leader_node(self) -> Node | None:
        """Where the leader listens."""
        return self._replica.leader_node()

    @property
    def is_voter(self) -> bool:
        return self._replica.is_voter

    @property
    def is_only_voter(self) -> bool:
        return self._replica.voters.is_only(self._replica.config.key)

    @property
    def voters(self) -> VoterSet:
        return self._replica.voters

    @property
    def kraft_version(self) -> int:
        return self._replica.history.kraft_version

    @property
    def high_watermark(self) -> int | None:
        return self._replica.high_watermark

    def snapshot_voters(self, snapshot_id: SnapshotId) -> SnapshotVoters:
        """What control records a snapshot with this id has; ValueError if it must not be taken."""
        mark = self._replica.high_watermark
        if mark is None or snapshot_id.end_offset > mark:
            raise ValueError(f"a snapshot at {snapshot_id.end_offset}, but records are committed up to {mark}")
        history = self._replica.history
        end_offset = snapshot_id.end_offset
        return SnapshotVoters(history.kraft_version_before(end_offset), history.voters_before(end_offset))

    # Inside.

    def _poll(self, now_ms: int) -> None:
        replica = self._replica
        if not self._is_stopped:
            self.deadline_ms = polling.poll(replica, now_ms)
        if replica.shutdown_deadline_ms is not None:
            self.deadline_ms = min(self.deadline_ms, replica.shutdown_deadline_ms)
            leader_id, own_id = replica.state.leader_id, replica.config.node_id
            # Who does not lead has nothing to hand over, and who has told everybody no more.
            state = replica.state
            leads = isinstance(state, Leader) or (isinstance(state, Resigned) and bool(state.unacknowledged))
            is_free = not leads or not replica.is_voter or replica.voters.is_only(replica.config.key)
            if is_free or leader_id not in (None, own_id) or replica.shutdown_deadline_ms <= now_ms:
                self._is_stopped, self.deadline_ms = True, NEVER_MS
        self._has_news = True

    def _asked(self, asked: Asked, now_ms: int) -> None:
        replica, body = self._replica, asked.body
        error = _refuse(replica, asked)
        if error is not None:
            replica.answer(asked.request_id, error)
            return
        match body:
            case FetchRequest():
                leading.handle_fetch(replica, asked, body, now_ms)
            case VoteRequest():
                voting.handle_request(replica, asked, body, now_ms)
            case BeginQuorumEpochRequest():
                epochs.handle_begin(replica, asked, body, now_ms)
            case EndQuorumEpochRequest():
                epochs.handle_end(replica, asked, body, now_ms)
            case FetchSnapshotRequest():
                leading.handle_fetch_snapshot(replica, asked, body, now_ms)
            case AddRaftVoterRequest():
                changing.handle_add(replica, asked, body, now_ms)
            case RemoveRaftVoterRequest():
                changing.handle_remove(replica, asked, body, now_ms)
            case UpdateRaftVoterRequest():
                changing.handle_update(replica, asked, body, now_ms)
            case DescribeQuorumRequest():
                leading.handle_describe(replica, asked, now_ms)
            case _:
                raise TypeError(f"the quorum does not answer {type(body).__name__}")

    def _answered(self, answered: Answered, now_ms: int) -> None:
        awaited = self._replica.requests.awaited(answered.correlation_id)
        if awaited is None:
            return
        node, request = awaited
        succeeded = self._use_answer(node, request, answered.body, now_ms)
        self._replica.requests.finish(node.id, answered.correlation_id, succeeded=succeeded, now_ms=now_ms)

    def _use_answer(self, node: Node, request: Request, body: Response, now_ms: int) -> bool:
        replica = self._replica
        error = _answer_error(body)
        if error != ErrorCode.NONE and not isinstance(
            body, AddRaftVoterResponse | RemoveRaftVoterResponse | UpdateRaftVoterResponse | ApiVersionsResponse
        ):
            if isinstance(body, VoteResponse) and voting.handle_failure(replica, error, now_ms):
                return True
            replica.note(f"node {node.id} answers {type(request).__name__} with {error.name}")
            return False
        try:
            match body:
                case FetchResponse() if isinstance(request, FetchRequest):
                    return following.handle_fetch_answer(replica, request, body, now_ms)
                case VoteResponse():
                    return voting.handle_answer(replica, node, body, now_ms)
                case BeginQuorumEpochResponse():
                    return epochs.handle_begin_answer(replica, node, body, now_ms)
                case EndQuorumEpochResponse():
                    return epochs.handle_end_answer(replica, node, body, now_ms)
                case FetchSnapshotResponse():
                    return following.handle_snapshot_answer(replica, body, now_ms)
                case ApiVersionsResponse():
                    return changing.handle_api_versions(replica, node, body, now_ms)
                case UpdateRaftVoterResponse():
                    return changing.handle_update_answer(replica, body, now_ms)
                case AddRaftVoterResponse() | RemoveRaftVoterResponse():
                    return changing.handle_join_answer(replica, body, now_ms)
        except IndexError:
            replica.note(f"node {node.id} answers {type(request).__name__} without a partition")
            return False
        raise TypeError(f"the quorum asks for no {type(body).__name__}")

    def _failed(self, failed: Failed, now_ms: int) -> None:
        replica = self._replica
        awaited = replica.requests.awaited(failed.correlation_id)
        if awaited is None:
            return
        node, request = awaited
        succeeded = False
        if isinstance(request, VoteRequest):
            succeeded = voting.handle_failure(replica, failed.error, now_ms)
        elif isinstance(request, ApiVersionsRequest):
            changing.fail_api_versions(replica, node, failed.error)
        elif isinstance(replica.state, Resigned) and replica.is_stopping:
            replica.state.unacknowledged.discard(node.id)  # It is not there, and will see for itself.
        elif isinstance(replica.state, Follower) and failed.is_refused:
            leader = replica.leader_node()
            if leader is not None and leader[1:] == node[1:]:
                following.note_refusal(replica, replica.state, now_ms)
        replica.requests.finish(node.id, failed.correlation_id, succeeded=succeeded, now_ms=now_ms)


def _refuse(replica: Replica, asked: Asked) -> Response | None:
    """What is wrong with a request before anybody looks at its content: another cluster, another partition."""
    body, config = asked.body, replica.config
    cluster_id = getattr(body, "cluster_id", None)
    if cluster_id is not None and cluster_id != config.cluster_id:
        replica.note("a node of another cluster has asked and is refused: it has this node among its controllers")
        message = f'The id "{cluster_id}" is not that of this cluster, "{config.cluster_id}".'
        return answers.top_level(body, ErrorCode.INCONSISTENT_CLUSTER_ID, message)
    if isinstance(body, AddRaftVoterRequest | RemoveRaftVoterRequest | UpdateRaftVoterRequest):
        return None
    if _is_for_us(replica, asked):
        return None
    if isinstance(body, DescribeQuorumRequest):
        return answers.top_level(body, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return answers.top_level(body, ErrorCode.INVALID_REQUEST)


def _is_for_us(replica: Replica, asked: Asked) -> bool:
    """One topic, one partition, ours."""
    config, body = replica.config, asked.body
    topics = getattr(body, "topics", [])
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        return False
    topic, partition = topics[0], topics[0].partitions[0]
    if isinstance(body, FetchRequest):
        named, ours = (topic.topic, config.topic) if asked.version < 13 else (topic.topic_id, config.topic_id)
        index = partition.partition
    elif isinstance(body, FetchSnapshotRequest):
        named, ours, index = topic.name, config.topic, partition.partition
    else:
        named, ours, index = topic.topic_name, config.topic, partition.partition_index
    return bool(named == ours and index == 0)


def _answer_error(body: Response) -> ErrorCode:
    code = getattr(body, "error_code", 0)
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
