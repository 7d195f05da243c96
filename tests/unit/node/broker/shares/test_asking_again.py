"""What a share coordinator is asked while it is about to be another one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from barnabas.node.broker.shares import persister
from barnabas.node.broker.shares.persister import ask_until_settled
from barnabas.wire.errors import ErrorCode, KafkaError


def answers(*codes: ErrorCode) -> tuple[Callable[[], Awaitable[str]], list[ErrorCode]]:
    left = list(codes)

    async def ask() -> str:
        code = left.pop(0)
        if code is not ErrorCode.NONE:
            raise KafkaError(code)
        return "done"

    return ask, left


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persister, "BACKOFF_MS", 1)
    monkeypatch.setattr(persister, "BACKOFF_MAX_MS", 1)


def test_errors_that_pass_are_waited_for() -> None:
    ask, left = answers(ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE)
    assert asyncio.run(ask_until_settled(ask, lambda: True)) == "done"
    assert not left


def test_an_error_that_stays_is_told_at_once() -> None:
    ask, left = answers(ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NONE)
    with pytest.raises(KafkaError, match="FENCED_LEADER_EPOCH"):
        asyncio.run(ask_until_settled(ask, lambda: True))
    assert left == [ErrorCode.NONE]


def test_nobody_asks_again_for_what_is_not_wanted_any_more() -> None:
    wanted = iter([True, False])
    ask, left = answers(ErrorCode.NOT_COORDINATOR, ErrorCode.NONE)
    with pytest.raises(KafkaError, match="NOT_COORDINATOR"):
        asyncio.run(ask_until_settled(ask, lambda: next(wanted)))
    assert left == [ErrorCode.NONE]


def test_the_time_for_it_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persister, "RETRIED_FOR_S", 0.02)
    ask, left = answers(*[ErrorCode.NOT_COORDINATOR] * 1000)
    with pytest.raises(KafkaError, match="NOT_COORDINATOR"):
        asyncio.run(ask_until_settled(ask, lambda: True))
    assert 900 < len(left) < 1000
