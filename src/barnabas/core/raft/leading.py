"""The leader: Fetch and FetchSnapshot of followers, the high watermark, check-quorum.

A Fetch at offset N acknowledges everything below N. It is answered at once if it brings something: records, another
high watermark than the follower knows, or where the logs part. Else it is parked until there is, at most as long as
the follower waits.

Records that are appended quietly are sent like all others, but nobody waits to hear that they are committed: followers
learn it from their next answer. So a quorum that has nothing to do exchanges half as many messages.
"""

from __future__ import annotations

from barnabas.core.raft import answers, decide
from barnabas.core.raft.config import BATCH_BYTES_MAX, EPOCH_MAX, OBSERVER_SESSION_MS, OBSERVERS_MAX
from barnabas.core.raft.log import FIRST_SNAPSHOT, SnapshotId, compare_follower
from barnabas.core.raft.messages import Asked, NotLeader
from barnabas.core.raft.records import build_batch
from barnabas.core.raft.replica import Replica
from barnabas.core.raft.state import Leader, ParkedFetch, Progress
from barnabas.core.raft.voters import ReplicaKey
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import describe_quorum as describe
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest
from barnabas.wire.messages.fetch_snapshot import FetchSnapshotRequest
from barnabas.wire.uuids import ZERO_UUID

NOBODY = -1
FETCH_WAIT_MAX_MS = 5 * 60 * 1000
# One epoch a second for eleven days: whoever is further ahead is not a candidate but wrong.
EPOCH_LEAP_MAX = 1_000_000


def append(replica: Replica, epoch: int, values: list[bytes], now_ms: int, *, quietly: bool = False) -> int:
    state = replica.state
    if not isinstance(state, Leader) or state.epoch != epoch or state.is_resigning or replica.is_stopping:
        raise NotLeader(f"this node does not lead epoch {epoch}")
    base_offset = replica.log.end_offset
    batch = build_batch(values, base_offset=base_offset, epoch=epoch, now_ms=now_ms)
    if len(batch) > BATCH_BYTES_MAX:
        raise ValueError(f"a batch of {len(batch)} bytes; the quorum takes {BATCH_BYTES_MAX}")
    replica.append(batch)
    if quietly:
        state.add_quiet(base_offset, replica.log.end_offset)
    log_grew(replica, state)
    return base_offset + len(values) - 1


def log_grew(replica: Replica, leader: Leader) -> None:
    end_offset = replica.log.end_offset
    ready = [parked for parked in leader.parked if parked.fetch_offset < end_offset]
    if ready:
        leader.parked = [parked for parked in leader.parked if parked.fetch_offset >= end_offset]
        _complete(replica, leader, ready)


def validate(replica: Replica, epoch: int) -> ErrorCode:
    """For requests that only the leader of that epoch answers."""
    if epoch < replica.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > replica.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    if not isinstance(replica.state, Leader):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.BROKER_NOT_AVAILABLE if replica.is_stopping else ErrorCode.NONE


def handle_fetch(replica: Replica, asked: Asked, request: FetchRequest, now_ms: int) -> None:
    partition = request.topics[0].partitions[0]
    epoch, last_epoch = partition.current_leader_epoch, partition.last_fetched_epoch
    error = validate(replica, epoch)
    if request.max_wait_ms < 0 or partition.fetch_offset < 0 or not 0 <= last_epoch <= epoch:
        error = ErrorCode.INVALID_REQUEST
    replica_id = request.replica_id if asked.version < 15 else request.replica_state.replica_id
    if error == ErrorCode.UNKNOWN_LEADER_EPOCH and _has_to_rise(replica, replica_id, epoch, last_epoch):
        replica.note(
            f"node {replica_id} waits for a leader of epoch {epoch}, which nobody leads:"
            f" this node leads epoch {replica.epoch} no more, so that there is one"
        )
        replica.become_unattached(epoch, now_ms)
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader = replica.state
    if error != ErrorCode.NONE or not isinstance(leader, Leader):
        replica.answer(asked.request_id, answers.fetch(replica, asked, error))
        return
    key = ReplicaKey(replica_id, partition.replica_directory_id)
    if key.id == leader.key.id:
        replica.note(f"a fetch came from a node with this node's own id, {key.id}")
        replica.answer(asked.request_id, answers.fetch(replica, asked, ErrorCode.UNKNOWN_SERVER_ERROR))
        return
    instead = compare_follower(replica.log, partition.fetch_offset, last_epoch)
    if instead is not None:
        mark = leader.high_watermark
        replica.answer(asked.request_id, answers.fetch(replica, asked, high_watermark=mark, instead=instead))
        return
    parked = ParkedFetch(asked, partition.fetch_offset, now_ms + min(request.max_wait_ms, FETCH_WAIT_MAX_MS))
    note_fetch(replica, leader, key, partition.fetch_offset, now_ms)
    if _brings_something(replica, leader, partition) or request.max_wait_ms == 0:
        _complete(replica, leader, [parked])
    else:
        leader.parked.append(parked)


