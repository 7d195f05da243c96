"""One connection to one broker, used by one thread: a request goes out, its answer comes back."""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import Any, Self

from barnabas.client.exchange import latest_version, read_response, request_frame
from barnabas.wire.schema import Request


class Connection:
    def __init__(self, host: str, port: int, *, timeout_s: float = 30.0, client_id: str | None = "barnabas") -> None:
        self.client_id = client_id
        self._socket = socket.create_connection((host, port), timeout=timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def request(self, request: Request, version: int | None = None) -> Any:
        """The answer to a request, in the newest version the reference knows unless one is given."""
        version = latest_version(type(request)) if version is None else version
        self._correlation_id += 1
        self._socket.sendall(request_frame(request, version, self._correlation_id, self.client_id))
        (length,) = struct.unpack(">i", self._receive(4))
        return read_response(type(request), version, self._correlation_id, self._receive(length))

    def send(self, request: Request, version: int) -> None:
        """For requests that have no answer, such as Produce with acks=0."""
        self._correlation_id += 1
        self._socket.sendall(request_frame(request, version, self._correlation_id, self.client_id))

    def _receive(self, count: int) -> bytearray:
        data = bytearray(count)
        view = memoryview(data)
        while view:
            received = self._socket.recv_into(view)
            if not received:
                raise ConnectionError("the broker closed the connection before it answered")
            view = view[received:]
        return data

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
