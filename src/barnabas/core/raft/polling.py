"""What time brings, and which requests a state has to send: looked at after every event."""

from __future__ import annotations

from barnabas.core.raft import changing, decide, epochs, following, leading, voting
from barnabas.core.raft.replica import Replica
from barnabas.core.raft.state import NEVER_MS, Candidate, Follower, Leader, Prospective, Resigned, Unattached
from barnabas.wire.schema import Request

_TRANSITIONS_MAX = 8


def poll(replica: Replica, now_ms: int) -> int:
    """Until when nothing else has to be done."""
    for _ in range(_TRANSITIONS_MAX):
        state = replica.state
        deadline_ms = _poll(replica, now_ms)
        if replica.state is state:
            return min(deadline_ms, replica.requests.next_deadline_ms(now_ms))
    raise AssertionError(f"the state does not settle: {replica.state}")


def _poll(replica: Replica, now_ms: int) -> int:
    state = replica.state
    match state:
        case Leader():
            return _poll_leader(replica, state, now_ms)
        case Follower():
            return _poll_follower(replica, state, now_ms)
        case Unattached():
            return _poll_unattached(replica, state, now_ms)
        case Prospective() | Candidate():
            return _poll_election(replica, state, now_ms)
        case Resigned():
            return _poll_resigned(replica, state, now_ms)


def _poll_leader(replica: Replica, leader: Leader, now_ms: int) -> int:
    changing.settle(replica, leader)
    has_lost_quorum = not decide.is_sole_voter(leader) and leader.check_quorum_deadline_ms <= now_ms
    if leader.is_resigning or replica.is_stopping or has_lost_quorum:
        replica.become_resigned(now_ms)
        return now_ms
    changing.expire_change(replica, leader, now_ms)
    leading.expire_parked(replica, leader, now_ms)
    if leader.begin_quorum_deadline_ms <= now_ms:
        period_ms = replica.config.begin_quorum_period_ms
        leader.begin_quorum_deadline_ms = now_ms + period_ms
        for progress in leader.voters.values():
            node = replica.voter_node(progress.key.id)
            if progress.key.id != leader.key.id and now_ms - progress.last_fetch_ms >= period_ms and node is not None:
                replica.send(node, epochs.build_begin(replica, progress.key), now_ms)
    deadlines = [parked.deadline_ms for parked in leader.parked]
    if not decide.is_sole_voter(leader):
        deadlines += [leader.begin_quorum_deadline_ms, leader.check_quorum_deadline_ms]
    if leader.change is not None:
        deadlines.append(leader.change.deadline_ms)
    return min(deadlines, default=NEVER_MS)


def _poll_follower(replica: Replica, state: Follower, now_ms: int) -> int:
    if replica.is_stopping:
        return NEVER_MS
    deadline_ms = NEVER_MS
    if replica.may_stand:
        if state.fetch_deadline_ms <= now_ms:
            replica.become_prospective(now_ms)
            return now_ms
        deadline_ms = state.fetch_deadline_ms
    if state.update_voter_deadline_ms <= now_ms:
        request = _voter_request(replica, state)
        leader = replica.leader_node()
        if request is None or (leader is not None and replica.send(leader, request, now_ms)):
            state.update_voter_deadline_ms = now_ms + replica.config.fetch_timeout_ms
    _fetch(replica, state, now_ms)
    if state.update_voter_deadline_ms > now_ms:
        deadline_ms = min(deadline_ms, state.update_voter_deadline_ms)
    return deadline_ms  # Else another request is on its way, and its end is waited for.


def _voter_request(replica: Replica, state: Follower) -> Request | None:
    """What the leader should know about this node as a voter."""
    is_dynamic = replica.history.kraft_version > 0
    if replica.is_voter:
        is_needed = replica.voters.needs_update(replica.own_voter) if is_dynamic else not state.has_updated_leader
        return changing.build_update(replica) if is_needed else None
    may_join = is_dynamic and replica.config.can_become_voter and replica.config.auto_join
    return changing.build_join(replica) if may_join else None


def _fetch(replica: Replica, state: Follower, now_ms: int) -> None:
    """One request at a time, to the leader; to any bootstrap server if the leader does not answer."""
    leader = replica.leader_node()
    if leader is None or replica.requests.is_backing_off(leader.id, now_ms):
        _fetch_from_bootstrap(replica, now_ms)
    elif replica.requests.has_timed_out(leader.id, now_ms):
        replica.requests.forget(leader.id)
        _fetch_from_bootstrap(replica, now_ms)
    elif replica.requests.any_in_flight(now_ms):
        return
    elif state.snapshot is not None:
        if not state.snapshot.is_whole:
            replica.send(leader, following.build_fetch_snapshot(replica, state.snapshot), now_ms)
    elif replica.is_log_flushed:
        replica.send(leader, following.build_fetch(replica), now_ms)


def _fetch_from_bootstrap(replica: Replica, now_ms: int) -> None:
    server = replica.requests.ready_bootstrap_server(now_ms)
    if server is not None and replica.is_log_flushed:
        replica.send(server, following.build_fetch(replica), now_ms)


def _poll_unattached(replica: Replica, state: Unattached, now_ms: int) -> int:
    if replica.is_voter and replica.is_stopping:
        return NEVER_MS
    if replica.may_stand and state.election_deadline_ms <= now_ms:
        replica.become_prospective(now_ms)
        return now_ms
    _fetch_from_bootstrap(replica, now_ms)
    return state.election_deadline_ms


def _poll_election(replica: Replica, state: Prospective | Candidate, now_ms: int) -> int:
    if state.election_deadline_ms <= now_ms and not replica.is_stopping:
        if isinstance(state, Prospective):
            voting.give_up(replica, state, now_ms)
        else:
            replica.become_prospective(now_ms)
        return now_ms
    if not state.election.is_lost:
        is_pre_vote = isinstance(state, Prospective)
        for voter in state.election.unrecorded:
            node = replica.voter_node(voter.id)
            if node is not None:
                replica.send(node, voting.build_request(replica, voter, pre_vote=is_pre_vote), now_ms)
    return state.election_deadline_ms if not replica.is_stopping else NEVER_MS


def _poll_resigned(replica: Replica, state: Resigned, now_ms: int) -> int:
    for voter_id in sorted(state.unacknowledged):
        node = replica.voter_node(voter_id)
        if node is not None:
            replica.send(node, epochs.build_end(replica, state), now_ms)
    if replica.is_stopping:
        return NEVER_MS
    if replica.voters.is_only(replica.config.key) and replica.may_stand:
        replica.become_prospective(now_ms)  # Nobody else could lead: it does again, in the next epoch.
        return now_ms
    if state.election_deadline_ms <= now_ms:
        replica.become_unattached(state.epoch + 1, now_ms)
        return now_ms
    return state.election_deadline_ms
