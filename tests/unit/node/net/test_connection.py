from __future__ import annotations

import asyncio
import os
import socket
import struct
from typing import Any

import pytest

from barnabas.node.net.connection import BASE_BYTES, REQUESTS_PER_TURN, WRITE_HIGH_BYTES, ClientConnection
from barnabas.node.net.server import Server
from barnabas.node.requests import RawResponse, RequestContext
from barnabas.wire.messages.api_versions import ApiVersionsResponse
from barnabas.wire.messages.produce import ProduceRequest


def only_connection(server: Server) -> ClientConnection:
    (connection,) = server._connections
    return connection


def records_of(request: ProduceRequest) -> memoryview:
    records = request.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    return records


def test_a_request_in_single_bytes_is_served(net: Any) -> None:
    async def scenario() -> None:
        async with net.run() as run:
            client = await run.connect()
            for correlation_id in (1, 2):
                for byte in net.api_versions_frame(correlation_id):
                    client.send(bytes([byte]))
                    await asyncio.sleep(0)
                assert (await client.answer())[0] == correlation_id

    net.play(scenario)


def test_more_requests_than_the_buffer_holds_are_answered_in_order(net: Any) -> None:
    count = BASE_BYTES // 18 * 5 + REQUESTS_PER_TURN // 2

    async def scenario() -> None:
        async with net.run() as run:
            client = await run.connect()
            client.send(*(net.api_versions_frame(index) for index in range(count)))
            assert [(await client.answer())[0] for _ in range(count)] == list(range(count))

    net.play(scenario)


