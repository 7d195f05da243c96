from collections.abc import Callable

import pytest

from barnabas.core.replication.decide import Reaction
from barnabas.core.replication.state import UNKNOWN_END_OFFSET, Committed, FollowerState, LeaderState, Proposal
from barnabas.wire.errors import ErrorCode

LAG_MS = 30_000
NOW = 1_000_000


def committed(
    *in_sync: int, replicas: tuple[int, ...] = (1, 2, 3), partition_epoch: int = 7, leader_epoch: int = 4
) -> Committed:
    return Committed(leader_epoch, partition_epoch, replicas, in_sync)


def leader(
    *in_sync: int,
    end_offset: int = 10,
    high_watermark: int = 10,
    replicas: tuple[int, ...] = (1, 2, 3),
    min_in_sync: int = 1,
    eligible_epoch: Callable[[int], int | None] = lambda replica: 100 + replica,
) -> LeaderState:
    return LeaderState(
        1,
        committed(*in_sync, replicas=replicas),
        end_offset,
        high_watermark,
        now_ms=NOW,
        min_in_sync=min_in_sync,
        lag_max_ms=LAG_MS,
        eligible_epoch=eligible_epoch,
    )


def fetch(state: LeaderState, replica: int, offset: int, now_ms: int = NOW) -> bool:
    return state.fetched(replica, offset, 100 + replica, now_ms)


def test_the_only_replica_commits_what_it_appends() -> None:
    state = leader(1, replicas=(1,))
    assert state.is_alone
    assert state.appended(15, NOW)
    assert state.high_watermark == 15


def test_a_leader_that_starts_alone_commits_all_it_holds() -> None:
    assert leader(1, end_offset=10, high_watermark=3, replicas=(1,)).high_watermark == 10


def test_a_record_is_committed_when_the_slowest_in_sync_follower_has_it() -> None:
    state = leader(1, 2, 3)
    assert not state.appended(20, NOW)
    assert not fetch(state, 2, 18)
    assert fetch(state, 3, 15)
    assert state.high_watermark == 15
    assert fetch(state, 3, 20)
    assert state.high_watermark == 18


def test_a_follower_that_lags_and_is_not_in_sync_holds_nobody_back() -> None:
    state = leader(1, 2)
    state.appended(20, NOW)
    assert not fetch(state, 3, 11)
    assert fetch(state, 2, 20)
    assert state.high_watermark == 20


def test_the_high_watermark_waits_for_a_follower_that_is_about_to_join() -> None:
    state = leader(1, 2)
    fetch(state, 2, 10)
    fetch(state, 3, 10)
    state.appended(20, NOW)
    assert not fetch(state, 2, 20)
    assert fetch(state, 3, 20)


def test_nobody_waits_for_a_follower_that_was_about_to_join_and_is_out_of_service_by_now() -> None:
    in_service = {1: 101, 2: 102, 3: 103}
    state = leader(1, 2, eligible_epoch=in_service.get)
    fetch(state, 2, 10)
    fetch(state, 3, 10)
    state.appended(20, NOW)
    assert not fetch(state, 2, 20)
    assert not state.review(NOW)
    del in_service[3]
    assert state.review(NOW)
    assert state.high_watermark == 20


def test_without_its_slowest_follower_the_high_watermark_advances() -> None:
    state = leader(1, 2)
    state.appended(20, NOW)
    assert state.commit(committed(1, partition_epoch=8), NOW + LAG_MS + 1)
    assert state.high_watermark == 20


def test_older_news_of_the_controller_changes_nothing() -> None:
    state = leader(1, 2)
    state.commit(committed(1, 2, 3, partition_epoch=9), NOW)
    assert not state.commit(committed(1, partition_epoch=8), NOW)
    assert state.in_sync == (1, 2, 3)


def test_the_high_watermark_never_goes_back() -> None:
    state = leader(1, 2, end_offset=20, high_watermark=20)
    assert not fetch(state, 2, 5)
    assert state.high_watermark == 20


@pytest.mark.parametrize(("replicas", "advances"), [((1, 2, 3), False), ((1,), True)])
def test_below_its_minimum_of_in_sync_replicas_nothing_is_committed(replicas: tuple[int, ...], advances: bool) -> None:
    """One that has no more replicas needs no more."""
    state = leader(1, min_in_sync=2, replicas=replicas)
    assert state.appended(20, NOW) is advances
    assert state.has_enough is advances


def test_a_lower_minimum_commits_what_waited() -> None:
    state = leader(1, min_in_sync=2)
    state.appended(20, NOW)
    assert state.require(1, NOW)
    assert state.high_watermark == 20


