"""A server on a free port whose handler is the test's own, and a raw client in the same loop."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop

from barnabas.core.metadata.state import MetadataImage
from barnabas.node.dispatch import Dispatcher, Handler, Route
from barnabas.node.handlers import HANDLERS
from barnabas.node.net import Listener, NetworkSettings, Server
from barnabas.wire.messages.api_versions import ApiVersionsResponse
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.waiting import until

WAIT_S = 20.0


class FakeNode:
    image = MetadataImage()


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, *frames: bytes) -> None:
        self.writer.write(b"".join(frames))

    async def answer(self) -> tuple[int, bytes]:
        """The next answer's correlation id and body."""
        async with asyncio.timeout(WAIT_S):
            size, correlation_id = struct.unpack(">ii", await self.reader.readexactly(8))
            return correlation_id, await self.reader.readexactly(size - 4)

    async def closed_by_server(self) -> bool:
        async with asyncio.timeout(WAIT_S):
            try:
                return await self.reader.read() == b""
            except ConnectionResetError:
                return True

    def close(self) -> None:
        self.writer.transport.abort()


class Running:
    def __init__(self, server: Server, listener: Listener) -> None:
        self.server = server
        self.listener = listener
        self.clients: list[Client] = []

    async def connect(self, **options: Any) -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self.listener.port, **options))
        self.clients.append(client)
        return client


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def api_versions_frame(correlation_id: int, client_id: bytes = b"test") -> bytes:
    return frame(struct.pack(">hhih", 18, 0, correlation_id, len(client_id)) + client_id)


def produce_frame(correlation_id: int, records: bytes) -> bytes:
    data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=records)])
    body = ProduceRequest(acks=1, topic_data=[data]).encode(3)
    return frame(struct.pack(">hhih", 0, 3, correlation_id, -1) + body)


async def answer_at_once(context: Any, request: Any, node: Any) -> ApiVersionsResponse:
    return ApiVersionsResponse()


@asynccontextmanager
async def running(handler: Handler = answer_at_once, **settings: Any) -> AsyncIterator[Running]:
    def replace_handler(route: Route, handle: Handler) -> Handler:
        return handler

    server = Server(Dispatcher(FakeNode(), [replace_handler]), NetworkSettings(**settings))
    run = Running(server, await server.listen(Listener(name="PLAINTEXT", host="127.0.0.1", port=0)))
    try:
        yield run
    finally:
        for client in run.clients:
            client.close()
        await server.stop(grace_s=0.1)


@pytest.fixture(autouse=True)
def produce_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its handler is never reached: the tests put their own in its place."""
    monkeypatch.setitem(HANDLERS, 0, HANDLERS[18])


@pytest.fixture
def net() -> Any:
    class Net:
        run = staticmethod(running)
        until = staticmethod(until)
        frame = staticmethod(frame)
        api_versions_frame = staticmethod(api_versions_frame)
        produce_frame = staticmethod(produce_frame)

        @staticmethod
        def play(scenario: Callable[[], Awaitable[None]]) -> None:
            uvloop.run(scenario())

    return Net
