"""Connections that come too fast, and clients that have to keep still."""

from __future__ import annotations

import time
from typing import Any

from barnabas.node.net.connection_rates import ConnectionRates
from barnabas.node.requests import RequestContext
from barnabas.wire.messages.api_versions import ApiVersionsResponse


def test_connections_beyond_the_quota_of_an_address_are_closed_later_and_not_counted(net: Any) -> None:
    async def scenario() -> None:
        async with net.run() as run:
            run.server.rates._clock = lambda: 0.0  # however long connecting takes
            run.server.rates.limit_of = lambda address: 2.0 if address == "127.0.0.1" else None
            welcome = [await run.connect() for _ in range(20)]  # ten windows of two
            for client in welcome:
                client.send(net.api_versions_frame(1))
                await client.answer()
            unwelcome = await run.connect()
            unwelcome.send(net.api_versions_frame(1))
            assert await unwelcome.closed_by_server()
            assert run.server.connection_count == 20

    net.play(scenario)


def test_connections_beyond_the_rate_of_the_node_wait_for_their_turn(net: Any) -> None:
    async def scenario() -> None:
        async with net.run() as run:
            run.server.rates._clock = lambda: 0.0
            run.server.rates.listener_limits = {"": 10.0}
            for _ in range(103):
                await run.connect()
            begun = time.monotonic()
            client = await run.connect()
            client.send(net.api_versions_frame(1))
            await client.answer()
            assert time.monotonic() - begun > 0.39

    net.play(scenario)


def test_a_client_that_has_to_keep_still_is_answered_and_then_waits(net: Any) -> None:
    async def handler(context: RequestContext, request: Any, node: Any) -> ApiVersionsResponse:
        if context.correlation_id == 1:
            context.session.keep_still(0.3)
        return ApiVersionsResponse()

    async def scenario() -> None:
        async with net.run(handler) as run:
            client = await run.connect()
            begun = time.monotonic()
            client.send(net.api_versions_frame(1), net.api_versions_frame(2))
            await client.answer()
            await client.answer()
            assert time.monotonic() - begun > 0.29

    net.play(scenario)


def test_addresses_without_a_limit_are_not_counted() -> None:
    rates = ConnectionRates(clock=lambda: 0.0)
    assert not rates.is_active
    rates.limit_of = {"10.0.0.1": 1.0}.get
    assert rates.is_active
    assert [rates.refuse_for_s("10.0.0.2") for _ in range(100)] == [0.0] * 100
    assert [rates.refuse_for_s("10.0.0.1") for _ in range(12)] == [0.0] * 10 + [1.0] * 2
