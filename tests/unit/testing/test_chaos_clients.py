"""A call of librdkafka that does not return: the client of a chaos run goes on without it."""

from __future__ import annotations

import threading

import pytest

from tests.support.chaos.clients import Stuck, within


def test_who_is_stuck_is_left_alone() -> None:
    over = threading.Event()
    with pytest.raises(Stuck):
        within(0.01, over.wait)
    over.set()


def test_what_a_call_raises_is_raised() -> None:
    def fail() -> None:
        raise KeyError("no")

    with pytest.raises(KeyError):
        within(60, fail)


def test_who_returns_in_time_is_heard() -> None:
    heard: list[int] = []
    within(60, lambda: heard.append(1))
    assert heard == [1]
