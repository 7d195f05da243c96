"""What requests and answers say about epochs and leaders, and what a replica makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from barnabas.core.raft.config import EPOCH_MAX
from barnabas.core.raft.replica import Replica
from barnabas.core.raft.state import Leader, Unattached
from barnabas.core.raft.voters import Endpoints
from barnabas.wire.errors import ErrorCode


class Heard(Enum):
    DONE = "done"  # the answer has nothing more to say
    FAILED = "failed"  # ask again after a pause
    GO_ON = "go on"  # the answer is to be read further


class NamedEndpoint(Protocol):
    @property
    def node_id(self) -> int: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...


def named_endpoints(replica: Replica, leader_id: int, endpoints: Sequence[NamedEndpoint]) -> Endpoints:
    """Where the leader is: as the answer says, or as the voters say."""
    for each in endpoints:
        if each.node_id == leader_id:
            return Endpoints.of([(replica.config.listener_name, each.host, each.port)])
    return replica.voters.endpoints(leader_id)


def hear_answer(
    replica: Replica, error: ErrorCode, leader_id: int, epoch: int, endpoints: Endpoints, now_ms: int
) -> Heard:
    """The part that all answers have in common."""
    if epoch < replica.epoch or error == ErrorCode.UNKNOWN_LEADER_EPOCH:
        return Heard.DONE
    if epoch > replica.epoch or error in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER):
        before = replica.state
        learn_leader(replica, leader_id, epoch, endpoints, now_ms)
        # Who learns nothing asks again after a pause: until there is a leader, nobody knows more.
        return Heard.DONE if replica.state is not before else Heard.FAILED
    # Who is Unattached may know its leader's id from its file, but not where it is.
    if leader_id >= 0 and (replica.state.leader_id is None or isinstance(replica.state, Unattached)):
        if not learn_leader(replica, leader_id, epoch, endpoints, now_ms):
            return Heard.FAILED
        return Heard.GO_ON if error == ErrorCode.NONE else Heard.DONE
    if error == ErrorCode.BROKER_NOT_AVAILABLE:
        return Heard.FAILED
    if error == ErrorCode.INVALID_VOTER_KEY:
        return Heard.DONE
    if error == ErrorCode.INVALID_REQUEST:
        replica.note("a peer calls a request of ours invalid")
        return Heard.FAILED
    return Heard.GO_ON


def learn_leader(replica: Replica, leader_id: int, epoch: int, endpoints: Endpoints, now_ms: int) -> bool:
    """False if it cannot be true, or is of no use.

    Two leaders of one epoch cannot be; nor can this replica lead an epoch that it does not know of. Apache Kafka exits
    then. We keep to what we know and say so: the peer is wrong, or the directory is not the one we had.
    """
    state = replica.state
    if epoch < state.epoch:
        return True
    if epoch >= EPOCH_MAX:
        replica.note(f"a peer is in epoch {epoch}, which has no next one")
        return False
    if leader_id == replica.config.node_id:
        if isinstance(state, Leader) and epoch == state.epoch:
            return True
        if epoch == state.epoch and state.leader_id == leader_id:
            return True  # It resigned, and others do not know yet.
        replica.note(f"a peer takes this node for the leader of epoch {epoch}, which it does not lead")
        return False
    if leader_id < 0:
        if epoch > state.epoch:
            replica.become_unattached(epoch, now_ms)
        return True
    if epoch == state.epoch and state.leader_id not in (None, leader_id):
        replica.note(
            f"a peer takes node {leader_id} for the leader of epoch {epoch}, which node {state.leader_id} leads"
        )
        return False
    if epoch > state.epoch or state.leader_id is None or len(endpoints) > len(state.leader_endpoints):
        if endpoints.address(replica.config.listener_name) is None:
            replica.note(
                f"node {leader_id} leads epoch {epoch}, but nobody says where its {replica.config.listener_name}"
                " listener is"
            )
            if epoch > state.epoch:
                replica.become_unattached(epoch, now_ms)
            return False
        replica.become_follower(epoch, leader_id, endpoints, now_ms)
    return True
