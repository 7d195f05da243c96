"""WebSockets of a service: what uvicorn hands an upgraded connection to. The app sees ASGI's websocket messages."""

from __future__ import annotations

import asyncio
import logging
from typing import Any
from urllib.parse import unquote

from barnabas.web import frames
from barnabas.web.frames import FrameReader, WrongFrame

log = logging.getLogger(__name__)
WAITING_MAX = 32  # messages that the app has not taken


class WebSocketProtocol(asyncio.Protocol):
    """One connection. `receive` and `send` are what ASGI has them be; `send` waits while the peer does not read."""

    def __init__(self, config: Any, server_state: Any, app_state: Any) -> None:
        self._app = config.loaded_app
        self._state = server_state
        self._reader = FrameReader()
        self._events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._writable = asyncio.Event()
        self._writable.set()
        self._head = bytearray()
        self._task: asyncio.Task[None] | None = None
        self._transport: Any = None
        self._key = b""
        self._accepted = self._closed = False

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._state.connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._state.connections.discard(self)
        self._writable.set()
        self._gone(1006)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def shutdown(self) -> None:
        """The server stops."""
        self._end(frames.GOING_AWAY, "The server stops.")

    def data_received(self, data: bytes) -> None:
        if self._task is None:
            self._head += data
            if b"\r\n\r\n" not in self._head:
                return
            head, _, data = bytes(self._head).partition(b"\r\n\r\n")
            self._begin(head)
        try:
            for message in self._reader.feed(data):
                self._take(message)
        except WrongFrame as error:
            self._end(error.code, str(error))

    def _begin(self, head: bytes) -> None:
        first, *lines = head.split(b"\r\n")
        target = first.split(b" ")[1]
        path, _, query = target.partition(b"?")
        headers = [
            (name.strip().lower(), value.strip()) for name, _, value in (line.partition(b":") for line in lines) if name
        ]
        self._key = dict(headers).get(b"sec-websocket-key", b"")
        scope = {
            "type": "websocket",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "scheme": "ws",
            "path": unquote(path.decode("latin-1")),
            "raw_path": path,
            "query_string": query,
            "headers": headers,
            "client": self._transport.get_extra_info("peername"),
            "server": self._transport.get_extra_info("sockname"),
            "root_path": "",
            "subprotocols": [],
        }
        self._events.put_nowait({"type": "websocket.connect"})
        self._task = asyncio.get_running_loop().create_task(self._serve(scope))
        self._state.tasks.add(self._task)
        self._task.add_done_callback(self._state.tasks.discard)

    async def _serve(self, scope: dict[str, Any]) -> None:
        try:
            await self._app(scope, self._events.get, self._send)
        except Exception:
            log.exception("the websocket %s failed", scope["path"])
            self._end(frames.INTERNAL_ERROR, "Internal Server Error")
        if not self._closed:
            self._end(frames.NORMAL)

    def _take(self, message: frames.Message) -> None:
        if message.opcode == frames.PING:
            self._write(frames.frame(frames.PONG, message.data))
        elif message.opcode == frames.CLOSE:
            code = int.from_bytes(message.data[:2], "big") if len(message.data) >= 2 else 1005
            self._end(frames.NORMAL if code == 1005 else code)
        elif message.opcode == frames.TEXT:
            try:
                self._offer({"type": "websocket.receive", "text": message.data.decode()})
            except UnicodeDecodeError:
                raise WrongFrame(frames.BAD_DATA, "A text message is not UTF-8.") from None
        elif message.opcode == frames.BINARY:
            self._offer({"type": "websocket.receive", "bytes": message.data})

    def _offer(self, event: dict[str, Any]) -> None:
        if self._events.qsize() >= WAITING_MAX:
            raise WrongFrame(frames.TOO_BIG, f"More than {WAITING_MAX} messages wait to be read.")
        self._events.put_nowait(event)

    async def _send(self, event: dict[str, Any]) -> None:
        kind = event["type"]
        if kind == "websocket.accept":
            self._accepted = True
            key = frames.accept_key(self._key)
            self._write(
                b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
                b"sec-websocket-accept: " + key + b"\r\n\r\n"
            )
        elif kind == "websocket.close":
            self._end(event.get("code", frames.NORMAL), event.get("reason") or "")
        elif event.get("text") is not None:
            self._write(frames.frame(frames.TEXT, event["text"].encode()))
        else:
            self._write(frames.frame(frames.BINARY, event.get("bytes") or b""))
        await self._writable.wait()

    def _write(self, data: bytes) -> None:
        if not self._closed and not self._transport.is_closing():
            self._transport.write(data)

    def _end(self, code: int, reason: str = "") -> None:
        if self._closed:
            return
        if self._accepted:
            self._write(frames.close_frame(code, reason))
        else:  # refused before it was one
            self._write(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        self._gone(code)
        self._transport.close()

    def _gone(self, code: int) -> None:
        if not self._closed:
            self._closed = True
            self._events.put_nowait({"type": "websocket.disconnect", "code": code})
