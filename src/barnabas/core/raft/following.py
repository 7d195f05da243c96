"""The follower: what it asks its leader for, and what it does with the answers.

The leader's answer to a Fetch is records, or the place where the logs part (cut the log there and ask again), or a
snapshot to begin with (fetch it piece by piece, freeze it, and go on behind it).
"""

from __future__ import annotations

from barnabas.core.raft import decide
from barnabas.core.raft.learning import Heard, hear_answer, named_endpoints
from barnabas.core.raft.log import EpochEnd, SnapshotId, is_ahead_of_log, truncation_offset
from barnabas.core.raft.records import InvalidBatch, check_batches, read_control_records
from barnabas.core.raft.replica import Replica
from barnabas.core.raft.state import FetchedSnapshot, Follower
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import fetch_snapshot as snapshots
from barnabas.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from barnabas.wire.schema import Buffer


def build_fetch(replica: Replica) -> FetchRequest:
    config, log = replica.config, replica.log
    partition = FetchPartition(
        current_leader_epoch=replica.epoch,
        fetch_offset=log.end_offset,
        last_fetched_epoch=log.last_epoch,
        replica_directory_id=config.directory_id,
        high_watermark=-1 if replica.high_watermark is None else replica.high_watermark,
    )
    return FetchRequest(
        cluster_id=config.cluster_id,
        replica_state=ReplicaState(replica_id=config.node_id),
        max_wait_ms=min(config.fetch_max_wait_ms, config.fetch_timeout_ms // 2),
        max_bytes=config.fetch_max_bytes,
        topics=[FetchTopic(topic=config.topic, topic_id=config.topic_id, partitions=[partition])],
    )


def build_fetch_snapshot(replica: Replica, snapshot: FetchedSnapshot) -> snapshots.FetchSnapshotRequest:
    config = replica.config
    partition = snapshots.PartitionSnapshot(
        current_leader_epoch=replica.epoch,
        snapshot_id=snapshots.SnapshotId(end_offset=snapshot.id.end_offset, epoch=snapshot.id.epoch),
        position=snapshot.position,
        replica_directory_id=config.directory_id,
    )
    return snapshots.FetchSnapshotRequest(
        cluster_id=config.cluster_id,
        replica_id=config.node_id,
        max_bytes=config.fetch_snapshot_max_bytes,
        topics=[snapshots.TopicSnapshot(name=config.topic, partitions=[partition])],
    )


def handle_fetch_answer(replica: Replica, request: FetchRequest, response: FetchResponse, now_ms: int) -> bool:
    partition = response.responses[0].partitions[0]
    error = ErrorCode(partition.error_code)
    leader = partition.current_leader
    endpoints = named_endpoints(replica, leader.leader_id, response.node_endpoints)
    heard = hear_answer(replica, error, leader.leader_id, leader.leader_epoch, endpoints, now_ms)
    if heard is not Heard.GO_ON:
        return heard is Heard.DONE
    state = replica.state
    if error != ErrorCode.NONE or not isinstance(state, Follower):
        return False
    asked = request.topics[0].partitions[0]
    if asked.fetch_offset != replica.log.end_offset:
        return True  # The log is not the one it asked for any more.
    if not _use(replica, state, partition):
        return False
    note_success(replica, state, now_ms)
    return True


def note_success(replica: Replica, state: Follower, now_ms: int) -> None:
    state.fetch_deadline_ms = now_ms + replica.config.fetch_timeout_ms
    state.has_fetched = True
    state.is_leader_gone = False


def note_refusal(replica: Replica, state: Follower, now_ms: int) -> None:
    """Nobody listens at the leader's address: its process is gone, and the fetch timeout is not waited for.

    If that is wrong, nothing happens: a voter that still hears of the leader gives no pre-vote.
    """
    state.has_fetched, state.is_leader_gone = False, True
    if replica.may_stand:
        wait_ms = decide.refusal_backoff_ms(replica.voters.ids, state.leader_id, replica.config.node_id)
        state.fetch_deadline_ms = min(state.fetch_deadline_ms, now_ms + wait_ms)


def _use(replica: Replica, state: Follower, partition: PartitionData) -> bool:
    diverging, snapshot_id = partition.diverging_epoch, partition.snapshot_id
    if diverging.epoch >= 0:
        return truncate(replica, EpochEnd(diverging.epoch, diverging.end_offset))
    if snapshot_id.epoch >= 0 or snapshot_id.end_offset >= 0:
        return _begin_snapshot(replica, state, SnapshotId(snapshot_id.end_offset, snapshot_id.epoch))
    if not append(replica, partition.records or b""):
        return False
    if partition.high_watermark >= 0:
        replica.advance_high_watermark(min(replica.log.end_offset, partition.high_watermark))
    return True


def truncate(replica: Replica, diverging: EpochEnd) -> bool:
    offset = truncation_offset(replica.log, diverging)
    mark = replica.high_watermark
    if diverging.end_offset < 0 or offset < (mark or 0):
        replica.note(
            f"the leader's log parts from ours at offset {offset}, but everything below {mark} is committed:"
            " committed metadata is lost on one of the two"
        )
        return False
    if offset < replica.log.start_offset:
        replica.note(f"the leader's log parts from ours at offset {offset}, before our log starts")
        return False
    replica.truncate(offset)
    return True


def append(replica: Replica, data: Buffer) -> bool:
    log = replica.log
    try:
        size = check_batches(data, next_offset=log.end_offset, last_epoch=log.last_epoch, epoch=replica.epoch)
        whole = data if size == len(data) else memoryview(data)[:size]
        for _ in read_control_records(whole):
            pass  # One that we do not know must not get into the log.
    except InvalidBatch as error:
        replica.note(f"node {replica.state.leader_id} sent what is no continuation of our log: {error}")
        return False
    if size:
        replica.append(whole)
    return True


def _begin_snapshot(replica: Replica, state: Follower, snapshot_id: SnapshotId) -> bool:
    if snapshot_id.epoch < 0 or snapshot_id.end_offset <= 0 or not _is_acceptable(replica, snapshot_id):
        replica.note(
            f"node {state.leader_id} offers the snapshot {snapshot_id.end_offset}-{snapshot_id.epoch}, but our log ends"
            f" at {replica.log.end_offset} in epoch {replica.log.last_epoch}"
        )
        return False
    state.snapshot = FetchedSnapshot(snapshot_id)
    return True


def _is_acceptable(replica: Replica, snapshot_id: SnapshotId) -> bool:
    return is_ahead_of_log(replica.log, snapshot_id) and snapshot_id.end_offset >= (replica.high_watermark or 0)


def handle_snapshot_answer(replica: Replica, response: snapshots.FetchSnapshotResponse, now_ms: int) -> bool:
    partition = response.topics[0].partitions[0]
    error = ErrorCode(partition.error_code)
    leader = partition.current_leader
    endpoints = named_endpoints(replica, leader.leader_id, response.node_endpoints)
    heard = hear_answer(replica, error, leader.leader_id, leader.leader_epoch, endpoints, now_ms)
    if heard is not Heard.GO_ON:
        return heard is Heard.DONE
    state = replica.state
    if not isinstance(state, Follower) or state.snapshot is None or state.snapshot.is_whole:
        return False
    snapshot, named = state.snapshot, SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
    if error == ErrorCode.SNAPSHOT_NOT_FOUND or min(named) < 0:
        state.snapshot = None
        note_success(replica, state, now_ms)
        return True
    if error != ErrorCode.NONE:
        return False
    data = partition.unaligned_records
    end = snapshot.position + len(data)
    if named != snapshot.id or partition.position != snapshot.position or not data or end > partition.size:
        replica.note(f"node {state.leader_id} sent a piece of a snapshot that was not asked for")
        state.snapshot = None
        return False
    replica.log.write_snapshot(snapshot.id, snapshot.position, data)
    snapshot.position = end
    if end == partition.size:
        snapshot.is_whole = True
        replica.effects.freeze = snapshot.id
    note_success(replica, state, now_ms)
    return True


def snapshot_frozen(replica: Replica, snapshot_id: SnapshotId, now_ms: int) -> None:
    """The snapshot is on disk. If nothing happened meanwhile, the log goes on behind it."""
    state = replica.state
    if not isinstance(state, Follower) or state.snapshot is None or state.snapshot.id != snapshot_id:
        return
    state.snapshot = None
    if _is_acceptable(replica, snapshot_id):
        replica.start_at_snapshot(snapshot_id)
        replica.advance_high_watermark(snapshot_id.end_offset)
    note_success(replica, state, now_ms)
