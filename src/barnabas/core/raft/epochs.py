"""BeginQuorumEpoch and EndQuorumEpoch: a leader says that it leads, and that it leads no more."""

from __future__ import annotations

from barnabas.core.raft import answers, decide
from barnabas.core.raft.learning import Heard, hear_answer, learn_leader, named_endpoints
from barnabas.core.raft.messages import Asked, Node
from barnabas.core.raft.replica import Replica
from barnabas.core.raft.state import Follower, Resigned
from barnabas.core.raft.voters import Endpoints, ReplicaKey
from barnabas.core.raft.voting import is_addressed
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import begin_quorum_epoch as begin
from barnabas.wire.messages import end_quorum_epoch as end


def build_begin(replica: Replica, voter: ReplicaKey) -> begin.BeginQuorumEpochRequest:
    config = replica.config
    partition = begin.PartitionData(
        voter_directory_id=voter.directory_id, leader_id=config.node_id, leader_epoch=replica.epoch
    )
    return begin.BeginQuorumEpochRequest(
        cluster_id=config.cluster_id,
        voter_id=voter.id,
        topics=[begin.TopicData(topic_name=config.topic, partitions=[partition])],
        leader_endpoints=[
            begin.LeaderEndpoint(name=name, host=host, port=port) for name, host, port in config.endpoints
        ],
    )


def build_end(replica: Replica, resigned: Resigned) -> end.EndQuorumEpochRequest:
    config = replica.config
    preferred = resigned.preferred_successors
    partition = end.PartitionData(
        leader_id=config.node_id,
        leader_epoch=replica.epoch,
        preferred_successors=[key.id for key in preferred],
        preferred_candidates=[
            end.ReplicaInfo(candidate_id=key.id, candidate_directory_id=key.directory_id) for key in preferred
        ],
    )
    return end.EndQuorumEpochRequest(
        cluster_id=config.cluster_id,
        topics=[end.TopicData(topic_name=config.topic, partitions=[partition])],
        leader_endpoints=[end.LeaderEndpoint(name=name, host=host, port=port) for name, host, port in config.endpoints],
    )


def handle_begin(replica: Replica, asked: Asked, request: begin.BeginQuorumEpochRequest, now_ms: int) -> None:
    partition = request.topics[0].partitions[0]
    error = _learn(replica, partition.leader_id, partition.leader_epoch, _endpoints(request.leader_endpoints), now_ms)
    if error == ErrorCode.NONE and not is_addressed(replica, request.voter_id, partition.voter_directory_id):
        error = ErrorCode.INVALID_VOTER_KEY
    replica.answer(asked.request_id, answers.begin_answer(replica, asked, error))


def handle_end(replica: Replica, asked: Asked, request: end.EndQuorumEpochRequest, now_ms: int) -> None:
    partition = request.topics[0].partitions[0]
    error = _learn(replica, partition.leader_id, partition.leader_epoch, _endpoints(request.leader_endpoints), now_ms)
    state = replica.state
    if error == ErrorCode.NONE and isinstance(state, Follower) and state.leader_id == partition.leader_id:
        preferred = [
            ReplicaKey(each.candidate_id, each.candidate_directory_id) for each in partition.preferred_candidates
        ]
        if asked.version == 0:
            preferred = [ReplicaKey(successor_id) for successor_id in partition.preferred_successors]
        state.has_fetched, state.is_leader_gone = False, True  # it votes for whoever stands first
        backoff_max_ms = replica.config.election_backoff_max_ms
        state.fetch_deadline_ms = now_ms + decide.successor_backoff_ms(preferred, replica.config.key, backoff_max_ms)
    replica.answer(asked.request_id, answers.end_answer(replica, asked, error))


def _learn(replica: Replica, leader_id: int, epoch: int, endpoints: Endpoints, now_ms: int) -> ErrorCode:
    if epoch < replica.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if leader_id < 0:
        return ErrorCode.INVALID_REQUEST
    known = endpoints or replica.voters.endpoints(leader_id)
    # Not INVALID_REQUEST, which stops an Apache Kafka node: the mistake may be ours.
    return ErrorCode.NONE if learn_leader(replica, leader_id, epoch, known, now_ms) else ErrorCode.UNKNOWN_SERVER_ERROR


def _endpoints(listed: list[begin.LeaderEndpoint] | list[end.LeaderEndpoint]) -> Endpoints:
    return Endpoints.of((each.name, each.host, each.port) for each in listed)


def handle_begin_answer(replica: Replica, source: Node, response: begin.BeginQuorumEpochResponse, now_ms: int) -> bool:
    partition = response.topics[0].partitions[0]
    error = ErrorCode(partition.error_code)
    endpoints = named_endpoints(replica, partition.leader_id, response.node_endpoints)
    heard = hear_answer(replica, error, partition.leader_id, partition.leader_epoch, endpoints, now_ms)
    return error == ErrorCode.NONE if heard is Heard.GO_ON else heard is Heard.DONE


def handle_end_answer(replica: Replica, source: Node, response: end.EndQuorumEpochResponse, now_ms: int) -> bool:
    partition = response.topics[0].partitions[0]
    error = ErrorCode(partition.error_code)
    endpoints = named_endpoints(replica, partition.leader_id, response.node_endpoints)
    heard = hear_answer(replica, error, partition.leader_id, partition.leader_epoch, endpoints, now_ms)
    if heard is not Heard.GO_ON:
        return heard is Heard.DONE
    if isinstance(replica.state, Resigned) and error == ErrorCode.NONE:
        replica.state.unacknowledged.discard(source.id)
    return error == ErrorCode.NONE
