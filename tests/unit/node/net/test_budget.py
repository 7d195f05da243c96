from __future__ import annotations

import asyncio
import os
from typing import Any

from barnabas.node.net.budget import SILENT_TICKS, ReceiveBudget
from barnabas.node.requests import RequestContext
from barnabas.wire.messages.api_versions import ApiVersionsResponse


class Holder:
    def __init__(self, budget: ReceiveBudget) -> None:
        self.budget = budget
        self.held_bytes = 0
        self.last_active_tick = 0
        self.is_receiving = True
        self.proceeded = 0
        self.aborted = False

    def proceed(self) -> None:
        self.proceeded += 1

    def abort(self, reason: str) -> None:
        self.aborted = True
        self.budget.give_back(self)


def test_who_asks_beyond_the_budget_waits_until_others_give_back() -> None:
    budget = ReceiveBudget(100)
    first, second, third = Holder(budget), Holder(budget), Holder(budget)
    assert budget.take(first, 60)
    assert not budget.take(second, 50)
    assert not budget.take(third, 10)
    budget.give_back(first)
    assert (second.proceeded, third.proceeded) == (1, 1)
    assert budget.used_bytes == 60
    assert budget.waiting == 0


def test_who_leaves_the_line_gets_nothing() -> None:
    budget = ReceiveBudget(100)
    first, second, third = Holder(budget), Holder(budget), Holder(budget)
    assert budget.take(first, 90)
    assert not budget.take(second, 50)
    assert not budget.take(third, 10)
    budget.give_back(second)
    assert second.proceeded == 0
    assert third.proceeded == 1


def test_if_everybody_waits_the_first_goes_over_the_budget_to_the_end_of_its_frame() -> None:
    budget = ReceiveBudget(100)
    first, second = Holder(budget), Holder(budget)
    assert budget.take(first, 50)
    assert budget.take(second, 50)
    assert not budget.take(first, 100)
    budget.relieve(1)
    budget.relieve(2)
    assert first.proceeded == 0
    assert not budget.take(second, 100)
    budget.relieve(3)
    assert (first.proceeded, second.proceeded) == (1, 0)
    assert budget.take(first, 100)
    budget.give_back(first)
    assert second.proceeded == 0
    budget.relieve(4)
    budget.relieve(5)
    assert second.proceeded == 1
    budget.give_back(second)
    assert budget.used_bytes == 0


def test_a_silent_client_does_not_sit_on_what_others_wait_for() -> None:
    budget = ReceiveBudget(100)
    silent, waiting = Holder(budget), Holder(budget)
    assert budget.take(silent, 100)
    assert not budget.take(waiting, 50)
    for tick in range(SILENT_TICKS):
        budget.relieve(tick)
    assert not silent.aborted
    budget.relieve(SILENT_TICKS)
    assert silent.aborted
    assert waiting.proceeded == 1


def test_more_large_requests_than_the_budget_holds_are_all_served(net: Any) -> None:
    async def scenario() -> None:
        payload = os.urandom(1 << 20)
        most_used = 0

        async def handler(context: RequestContext, request: Any, node: Any) -> ApiVersionsResponse:
            nonlocal most_used
            most_used = max(most_used, run.server.budget.used_bytes)
            await asyncio.sleep(0.001)
            assert bytes(request.topic_data[0].partition_data[0].records) == payload
            return ApiVersionsResponse()

        async def talk(who: int) -> None:
            client = await run.connect()
            for index in range(4):
                client.send(net.produce_frame(index, payload))
                assert (await client.answer())[0] == index

        async with net.run(handler, queued_max_bytes=4 << 20, max_idle_ms=60_000) as run:
            run.server._tick_s = 0.01
            run.server._on_tick()
            await asyncio.gather(*(talk(who) for who in range(16)))
            assert most_used <= (4 << 20) + (2 << 20)

    net.play(scenario)
