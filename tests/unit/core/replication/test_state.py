from barnabas.core.replication.state import UNKNOWN_END_OFFSET, LeaderState


def leader(*in_sync: int, end_offset: int = 10, high_watermark: int = 10) -> LeaderState:
    return LeaderState(1, 4, in_sync, end_offset, high_watermark)


def test_alone_a_leader_commits_what_it_appends() -> None:
    state = leader(1)
    assert state.appended(15)
    assert state.high_watermark == 15


def test_a_leader_that_starts_alone_commits_all_it_holds() -> None:
    assert leader(1, end_offset=10, high_watermark=3).high_watermark == 10


def test_a_record_is_committed_when_the_slowest_in_sync_follower_has_it() -> None:
    state = leader(1, 2, 3)
    assert not state.appended(20)
    assert not state.follower_at(2, 18)
    assert state.follower_at(3, 15)
    assert state.high_watermark == 15
    assert state.follower_at(3, 20)
    assert state.high_watermark == 18


def test_a_follower_that_is_not_in_sync_holds_nobody_back() -> None:
    state = leader(1, 2)
    state.appended(20)
    assert not state.follower_at(3, 11)
    assert state.follower_at(2, 20)
    assert state.high_watermark == 20


def test_without_its_slowest_follower_the_high_watermark_advances() -> None:
    state = leader(1, 2)
    state.appended(20)
    assert state.set_in_sync([1])
    assert state.high_watermark == 20


def test_the_high_watermark_never_goes_back() -> None:
    state = leader(1, 2, end_offset=20, high_watermark=20)
    assert not state.follower_at(2, 5)
    assert state.high_watermark == 20


def test_in_a_new_epoch_followers_must_show_themselves_again() -> None:
    state = leader(1, 2)
    state.appended(20)
    state.follower_at(2, 20)
    assert not state.lead(5, [1, 2], 25)
    assert (state.leader_epoch, state.high_watermark) == (5, 20)
    assert state.end_offset_of(2) == UNKNOWN_END_OFFSET
    assert state.follower_at(2, 25)


def test_without_any_in_sync_replica_nothing_is_committed() -> None:
    state = leader()
    assert not state.appended(20)
    assert state.high_watermark == 10
