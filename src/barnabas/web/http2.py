"""HTTP/2 without TLS, for clients that know the server speaks it (h2c with prior knowledge).

The first bytes of a connection decide: HTTP/2's preface, or anything else, which is HTTP/1.1's. The protocol itself is
h2's; here are its connection and its streams. A stream is one call of the app. What a client sends is acknowledged
when the app takes it, and what the app writes waits for the client's window, so both sides are held back.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

log = logging.getLogger(__name__)
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
STREAMS_MAX = 1000
HEAD = re.compile(rb"[A-Z]+ [^\r\n]+ HTTP/1\.1\r\n")
OFFERED = re.compile(rb"(?i)\r\n(?:upgrade:[ \t]*h2c|http2-settings:[^\r\n]*)(?=\r\n)")


class Http1(HttpToolsProtocol):
    """A client of HTTP/1.1 that offers to go on with HTTP/2 is answered with HTTP/1.1, as it must expect."""

    def data_received(self, data: bytes) -> None:
        if b"h2c" in data and HEAD.match(data):
            head, blank, body = data.partition(b"\r\n\r\n")
            data = OFFERED.sub(b"", head + b"\r\n")[:-2] + blank + body
        super().data_received(data)


class Http1Or2(asyncio.Protocol):
    """Waits for the first bytes and hands the connection on."""

    def __init__(self, config: Any, server_state: Any, app_state: Any, **more: Any) -> None:
        self._made = (config, server_state, app_state)
        self._more = more
        self._transport: Any = None
        self._seen = bytearray()
        self._state = server_state

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._state.connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._state.connections.discard(self)

    def shutdown(self) -> None:
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        self._seen += data
        seen = bytes(self._seen)
        if len(seen) < len(PREFACE) and PREFACE.startswith(seen):
            return
        config, state, app_state = self._made
        protocol: Any
        if seen.startswith(PREFACE):
            try:
                protocol = Http2Connection(config, state)
            except ImportError:
                log.warning("A client speaks HTTP/2, and the package h2 is not installed: pip install h2.")
                self._transport.close()
                return
        else:
            protocol = Http1(config=config, server_state=state, app_state=app_state, **self._more)
        self._state.connections.discard(self)
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        protocol.data_received(seen)


class Stream:
    """A request and its answer."""

    def __init__(self) -> None:
        self.body: asyncio.Queue[tuple[bytes, int] | None] = asyncio.Queue()  # data and what it took of the window
        self.window = asyncio.Event()
        self.ended = False  # the request is complete
        self.gone = asyncio.Event()
        self.started = False
        self.task: asyncio.Task[None] | None = None


class Http2Connection(asyncio.Protocol):
    def __init__(self, config: Any, server_state: Any) -> None:
        import h2.config
        import h2.connection

        self._app = config.loaded_app
        self._state = server_state
        self._streams: dict[int, Stream] = {}
        self._writable = asyncio.Event()
        self._writable.set()
        self._transport: Any = None
        settings = h2.config.H2Configuration(client_side=False, header_encoding=None)
        self._h2: Any = h2.connection.H2Connection(settings)

    def connection_made(self, transport: Any) -> None:
        import h2.settings

        self._transport = transport
        self._state.connections.add(self)
        self._h2.initiate_connection()
        self._h2.update_settings({h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: STREAMS_MAX})
        self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        self._state.connections.discard(self)
        self._writable.set()
        for stream in list(self._streams.values()):
            self._forget(stream)
        self._streams.clear()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def shutdown(self) -> None:
        self._h2.close_connection()
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        data = self._h2.data_to_send()
        if data and not self._transport.is_closing():
            self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        import h2.exceptions

        try:
            events = self._h2.receive_data(data)
        except h2.exceptions.ProtocolError as error:
            log.warning("a client of HTTP/2 broke the protocol: %s", error)
            self._flush()
            self._transport.close()
            return
        self._take(events)
        self._flush()

    def _take(self, events: Iterable[Any]) -> None:
        from h2 import events as h2

        for event in events:
            if isinstance(event, h2.RequestReceived):
                self._begin(event.stream_id, event.headers)
            elif isinstance(event, h2.DataReceived):
                self._data(event.stream_id, event.data, event.flow_controlled_length)
            elif isinstance(event, h2.StreamEnded) and event.stream_id in self._streams:
                stream = self._streams[event.stream_id]
                stream.ended = True
                stream.body.put_nowait(None)
            elif isinstance(event, h2.StreamReset):
                self._forget(self._streams.pop(event.stream_id, None))
            elif isinstance(event, (h2.WindowUpdated, h2.RemoteSettingsChanged)):
                for stream in self._streams.values():
                    stream.window.set()
            elif isinstance(event, h2.ConnectionTerminated):
                self._transport.close()

    def _data(self, stream_id: int, data: bytes, length: int) -> None:
        stream = self._streams.get(stream_id)
        if stream is None:  # nobody will read it
            self._h2.acknowledge_received_data(length, stream_id)
        else:
            stream.body.put_nowait((data, length))

    def _forget(self, stream: Stream | None) -> None:
        if stream is not None:
            stream.gone.set()
            stream.window.set()
            stream.body.put_nowait(None)

    def _begin(self, stream_id: int, headers: list[tuple[bytes, bytes]]) -> None:
        given = {name: value for name, value in headers if name.startswith(b":")}
        plain = [(name, value) for name, value in headers if not name.startswith(b":")]
        if b":authority" in given and not any(name == b"host" for name, _ in plain):
            plain.insert(0, (b"host", given[b":authority"]))
        path, _, query = given.get(b":path", b"/").partition(b"?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "2",
            "method": given.get(b":method", b"GET").decode("latin-1"),
            "scheme": given.get(b":scheme", b"http").decode("latin-1"),
            "path": unquote(path.decode("latin-1")),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": plain,
            "client": self._transport.get_extra_info("peername"),
            "server": self._transport.get_extra_info("sockname"),
        }
        stream = self._streams[stream_id] = Stream()
        stream.task = asyncio.get_running_loop().create_task(self._serve(stream_id, stream, scope))
        self._state.tasks.add(stream.task)
        stream.task.add_done_callback(self._state.tasks.discard)

    async def _serve(self, stream_id: int, stream: Stream, scope: dict[str, Any]) -> None:
        async def receive() -> dict[str, Any]:
            return await self._receive(stream_id, stream)

        async def send(event: dict[str, Any]) -> None:
            await self._send(stream_id, stream, event)

        try:
            await self._app(scope, receive, send)
        except ConnectionError:
            pass  # whoever asked is gone
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
        finally:
            self._end(stream_id, stream)

    def _end(self, stream_id: int, stream: Stream) -> None:
        """The app is done: an answer that is not complete is broken off, and what was not read is not wanted."""
        import h2.errors
        import h2.exceptions

        whole = self._streams.pop(stream_id, None) is None or stream.gone.is_set()
        try:
            if not whole:
                self._h2.reset_stream(stream_id, h2.errors.ErrorCodes.INTERNAL_ERROR)
            while not stream.body.empty():
                if (one := stream.body.get_nowait()) is not None:
                    self._h2.acknowledge_received_data(one[1], stream_id)
        except h2.exceptions.ProtocolError:
            pass
        self._flush()

    async def _receive(self, stream_id: int, stream: Stream) -> dict[str, Any]:
        if stream.ended and stream.body.empty():  # all was read: what comes next is the client's going
            await stream.gone.wait()
        one = None if stream.gone.is_set() else await stream.body.get()
        if stream.gone.is_set():
            return {"type": "http.disconnect"}
        if one is None:
            return {"type": "http.request", "body": b"", "more_body": False}
        data, length = one
        if length:
            self._h2.acknowledge_received_data(length, stream_id)
            self._flush()
        return {"type": "http.request", "body": data, "more_body": True}

    async def _send(self, stream_id: int, stream: Stream, event: dict[str, Any]) -> None:
        if event["type"] == "http.response.start":
            dropped = (b"connection", b"transfer-encoding", b"keep-alive")
            headers = [(name.lower(), value) for name, value in event["headers"] if name.lower() not in dropped]
            self._check(stream)
            self._h2.send_headers(stream_id, [(b":status", str(event["status"]).encode()), *headers])
            self._flush()
            return
        await self._send_data(stream_id, stream, event.get("body", b""))
        if not event.get("more_body", False):
            self._check(stream)
            self._h2.end_stream(stream_id)
            stream.gone.set()
            stream.body.put_nowait(None)
            self._streams.pop(stream_id, None)
            self._flush()

    def _check(self, stream: Stream) -> None:
        if stream.gone.is_set():
            raise ConnectionError("the stream was closed")

    async def _send_data(self, stream_id: int, stream: Stream, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            self._check(stream)
            room = min(self._h2.local_flow_control_window(stream_id), self._h2.max_outbound_frame_size)
            if room <= 0:
                stream.window.clear()
                await stream.window.wait()
                continue
            self._h2.send_data(stream_id, bytes(rest[:room]))
            self._flush()
            rest = rest[room:]
            await self._writable.wait()
