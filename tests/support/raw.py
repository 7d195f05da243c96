"""The protocol as bytes, for what no client would send."""

from __future__ import annotations

import socket
import struct
from typing import Any, Self

from barnabas.client.exchange import request_frame
from barnabas.wire.apis import message_classes, response_header_version
from barnabas.wire.schema import Request

WAIT_S = 20.0


class RawClient:
    """A socket that knows where a frame ends, and nothing else."""

    def __init__(self, port: int, *, receive_buffer_bytes: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_buffer_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(WAIT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.connect(("127.0.0.1", port))

    def send(self, *data: bytes | bytearray) -> None:
        self.socket.sendall(b"".join(data))

    def receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._receive(4))
        return self._receive(size)

    def _receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = self.socket.recv(size - len(data))
            if not chunk:
                raise ConnectionError("closed")
            data += chunk
        return bytes(data)

    def ask(self, request: Request, version: int, correlation_id: int = 1) -> Any:
        self.send(request_frame(request, version, correlation_id, "raw"))
        return self.receive_answer(type(request), version, correlation_id)

    def receive_answer(self, request: type[Request], version: int, correlation_id: int) -> Any:
        frame = self.receive_frame()
        assert struct.unpack_from(">i", frame) == (correlation_id,)
        body = frame[4 + response_header_version(request, version) :]
        return message_classes(request.api_key)[1].decode(body, version)

    def is_closed_by_node(self) -> bool:
        """Waits for the end, and forgets answers that come before it."""
        try:
            while self.socket.recv(65536):
                pass
        except TimeoutError:
            return False
        except OSError:
            pass
        return True

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def header(api_key: int, version: int, correlation_id: int = 1, client_id: bytes = b"raw") -> bytes:
    return struct.pack(">hhih", api_key, version, correlation_id, len(client_id)) + client_id
