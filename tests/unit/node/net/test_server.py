from __future__ import annotations

import asyncio
import logging
import socket
import struct
from typing import Any

import pytest

from barnabas.node.net import Listener, NetworkSettings
from barnabas.node.requests import RawResponse, RequestContext
from barnabas.wire.messages.api_versions import ApiVersionsResponse


async def serves(net: Any, client: Any) -> bool:
    client.send(net.api_versions_frame(77))
    try:
        return (await client.answer())[0] == 77
    except (asyncio.IncompleteReadError, ConnectionResetError):
        return False


def test_connections_over_the_limit_are_closed_at_once(net: Any) -> None:
    async def scenario() -> None:
        async with net.run(max_connections=2) as run:
            first, second, third = [await run.connect() for _ in range(3)]
            assert await third.closed_by_server()
            assert await serves(net, first)
            assert await serves(net, second)
            first.close()
            await net.until(lambda: run.server.connection_count == 1)
            assert await serves(net, await run.connect())
            assert run.server.counters.connections_refused == 1
            assert run.server.counters.connections_accepted == 3

    net.play(scenario)


def test_connections_of_one_address_are_counted_by_themselves(net: Any) -> None:
    async def scenario() -> None:
        async with net.run(max_connections_per_ip=1, max_connections_per_ip_overrides={"127.0.0.2": 2}) as run:
            clients = [await run.connect(local_addr=("127.0.0.1", 0)) for _ in range(2)]
            assert [await serves(net, client) for client in clients] == [True, False]
            clients = [await run.connect(local_addr=("127.0.0.2", 0)) for _ in range(3)]
            assert [await serves(net, client) for client in clients] == [True, True, False]

    net.play(scenario)


def test_limits_can_be_changed_while_clients_are_connected(net: Any) -> None:
    async def scenario() -> None:
        async with net.run(max_connections=1) as run:
            first = await run.connect()
            assert await serves(net, first)
            assert not await serves(net, await run.connect())
            run.server.reconfigure(NetworkSettings(max_connections=2))
            assert await serves(net, await run.connect())
            assert await serves(net, first)

    net.play(scenario)


def test_idle_connections_are_closed_and_busy_ones_are_not(net: Any) -> None:
    async def scenario() -> None:
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def handler(context: RequestContext, request: Any, node: Any) -> ApiVersionsResponse:
            if context.correlation_id == 1:
                await gate
            return ApiVersionsResponse()

        async with net.run(handler, max_idle_ms=200) as run:
            idle, waiting = await run.connect(), await run.connect()
            waiting.send(net.api_versions_frame(1))
            assert await serves(net, idle)
            assert await idle.closed_by_server()
            assert run.server.counters.connections_idle_closed == 1
            gate.set_result(None)
            assert (await waiting.answer())[0] == 1
            assert await waiting.closed_by_server()
            assert run.server._buckets.keys() <= {run.server.tick + each for each in range(10)}

    net.play(scenario)


def test_a_client_that_never_reads_is_idle_too(net: Any) -> None:
    async def handler(context: RequestContext, request: Any, node: Any) -> RawResponse:
        return RawResponse([bytes(30 << 20)])

    async def scenario() -> None:
        async with net.run(handler, max_idle_ms=200) as run:
            plug = socket.socket()
            plug.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(plug, ("127.0.0.1", run.listener.port))
            await loop.sock_sendall(plug, net.api_versions_frame(1))
            await net.until(lambda: run.server.counters.bytes_in > 0)
            await net.until(lambda: run.server.connection_count == 0)
            plug.close()

    net.play(scenario)


def test_a_stop_lets_requests_in_flight_finish(net: Any) -> None:
    async def scenario() -> None:
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def handler(context: RequestContext, request: Any, node: Any) -> ApiVersionsResponse:
            await gate
            return ApiVersionsResponse()

        async with net.run(handler) as run:
            idle, waiting = await run.connect(), await run.connect()
            waiting.send(net.api_versions_frame(5), net.api_versions_frame(6))
            await net.until(lambda: run.server.counters.bytes_in > 0 and run.server.connection_count == 2)
            stopping = asyncio.create_task(run.server.stop(grace_s=10))
            assert await idle.closed_by_server()
            with pytest.raises(ConnectionRefusedError):
                await run.connect()
            gate.set_result(None)
            assert (await waiting.answer())[0] == 5
            assert await waiting.closed_by_server()
            await stopping

    net.play(scenario)


def test_a_stop_waits_no_longer_than_its_grace(net: Any) -> None:
    async def scenario() -> None:
        ended: list[bool] = []

        async def handler(context: RequestContext, request: Any, node: Any) -> ApiVersionsResponse:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                ended.append(True)
            return ApiVersionsResponse()

        async with net.run(handler) as run:
            client = await run.connect()
            client.send(net.api_versions_frame(5))
            await net.until(lambda: run.server.counters.bytes_in > 0)
            await run.server.stop(grace_s=0.05)
            assert ended == [True]
            assert run.server.connection_count == 0
            assert await client.closed_by_server()

    net.play(scenario)


def test_a_bad_client_is_logged_once_with_its_address(net: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with net.run() as run:
            for _ in range(5):
                client = await run.connect()
                client.send(net.frame(struct.pack(">hhih", 999, 0, 1, -1)))
                assert await client.closed_by_server()
            assert run.server.counters.requests_invalid == 5

    with caplog.at_level(logging.WARNING):
        net.play(scenario)
    (line,) = [record.getMessage() for record in caplog.records]
    assert "127.0.0.1" in line
    assert "API key 999" in line


def test_an_empty_host_is_every_interface(net: Any) -> None:
    async def scenario() -> None:
        async with net.run() as run:
            everywhere = await run.server.listen(Listener(name="ANY", host="", port=0))
            reader, writer = await asyncio.open_connection("127.0.0.1", everywhere.port)
            writer.write(net.api_versions_frame(3))
            assert struct.unpack(">ii", await reader.readexactly(8))[1] == 3
            hosts = {connection.session.client_host for connection in run.server._connections}
            assert hosts == {"127.0.0.1"}
            writer.transport.abort()

    net.play(scenario)


def test_a_port_in_use_is_an_error_and_leaves_nothing_open(net: Any) -> None:
    async def scenario() -> None:
        async with net.run() as run:
            with pytest.raises(OSError, match="in use"):
                await run.server.listen(Listener(name="SECOND", host="127.0.0.1", port=run.listener.port))

    net.play(scenario)


def test_a_port_that_another_process_takes_between_binding_and_serving_is_refused_by_name(net: Any) -> None:
    async def scenario() -> None:
        async with net.run() as run:
            opened = await run.server.listen(Listener(name="LATE", host="127.0.0.1", port=0), serve=False)
            with socket.socket() as other:
                other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                other.bind(("127.0.0.1", opened.port))
                other.listen()
                with pytest.raises(OSError, match="Address already in use") as refused:
                    await run.server.serve()
            assert refused.value.filename == f"LATE://127.0.0.1:{opened.port}"

    net.play(scenario)


def test_a_listener_is_named_as_in_the_configuration() -> None:
    assert str(Listener(name="PLAINTEXT", host="::1", port=9092)) == "PLAINTEXT://[::1]:9092"
    assert str(Listener(name="SSL", host="", port=9093)) == "SSL://:9093"
