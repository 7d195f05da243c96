from __future__ import annotations

import asyncio
import time
from collections.abc import Generator

import pytest

from barnabas.node.turns import TURN_S, Lane, in_turns, step_in_turns


def steps_of(coroutine: object) -> tuple[int, object]:
    """How often the coroutine gave up its turn, and its result."""
    given_up = 0
    while True:
        try:
            assert coroutine.send(None) is None  # type: ignore[attr-defined]
        except StopIteration as finished:
            return given_up, finished.value
        given_up += 1


async def all_of(items: range, work_s: float) -> list[int]:
    done = []
    async for item in in_turns(items):
        until = time.perf_counter() + work_s
        while time.perf_counter() < until:
            pass
        done.append(item)
    return done


def test_short_work_is_done_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.node.turns.TURN_S", 60.0)
    assert steps_of(all_of(range(1000), 0)) == (0, list(range(1000)))


def test_long_work_is_done_in_turns() -> None:
    given_up, done = steps_of(all_of(range(20), TURN_S / 2))
    assert done == list(range(20))
    assert given_up >= 9


def test_a_generator_is_stepped_in_turns() -> None:
    def steps() -> Generator[None, None, str]:
        for _ in range(10):
            time.sleep(TURN_S)
            yield
        return "done"

    assert steps_of(step_in_turns(steps())) == (10, "done")


def test_in_a_turn_of_the_loop_one_step_is_taken_however_many_wait() -> None:
    asyncio.run(one_step_per_turn())


async def one_step_per_turn() -> None:
    lane, taken, turns = Lane(), list[str](), 0

    def again(name: str, times: int) -> None:
        taken.append(name)
        if times:
            lane.add(lambda: again(name, times - 1))

    for name in "abc":
        lane.add(lambda name=name: again(name, 2))  # type: ignore[misc]
    while len(lane):
        await asyncio.sleep(0)
        turns += 1
        assert len(taken) <= turns
    assert taken == list("abcabcabc")


def test_a_step_that_fails_does_not_stop_the_others() -> None:
    asyncio.run(one_fails())


async def one_fails() -> None:
    lane, taken = Lane(), list[str]()
    failures: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: failures.append(context["exception"]))

    def fail() -> None:
        raise ValueError("one of them")

    lane.add(fail)
    lane.add(lambda: taken.append("the other"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert (taken, [str(each) for each in failures]) == (["the other"], ["one of them"])
