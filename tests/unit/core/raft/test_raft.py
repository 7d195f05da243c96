"""What a replica does, effect by effect."""

from __future__ import annotations

from random import Random

import pytest

from barnabas.core.raft import (
    Answered,
    LeaderAndEpoch,
    Node,
    NotLeader,
    QuorumState,
    Ready,
    ReplicaKey,
    SnapshotId,
    VoterSet,
)
from barnabas.core.raft.decide import (
    REFUSAL_BACKOFF_MS,
    REFUSAL_STEP_MS,
    refusal_backoff_ms,
    successor_backoff_ms,
)
from barnabas.core.raft.state import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.add_raft_voter import AddRaftVoterRequest
from barnabas.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from barnabas.wire.messages.describe_quorum import DescribeQuorumRequest
from barnabas.wire.messages.end_quorum_epoch import EndQuorumEpochRequest
from barnabas.wire.messages.fetch import FetchRequest, NodeEndpoint
from barnabas.wire.messages.fetch_snapshot import FetchSnapshotRequest
from barnabas.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from barnabas.wire.messages.update_raft_voter import UpdateRaftVoterRequest
from barnabas.wire.messages.vote import VoteRequest
from tests.support.raft.cluster import directory_id, dynamic_voters, static_voters
from tests.unit.core.raft.stage import (
    Stage,
    batch,
    begin_request,
    end_request,
    fetch_request,
    fetched,
    fetched_piece,
    granted,
    log_of,
    vote_request,
)

ERRORS = ErrorCode


def state_written(leader_id: int = -1, epoch: int = 0, voted_id: int = -1) -> QuorumState:
    voted = directory_id(voted_id) if voted_id >= 0 else QuorumState().voted_directory_id
    return QuorumState(
        leader_id=leader_id,
        epoch=epoch,
        voted_id=voted_id,
        voted_directory_id=voted,
        static_voters=(1, 2, 3),
        data_version=0,
    )


def vote_answer(ready: Ready) -> tuple[bool, int, int]:
    partition = ready.answers[0].body.topics[0].partitions[0]  # type: ignore[attr-defined]
    return partition.vote_granted, partition.leader_epoch, partition.error_code


def marks(ready: Ready) -> list[int]:
    """What the answers to fetches say of the high watermark."""
    return [each.body.responses[0].partitions[0].high_watermark for each in ready.answers]  # type: ignore[attr-defined]


def fetch_answer(ready: Ready) -> dict[str, int]:
    partition = ready.answers[0].body.responses[0].partitions[0]  # type: ignore[attr-defined]
    return {
        "error": partition.error_code,
        "leader": partition.current_leader.leader_id,
        "epoch": partition.current_leader.leader_epoch,
        "mark": partition.high_watermark,
        "bytes": len(partition.records),
    }


# Votes.


def test_a_vote_is_written_with_the_answer_that_gives_it() -> None:
    stage = Stage()
    stage.ready()
    ready = stage.ask(vote_request(4, candidate=2))
    assert ready.quorum_state == state_written(epoch=4, voted_id=2)
    assert vote_answer(ready) == (True, 4, ERRORS.NONE)
    assert isinstance(stage.raft.state, Unattached)


def test_there_is_one_vote_an_epoch_and_the_same_answer_to_who_asks_again() -> None:
    stage = Stage()
    stage.ask(vote_request(4, candidate=2))
    assert vote_answer(stage.ask(vote_request(4, candidate=3))) == (False, 4, ERRORS.NONE)
    assert vote_answer(stage.ask(vote_request(4, candidate=2))) == (True, 4, ERRORS.NONE)


