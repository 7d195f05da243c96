import pytest

from barnabas.core.replication.decide import Reaction, diverges, leader_epoch_error, reaction, truncation_offset
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
    ("leaders", "ours", "log_end_offset", "cut"),
    [
        ((5, 30), (5, 40), 40, 30),  # the same epoch goes on longer here
        ((5, 30), (5, 20), 40, 20),  # ... or shorter, with a later one behind it
        ((5, 30), (3, 25), 40, 25),  # epoch 5 is not here: cut at the end of the one before it, and ask again
        ((5, 30), (3, 25), 20, 20),
        ((5, 30), (-1, -1), 40, 30),  # no epoch is known here
    ],
)
def test_a_follower_cuts_its_log_where_the_leaders_differs(
    leaders: tuple[int, int], ours: tuple[int, int], log_end_offset: int, cut: int
) -> None:
    assert truncation_offset(leaders, ours, log_end_offset) == cut


@pytest.mark.parametrize(
    ("error", "reacts"),
    [
        (ErrorCode.INELIGIBLE_REPLICA, Reaction.DROP),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, Reaction.DROP),
        (ErrorCode.FENCED_LEADER_EPOCH, Reaction.AWAIT),
        (ErrorCode.INVALID_UPDATE_VERSION, Reaction.AWAIT),
        (ErrorCode.NEW_LEADER_ELECTED, Reaction.AWAIT),
        (ErrorCode.NOT_CONTROLLER, Reaction.RETRY),
        (ErrorCode.UNKNOWN_SERVER_ERROR, Reaction.RETRY),
    ],
)
def test_a_refused_proposal_is_dropped_awaited_or_repeated(error: ErrorCode, reacts: Reaction) -> None:
    assert reaction(error) is reacts
