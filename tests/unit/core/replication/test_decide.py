import pytest

from barnabas.core.replication.decide import diverges, has_enough_replicas, leader_epoch_error
from barnabas.wire.errors import ErrorCode


@pytest.mark.parametrize(
    ("theirs", "error"),
    [
        (-1, ErrorCode.NONE),
        (5, ErrorCode.NONE),
        (4, ErrorCode.FENCED_LEADER_EPOCH),
        (-2, ErrorCode.FENCED_LEADER_EPOCH),
        (6, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_client_of_another_epoch_is_told_who_is_behind(theirs: int, error: ErrorCode) -> None:
    assert leader_epoch_error(5, theirs) == error


def test_a_fetcher_with_our_history_does_not_diverge() -> None:
    assert not diverges(fetched_epoch=3, fetch_offset=10, epoch=3, end_offset=10)


def test_a_fetcher_with_more_records_of_an_epoch_than_we_have_diverges() -> None:
    assert diverges(fetched_epoch=3, fetch_offset=11, epoch=3, end_offset=10)


def test_a_fetcher_with_an_epoch_we_never_saw_diverges() -> None:
    assert diverges(fetched_epoch=3, fetch_offset=5, epoch=2, end_offset=10)


@pytest.mark.parametrize(
    ("acks", "in_sync", "replicas", "min_in_sync", "enough"),
    [(-1, 1, 1, 1, True), (-1, 1, 3, 2, False), (1, 1, 3, 2, True), (-1, 1, 1, 2, True), (-1, 2, 3, 2, True)],
)
def test_acks_all_wants_its_minimum_of_in_sync_replicas(
    acks: int, in_sync: int, replicas: int, min_in_sync: int, enough: bool
) -> None:
    assert has_enough_replicas(acks, in_sync, replicas, min_in_sync) is enough