def test_a_candidate_with_a_shorter_log_gets_no_vote_but_its_epoch_counts() -> None:
    stage = Stage(log=log_of((2, 3)), stored=QuorumState(epoch=3))
    ready = stage.ask(vote_request(5, last=(3, 1)))
    assert vote_answer(ready) == (False, 5, ERRORS.NONE)
    assert ready.quorum_state == state_written(epoch=5)
    assert vote_answer(stage.ask(vote_request(5, last=(2, 9)))) == (False, 5, ERRORS.NONE)
    assert vote_answer(stage.ask(vote_request(5, last=(3, 2)))) == (True, 5, ERRORS.NONE)


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (vote_request(1, last=(1, 0)), ERRORS.INVALID_REQUEST),
        (vote_request(1, last=(-1, 0)), ERRORS.INVALID_REQUEST),
        (vote_request(1, last=(0, -1)), ERRORS.INVALID_REQUEST),
        (vote_request(2**31 - 1), ERRORS.INVALID_REQUEST),
        (vote_request(1, candidate=1), ERRORS.INVALID_REQUEST),
        (vote_request(1, voter_id=3), ERRORS.INVALID_VOTER_KEY),
    ],
)
def test_a_vote_that_cannot_be_asked_for_is_refused(request_: VoteRequest, error: ErrorCode) -> None:
    stage = Stage()
    granted_, _, code = vote_answer(stage.ask(request_))
    assert (granted_, code) == (False, error)


def test_an_older_epoch_is_fenced() -> None:
    stage = Stage(stored=QuorumState(epoch=7))
    assert vote_answer(stage.ask(vote_request(6))) == (False, 7, ERRORS.FENCED_LEADER_EPOCH)


def test_a_pre_vote_is_given_to_many_and_not_written() -> None:
    stage = Stage()
    stage.ready()
    for candidate in (2, 3):
        ready = stage.ask(vote_request(0, candidate, pre_vote=True))
        assert vote_answer(ready) == (True, 0, ERRORS.NONE)
        assert ready.quorum_state is None


def test_a_follower_that_hears_its_leader_gives_no_pre_vote() -> None:
    stage = Stage()
    fetch = stage.ask(begin_request(1, leader=2)).messages[-1]
    assert vote_answer(stage.ask(vote_request(1, 3, pre_vote=True))) == (True, 1, ERRORS.NONE)
    stage.answer(fetch, fetched(1, 2, high_watermark=0))
    assert vote_answer(stage.ask(vote_request(1, 3, pre_vote=True))) == (False, 1, ERRORS.NONE)


# Elections.


def test_a_voter_asks_before_it_raises_the_epoch() -> None:
    stage = Stage()
    stage.ready()
    ready = stage.wait(1000)
    assert isinstance(stage.raft.state, Prospective)
    assert ready.quorum_state is None
    assert [(send.to, send.body.topics[0].partitions[0].pre_vote) for send in ready.messages] == [  # type: ignore[attr-defined]
        (Node(2, "host2", 2), True),
        (Node(3, "host3", 3), True),
    ]
    ready = stage.answer(ready.messages[0], granted(0))
    assert isinstance(stage.raft.state, Candidate)
    assert ready.quorum_state == state_written(epoch=1, voted_id=1)
    assert [send.body.topics[0].partitions[0].replica_epoch for send in ready.messages] == [1, 1]  # type: ignore[attr-defined]


def test_a_peer_without_pre_votes_is_asked_for_its_vote_at_once() -> None:
    stage = Stage()
    stage.ready()
    send = stage.wait(1000).messages[0]
    ready = stage.fail(send, ErrorCode.UNSUPPORTED_VERSION)
    assert ready.quorum_state == state_written(epoch=1, voted_id=1)


def test_a_new_leader_writes_that_it_leads_and_appends_its_first_record() -> None:
    stage = Stage()
    ready = stage.lead()
    assert ready.quorum_state == state_written(leader_id=1, epoch=1)
    assert ready.leader == LeaderAndEpoch(1, 1, start_offset=0)
    assert stage.log.end_offset == 1
    assert ready.flush is not None
    assert ready.flush.end_offset == 1
    assert {send.to.id for send in ready.messages} == {2, 3}
    assert all(isinstance(send.body, BeginQuorumEpochRequest) for send in ready.messages)
    assert ready.high_watermark is None


def test_a_candidate_that_loses_waits_for_its_time() -> None:
    stage = Stage()
    stage.ready()
    asked = stage.wait(1000).messages
    asked = stage.answer(asked[0], granted(0)).messages
    stage.answer(asked[0], granted(1, yes=False))
    stage.answer(asked[1], granted(1, yes=False))
    assert isinstance(stage.raft.state, Candidate)
    stage.wait(1000)
    assert isinstance(stage.raft.state, Prospective)
    assert stage.raft.epoch == 1


