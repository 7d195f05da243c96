"""One replica on a stage: a voter among 1, 2, 3, whose every effect is looked at."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from barnabas.core.raft import (
    Answered,
    Asked,
    Failed,
    Flush,
    QuorumState,
    Raft,
    RaftConfig,
    Ready,
    Send,
    VoterSet,
)
from barnabas.core.raft.records import build_batch
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import begin_quorum_epoch, end_quorum_epoch, fetch, fetch_snapshot, vote
from barnabas.wire.schema import Request, Response
from barnabas.wire.uuids import ONE_UUID
from tests.support.raft.cluster import CLUSTER_ID, LISTENER, directory_id, endpoints, static_voters
from tests.support.raft.memory_log import MemoryLog

TOPIC = "__cluster_metadata"


class FixedRandom(Random):
    """Every timeout is drawn as short as it can be."""

    def randrange(self, *arguments: int) -> int:  # type: ignore[override]
        return 0


class Stage:
    def __init__(
        self,
        node_id: int = 1,
        *,
        stored: QuorumState | None = None,
        log: MemoryLog | None = None,
        voters: VoterSet | None = None,
        bootstrap_ids: Sequence[int] = (),
    ) -> None:
        self.now_ms = 1_000_000
        self.log = log or MemoryLog()
        self.config = RaftConfig(
            node_id=node_id,
            directory_id=directory_id(node_id),
            cluster_id=CLUSTER_ID,
            listener_name=LISTENER,
            endpoints=endpoints(node_id),
            static_voters=static_voters([1, 2, 3]) if voters is None else voters,
            bootstrap_servers=[(f"host{each}", each) for each in bootstrap_ids],
        )
        self.raft = Raft(self.config, self.log, stored, FixedRandom(), self.now_ms)
        self._requests = 0

    def ready(self) -> Ready:
        """All there is to do."""
        found = Ready()
        while (ready := self.raft.ready()) is not None:
            found.notes += ready.notes
            found.messages += ready.messages
            found.answers += ready.answers
            found.quorum_state = ready.quorum_state or found.quorum_state
            found.flush = ready.flush or found.flush
            found.freeze = ready.freeze or found.freeze
            found.leader = ready.leader or found.leader
            found.high_watermark = ready.high_watermark if ready.high_watermark is not None else found.high_watermark
            found.stopped = ready.stopped or found.stopped
        return found

    def wait(self, duration_ms: int) -> Ready:
        self.now_ms += duration_ms
        self.raft.tick(self.now_ms)
        return self.ready()

    def ask(self, body: Request, version: int | None = None) -> Ready:
        self._requests += 1
        newest = body.valid_versions[1]
        asked = Asked(self._requests, newest if version is None else version, LISTENER, body)
        self.raft.step(asked, self.now_ms)
        return self.ready()

    def answer(self, send: Send, body: Response) -> Ready:
        self.raft.step(Answered(send.correlation_id, body), self.now_ms)
        return self.ready()

    def fail(self, send: Send, error: ErrorCode = ErrorCode.NETWORK_EXCEPTION, *, is_refused: bool = False) -> Ready:
        self.raft.step(Failed(send.correlation_id, error, is_refused), self.now_ms)
        return self.ready()

    def flush(self, flush: Flush | None) -> Ready:
        assert flush is not None
        self.raft.flushed(flush, self.now_ms)
        return self.ready()

    def lead(self) -> Ready:
        """Becomes the leader of epoch 1, by its own vote and that of 2."""
        self.ready()
        asked = self.wait(1000).messages
        asked = self.answer(asked[0], granted(0)).messages
        ready = self.answer(asked[0], granted(1))
        assert ready.leader is not None
        assert ready.leader.leader_id == 1
        return ready


def vote_request(
    epoch: int, candidate: int = 2, *, last: tuple[int, int] = (0, 0), pre_vote: bool = False, voter_id: int = 1
) -> vote.VoteRequest:
    """`last` is the end of the candidate's log: epoch and offset."""
    partition = vote.PartitionData(
        replica_epoch=epoch,
        replica_id=candidate,
        replica_directory_id=directory_id(candidate),
        voter_directory_id=directory_id(voter_id),
        last_offset_epoch=last[0],
        last_offset=last[1],
        pre_vote=pre_vote,
    )
    topic = vote.TopicData(topic_name=TOPIC, partitions=[partition])
    return vote.VoteRequest(cluster_id=CLUSTER_ID, voter_id=voter_id, topics=[topic])