def _has_to_rise(replica: Replica, replica_id: int, epoch: int, last_epoch: int) -> bool:
    """Does a replica that is ahead of this leader wait for the leader of an epoch that nobody may ever lead?

    Whoever was removed while it was cut off stands for election in epochs of its own, and draws along whoever hears of
    them. None of the voters need be among them; then the leader must pass these epochs, or they never follow it. A
    record of a later epoch says that there was a leader in one: then this is the wrong place to settle it.
    """
    if not isinstance(replica.state, Leader) or replica.is_stopping or replica_id in (NOBODY, replica.config.node_id):
        return False
    return last_epoch <= replica.epoch and epoch < min(replica.epoch + EPOCH_LEAP_MAX, EPOCH_MAX)


def _brings_something(replica: Replica, leader: Leader, partition: FetchPartition) -> bool:
    mark = -1 if leader.high_watermark is None else leader.high_watermark
    return partition.fetch_offset < replica.log.end_offset or leader.is_news(partition.high_watermark, mark)


def note_fetch(replica: Replica, leader: Leader, key: ReplicaKey, offset: int, now_ms: int) -> None:
    if key.id < 0:
        return
    if len(leader.observers) >= OBSERVERS_MAX:
        forget_observers(leader, now_ms)
    progress = leader.progress(key)
    progress.fetched(offset, replica.log.end_offset, now_ms)
    if key.id in leader.voters:
        note_directory(replica, leader.voters[key.id], key)
    note_contact(replica, leader, key, now_ms)
    if progress is leader.voters.get(key.id):
        update_high_watermark(replica, leader)


def note_directory(replica: Replica, voter: Progress, key: ReplicaKey) -> None:
    """Two processes with the id of one voter are not refused, as Apache Kafka does not; somebody should know."""
    before, now = voter.last_directory_id, key.directory_id
    if ZERO_UUID not in (before, now) and before != now:
        replica.note(
            f"voter {key.id} fetches from directory {now}, before from {before}:"
            f" its disk was replaced, or two processes have node.id {key.id}"
        )
    voter.last_directory_id = now