def test_a_sole_voter_leads_at_once_and_commits_by_its_flush() -> None:
    stage = Stage(voters=dynamic_voters([1]))
    ready = stage.ready()
    assert ready.leader == LeaderAndEpoch(1, 1, start_offset=0)
    assert ready.high_watermark is None
    assert stage.flush(ready.flush).high_watermark == 1


# The leader.


def test_a_leader_counts_itself_after_its_flush_only() -> None:
    stage = Stage()
    flush = stage.lead().flush
    ready = stage.ask(fetch_request(1, 1, last_epoch=1, wait_ms=0))
    assert ready.high_watermark is None
    assert fetch_answer(ready)["mark"] == -1
    assert stage.flush(flush).high_watermark == 1


def test_a_fetch_acknowledges_what_is_below_it() -> None:
    stage = Stage()
    stage.flush(stage.lead().flush)
    last_offset = stage.raft.append(1, [b"a", b"b"], stage.now_ms)
    assert last_offset == 2
    ready = stage.ready()
    assert stage.flush(ready.flush).high_watermark is None
    assert stage.ask(fetch_request(1, 1, last_epoch=1)).high_watermark == 1
    assert stage.ask(fetch_request(1, 3, last_epoch=1)).high_watermark == 3


def test_a_fetch_with_nothing_to_tell_is_parked_until_there_is() -> None:
    stage = Stage()
    stage.flush(stage.lead().flush)
    stage.ask(fetch_request(1, 1, last_epoch=1, replica=3))
    assert stage.ask(fetch_request(1, 1, last_epoch=1, high_watermark=1)).answers == []
    stage.raft.append(1, [b"a"], stage.now_ms)
    answer = fetch_answer(stage.ready())
    assert answer["bytes"] > 0
    assert answer["mark"] == 1
    assert stage.ask(fetch_request(1, 2, last_epoch=1, high_watermark=1)).answers == []
    assert fetch_answer(stage.wait(500))["bytes"] == 0


def test_that_quiet_records_are_committed_is_told_with_the_next_answer() -> None:
    stage = Stage()
    stage.flush(stage.lead().flush)
    stage.ask(fetch_request(1, 1, last_epoch=1))
    for end_offset in (2, 3):
        stage.raft.append(1, [b"idle"], stage.now_ms, quietly=True)
        stage.flush(stage.ready().flush)
        ready = stage.ask(fetch_request(1, end_offset, last_epoch=1, high_watermark=end_offset - 1))
        assert (ready.high_watermark, ready.answers) == (end_offset, [])
        third = stage.ask(fetch_request(1, end_offset, last_epoch=1, replica=3, high_watermark=end_offset - 1))
        assert third.answers == []
    stage.raft.append(1, [b"news"], stage.now_ms)
    assert marks(stage.ready()) == [3, 3]
    assert stage.ask(fetch_request(1, 3, last_epoch=1, high_watermark=1, wait_ms=0)).answers != []


def test_that_news_before_quiet_records_are_committed_is_told_at_once() -> None:
    stage = Stage()
    stage.flush(stage.lead().flush)
    stage.ask(fetch_request(1, 1, last_epoch=1))
    stage.raft.append(1, [b"news"], stage.now_ms)
    flush = stage.ready().flush
    stage.raft.append(1, [b"idle"], stage.now_ms, quietly=True)
    stage.flush(stage.flush(flush).flush)
    assert stage.ask(fetch_request(1, 3, last_epoch=1, replica=11, high_watermark=1)).answers == []
    ready = stage.ask(fetch_request(1, 3, last_epoch=1, high_watermark=1))
    assert ready.high_watermark == 3
    assert marks(ready) == [3, 3]


def test_a_follower_that_does_not_know_the_mark_is_told_at_once() -> None:
    stage = Stage()
    stage.flush(stage.lead().flush)
    stage.ask(fetch_request(1, 1, last_epoch=1, replica=3))
    assert fetch_answer(stage.ask(fetch_request(1, 1, last_epoch=1, high_watermark=-1)))["mark"] == 1


