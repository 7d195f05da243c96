"""The rules: who gets a vote, what is committed, how long to wait. All are functions of what they are given."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.core.raft.state import Candidate, Follower, Leader, Prospective, Resigned, State, Unattached
from barnabas.core.raft.voters import ReplicaKey

REFUSAL_BACKOFF_MS, REFUSAL_STEP_MS = 100, 150


def may_pre_vote(state: State, *, is_log_up_to_date: bool) -> bool:
    """Would this replica vote for another? Not while it hears of a leader itself."""
    match state:
        case Leader():
            return False
        case Follower():
            return is_log_up_to_date and not state.has_fetched
        case Unattached() | Prospective() | Candidate() | Resigned():
            return is_log_up_to_date


def may_vote(state: State, candidate: ReplicaKey, *, is_log_up_to_date: bool) -> bool:
    """One vote an epoch, for a candidate whose log has everything that may be committed."""
    if not isinstance(state, Unattached | Prospective):
        return False
    if state.voted_key is not None:
        return state.voted_key.matches(candidate)
    return state.leader_id is None and is_log_up_to_date


def committed_offset(leader: Leader) -> int | None:
    """The offset below which a majority of the voters has everything; None while nothing of this epoch is below it.

    An entry of an older epoch is not committed by being counted: a leader that has not got it could still be elected.
    The first entry of this epoch commits it along.
    """
    ends = sorted((voter.end_offset for voter in leader.voters.values()), reverse=True)
    offset = ends[len(ends) // 2]
    return offset if offset > leader.start_offset else None


def majority_without_leader(leader: Leader) -> int:
    """How many other voters must fetch so that they and the leader, if it is a voter, are a majority."""
    own = leader.voters.get(leader.key.id)
    counts_itself = own is not None and own.key.matches(leader.key)
    return len(leader.voters) // 2 + 1 - counts_itself


def is_sole_voter(leader: Leader) -> bool:
    return len(leader.voters) == 1 and leader.key.id in leader.voters


def refusal_backoff_ms(voter_ids: Sequence[int], leader_id: int, own_id: int) -> int:
    """How long a voter waits for its election after nobody listens at the leader's address any more.

    The others notice in the same moment: they are given the time for it, and stand one after the other.
    """
    others = sorted(voter_id for voter_id in voter_ids if voter_id != leader_id)
    return REFUSAL_BACKOFF_MS + REFUSAL_STEP_MS * (others.index(own_id) if own_id in others else len(others))


def successor_backoff_ms(preferred: Sequence[ReplicaKey], own: ReplicaKey, backoff_max_ms: int) -> int:
    """How long a voter waits for its election after the leader resigned: the preferred first, at once."""
    position = next((index for index, key in enumerate(preferred) if key.matches(own)), len(preferred))
    if position == 0:
        return 0
    if position >= len(preferred):
        return backoff_max_ms
    base = backoff_max_ms >> (len(preferred) - 1)
    return min(backoff_max_ms, base << (position - 1))
