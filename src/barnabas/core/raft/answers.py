"""The answers of a replica, as wire messages. Each names the epoch, and the leader with its address, if known."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from barnabas.core.raft.log import FIRST_SNAPSHOT, EpochEnd, SnapshotId
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import (
    add_raft_voter,
    begin_quorum_epoch,
    describe_quorum,
    end_quorum_epoch,
    fetch_snapshot,
    remove_raft_voter,
    update_raft_voter,
    vote,
)
from barnabas.wire.messages import fetch as fetch_messages
from barnabas.wire.schema import Buffer, Request, Response

if TYPE_CHECKING:
    from barnabas.core.raft.messages import Asked
    from barnabas.core.raft.replica import Replica

_N = TypeVar("_N")


def vote_answer(
    replica: Replica, asked: Asked, error: ErrorCode = ErrorCode.NONE, *, granted: bool = False
) -> vote.VoteResponse:
    partition = vote.ResponsePartitionData(
        error_code=error, leader_id=_leader_id(replica), leader_epoch=replica.epoch, vote_granted=granted
    )
    topic = vote.ResponseTopicData(topic_name=replica.config.topic, partitions=[partition])
    return vote.VoteResponse(topics=[topic], node_endpoints=_endpoints(replica, asked, vote.NodeEndpoint))


def begin_answer(
    replica: Replica, asked: Asked, error: ErrorCode = ErrorCode.NONE
) -> begin_quorum_epoch.BeginQuorumEpochResponse:
    module = begin_quorum_epoch
    partition = module.ResponsePartitionData(
        error_code=error, leader_id=_leader_id(replica), leader_epoch=replica.epoch
    )
    return module.BeginQuorumEpochResponse(
        topics=[module.ResponseTopicData(topic_name=replica.config.topic, partitions=[partition])],
        node_endpoints=_endpoints(replica, asked, module.NodeEndpoint),
    )


def end_answer(
    replica: Replica, asked: Asked, error: ErrorCode = ErrorCode.NONE
) -> end_quorum_epoch.EndQuorumEpochResponse:
    module = end_quorum_epoch
    partition = module.ResponsePartitionData(
        error_code=error, leader_id=_leader_id(replica), leader_epoch=replica.epoch
    )
    return module.EndQuorumEpochResponse(
        topics=[module.ResponseTopicData(topic_name=replica.config.topic, partitions=[partition])],
        node_endpoints=_endpoints(replica, asked, module.NodeEndpoint),
    )


# The versions of Fetch that brought what an answer can say.
LOG_START_SINCE = 5
LEADER_SINCE = 12


def fetch(
    replica: Replica,
    asked: Asked,
    error: ErrorCode = ErrorCode.NONE,
    *,
    records: Buffer = b"",
    high_watermark: int | None = None,
    instead: EpochEnd | SnapshotId | None = None,
) -> fetch_messages.FetchResponse:
    """`instead` of records: where the logs may still agree, or the snapshot to begin with."""
    module = fetch_messages
    partition = module.PartitionData(
        error_code=error,
        high_watermark=-1 if high_watermark is None else high_watermark,
        records=records,
    )
    if asked.version >= LOG_START_SINCE:
        partition.log_start_offset = replica.log.start_offset
    if asked.version >= LEADER_SINCE:
        partition.current_leader = module.LeaderIdAndEpoch(leader_id=_leader_id(replica), leader_epoch=replica.epoch)
    elif instead is not None:
        partition.error_code = ErrorCode.UNSUPPORTED_VERSION  # Older versions cannot say it.
        instead = None
    if isinstance(instead, EpochEnd):
        partition.diverging_epoch = module.EpochEndOffset(epoch=instead.epoch, end_offset=instead.end_offset)
    elif instead is not None:
        partition.snapshot_id = module.SnapshotId(end_offset=instead.end_offset, epoch=instead.epoch)
    config = replica.config
    topic = module.FetchableTopicResponse(topic=config.topic, topic_id=config.topic_id, partitions=[partition])
    # Kafka fills the endpoints from version 17 on, though version 16 has the field.
    endpoints = _endpoints(replica, asked, module.NodeEndpoint, since=17)
    return module.FetchResponse(responses=[topic], node_endpoints=endpoints)


def snapshot(
    replica: Replica,
    asked: Asked,
    error: ErrorCode = ErrorCode.NONE,
    *,
    snapshot_id: SnapshotId = FIRST_SNAPSHOT,
    size: int = 0,
    position: int = 0,
    data: Buffer = b"",
) -> fetch_snapshot.FetchSnapshotResponse:
    module = fetch_snapshot
    partition = module.ResponsePartitionSnapshot(
        error_code=error,
        snapshot_id=module.SnapshotId(end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch),
        current_leader=module.LeaderIdAndEpoch(leader_id=_leader_id(replica), leader_epoch=replica.epoch),
        size=size,
        position=position,
        unaligned_records=data,
    )
    return module.FetchSnapshotResponse(
        topics=[module.ResponseTopicSnapshot(name=replica.config.topic, partitions=[partition])],
        node_endpoints=_endpoints(replica, asked, module.NodeEndpoint),
    )


def voter_change(
    request: Request, error: ErrorCode, message: str | None = None
) -> add_raft_voter.AddRaftVoterResponse | remove_raft_voter.RemoveRaftVoterResponse:
    if isinstance(request, add_raft_voter.AddRaftVoterRequest):
        return add_raft_voter.AddRaftVoterResponse(error_code=error, error_message=message)
    return remove_raft_voter.RemoveRaftVoterResponse(error_code=error, error_message=message)


def update_voter(replica: Replica, asked: Asked, error: ErrorCode) -> update_raft_voter.UpdateRaftVoterResponse:
    host, port = replica.state.leader_endpoints.address(asked.listener) or ("", 0)
    leader = update_raft_voter.CurrentLeader(
        leader_id=_leader_id(replica), leader_epoch=replica.epoch, host=host, port=port
    )
    return update_raft_voter.UpdateRaftVoterResponse(error_code=error, current_leader=leader)


def top_level(request: Request, error: ErrorCode, message: str | None = None) -> Response:
    """An answer that says nothing but this error, in words too where it has a place for them."""
    match request:
        case vote.VoteRequest():
            return vote.VoteResponse(error_code=error)
        case begin_quorum_epoch.BeginQuorumEpochRequest():
            return begin_quorum_epoch.BeginQuorumEpochResponse(error_code=error)
        case end_quorum_epoch.EndQuorumEpochRequest():
            return end_quorum_epoch.EndQuorumEpochResponse(error_code=error)
        case fetch_messages.FetchRequest():
            return fetch_messages.FetchResponse(error_code=error)
        case fetch_snapshot.FetchSnapshotRequest():
            return fetch_snapshot.FetchSnapshotResponse(error_code=error)
        case update_raft_voter.UpdateRaftVoterRequest():
            return update_raft_voter.UpdateRaftVoterResponse(error_code=error)
        case describe_quorum.DescribeQuorumRequest():
            return describe_quorum.DescribeQuorumResponse(error_code=error)
        case _:
            return voter_change(request, error, message)


def _leader_id(replica: Replica) -> int:
    return replica.state.leader_id if replica.state.leader_id is not None else -1


def _endpoints(replica: Replica, asked: Asked, node_endpoint: type[_N], since: int = 1) -> list[_N]:
    address = replica.state.leader_endpoints.address(asked.listener)
    if asked.version < since or replica.state.leader_id is None or address is None:
        return []
    return [node_endpoint(node_id=replica.state.leader_id, host=address[0], port=address[1])]  # type: ignore[call-arg]
