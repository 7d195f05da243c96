"""Which transactions a batch needs, decided from what its tasks report."""

from __future__ import annotations

import pytest

from barnabas.pipelines.spark.sink.commit import to_commit
from barnabas.pipelines.spark.sink.messages import Digest, Message, Prepared, SinkError, Skipped, Trace, Turn
from barnabas.pipelines.spark.sink.transactions import SinkTransaction


def turn(task: int) -> Turn:
    return Turn("barnabas.q.s.", task, 7, "run")


def prepared(task: int, rows: int, digest: int) -> Prepared:
    return Prepared(turn(task), SinkTransaction(f"barnabas.q.s.{task}", 1, 0), Digest(rows, digest), 0.0, False)


def skipped(task: int, committed: Digest, now: Digest) -> Skipped:
    return Skipped(turn(task), committed, now)


def nobody(task: int) -> Digest | None:
    return None


def tasks(chosen: list[Prepared]) -> list[int]:
    return [one.turn.task for one in chosen]


def test_all_that_is_prepared_is_committed_in_the_order_of_tasks() -> None:
    assert tasks(to_commit([prepared(2, 1, 1), prepared(0, 1, 1), prepared(1, 0, 0)], nobody)) == [0, 1, 2]


def test_what_was_committed_with_the_same_rows_is_left_alone() -> None:
    messages: list[Message] = [skipped(0, Digest(2, 9), Digest(2, 9)), prepared(1, 1, 4)]
    assert tasks(to_commit(messages, nobody)) == [1]


def test_rows_that_only_moved_between_tasks_are_all_there() -> None:
    messages: list[Message] = [skipped(0, Digest(2, 5), Digest(1, 4)), skipped(1, Digest(1, 3), Digest(2, 4))]
    assert to_commit(messages, nobody) == []


def test_rows_that_tasks_beyond_the_present_number_committed_count() -> None:
    messages: list[Message] = [skipped(0, Digest(1, 5), Digest(3, 12))]
    beyond = {1: Digest(1, 3), 2: Digest(1, 4)}
    assert to_commit(messages, beyond.get) == []


def test_rows_that_more_tasks_hold_now_are_not_committed_twice() -> None:
    messages: list[Message] = [skipped(0, Digest(2, 5), Digest(1, 2)), prepared(1, 1, 3)]
    assert to_commit(messages, nobody) == []


@pytest.mark.parametrize(
    "messages",
    [
        [skipped(0, Digest(1, 5), Digest(1, 6))],
        [skipped(0, Digest(1, 5), Digest(2, 5))],
        [skipped(0, Digest(2, 5), Digest(1, 2)), prepared(1, 2, 7)],
    ],
)
def test_anything_else_is_not_deterministic(messages: list[Message]) -> None:
    with pytest.raises(SinkError, match=r"batch 7 of barnabas\.q\.s is not deterministic"):
        to_commit(messages, nobody)


def test_sums_of_hashes_wrap() -> None:
    top = (1 << 64) - 1
    assert Digest(1, top) + Digest(1, 2) == Digest(2, 1)


@pytest.mark.parametrize("run", ["", "5f0c", "a b"])
@pytest.mark.parametrize("onward", ["", '{"ends":[[1, 2]]}'])
def test_a_trace_is_read_as_it_was_written(run: str, onward: str) -> None:
    trace = Trace(Digest(12, 0xFEDCBA9876543210), run, onward)
    assert Trace.parse(str(trace)) == trace


@pytest.mark.parametrize("text", ["", "12", "x y z"])
def test_a_trace_of_somebody_else_is_refused(text: str) -> None:
    with pytest.raises(SinkError, match="which this sink has not written"):
        Trace.parse(text)