def granted(epoch: int, *, yes: bool = True, error: int = 0, leader_id: int = -1) -> vote.VoteResponse:
    partition = vote.ResponsePartitionData(leader_id=leader_id, leader_epoch=epoch, vote_granted=yes, error_code=error)
    return vote.VoteResponse(topics=[vote.ResponseTopicData(topic_name=TOPIC, partitions=[partition])])


def begin_request(epoch: int, leader: int = 2) -> begin_quorum_epoch.BeginQuorumEpochRequest:
    module = begin_quorum_epoch
    partition = module.PartitionData(voter_directory_id=directory_id(1), leader_id=leader, leader_epoch=epoch)
    name, host, port = endpoints(leader)[0]
    return module.BeginQuorumEpochRequest(
        cluster_id=CLUSTER_ID,
        voter_id=1,
        topics=[module.TopicData(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=[module.LeaderEndpoint(name=name, host=host, port=port)],
    )


def end_request(epoch: int, leader: int, successors: list[int]) -> end_quorum_epoch.EndQuorumEpochRequest:
    module = end_quorum_epoch
    preferred = [
        module.ReplicaInfo(candidate_id=each, candidate_directory_id=directory_id(each)) for each in successors
    ]
    partition = module.PartitionData(leader_id=leader, leader_epoch=epoch, preferred_candidates=preferred)
    return module.EndQuorumEpochRequest(
        cluster_id=CLUSTER_ID, topics=[module.TopicData(topic_name=TOPIC, partitions=[partition])]
    )


def fetch_request(
    epoch: int, offset: int, *, last_epoch: int = 0, replica: int = 2, high_watermark: int = -1, wait_ms: int = 500
) -> fetch.FetchRequest:
    partition = fetch.FetchPartition(
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        replica_directory_id=directory_id(replica),
        high_watermark=high_watermark,
    )
    return fetch.FetchRequest(
        cluster_id=CLUSTER_ID,
        replica_state=fetch.ReplicaState(replica_id=replica),
        max_wait_ms=wait_ms,
        max_bytes=1 << 20,
        topics=[fetch.FetchTopic(topic=TOPIC, topic_id=ONE_UUID, partitions=[partition])],
    )


def fetched(
    epoch: int,
    leader: int,
    *,
    records: bytes = b"",
    high_watermark: int = -1,
    diverging: tuple[int, int] | None = None,
    snapshot: tuple[int, int] | None = None,
    error: ErrorCode = ErrorCode.NONE,
) -> fetch.FetchResponse:
    partition = fetch.PartitionData(
        error_code=error,
        high_watermark=high_watermark,
        records=records,
        current_leader=fetch.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch),
    )
    if diverging is not None:
        partition.diverging_epoch = fetch.EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
    if snapshot is not None:
        partition.snapshot_id = fetch.SnapshotId(end_offset=snapshot[0], epoch=snapshot[1])
    return fetch.FetchResponse(responses=[fetch.FetchableTopicResponse(topic=TOPIC, partitions=[partition])])


def fetched_piece(
    epoch: int, leader: int, snapshot: tuple[int, int], size: int, position: int, data: bytes
) -> Response:
    module = fetch_snapshot
    partition = module.ResponsePartitionSnapshot(
        snapshot_id=module.SnapshotId(end_offset=snapshot[0], epoch=snapshot[1]),
        current_leader=module.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch),
        size=size,
        position=position,
        unaligned_records=data,
    )
    topic = module.ResponseTopicSnapshot(name=TOPIC, partitions=[partition])
    return module.FetchSnapshotResponse(topics=[topic])


def log_of(*batches: tuple[int, int]) -> MemoryLog:
    """A log of batches: how many records, in which epoch."""
    log = MemoryLog()
    for count, epoch in batches:
        values = [b"value"] * count
        log.append(build_batch(values, base_offset=log.end_offset, epoch=epoch, now_ms=1))
    return log


def batch(base_offset: int, epoch: int, count: int = 1) -> bytes:
    return build_batch([b"value"] * count, base_offset=base_offset, epoch=epoch, now_ms=1)