class CountingTransport:
    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self.writes = 0

    def write(self, data: bytes) -> None:
        self.writes += 1
        self._transport.write(data)

    def writelines(self, parts: list[bytes]) -> None:
        self.writes += 1
        self._transport.writelines(parts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def test_answers_to_requests_that_came_together_leave_together(net: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.node.net.connection.TURN_S", 60.0)  # a busy machine may need two turns

    async def handler(context: RequestContext, request: Any, node: Any) -> ApiVersionsResponse | RawResponse:
        return ApiVersionsResponse() if context.correlation_id % 2 else RawResponse([b"ab", b"cd"])

    async def scenario() -> None:
        async with net.run(handler) as run:
            client = await run.connect()
            client.send(net.api_versions_frame(1))
            await client.answer()
            connection = only_connection(run.server)
            connection._transport = counting = CountingTransport(connection._transport)
            client.send(*(net.api_versions_frame(index) for index in range(50)))
            assert [(await client.answer())[0] for _ in range(50)] == list(range(50))
            assert counting.writes == 1

    net.play(scenario)


def test_a_request_that_waits_holds_back_the_answers_behind_it(net: Any) -> None:
    async def scenario() -> None:
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        served: list[int] = []

        async def handler(context: RequestContext, request: Any, node: Any) -> ApiVersionsResponse:
            served.append(context.correlation_id)
            if context.correlation_id == 0:
                await gate
            if context.correlation_id == 1:
                await asyncio.sleep(0)
            return ApiVersionsResponse()

        async with net.run(handler) as run:
            client = await run.connect()
            client.send(*(net.api_versions_frame(index) for index in range(5)))
            await net.until(lambda: served == [0])
            assert not gate.done()
            gate.set_result(None)
            assert [(await client.answer())[0] for _ in range(5)] == [0, 1, 2, 3, 4]
            assert served == [0, 1, 2, 3, 4]

    net.play(scenario)


def test_a_request_may_want_no_answer(net: Any) -> None:
    async def handler(context: RequestContext, request: Any, node: Any) -> ApiVersionsResponse | None:
        if context.correlation_id == 2:
            await asyncio.sleep(0)
        return None if context.correlation_id < 3 else ApiVersionsResponse()

    async def scenario() -> None:
        async with net.run(handler) as run:
            client = await run.connect()
            client.send(*(net.api_versions_frame(index) for index in range(4)))
            assert (await client.answer())[0] == 3

    net.play(scenario)


@pytest.mark.parametrize("size", [0, 1, BASE_BYTES - 50, BASE_BYTES, BASE_BYTES + 1, 1 << 20, 9_000_001])
def test_frames_of_any_size_arrive_whole_between_small_ones(net: Any, size: int) -> None:
    seen: list[bytes] = []

    async def handler(context: RequestContext, request: ProduceRequest, node: Any) -> ApiVersionsResponse:
        seen.append(bytes(records_of(request)))
        return ApiVersionsResponse()

    async def scenario() -> None:
        payloads = [os.urandom(100), os.urandom(size), os.urandom(30_000), os.urandom(size), os.urandom(1)]
        async with net.run(handler) as run:
            client = await run.connect()
            client.send(*(net.produce_frame(index, payload) for index, payload in enumerate(payloads)))
            assert [(await client.answer())[0] for _ in payloads] == [0, 1, 2, 3, 4]
            assert seen == payloads

    net.play(scenario)


def test_records_are_a_view_of_the_receive_buffer_that_may_be_written_to(net: Any) -> None:
    async def scenario() -> None:
        buffers: list[object] = []

        async def handler(context: RequestContext, request: ProduceRequest, node: Any) -> ApiVersionsResponse:
            records = records_of(request)
            buffers.append(records.obj)
            assert records[:4] == b"abcd"
            struct.pack_into(">i", records, 0, 7)
            return ApiVersionsResponse()

        async with net.run(handler) as run:
            client = await run.connect()
            for index in range(3):
                client.send(net.produce_frame(index, b"abcd"))
                await client.answer()
            assert len({id(buffer) for buffer in buffers}) == 1
            assert buffers[0] is only_connection(run.server)._view.obj

    net.play(scenario)


def test_a_frame_stays_where_it_is_until_its_request_is_answered(net: Any) -> None:
    async def scenario() -> None:
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        seen: list[bool] = []
        payload = os.urandom(100_000)

        async def handler(context: RequestContext, request: ProduceRequest, node: Any) -> ApiVersionsResponse:
            records = records_of(request)
            if context.correlation_id == 0:
                await gate
            seen.append(bytes(records) == payload)
            return ApiVersionsResponse()

        async with net.run(handler) as run:
            client = await run.connect()
            client.send(*(net.produce_frame(index, payload) for index in range(20)))
            await net.until(lambda: only_connection(run.server)._read_paused)
            assert seen == []
            gate.set_result(None)
            assert [(await client.answer())[0] for _ in range(20)] == list(range(20))
            assert seen == [True] * 20

    net.play(scenario)


def test_a_declared_length_alone_allocates_nothing(net: Any) -> None:
    async def scenario() -> None:
        async with net.run() as run:
            client = await run.connect()
            client.send(struct.pack(">i", 90 << 20), bytes(1000))
            await net.until(lambda: run.server.counters.bytes_in == 1004)
            assert len(only_connection(run.server)._view) == BASE_BYTES
            client.send(bytes(300_000))
            await net.until(lambda: run.server.counters.bytes_in == 301_004)
            assert len(only_connection(run.server)._view) <= 4 * 301_004

    net.play(scenario)


@pytest.mark.parametrize("size", [-1, -(2**31), (1 << 20) + 1, 2**31 - 1])
def test_an_impossible_frame_length_closes_after_earlier_answers(net: Any, size: int) -> None:
    async def scenario() -> None:
        async with net.run(request_max_bytes=1 << 20) as run:
            client = await run.connect()
            client.send(net.api_versions_frame(1), struct.pack(">i", size))
            assert (await client.answer())[0] == 1
            assert await client.closed_by_server()
            await net.until(lambda: run.server.connection_count == 0)

    net.play(scenario)


def test_an_empty_buffer_is_given_back_and_taken_again(net: Any) -> None:
    async def scenario() -> None:
        async with net.run(max_idle_ms=400_000) as run:
            client = await run.connect()
            client.send(net.produce_frame(1, bytes(1 << 20)))
            await client.answer()
            assert run.server.budget.used_bytes > 0
            for _ in range(3):
                run.server._on_tick()
            assert run.server.budget.used_bytes == 0
            assert run.server.buffered == set()
            client.send(net.api_versions_frame(2))
            assert (await client.answer())[0] == 2

    net.play(scenario)


def test_a_client_that_does_not_read_is_served_no_further(net: Any) -> None:
    part = os.urandom(1 << 20)

    async def scenario() -> None:
        served = 0

        async def handler(context: RequestContext, request: Any, node: Any) -> RawResponse:
            nonlocal served
            served += 1
            return RawResponse([part])

        async with net.run(handler) as run:
            client = await run.connect(limit=1 << 16)
            client.send(*(net.api_versions_frame(index) for index in range(50)))
            await net.until(lambda: only_connection(run.server)._write_paused)
            assert served < 12
            for index in range(50):
                correlation_id, body = await client.answer()
                assert correlation_id == index
                assert body == part
            assert served == 50

    net.play(scenario)


class CountingRegion:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.bytes_read = 0

    def __len__(self) -> int:
        return len(self.data)

    def read(self, offset: int, size: int) -> bytes:
        self.bytes_read += size
        return self.data[offset : offset + size]


def test_regions_are_read_only_as_fast_as_the_client_takes_them(net: Any) -> None:
    data = os.urandom(20 << 20)

    async def scenario() -> None:
        regions: list[CountingRegion] = []

        async def handler(context: RequestContext, request: Any, node: Any) -> RawResponse:
            if context.correlation_id == 1:
                await asyncio.sleep(0)
            regions.append(CountingRegion(data))
            return RawResponse([b"head", regions[-1], memoryview(b"middle"), CountingRegion(b"x"), b"tail"])

        async with net.run(handler) as run:
            client = await run.connect(limit=1 << 16)
            client.send(*(net.api_versions_frame(index) for index in range(3)))
            await net.until(lambda: only_connection(run.server)._write_paused)
            assert regions[0].bytes_read < WRITE_HIGH_BYTES + (8 << 20)
            assert len(regions) == 1
            for index in range(3):
                correlation_id, body = await client.answer()
                assert correlation_id == index
                assert body == b"head" + data + b"middlextail"

    net.play(scenario)


def test_a_region_that_can_no_longer_be_read_ends_the_connection(net: Any) -> None:
    class Gone(CountingRegion):
        def read(self, offset: int, size: int) -> bytes:
            raise OSError("the segment is gone")

    async def handler(context: RequestContext, request: Any, node: Any) -> RawResponse:
        return RawResponse([Gone(b"abc")])

    async def scenario() -> None:
        async with net.run(handler) as run:
            client = await run.connect()
            client.send(net.api_versions_frame(1))
            await client.closed_by_server()
            await net.until(lambda: run.server.connection_count == 0)

    net.play(scenario)


def test_a_lost_connection_ends_the_handlers_wait_and_leaves_the_future_to_others(net: Any) -> None:
    async def scenario() -> None:
        shared: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        told: list[str] = []

        async def handler(context: RequestContext, request: Any, node: Any) -> ApiVersionsResponse:
            told.append("waits")
            try:
                await shared
            finally:
                told.append("removed")
                await asyncio.sleep(0)
                told.append("cleaned up")
            return ApiVersionsResponse()

        async with net.run(handler) as run:
            client = await run.connect()
            client.send(net.api_versions_frame(1))
            await net.until(lambda: told == ["waits"])
            client.close()
            await net.until(lambda: told == ["waits", "removed", "cleaned up"])
            assert not shared.cancelled()
            shared.set_result(None)
            await asyncio.sleep(0)
            assert run.server.counters.bytes_out == 0

    net.play(scenario)


def test_a_failure_without_a_place_in_the_response_closes_the_connection(net: Any) -> None:
    async def handler(context: RequestContext, request: Any, node: Any) -> ApiVersionsResponse:
        if context.correlation_id == 2:
            await asyncio.sleep(0)
        raise RuntimeError("broken")

    async def scenario() -> None:
        async with net.run(handler) as run:
            for correlation_id in (1, 2):
                client = await run.connect()
                client.send(net.produce_frame(correlation_id, b""))
                assert await client.closed_by_server()

    net.play(scenario)


def test_connections_share_nothing(net: Any) -> None:
    async def handler(context: RequestContext, request: ProduceRequest, node: Any) -> RawResponse:
        if context.correlation_id % 3 == 0:
            await asyncio.sleep(0)
        return RawResponse([bytes(records_of(request))])

    async def talk(run: Any, who: int) -> None:
        client = await run.connect()
        for size in (10, 70_000, 200, 300_000, 5):
            mine = bytes([who]) * size
            client.send(*(net.produce_frame(who * 100 + index, mine) for index in range(4)))
            for index in range(4):
                correlation_id, body = await client.answer()
                assert correlation_id == who * 100 + index
                assert body == mine

    async def scenario() -> None:
        async with net.run(handler) as run:
            await asyncio.gather(*(talk(run, who) for who in range(20)))

    net.play(scenario)


def test_the_sockets_options_are_those_of_the_settings(net: Any) -> None:
    async def scenario() -> None:
        async with net.run(send_buffer_bytes=50_000, receive_buffer_bytes=60_000) as run:
            client = await run.connect()
            client.send(net.api_versions_frame(1))
            await client.answer()
            accepted = only_connection(run.server)._transport.get_extra_info("socket")
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 100_000
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 120_000

    net.play(scenario)


def test_a_receive_buffer_of_kafkas_default_is_left_to_the_system(net: Any) -> None:
    async def scenario() -> None:
        async with net.run() as run:
            client = await run.connect()
            client.send(net.api_versions_frame(1))
            await client.answer()
            accepted = only_connection(run.server)._transport.get_extra_info("socket")
            with socket.socket() as untouched:
                chosen = untouched.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) >= chosen

    net.play(scenario)