def forget_observers(leader: Leader, now_ms: int) -> None:
    """Those not heard of for long; and the longest ago, if there are too many."""
    recent = [each for each in leader.observers.values() if now_ms - each.last_fetch_ms < OBSERVER_SESSION_MS]
    recent.sort(key=lambda each: each.last_fetch_ms)
    kept = recent[-OBSERVERS_MAX // 2 :]
    own = leader.observers.get(leader.key)
    leader.observers = {each.key: each for each in [*kept, *([own] if own is not None else [])]}


def note_contact(replica: Replica, leader: Leader, key: ReplicaKey, now_ms: int) -> None:
    """Check-quorum: the time begins anew when a majority of the voters was heard of."""
    voter = leader.voters.get(key.id)
    if voter is None or not voter.key.matches(key):
        return  # An observer says nothing about a majority, though fewer voters may be needed now than before.
    leader.fetched_voters.add(key.id)
    if len(leader.fetched_voters & leader.voters.keys()) >= decide.majority_without_leader(leader):
        leader.fetched_voters.clear()
        leader.check_quorum_deadline_ms = now_ms + replica.config.check_quorum_timeout_ms


def count_own_log(replica: Replica, leader: Leader) -> None:
    """After a flush: what is on this disk counts now."""
    leader.progress(leader.key).end_offset = replica.flushed_offset
    update_high_watermark(replica, leader)


def update_high_watermark(replica: Replica, leader: Leader) -> None:
    offset, before = decide.committed_offset(leader), leader.high_watermark
    if offset is None or (before is not None and offset <= before):
        return
    leader.high_watermark = offset
    replica.advance_high_watermark(offset)
    if before is None or leader.is_news(before, offset):
        parked, leader.parked = leader.parked, []
        _complete(replica, leader, parked)


def expire_parked(replica: Replica, leader: Leader, now_ms: int) -> None:
    expired = [parked for parked in leader.parked if parked.deadline_ms <= now_ms]
    if expired:
        leader.parked = [parked for parked in leader.parked if parked.deadline_ms > now_ms]
        _complete(replica, leader, expired)


def _complete(replica: Replica, leader: Leader, fetches: list[ParkedFetch]) -> None:
    for parked in fetches:
        request = parked.asked.body
        assert isinstance(request, FetchRequest)
        partition = request.topics[0].partitions[0]
        # The log may have lost its beginning to a snapshot meanwhile.
        instead = compare_follower(replica.log, parked.fetch_offset, partition.last_fetched_epoch)
        records = b"" if instead is not None else replica.log.read(parked.fetch_offset, max(request.max_bytes, 0))
        body = answers.fetch(
            replica, parked.asked, records=records, high_watermark=leader.high_watermark, instead=instead
        )
        replica.answer(parked.asked.request_id, body)


def handle_fetch_snapshot(replica: Replica, asked: Asked, request: FetchSnapshotRequest, now_ms: int) -> None:
    partition = request.topics[0].partitions[0]
    leader = replica.state
    error = validate(replica, partition.current_leader_epoch)
    snapshot_id = SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
    size = replica.log.snapshot_size(snapshot_id) if error == ErrorCode.NONE else None
    if error == ErrorCode.NONE and (size is None or snapshot_id == FIRST_SNAPSHOT):
        error = ErrorCode.SNAPSHOT_NOT_FOUND
    elif error == ErrorCode.NONE and not 0 <= partition.position < (size or 0):
        error = ErrorCode.POSITION_OUT_OF_RANGE
    if error != ErrorCode.NONE or size is None or not isinstance(leader, Leader):
        replica.answer(asked.request_id, answers.snapshot(replica, asked, error))
        return
    key = ReplicaKey(request.replica_id, partition.replica_directory_id)
    if key.id != leader.key.id:
        note_contact(replica, leader, key, now_ms)
    data = replica.log.read_snapshot(snapshot_id, partition.position, max(request.max_bytes, 0))
    body = answers.snapshot(replica, asked, snapshot_id=snapshot_id, size=size, position=partition.position, data=data)
    replica.answer(asked.request_id, body)


def handle_describe(replica: Replica, asked: Asked, now_ms: int) -> None:
    leader = replica.state
    partition = describe.ResponsePartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    nodes = []
    if isinstance(leader, Leader):
        forget_observers(leader, now_ms)
        partition = describe.ResponsePartitionData(
            leader_id=leader.leader_id,
            leader_epoch=leader.epoch,
            high_watermark=-1 if leader.high_watermark is None else leader.high_watermark,
            current_voters=_replica_states(replica, leader, list(leader.voters), now_ms),
            observers=_replica_states(replica, leader, list(leader.observers), now_ms),
        )
        if asked.version >= 2:
            nodes = [
                describe.Node(
                    node_id=voter.key.id,
                    listeners=[
                        describe.Listener(name=name, host=host, port=port) for name, host, port in voter.endpoints
                    ],
                )
                for voter in leader.voters.values()
            ]
    topic = describe.ResponseTopicData(topic_name=replica.config.topic, partitions=[partition])
    replica.answer(asked.request_id, describe.DescribeQuorumResponse(topics=[topic], nodes=nodes))


def _replica_states(
    replica: Replica, leader: Leader, listed: list[int] | list[ReplicaKey], now_ms: int
) -> list[describe.ReplicaState]:
    states = []
    for each in listed:
        progress = leader.voters[each] if isinstance(each, int) else leader.observers[each]
        is_leader = progress.key.matches(leader.key)
        states.append(
            describe.ReplicaState(
                replica_id=progress.key.id,
                replica_directory_id=progress.key.directory_id,
                log_end_offset=replica.log.end_offset if is_leader else progress.end_offset,
                last_fetch_timestamp=now_ms if is_leader else progress.last_fetch_ms,
                last_caught_up_timestamp=now_ms if is_leader else progress.last_caught_up_ms,
            )
        )
    return states
