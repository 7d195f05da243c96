import pytest

from barnabas.core.replication.following import Resume, Step, next_step, resume
from barnabas.wire.errors import ErrorCode


@pytest.mark.parametrize(
    ("error", "diverging_epoch", "step"),
    [
        (ErrorCode.NONE, -1, Step.APPEND),
        (ErrorCode.NONE, 3, Step.TRUNCATE),
        (ErrorCode.OFFSET_OUT_OF_RANGE, -1, Step.FIND_RANGE),
        (ErrorCode.FENCED_LEADER_EPOCH, -1, Step.STOP),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, Step.WAIT),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, Step.WAIT),
        (999, -1, Step.WAIT),
    ],
)
def test_an_answer_says_what_comes_next(error: int, diverging_epoch: int, step: Step) -> None:
    assert next_step(error, diverging_epoch, 5, 5) is step


def test_an_answer_of_a_former_leader_epoch_is_forgotten() -> None:
    assert next_step(0, 3, asked_epoch=4, present_epoch=5) is Step.FORGET


def test_a_follower_with_more_than_the_leader_keeps_what_the_leader_has() -> None:
    assert resume(0, 10, 15) == Resume(10)


def test_a_follower_behind_the_leaders_start_begins_there() -> None:
    assert resume(20, 30, 15) == Resume(20, empties=True)


def test_a_follower_within_the_leaders_log_goes_on() -> None:
    assert resume(5, 30, 15) == Resume(15)
