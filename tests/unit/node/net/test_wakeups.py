"""Requests that wait are answered before the one that wakes them, if they are few."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from barnabas.node.net import connection
from barnabas.node.net.connection import ClientConnection
from barnabas.node.requests import RequestContext
from barnabas.node.wakeups import ANSWERED_FIRST_MAX, Wakeup
from barnabas.wire.messages.api_versions import ApiVersionsResponse

WAKES_ALL = 1_000


class Waiting:
    """A handler: one correlation id wakes all others, which wait."""

    def __init__(self) -> None:
        self.wakeups: list[Wakeup] = []
        self.answered: list[int] = []

    async def handle(self, context: RequestContext, request: Any, node: Any) -> ApiVersionsResponse:
        if context.correlation_id == WAKES_ALL:
            for each in self.wakeups:
                each.wake()
        else:
            self.wakeups.append(Wakeup())
            await self.wakeups[-1]
        return ApiVersionsResponse()


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Correlation ids in the order in which their answers are handed to sockets."""
    order: list[int] = []
    write = ClientConnection._write

    def noting(connection: ClientConnection, parts: list[Any]) -> None:
        order.extend(int.from_bytes(part[4:8], "big") for part in parts)
        write(connection, parts)

    monkeypatch.setattr(ClientConnection, "_write", noting)
    return order


@pytest.mark.parametrize("count", [1, ANSWERED_FIRST_MAX, ANSWERED_FIRST_MAX + 3])
def test_those_that_wait_are_answered_before_the_one_that_wakes_them(net: Any, written: list[int], count: int) -> None:
    handler = Waiting()

    async def scenario() -> None:
        async with net.run(handler.handle) as run:
            waiting = [await run.connect() for _ in range(count)]
            for number, client in enumerate(waiting):
                client.send(net.api_versions_frame(number))
            await net.until(lambda: len(handler.wakeups) == count)
            waker = await run.connect()
            waker.send(net.api_versions_frame(WAKES_ALL))
            assert (await waker.answer())[0] == WAKES_ALL
            assert sorted([(await client.answer())[0] for client in waiting]) == list(range(count))

    net.play(scenario)
    first = min(count, ANSWERED_FIRST_MAX)
    assert written.index(WAKES_ALL) == first
    assert len(written) == count + 1


def test_answers_of_one_connection_keep_their_order_whoever_wakes_whom(
    net: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first connection wakes the second, whose next request wakes what waits on the first one: both requests of the
    first belong to one turn, however long a busy machine takes for it."""
    monkeypatch.setattr(connection, "TURN_S", 60.0)
    handler = Waiting()

    async def scenario() -> None:
        async with net.run(handler.handle) as run:
            first, second = await run.connect(), await run.connect()
            second.send(net.api_versions_frame(1), net.api_versions_frame(WAKES_ALL))
            await net.until(lambda: len(handler.wakeups) == 1)
            first.send(net.api_versions_frame(WAKES_ALL), net.api_versions_frame(2))
            assert [(await first.answer())[0] for _ in range(2)] == [WAKES_ALL, 2]
            assert [(await second.answer())[0] for _ in range(2)] == [1, WAKES_ALL]

    net.play(scenario)


def test_one_that_is_woken_by_its_timer_or_whose_client_has_gone_is_left_to_the_loop(net: Any) -> None:
    handler = Waiting()

    async def scenario() -> None:
        async with net.run(handler.handle) as run:
            stays, goes, wakes = [await run.connect() for _ in range(3)]
            stays.send(net.api_versions_frame(1))
            await net.until(lambda: len(handler.wakeups) == 1)
            goes.send(net.api_versions_frame(2))
            await net.until(lambda: len(handler.wakeups) == 2)
            goes.close()
            await net.until(lambda: run.server.connection_count == 2)
            asyncio.get_running_loop().call_later(0.01, handler.wakeups[0].wake)
            assert (await stays.answer())[0] == 1
            wakes.send(net.api_versions_frame(WAKES_ALL))
            assert (await wakes.answer())[0] == WAKES_ALL

    net.play(scenario)


def test_a_future_of_the_loop_is_awaited_as_before() -> None:
    async def scenario() -> None:
        wakeup = Wakeup()
        task = asyncio.ensure_future(asyncio.wait_for(wakeup, 10))
        await asyncio.sleep(0)
        wakeup.wake()
        wakeup.wake()
        await task

    asyncio.run(scenario())