def test_a_diverging_follower_is_told_where_and_does_not_count() -> None:
    stage = Stage(log=log_of((3, 1), (2, 2)), stored=QuorumState(epoch=2))
    stage.flush(stage.ready().flush)
    asked = stage.wait(1000).messages
    asked = stage.answer(asked[0], granted(2)).messages
    stage.flush(stage.answer(asked[0], granted(3)).flush)
    ready = stage.ask(fetch_request(3, 4, last_epoch=1))
    partition = ready.answers[0].body.responses[0].partitions[0]  # type: ignore[attr-defined]
    assert (partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset) == (1, 3)
    assert ready.high_watermark is None


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (fetch_request(0, 0), ERRORS.FENCED_LEADER_EPOCH),
        (fetch_request(2, 0, last_epoch=2), ERRORS.UNKNOWN_LEADER_EPOCH),
        (fetch_request(5_000_000, 0), ERRORS.UNKNOWN_LEADER_EPOCH),
        (fetch_request(1, -1), ERRORS.INVALID_REQUEST),
        (fetch_request(1, 0, last_epoch=-1), ERRORS.INVALID_REQUEST),
        (fetch_request(1, 0, last_epoch=2), ERRORS.INVALID_REQUEST),
        (fetch_request(1, 0, wait_ms=-1), ERRORS.INVALID_REQUEST),
        (fetch_request(1, 0, replica=1), ERRORS.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_fetch_that_is_not_for_this_leader_is_refused(request_: FetchRequest, error: ErrorCode) -> None:
    stage = Stage()
    stage.lead()
    answer = fetch_answer(stage.ask(request_))
    assert (answer["error"], answer["leader"], answer["epoch"]) == (error, 1, 1)


def test_a_leader_passes_the_epochs_in_which_others_wait_for_a_leader() -> None:
    """A voter that was removed while it was cut off has raised them, and none of this leader's voters heard of it."""
    stage = Stage()
    stage.lead()
    anonymous = fetch_request(9, 0)
    anonymous.replica_state.replica_id = -1
    assert fetch_answer(stage.ask(anonymous))["error"] == ERRORS.UNKNOWN_LEADER_EPOCH
    ready = stage.ask(fetch_request(9, 0, replica=11))
    assert fetch_answer(ready) == {
        "error": ERRORS.NOT_LEADER_OR_FOLLOWER,
        "leader": -1,
        "epoch": 9,
        "mark": -1,
        "bytes": 0,
    }
    assert ready.quorum_state == state_written(epoch=9)
    assert ready.leader == LeaderAndEpoch(None, 9)
    asked = stage.wait(1000).messages
    asked = stage.answer(asked[0], granted(9)).messages
    ready = stage.answer(asked[0], granted(10))
    assert ready.leader is not None
    assert (ready.leader.leader_id, ready.leader.epoch) == (1, 10)


def test_another_cluster_and_another_topic_are_refused_as_a_whole() -> None:
    stage = Stage()
    stage.lead()
    request = fetch_request(1, 0)
    request.cluster_id = "another"
    assert stage.ask(request).answers[0].body.error_code == ERRORS.INCONSISTENT_CLUSTER_ID  # type: ignore[attr-defined]
    request = fetch_request(1, 0)
    request.topics = []
    assert stage.ask(request).answers[0].body.error_code == ERRORS.INVALID_REQUEST  # type: ignore[attr-defined]


def test_a_leader_without_a_majority_resigns() -> None:
    stage = Stage()
    stage.lead()
    stage.ask(fetch_request(1, 0))
    stage.wait(2999)
    assert isinstance(stage.raft.state, Leader)
    ready = stage.wait(1)
    assert isinstance(stage.raft.state, Resigned)
    assert ready.leader == LeaderAndEpoch(None, 1)
    with pytest.raises(NotLeader):
        stage.raft.append(1, [b"late"], stage.now_ms)


def test_a_removed_voter_does_not_keep_a_leader_in_its_place() -> None:
    """One of the two that a majority of four needs was heard of; of three it is enough, but it is long ago."""
    stage = Stage(voters=static_voters([1, 2, 3, 4]))
    stage.ready()
    asked = stage.wait(1000).messages
    stage.answer(asked[0], granted(0))
    asked = stage.answer(asked[1], granted(0)).messages
    stage.answer(asked[0], granted(1))
    stage.answer(asked[1], granted(1))
    leader = stage.raft.state
    assert isinstance(leader, Leader)
    stage.ask(fetch_request(1, 0, replica=2))
    leader.set_voters(static_voters([1, 2, 3]))
    stage.wait(2000)
    stage.ask(fetch_request(1, 0, replica=4))
    stage.wait(1000)
    assert isinstance(stage.raft.state, Resigned)


def test_a_leader_that_resigns_names_those_who_are_furthest_first() -> None:
    stage = Stage()
    stage.flush(stage.lead().flush)
    stage.ask(fetch_request(1, 1, last_epoch=1, replica=3))
    stage.raft.resign(1, stage.now_ms)
    sends = stage.ready().messages
    assert {send.to.id for send in sends} == {2, 3}
    partition = sends[0].body.topics[0].partitions[0]  # type: ignore[attr-defined]
    assert [each.candidate_id for each in partition.preferred_candidates] == [3, 2]


def test_parked_fetches_are_answered_when_the_lead_is_lost() -> None:
    stage = Stage()
    stage.flush(stage.lead().flush)
    stage.ask(fetch_request(1, 1, last_epoch=1, replica=3))
    stage.ask(fetch_request(1, 1, last_epoch=1, high_watermark=1))
    ready = stage.ask(begin_request(2, leader=3))
    answers = [each for each in ready.answers if hasattr(each.body, "responses")]
    partition = answers[0].body.responses[0].partitions[0]
    assert partition.error_code == ERRORS.NOT_LEADER_OR_FOLLOWER
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (3, 2)
    assert answers[0].body.node_endpoints[0].host == "host3"


# The follower.


def test_a_follower_writes_its_leader_and_fetches_from_it() -> None:
    stage = Stage()
    stage.ready()
    ready = stage.ask(begin_request(1, leader=2))
    assert ready.quorum_state == state_written(leader_id=2, epoch=1)
    assert ready.leader == LeaderAndEpoch(2, 1)
    (send,) = ready.messages
    assert send.to == Node(2, "host2", 2)
    assert isinstance(send.body, FetchRequest)


def test_a_follower_fetches_again_after_its_flush_only() -> None:
    stage = Stage()
    fetch = stage.ask(begin_request(1, leader=2)).messages[-1]
    ready = stage.answer(fetch, fetched(1, 2, records=batch(0, 1), high_watermark=0))
    assert ready.messages == []
    assert ready.flush is not None
    (send,) = stage.flush(ready.flush).messages
    assert send.body.topics[0].partitions[0].fetch_offset == 1  # type: ignore[attr-defined]


def test_the_mark_of_a_follower_is_never_above_its_log_and_never_goes_back() -> None:
    stage = Stage()
    fetch = stage.ask(begin_request(1, leader=2)).messages[-1]
    ready = stage.answer(fetch, fetched(1, 2, records=batch(0, 1, count=2), high_watermark=9))
    assert ready.high_watermark == 2
    fetch = stage.flush(ready.flush).messages[0]
    assert stage.answer(fetch, fetched(1, 2, high_watermark=1)).high_watermark is None
    assert stage.raft.high_watermark == 2


def test_a_diverging_log_is_cut_where_the_leader_says() -> None:
    stage = Stage(log=log_of((2, 1), (3, 2)), stored=QuorumState(epoch=2))
    flush = stage.ready().flush
    stage.ask(begin_request(3, leader=2))
    fetch = stage.flush(flush).messages[0]
    (again,) = stage.answer(fetch, fetched(3, 2, diverging=(1, 2))).messages
    assert stage.log.end_offset == 2
    assert again.body.topics[0].partitions[0].last_fetched_epoch == 1  # type: ignore[attr-defined]


def test_what_is_committed_is_not_cut_whatever_the_leader_says() -> None:
    stage = Stage()
    fetch = stage.ask(begin_request(1, leader=2)).messages[-1]
    ready = stage.answer(fetch, fetched(1, 2, records=batch(0, 1, count=2), high_watermark=2))
    fetch = stage.flush(ready.flush).messages[0]
    ready = stage.answer(fetch, fetched(1, 2, diverging=(1, 1)))
    assert stage.log.end_offset == 2
    assert "committed metadata is lost" in ready.notes[0]


@pytest.mark.parametrize(
    "records",
    [batch(1, 1), batch(0, 1)[:-1] + b"\1", batch(0, 2), bytes(200)],
    ids=["a gap", "a bad checksum", "a later epoch", "no batch"],
)
def test_records_that_do_not_continue_the_log_are_left_out(records: bytes) -> None:
    stage = Stage()
    fetch = stage.ask(begin_request(1, leader=2)).messages[-1]
    stage.answer(fetch, fetched(1, 2, records=records, high_watermark=0))
    assert stage.log.end_offset == 0


def test_a_snapshot_is_fetched_piece_by_piece_and_frozen_before_the_log_goes() -> None:
    stage = Stage()
    fetch = stage.ask(begin_request(5, leader=2)).messages[-1]
    ready = stage.answer(fetch, fetched(5, 2, snapshot=(10, 4)))
    source = log_of((10, 4))
    from barnabas.core.raft import SnapshotVoters

    source.add_snapshot(SnapshotId(10, 4), SnapshotVoters(0, None), 0)
    data = source.snapshots[SnapshotId(10, 4)]
    ready = stage.answer(ready.messages[0], fetched_piece(5, 2, (10, 4), len(data), 0, data[:50]))
    assert ready.messages[0].body.topics[0].partitions[0].position == 50  # type: ignore[attr-defined]
    ready = stage.answer(ready.messages[0], fetched_piece(5, 2, (10, 4), len(data), 50, data[50:]))
    assert ready.freeze == SnapshotId(10, 4)
    assert ready.messages == []
    stage.log.prepare_freeze(SnapshotId(10, 4))()
    stage.raft.snapshot_frozen(SnapshotId(10, 4), stage.now_ms)
    ready = stage.ready()
    assert ready.high_watermark == 10
    assert (stage.log.start_offset, stage.log.end_offset) == (10, 10)
    assert ready.messages[0].body.topics[0].partitions[0].fetch_offset == 10  # type: ignore[attr-defined]


def test_a_snapshot_of_a_leader_that_is_another_meanwhile_is_not_frozen() -> None:
    """What was fetched may be begun anew from the next one before the driver comes to it."""
    stage = Stage()
    fetch = stage.ask(begin_request(5, leader=2)).messages[-1]
    (piece,) = stage.answer(fetch, fetched(5, 2, snapshot=(10, 4))).messages
    stage.raft.step(Answered(piece.correlation_id, fetched_piece(5, 2, (10, 4), 5, 0, b"whole")), stage.now_ms)
    assert stage.ask(begin_request(6, leader=3)).freeze is None


def test_a_follower_stands_for_election_when_its_leader_is_silent() -> None:
    stage = Stage()
    stage.ask(begin_request(1, leader=2))
    stage.wait(1999)
    assert isinstance(stage.raft.state, Follower)
    stage.wait(1)
    assert isinstance(stage.raft.state, Prospective)


def following(leader: int = 2) -> tuple[Stage, Ready]:
    """A follower that has fetched once, and its next fetch."""
    stage = Stage()
    stage.ready()
    (send,) = stage.ask(begin_request(1, leader=leader)).messages
    return stage, stage.answer(send, fetched(1, leader))


def test_a_follower_stands_soon_after_nobody_listens_at_its_leaders_address() -> None:
    stage, asked = following()
    stage.fail(asked.messages[0], is_refused=True)
    stage.wait(REFUSAL_BACKOFF_MS - 1)
    assert isinstance(stage.raft.state, Follower)
    ready = stage.wait(1)
    assert isinstance(stage.raft.state, Prospective)
    assert ready.quorum_state is None
    # The other voter still hears of the leader: it goes on as before, and no epoch was raised.
    to_other = next(send for send in ready.messages if send.to.id == 3)
    stage.answer(to_other, granted(1, yes=False, leader_id=2))
    assert isinstance(stage.raft.state, Follower)
    assert stage.raft.epoch == 1


def test_a_connection_that_only_broke_makes_nobody_stand() -> None:
    stage, asked = following()
    stage.fail(asked.messages[0])
    stage.wait(1000)
    assert isinstance(stage.raft.state, Follower)


def test_who_finds_its_leader_gone_gives_pre_votes_and_who_hears_of_it_does_not() -> None:
    stage, asked = following()
    pre_vote = vote_request(1, 3, pre_vote=True)
    assert vote_answer(stage.ask(pre_vote)) == (False, 1, ERRORS.NONE)
    stage.fail(asked.messages[0], is_refused=True)
    assert vote_answer(stage.ask(pre_vote)) == (True, 1, ERRORS.NONE)


def test_a_leader_that_answers_again_is_no_longer_gone() -> None:
    stage, asked = following()
    (to_other,) = stage.fail(asked.messages[0], is_refused=True).messages
    stage.wait(20)
    (again,) = stage.fail(to_other).messages
    assert (to_other.to.id, again.to.id) == (3, 2)
    stage.answer(again, fetched(1, 2))
    stage.wait(1999)
    assert isinstance(stage.raft.state, Follower)


def test_voters_stand_one_after_the_other_when_their_leader_is_gone() -> None:
    waits = [refusal_backoff_ms([1, 2, 3, 4], 2, each) for each in (1, 3, 4)]
    assert waits == [REFUSAL_BACKOFF_MS + step * REFUSAL_STEP_MS for step in (0, 1, 2)]


def test_the_preferred_successor_stands_at_once() -> None:
    stage = Stage()
    stage.ask(begin_request(1, leader=2))
    stage.ask(end_request(1, 2, [1, 3]))
    assert isinstance(stage.raft.state, Prospective)
    other = Stage()
    other.ask(begin_request(1, leader=2))
    other.ask(end_request(1, 2, [3, 1]))
    assert isinstance(other.raft.state, Follower)


def test_who_hears_that_its_leader_resigns_gives_pre_votes_at_once() -> None:
    stage, _ = following()
    pre_vote = vote_request(1, 3, pre_vote=True)
    assert vote_answer(stage.ask(pre_vote)) == (False, 1, ERRORS.NONE)
    stage.ask(end_request(1, 2, [3, 1]))
    assert isinstance(stage.raft.state, Follower)
    assert vote_answer(stage.ask(pre_vote)) == (True, 1, ERRORS.NONE)


def test_the_wait_of_successors_doubles() -> None:
    keys = [ReplicaKey(each) for each in (1, 2, 3, 4)]
    waits = [successor_backoff_ms(keys, key, 1000) for key in keys]
    assert waits == [0, 125, 250, 500]
    assert successor_backoff_ms(keys, ReplicaKey(9), 1000) == 1000


# Starting again.


def test_who_knows_its_leader_by_name_alone_follows_it_once_it_answers() -> None:
    stage = Stage(voters=VoterSet(), bootstrap_ids=[2], stored=QuorumState(leader_id=2, epoch=4))
    (send,) = stage.ready().messages
    assert isinstance(stage.raft.state, Unattached)
    answer = fetched(4, 2, high_watermark=0)
    answer.node_endpoints = [NodeEndpoint(node_id=2, host="host2", port=2)]
    stage.answer(send, answer)
    assert isinstance(stage.raft.state, Follower)


def test_who_led_resigns_when_it_starts_again() -> None:
    stage = Stage(stored=QuorumState(leader_id=1, epoch=4))
    ready = stage.ready()
    assert isinstance(stage.raft.state, Resigned)
    assert all(isinstance(send.body, EndQuorumEpochRequest) for send in ready.messages)
    assert vote_answer(stage.ask(vote_request(4, 2))) == (False, 4, ERRORS.NONE)
    stage.wait(1000)
    assert stage.raft.epoch == 5


def test_who_led_and_had_no_time_to_write_it_resigns_too() -> None:
    stored = QuorumState(epoch=4, voted_id=1, voted_directory_id=directory_id(1))
    assert isinstance(Stage(stored=stored, log=log_of((1, 4))).raft.state, Resigned)
    assert isinstance(Stage(stored=stored, log=log_of((1, 3))).raft.state, Candidate)


def test_a_vote_is_remembered() -> None:
    stage = Stage(stored=QuorumState(epoch=4, voted_id=3, voted_directory_id=directory_id(3)))
    assert vote_answer(stage.ask(vote_request(4, 2))) == (False, 4, ERRORS.NONE)
    assert vote_answer(stage.ask(vote_request(4, 3))) == (True, 4, ERRORS.NONE)


def test_the_log_may_be_ahead_of_the_file() -> None:
    stage = Stage(stored=QuorumState(epoch=2), log=log_of((1, 3)))
    assert (type(stage.raft.state), stage.raft.epoch) == (Unattached, 3)


def test_what_an_earlier_process_wrote_is_flushed_before_it_counts() -> None:
    stage = Stage(log=log_of((2, 1)), stored=QuorumState(leader_id=2, epoch=1))
    ready = stage.ready()
    assert ready.flush is not None
    assert ready.messages == []
    assert isinstance(stage.flush(ready.flush).messages[0].body, FetchRequest)


# Bad input.


def test_hostile_requests_never_break_a_replica() -> None:
    """Wrong epochs, negative offsets, absurd counts: each gets an answer, or waits for its time."""
    random = Random(1)
    numbers = [-(2**31), -2, -1, 0, 1, 2, 3, 2**31 - 2, 2**31 - 1]
    kinds = [
        VoteRequest,
        BeginQuorumEpochRequest,
        EndQuorumEpochRequest,
        FetchRequest,
        FetchSnapshotRequest,
        DescribeQuorumRequest,
        AddRaftVoterRequest,
        RemoveRaftVoterRequest,
        UpdateRaftVoterRequest,
    ]
    for _ in range(300):
        stage = Stage()
        if random.random() < 0.5:
            stage.lead()
        for _ in range(6):
            body = random.choice(kinds)()
            scramble(body, random, numbers)
            ready = stage.ask(body)
            assert len(ready.answers) <= 2
            stage.wait(random.choice([0, 10, 600, 4000]))


def scramble(message: object, random: Random, numbers: list[int]) -> None:
    from barnabas.core.raft import RaftConfig
    from barnabas.wire.messages import begin_quorum_epoch, end_quorum_epoch, fetch, fetch_snapshot, vote

    topics = {
        VoteRequest: (vote.TopicData, vote.PartitionData),
        BeginQuorumEpochRequest: (begin_quorum_epoch.TopicData, begin_quorum_epoch.PartitionData),
        EndQuorumEpochRequest: (end_quorum_epoch.TopicData, end_quorum_epoch.PartitionData),
        FetchRequest: (fetch.FetchTopic, fetch.FetchPartition),
        FetchSnapshotRequest: (fetch_snapshot.TopicSnapshot, fetch_snapshot.PartitionSnapshot),
    }.get(type(message))  # type: ignore[arg-type]
    if topics is not None and random.random() < 0.95:
        topic, partition = topics[0](), topics[1]()
        for name in ("topic_name", "topic", "name"):
            if hasattr(topic, name):
                setattr(topic, name, "__cluster_metadata")
        if hasattr(topic, "topic_id"):
            topic.topic_id = RaftConfig(node_id=0, directory_id=directory_id(0), cluster_id="").topic_id
        _scramble_numbers(partition, random, numbers)
        topic.partitions = [partition]
        message.topics = [topic]  # type: ignore[attr-defined]
    _scramble_numbers(message, random, numbers)
    if hasattr(message, "cluster_id"):
        message.cluster_id = None


def _scramble_numbers(message: object, random: Random, numbers: list[int]) -> None:
    for name, value in vars(message).items():
        if isinstance(value, bool):
            setattr(message, name, random.random() < 0.5)
        elif isinstance(value, int) and name not in ("partition", "partition_index"):
            setattr(message, name, random.choice(numbers))


def test_a_voter_that_fetches_from_two_directories_is_told_of() -> None:
    stage = Stage()
    stage.flush(stage.lead().flush)
    assert stage.ask(fetch_request(1, 1, last_epoch=1)).notes == []
    double = fetch_request(1, 1, last_epoch=1)
    double.topics[0].partitions[0].replica_directory_id = directory_id(9)
    (note,) = stage.ask(double).notes
    assert "two processes have node.id 2" in note
    assert stage.ask(double).notes == []
    assert len(stage.ask(fetch_request(1, 1, last_epoch=1)).notes) == 1
    assert stage.ask(fetch_request(1, 1, last_epoch=1, replica=8)).notes == [], "an observer"
