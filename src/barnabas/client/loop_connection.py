"""One connection to one broker on an event loop: the asyncio driver of `protocol`, under a `Peer`.

Requests leave in the order of `call`, and a broker answers in that order. A connection ends once, for whatever reason,
and tells its owner; the request that ended it has the reason as its error, and the others that their answer is lost.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from barnabas.client.errors import BrokerUnreachable, ClientError, ConnectionRefused, UnreadableAnswer
from barnabas.client.protocol import Asked, ClientProtocol, Steps
from barnabas.client.settings import Address, show_address
from barnabas.client.tls import broke_handshake, tls_problem
from barnabas.wire.schema import Request

if TYPE_CHECKING:
    import ssl

    from barnabas.client.peer import PeerSettings

BUFFER_BYTES = 64 * 1024


class Call:
    """A request, its deadline in the loop's time, and where its answer goes."""

    __slots__ = ("answer", "asked", "deadline", "request", "timer", "version")

    def __init__(self, request: Request, version: int | None, answer: asyncio.Future[Any], deadline: float) -> None:
        self.request = request
        self.version = version
        self.answer = answer
        self.deadline = deadline
        self.asked: Asked | None = None  # once it has been sent
        self.timer: asyncio.TimerHandle | None = None

    def succeed(self, answer: Any) -> None:
        self._stop_timer()
        if not self.answer.done():
            self.answer.set_result(answer)

    def fail(self, error: BaseException) -> None:
        self._stop_timer()
        if not self.answer.done():
            self.answer.set_exception(error)

    def _stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class LoopConnection(asyncio.BufferedProtocol):
    def __init__(self, address: Address, settings: PeerSettings, changed: Callable[[], None]) -> None:
        """`changed` is called after an answer, and when the connection has ended."""
        self.protocol = ClientProtocol(show_address(address), settings.client_id, settings.security)
        self.calls: deque[Call] = deque()  # sent and not answered
        self.ended: ClientError | None = None  # why there is no connection any more
        self.was_idle = False  # the broker closed it when nothing was asked of it, as brokers do after a while
        self.login_ends = float("inf")
        self._settings = settings
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._closed = self._loop.create_future()
        self._buffer = bytearray(BUFFER_BYTES)
        self._buffered = 0
        self._frame: bytearray | None = None  # the part of it that has arrived ends at `_filled`
        self._filled = 0

    @classmethod
    async def open(
        cls, address: Address, settings: PeerSettings, tls: ssl.SSLContext | None, changed: Callable[[], None]
    ) -> LoopConnection:
        """Connected and set up; raises a ClientError otherwise."""
        connection = cls(address, settings, changed)
        try:
            await connection._connect(address, tls)
        except BaseException:
            # The loop closes what it has opened; uvloop does not tell the protocol of it, so nobody may wait for that.
            connection._end_here()
            raise
        try:
            if settings.negotiate or settings.security.uses_sasl:
                await connection._take(connection.protocol.set_up())
        except BaseException:
            await connection.close()
            raise
        return connection

    @property
    def login_due(self) -> bool:
        return self._loop.time() > self.login_ends

    async def log_in(self) -> None:
        await self._take(self.protocol.log_in())

    def call(self, call: Call) -> None:
        """Sends the request. One that cannot be sent in this version fails alone."""
        try:
            version = self.protocol.version_of(type(call.request)) if call.version is None else call.version
            call.asked, frame = self.protocol.request_frame(call.request, version)
        except Exception as error:
            call.fail(error)
            return
        if self.ended is not None or self._transport is None:
            call.fail(self.protocol.lost(type(call.request)))
            return
        self.calls.append(call)
        self._transport.write(frame)

    def end(self, error: ClientError, culprit: Call | None = None) -> None:
        """Closes the connection at once. What is on its way may have been done by the broker, or not."""
        if self.ended is not None:
            return
        self.ended = error
        if self._transport is not None:
            self._transport.abort()
        calls, self.calls = self.calls, deque()
        for call in calls:
            call.fail(error if call is culprit else self.protocol.lost(type(call.request)))
        self._changed()

    async def close(self) -> None:
        self._end_here()
        if self._transport is not None:
            await asyncio.shield(self._closed)

    def _end_here(self) -> None:
        self.end(BrokerUnreachable(f"The connection to {self.protocol.peer} was closed here."))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._frame is not None:
            return memoryview(self._frame)[self._filled :]
        return memoryview(self._buffer)[self._buffered :]

    def buffer_updated(self, count: int) -> None:
        if self.ended is not None:
            return
        try:
            if self._frame is None:
                self._buffered += count
                self._take_frames()
            else:
                self._filled += count
                if self._filled == len(self._frame):
                    frame, self._frame = self._frame, None
                    self._receive(frame)
        except UnreadableAnswer as error:
            self.end(error, self.calls[0] if self.calls else None)
            return
        self._changed()

    def eof_received(self) -> bool:
        return False  # the transport closes itself

    def connection_lost(self, error: Exception | None) -> None:
        if not self._closed.done():
            self._closed.set_result(None)
        self.was_idle = self.ended is None and not self.calls
        if self.calls:
            self.end(self.protocol.lost(type(self.calls[0].request)))
        else:
            self.end(BrokerUnreachable(f"{self.protocol.peer} closed the connection."))

    def _take_frames(self) -> None:
        """Small answers are copied out of the buffer; the rest of one that is not whole goes straight to its place."""
        start, end = 0, self._buffered
        while end - start >= 4 and self.ended is None:
            length = self.protocol.answer_length(self._buffer[start : start + 4])
            start += 4
            if end - start < length:
                self._frame = bytearray(length)
                self._filled = end - start
                self._frame[: self._filled] = self._buffer[start:end]
                start = end
                break
            self._receive(self._buffer[start : start + length])
            start += length
        self._buffer[: end - start] = self._buffer[start:end]
        self._buffered = end - start

    def _receive(self, frame: bytearray) -> None:
        if not self.calls:
            raise UnreadableAnswer(f"{self.protocol.peer} sent an answer to nothing that was asked.")
        call = self.calls[0]
        assert call.asked is not None
        answer = self.protocol.read_answer(call.asked, frame)
        self.calls.popleft()
        call.succeed(answer)

    async def _connect(self, address: Address, tls: ssl.SSLContext | None) -> None:
        host, port = address
        peer = self.protocol.peer
        limit_s = self._settings.connection_setup_timeout_ms / 1000
        try:
            async with asyncio.timeout(limit_s):
                found = await self._loop.getaddrinfo(host, port, type=1)  # SOCK_STREAM
        except TimeoutError:
            raise BrokerUnreachable(f"{peer} cannot be reached: the name {host} did not resolve in time.") from None
        except (OSError, UnicodeError):
            raise BrokerUnreachable(f"{peer} cannot be reached: the name {host} does not resolve.") from None
        problem, refusals = "no address", 0
        for family, _, _, _, resolved in found:
            try:
                async with asyncio.timeout(limit_s):
                    await self._open_socket(str(resolved[0]), port, family, host, tls)
                return
            except TimeoutError:
                problem = f"no answer within {limit_s:g} s{'' if tls is None else ' (does it speak TLS?)'}"
            except OSError as error:
                if tls is not None and broke_handshake(error):
                    raise tls_problem(peer, error) from None
                problem = (os.strerror(error.errno) if error.errno else str(error)).lower()
                refusals += isinstance(error, ConnectionRefusedError)
        kind = ConnectionRefused if refusals and refusals == len(found) else BrokerUnreachable
        raise kind(f"{peer} cannot be reached: {problem}.")

    async def _open_socket(self, ip: str, port: int, family: int, host: str, tls: ssl.SSLContext | None) -> None:
        name = host if tls is not None else None
        await self._loop.create_connection(lambda: self, ip, port, family=family, ssl=tls, server_hostname=name)

    async def _take(self, steps: Steps) -> None:
        """Sends what the steps ask for. A login may compute for long, without the interpreter's lock: in a thread."""
        secret = self._settings.security.uses_sasl
        asked = _step(steps, None)
        while asked is not None:
            call = self._set_up_call(*asked)
            self.call(call)
            answer = await call.answer
            asked = await asyncio.to_thread(_step, steps, answer) if secret else _step(steps, answer)
        self.login_ends = self._loop.time() + self.protocol.session_ms / 1000

    def _set_up_call(self, request: Request, version: int) -> Call:
        deadline = self._loop.time() + self._settings.request_timeout_ms / 1000
        call = Call(request, version, self._loop.create_future(), deadline)
        overdue = self.protocol.timed_out(type(request))
        call.timer = self._loop.call_at(deadline, lambda: self.end(overdue, call))
        return call


def _step(steps: Steps, answer: Any) -> tuple[Request, int] | None:
    try:
        return steps.send(answer)
    except StopIteration:
        return None
