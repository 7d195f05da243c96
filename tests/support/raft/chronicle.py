"""A cluster whose every message is told in a line: for transcripts that read like stories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.core.raft import Send
from barnabas.core.raft.state import Unattached
from barnabas.wire import batch as wire
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import (
    add_raft_voter,
    api_versions,
    begin_quorum_epoch,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    remove_raft_voter,
    update_raft_voter,
    vote,
)
from barnabas.wire.schema import Request, Response
from tests.support.raft.cluster import Cluster, SimulatedNode


class Chronicle(Cluster):
    """Everything takes one millisecond, and nothing is lost unless the network is cut."""

    def send(self, source: SimulatedNode, send: Send) -> None:
        target = send.to.port
        assert source.raft is not None
        if isinstance(send.body, fetch.FetchRequest) and isinstance(source.raft.state, Unattached):
            return super().send(source, send)  # Asking around is not worth a line.
        lost = " (lost)" if (source.id, target) in self.network.cut or not self.nodes[target].is_up else ""
        self.tell(f"{source.id} -> {target}  {describe_request(send.body)}{lost}")
        return super().send(source, send)

    def will_answer(self, node: SimulatedNode, request: Request, reply: Callable[[Response], None]) -> Any:
        def tell_and_reply(response: Response) -> None:
            described = describe_response(response)
            if not described.endswith("(NOT_LEADER_OR_FOLLOWER)"):
                self.tell(f"{_asker(request)} <- {node.id}  {described}")
            reply(response)

        return tell_and_reply


def _asker(request: Request) -> Any:
    match request:
        case fetch.FetchRequest():
            return request.replica_state.replica_id
        case fetch_snapshot.FetchSnapshotRequest():
            return request.replica_id
        case vote.VoteRequest():
            return request.topics[0].partitions[0].replica_id
        case begin_quorum_epoch.BeginQuorumEpochRequest() | end_quorum_epoch.EndQuorumEpochRequest():
            return request.topics[0].partitions[0].leader_id
        case update_raft_voter.UpdateRaftVoterRequest():
            return request.voter_id
        case _:
            return "?"


def describe_request(body: Request) -> str:
    match body:
        case vote.VoteRequest():
            partition = body.topics[0].partitions[0]
            kind = "Would you vote for me" if partition.pre_vote else "Vote for me"
            log = f"my log ends at {partition.last_offset} in epoch {partition.last_offset_epoch}"
            return f"{kind} in epoch {partition.replica_epoch}? {log}"
        case begin_quorum_epoch.BeginQuorumEpochRequest():
            return f"BeginQuorumEpoch: I lead epoch {body.topics[0].partitions[0].leader_epoch}"
        case end_quorum_epoch.EndQuorumEpochRequest():
            ended = body.topics[0].partitions[0]
            preferred = [each.candidate_id for each in ended.preferred_candidates]
            return f"EndQuorumEpoch: I lead epoch {ended.leader_epoch} no more, preferred are {preferred}"
        case fetch.FetchRequest():
            asked = body.topics[0].partitions[0]
            last = f"last epoch {asked.last_fetched_epoch}, high watermark {asked.high_watermark}"
            return f"Fetch from {asked.fetch_offset} in epoch {asked.current_leader_epoch} ({last})"
        case fetch_snapshot.FetchSnapshotRequest():
            piece = body.topics[0].partitions[0]
            return f"FetchSnapshot {piece.snapshot_id.end_offset}-{piece.snapshot_id.epoch} from {piece.position}"
        case api_versions.ApiVersionsRequest():
            return "ApiVersions"
        case update_raft_voter.UpdateRaftVoterRequest():
            return f"UpdateRaftVoter {body.voter_id}"
        case add_raft_voter.AddRaftVoterRequest():
            return f"AddRaftVoter {body.voter_id}"
        case remove_raft_voter.RemoveRaftVoterRequest():
            return f"RemoveRaftVoter {body.voter_id}"
        case _:
            return type(body).__name__


def describe_response(body: Response) -> str:
    match body:
        case vote.VoteResponse():
            answer = body.topics[0].partitions[0]
            leader = f", {answer.leader_id} leads" if answer.leader_id >= 0 else ""
            word = "yes" if answer.vote_granted else "no"
            return f"{word}, epoch {answer.leader_epoch}{leader}{_error(answer.error_code)}"
        case fetch.FetchResponse():
            return _describe_fetched(body.responses[0].partitions[0])
        case fetch_snapshot.FetchSnapshotResponse():
            piece = body.topics[0].partitions[0]
            size = len(piece.unaligned_records)
            return f"{size} bytes of {piece.size} from {piece.position}{_error(piece.error_code)}"
        case begin_quorum_epoch.BeginQuorumEpochResponse() | end_quorum_epoch.EndQuorumEpochResponse():
            heard = body.topics[0].partitions[0]
            return f"heard, epoch {heard.leader_epoch}{_error(heard.error_code)}"
        case _:
            return f"{type(body).__name__}{_error(getattr(body, 'error_code', 0))}"


def _describe_fetched(answer: fetch.PartitionData) -> str:
    if answer.error_code:
        return f"epoch {answer.current_leader.leader_epoch}, {answer.current_leader.leader_id} leads" + _error(
            answer.error_code
        )
    if answer.diverging_epoch.epoch >= 0:
        return f"our logs part: epoch {answer.diverging_epoch.epoch} ends at {answer.diverging_epoch.end_offset} here"
    if answer.snapshot_id.epoch >= 0:
        return f"begin with the snapshot {answer.snapshot_id.end_offset}-{answer.snapshot_id.epoch}"
    batches = [header for _, header in wire.iterate_batches(answer.records or b"")]
    ranges = [f"{each.base_offset}..{each.last_offset} of epoch {each.leader_epoch}" for each in batches]
    return f"{' and '.join(ranges) or 'nothing new'}, high watermark {answer.high_watermark}"


def _error(code: int) -> str:
    return f" ({ErrorCode(code).name})" if code else ""
