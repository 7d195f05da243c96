"""A broker that says what a test tells it to, on a real socket."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from typing import Any

from barnabas.client.settings import ClientSettings
from barnabas.wire.apis import APIS, message_classes, request_header_version, response_header_version
from barnabas.wire.headers import RequestHeader, ResponseHeader
from barnabas.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from barnabas.wire.schema import Response

Answer = Callable[[Any, int], Response | bytes | None]


class ScriptedBroker:
    """`script` maps an API key to what answers it: None closes the connection, bytes are sent as they are."""

    def __init__(
        self,
        script: dict[int, Answer] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.script: dict[int, Answer] = {18: lambda request, version: everything_offered()} | (script or {})
        self.seen: list[tuple[str, int]] = []
        self.requests: list[Any] = []
        self.connections = 0
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._tls = tls
        self._listener = socket.create_server((host, port), family=family)
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def settings(self, **properties: str) -> ClientSettings:
        quick = {"retry.backoff.ms": "1", "default.api.timeout.ms": "5000", "request.timeout.ms": "5000"}
        given = {name.replace("_", "."): value for name, value in properties.items()}
        return ClientSettings.from_properties(quick | given, bootstrap_servers=self.bootstrap_servers)

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._sockets.append(accepted)
            threading.Thread(target=self._serve, args=(accepted,), daemon=True).start()

    def _serve(self, accepted: socket.socket) -> None:
        if self._tls is not None:
            try:
                accepted = self._tls.wrap_socket(accepted, server_side=True)
            except OSError:
                return
        with accepted, accepted.makefile("rb") as stream, contextlib.suppress(OSError):
            while len(head := stream.read(4)) == 4:
                answer = self._answer(stream.read(struct.unpack(">i", head)[0]))
                if answer is None:
                    return
                accepted.sendall(answer)

    def _answer(self, frame: bytes) -> bytes | None:
        key, version, correlation_id = struct.unpack_from(">hhi", frame)
        request_class, _ = message_classes(key)
        _, position = RequestHeader.decode_from(frame, 0, request_header_version(request_class, version))
        request = request_class.decode(frame[position:], version)
        self.seen.append((APIS[key].name, version))
        self.requests.append(request)
        answer = self.script[key](request, version)
        if answer is None or isinstance(answer, bytes):
            return answer
        refused_versions = isinstance(answer, ApiVersionsResponse) and answer.error_code == 35
        header = ResponseHeader(correlation_id=correlation_id)
        body = header.encode(response_header_version(request_class, version))
        body += answer.encode(0 if refused_versions else version)
        return struct.pack(">i", len(body)) + body

    def drop_connections(self) -> None:
        while self._sockets:
            with contextlib.suppress(OSError):
                self._sockets.pop().shutdown(socket.SHUT_RDWR)  # a thread that waits on it would keep it open

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop_connections()


def everything_offered() -> ApiVersionsResponse:
    keys = [
        ApiVersion(api_key=key, min_version=api.broker[0], max_version=api.broker[1])
        for key, api in APIS.items()
        if api.broker
    ]
    return ApiVersionsResponse(api_keys=keys)