def test_in_a_new_epoch_followers_must_show_themselves_again() -> None:
    state = leader(1, 2)
    state.appended(20, NOW)
    fetch(state, 2, 20)
    assert not state.lead(committed(1, 2, leader_epoch=5, partition_epoch=8), 25, NOW)
    assert (state.leader_epoch, state.high_watermark, state.epoch_start_offset) == (5, 20, 25)
    assert state.follower_end_offset(2) == UNKNOWN_END_OFFSET
    assert fetch(state, 2, 25)


def test_a_follower_joins_with_everything_that_is_committed() -> None:
    state = leader(1, 2)
    fetch(state, 2, 10)
    fetch(state, 3, 9)
    assert state.expand(3) is None
    fetch(state, 3, 10)
    assert state.expand(3) == Proposal(4, 7, ((1, 101), (2, 102), (3, 103)))
    assert state.maximal == {1, 2, 3}
    assert state.expand(3) is None, "one change at a time"


def test_a_follower_that_has_not_reached_the_start_of_the_epoch_does_not_join() -> None:
    state = leader(1, 2, end_offset=15, high_watermark=10)
    fetch(state, 3, 12)
    assert state.expand(3) is None


def test_a_follower_joins_only_in_the_registration_that_the_metadata_has() -> None:
    registered: dict[int, int | None] = {1: 101, 2: 102, 3: 200}
    state = leader(1, 2, eligible_epoch=registered.get)
    state.fetched(3, 10, 103, NOW)
    assert state.expand(3) is None
    registered[3] = None
    state.fetched(3, 10, 200, NOW)
    assert state.expand(3) is None, "a fenced broker is not in sync"
    registered[3] = 200
    assert state.expand(3) is not None


def test_who_is_proposed_to_join_counts_at_once_and_who_is_to_leave_counts_still() -> None:
    state = leader(1, 2)
    fetch(state, 2, 10)
    fetch(state, 3, 10)
    state.expand(3)
    state.appended(20, NOW + LAG_MS + 1)
    assert not fetch(state, 2, 20, NOW + LAG_MS + 1)
    state = leader(1, 2)
    state.appended(20, NOW)
    assert state.shrink(NOW + LAG_MS + 1) == Proposal(4, 7, ((1, 101),))
    assert not state.appended(21, NOW + LAG_MS + 2)
    assert state.commit(committed(1, partition_epoch=8), NOW + LAG_MS + 3)
    assert state.high_watermark == 21


def test_a_follower_that_had_everything_lately_stays() -> None:
    state = leader(1, 2)
    fetch(state, 2, 10)
    assert state.shrink(NOW + 10 * LAG_MS) is None, "it has everything"
    state.appended(20, NOW + 10 * LAG_MS)
    assert state.shrink(NOW + 10 * LAG_MS + 1) is None, "it had everything a moment ago"
    assert state.shrink(NOW + 11 * LAG_MS + 1) is not None


def test_a_follower_that_is_always_one_append_behind_stays() -> None:
    state = leader(1, 2)
    now_ms = NOW
    for end_offset in range(11, 20):
        now_ms += LAG_MS - 1
        state.appended(end_offset, now_ms)
        fetch(state, 2, end_offset - 1, now_ms)
    assert state.shrink(now_ms) is None


def test_a_refused_proposal_leaves_what_is_committed() -> None:
    state = leader(1, 2)
    fetch(state, 3, 10)
    proposal = state.expand(3)
    assert proposal is not None
    assert state.answered(proposal, ErrorCode.INELIGIBLE_REPLICA) is Reaction.DROP
    assert (state.proposal, state.maximal) == (None, {1, 2})
    assert state.answered(proposal, ErrorCode.INELIGIBLE_REPLICA) is Reaction.NONE


def test_a_proposal_that_was_overtaken_counts_until_the_metadata_comes() -> None:
    state = leader(1, 2)
    fetch(state, 3, 10)
    proposal = state.expand(3)
    assert proposal is not None
    assert state.answered(proposal, ErrorCode.INVALID_UPDATE_VERSION) is Reaction.AWAIT
    assert state.maximal == {1, 2, 3}
    state.commit(committed(1, partition_epoch=8), NOW)
    assert (state.proposal, state.maximal) == (None, {1})


def test_a_follower_knows_of_what_is_committed_as_far_as_its_log_reaches() -> None:
    follower = FollowerState(committed(1, 2), high_watermark=10)
    assert follower.follow_high_watermark(leader_high_watermark=20, end_offset=15)
    assert follower.high_watermark == 15
    assert not follower.follow_high_watermark(leader_high_watermark=12, end_offset=30), (
        "a leader that is behind takes nothing back"
    )
    assert follower.high_watermark == 15
    follower.follow(committed(2, leader_epoch=5))
    assert (follower.leader_epoch, follower.in_sync, follower.high_watermark) == (5, (2,), 15)


def test_what_is_cut_is_not_committed() -> None:
    follower = FollowerState(committed(1, 2), high_watermark=10)
    follower.truncated(12)
    assert follower.high_watermark == 10
    follower.truncated(7)
    assert follower.high_watermark == 7
