"""One connection on an event loop that speaks the protocol itself, so that no client library's pace is measured."""

import asyncio
import struct
from typing import Any

from barnabas.client.exchange import read_response, request_frame
from barnabas.wire.schema import Request


class Link:
    def __init__(self) -> None:
        self._correlation_id = 0

    async def connect(self, servers: str) -> None:
        host, _, port = servers.rpartition(":")
        self._reader, self._writer = await asyncio.open_connection(host, int(port))

    def share(self, other: "Link") -> None:
        """Two that take turns use one connection."""
        self._reader, self._writer = other._reader, other._writer

    def close(self) -> None:
        self._writer.close()

    async def ask(self, request: Request, version: int) -> Any:
        self._correlation_id += 1
        self.send_bytes(request_frame(request, version, self._correlation_id, "benchmark"))
        return read_response(type(request), version, self._correlation_id, await self.receive_frame())

    def send_bytes(self, frame: bytes | bytearray) -> None:
        self._writer.write(frame)

    async def receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        return await self._reader.readexactly(size)
