"""Stories of a quorum, told message by message, and compared with those in `golden/`.

RAFT_GOLDEN=write writes them anew: read what changed before you commit it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.core.raft import Raft, SnapshotId, VoterSet
from barnabas.core.raft.state import Unattached
from barnabas.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from tests.support.raft.chronicle import Chronicle, describe_response
from tests.support.raft.cluster import CLUSTER_ID, SimulatedNode, directory_id, dynamic_voters, endpoints, static_voters
from tests.support.raft.judges import StrictJudges

GOLDEN = Path(__file__).parent / "golden"


class Tale(Chronicle):
    def __init__(self, seed: int = 7, voters: int = 3, *, dynamic: bool = False) -> None:
        super().__init__(seed, StrictJudges())
        self.network.delay_ms = (1, 1)
        self.flush_ms = 0
        ids = list(range(1, voters + 1))
        for node_id in ids:
            node = self.add_node(
                node_id,
                static_voters=VoterSet() if dynamic else static_voters(ids),
                bootstrap_ids=ids if dynamic else [],
            )
            if dynamic:
                self.format(node, dynamic_voters(ids))

    def begin(self) -> None:
        for node in self.nodes.values():
            node.start()

    def wait(self, duration_ms: int) -> None:
        self.run(self.now_ms + duration_ms)

    def leader(self) -> SimulatedNode:
        found = [node for node in self.nodes.values() if node.raft and node.raft.leader.leader_id == node.id]
        assert len(found) == 1, found
        return found[0]

    def elect(self) -> SimulatedNode:
        assert self.run(
            self.now_ms + 10_000,
            lambda: any(node.raft and node.raft.leader.leader_id == node.id for node in self.nodes.values()),
        )
        return self.leader()

    def write(self, node: SimulatedNode, *values: bytes) -> None:
        self.tell(f"{node.id} appends {len(values)}")
        node.act(lambda raft: raft.append(raft.epoch, values, self.now_ms))

    def isolate(self, node: SimulatedNode) -> None:
        others = [each for each in self.nodes if each != node.id]
        self.network.cut = {(node.id, each) for each in others} | {(each, node.id) for each in others}
        self.tell(f"{node.id} is cut off")

    def heal(self) -> None:
        self.network.cut.clear()
        self.tell("the network is whole")


def an_election() -> Tale:
    tale = Tale()
    tale.begin()
    leader = tale.elect()
    tale.wait(20)
    tale.write(leader, b"first")
    tale.wait(20)
    return tale


def a_split_vote() -> Tale:
    """Two of four stand at the same moment, and each gets one vote beside its own: no majority, so they wait."""
    tale = Tale(voters=4)
    tale.begin()
    tale.wait(100)
    tale.network.cut = {(1, 4), (4, 1), (2, 3), (3, 2)}
    tale.tell("1 and 4 cannot reach each other, nor can 2 and 3")
    for node_id in (1, 2):
        raft = tale.nodes[node_id].raft
        assert raft is not None
        assert isinstance(raft.state, Unattached)
        raft.state.election_deadline_ms = tale.now_ms
        tale.nodes[node_id].act(lambda raft: raft.tick(tale.now_ms))
    tale.wait(10)
    tale.network.cut.clear()
    tale.tell("the network is whole")
    tale.elect()
    tale.wait(10)
    return tale


def a_diverging_follower() -> Tale:
    """A leader that is cut off writes what nobody gets, and gives it up when it hears of the next leader."""
    tale = Tale()
    tale.begin()
    old = tale.elect()
    tale.wait(20)
    tale.isolate(old)
    tale.write(old, b"nobody", b"gets", b"this")
    others = [node for node in tale.nodes.values() if node is not old]
    assert tale.run(
        tale.now_ms + 10_000, lambda: any(node.raft and node.raft.leader.leader_id == node.id for node in others)
    )
    tale.wait(20)
    new = next(node for node in others if node.raft and node.raft.leader.leader_id == node.id)
    tale.write(new, b"everybody gets this")
    tale.wait(20)
    tale.heal()
    tale.wait(1200)
    return tale


def a_resigning_leader() -> Tale:
    tale = Tale()
    tale.begin()
    leader = tale.elect()
    tale.wait(30)

    def resign(raft: Raft) -> None:
        raft.resign(raft.epoch, tale.now_ms)

    tale.tell(f"{leader.id} is asked to resign")
    leader.act(resign)
    tale.wait(60)
    return tale


def adding_a_voter() -> Tale:
    tale = Tale(voters=1, dynamic=True)
    tale.add_node(2, static_voters=VoterSet(), bootstrap_ids=[1])
    tale.begin()
    leader = tale.elect()
    tale.wait(40)
    listeners = [Listener(name=name, host=host, port=port) for name, host, port in endpoints(2)]
    request = AddRaftVoterRequest(
        cluster_id=CLUSTER_ID, voter_id=2, voter_directory_id=directory_id(2), listeners=listeners
    )
    tale.tell(f"{leader.id} is asked to add voter 2")
    leader.ask(request, 1, lambda response: tale.tell(f"the answer: {describe_response(response)}"))
    tale.wait(60)
    assert leader.raft is not None
    assert leader.raft.voters.ids == [1, 2]
    return tale


def a_snapshot_instead_of_a_log() -> Tale:
    """A voter that was down longer than the log reaches begins with the leader's snapshot."""
    tale = Tale()
    tale.begin()
    leader = tale.elect()
    tale.wait(20)
    late = next(node for node in tale.nodes.values() if node is not leader)
    late.stop(power_lost=False)
    for value in (b"one", b"two", b"three"):
        tale.write(leader, value)
        tale.wait(10)
    assert leader.raft is not None
    snapshot_id = SnapshotId(leader.applied_offset, leader.raft.epoch)
    leader.disk.log.add_snapshot(snapshot_id, leader.raft.snapshot_voters(snapshot_id), tale.now_ms)
    leader.disk.log.delete_before(snapshot_id)
    tale.tell(f"{leader.id} takes a snapshot at {snapshot_id.end_offset} and deletes its log")
    late.start()
    tale.wait(40)
    assert late.applied_offset == snapshot_id.end_offset
    return tale


STORIES = [
    an_election,
    a_split_vote,
    a_diverging_follower,
    a_resigning_leader,
    adding_a_voter,
    a_snapshot_instead_of_a_log,
]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_story_goes_as_it_was_told(story: Callable[[], Tale]) -> None:
    told = "\n".join(story().transcript) + "\n"
    path = GOLDEN / f"{story.__name__}.txt"
    if os.environ.get("RAFT_GOLDEN") == "write":
        path.write_text(told)
    assert told == path.read_text()
