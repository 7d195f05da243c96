"""Vote: pre-votes and votes, asked for and given."""

from __future__ import annotations

from barnabas.core.raft import answers, decide
from barnabas.core.raft.config import EPOCH_MAX
from barnabas.core.raft.learning import Heard, hear_answer, named_endpoints
from barnabas.core.raft.messages import Asked, Node
from barnabas.core.raft.replica import Replica
from barnabas.core.raft.state import Candidate, Prospective
from barnabas.core.raft.voters import ReplicaKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.vote import PartitionData, TopicData, VoteRequest, VoteResponse
from barnabas.wire.uuids import ZERO_UUID


def build_request(replica: Replica, voter: ReplicaKey, *, pre_vote: bool) -> VoteRequest:
    config = replica.config
    partition = PartitionData(
        replica_epoch=replica.epoch,
        replica_id=config.node_id,
        replica_directory_id=config.directory_id,
        voter_directory_id=voter.directory_id,
        last_offset_epoch=replica.log.last_epoch,
        last_offset=replica.log.end_offset,
        pre_vote=pre_vote,
    )
    topic = TopicData(topic_name=config.topic, partitions=[partition])
    return VoteRequest(cluster_id=config.cluster_id, voter_id=voter.id, topics=[topic])


def handle_request(replica: Replica, asked: Asked, request: VoteRequest, now_ms: int) -> None:
    partition = request.topics[0].partitions[0]
    error, granted = _decide(replica, request, partition, now_ms)
    replica.answer(asked.request_id, answers.vote_answer(replica, asked, error, granted=granted))


def _decide(replica: Replica, request: VoteRequest, partition: PartitionData, now_ms: int) -> tuple[ErrorCode, bool]:
    epoch, last_epoch = partition.replica_epoch, partition.last_offset_epoch
    above_epoch = last_epoch > epoch if partition.pre_vote else last_epoch >= epoch
    if partition.last_offset < 0 or last_epoch < 0 or above_epoch or epoch >= EPOCH_MAX:
        return ErrorCode.INVALID_REQUEST, False
    if epoch < replica.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH, False
    if partition.replica_id < 0 or partition.replica_id == replica.config.node_id:
        return ErrorCode.INVALID_REQUEST, False
    if epoch > replica.epoch:
        replica.become_unattached(epoch, now_ms)
    if not is_addressed(replica, request.voter_id, partition.voter_directory_id):
        return ErrorCode.INVALID_VOTER_KEY, False
    up_to_date = (last_epoch, partition.last_offset) >= (replica.log.last_epoch, replica.log.end_offset)
    if partition.pre_vote:
        return ErrorCode.NONE, decide.may_pre_vote(replica.state, is_log_up_to_date=up_to_date)
    candidate = ReplicaKey(partition.replica_id, partition.replica_directory_id)
    granted = decide.may_vote(replica.state, candidate, is_log_up_to_date=up_to_date)
    if granted and replica.state.voted_key is None:
        replica.vote_for(candidate, now_ms)
    return ErrorCode.NONE, granted


def is_addressed(replica: Replica, voter_id: int, directory_id: bytes) -> bool:
    """Is this the voter that the request is meant for? One that names none is meant for whoever gets it."""
    if voter_id < 0:
        return True
    return voter_id == replica.config.node_id and directory_id in (ZERO_UUID, replica.config.directory_id)


def handle_answer(replica: Replica, source: Node, response: VoteResponse, now_ms: int) -> bool:
    partition = response.topics[0].partitions[0]
    error = ErrorCode(partition.error_code)
    endpoints = named_endpoints(replica, partition.leader_id, response.node_endpoints)
    heard = hear_answer(replica, error, partition.leader_id, partition.leader_epoch, endpoints, now_ms)
    if heard is not Heard.GO_ON:
        return heard is Heard.DONE
    if error != ErrorCode.NONE:
        return False
    state = replica.state
    if isinstance(state, Prospective | Candidate):
        state.election.record(source.id, partition.vote_granted)
        conclude(replica, now_ms)
    return True


def handle_failure(replica: Replica, error: ErrorCode, now_ms: int) -> bool:
    """A peer that does not know pre-votes cannot be asked for one."""
    if error == ErrorCode.UNSUPPORTED_VERSION and isinstance(replica.state, Prospective):
        replica.become_candidate(now_ms)
        return True
    return False


def conclude(replica: Replica, now_ms: int) -> None:
    state = replica.state
    if isinstance(state, Candidate) and state.election.is_won:
        replica.become_leader(now_ms)
    elif isinstance(state, Prospective):
        if state.election.is_won:
            replica.become_candidate(now_ms)
        elif state.election.is_lost or (state.is_leader_gone and _all_but_leader_voted(state)):
            give_up(replica, state, now_ms)


def _all_but_leader_voted(state: Prospective) -> bool:
    return all(voter.id == state.leader_id for voter in state.election.unrecorded)


def give_up(replica: Replica, state: Prospective, now_ms: int) -> None:
    """The pre-vote is lost or its time over: back to the leader it knew, if any."""
    if state.leader_id is not None and state.leader_id != replica.config.node_id and replica.leader_node():
        replica.become_follower(state.epoch, state.leader_id, state.leader_endpoints, now_ms)
    else:
        replica.become_unattached(state.epoch, now_ms, state.leader_id)
