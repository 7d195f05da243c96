"""One client's connection: bytes in, frames served one at a time in order, answers out.

Received bytes lie in one buffer, between `_start` and `_end`. A frame is served where it lies, as a view; until its
answer has been handed to the socket nothing in the buffer moves and nothing else is served, so pipelined requests wait
behind it. The buffer begins at 64 KiB and grows fourfold, only when it is full and never because of the length that a
client declares; an empty one is given back when it has not been needed for a tick. It is anonymous memory: a page is
there once a byte has arrived for it, and returns to the system at once.

A client may send and close: what it sent is served to the end, because without acks it would never hear that a record
was dropped. Only what waits for news (a fetch, a member for its group) is given up at once. asyncio ends a transport of
TLS as soon as its client has closed; what such a client sent is then served without it (`Departed`).

Reading stops while the buffer is full, or the receive budget spent. Serving stops while the client does not read its
answers: then no more than one answer above the socket's high-water mark is kept, and of an answer that comes from files
(`Region`) only what is being sent.
"""

from __future__ import annotations

import asyncio
import mmap
import ssl
import struct
from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, Any

from barnabas.core.security.principals import NoRuleApplies
from barnabas.node.dispatch import Answer, Dispatcher, Exchange, Part, Unanswerable
from barnabas.node.net.settings import host_address
from barnabas.node.requests import InvalidRequest, Region, Session, no_connection
from barnabas.node.turns import TURN_S

if TYPE_CHECKING:
    from barnabas.node.net.server import Server
    from barnabas.node.security.login import Logins
    from barnabas.node.security.tls import ListenerTls

BASE_BYTES = 64 << 10
GROWTH = 4
# A buffer above this is given back after its frame, a smaller one when it has not been needed for a tick.
KEEP_BYTES = 4 << 20
WRITE_HIGH_BYTES = 512 << 10
WRITE_LOW_BYTES = 128 << 10
REGION_READ_BYTES = 512 << 10
# So many requests at most are served before others have their turn, and no more once they have taken that long.
REQUESTS_PER_TURN = 64
# Answers to requests that came together leave together, up to this size: each write is a system call.
WRITE_TOGETHER_BYTES = 64 << 10
# Outcomes of a turn.
TURN_IS_OVER = -1
WAITS = -2

_read_size = struct.Struct(">i").unpack_from
PLAIN_PARTS = frozenset({bytes, bytearray, memoryview})
_NOTHING = memoryview(b"")


def allocate(size: int) -> memoryview:
    return memoryview(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


class ClientConnection(asyncio.BufferedProtocol):
    __slots__ = (
        "__weakref__",
        "_busy",
        "_closed",
        "_end",
        "_ended",
        "_exchange",
        "_limit",
        "_max_frame_bytes",
        "_muted",
        "_outgoing",
        "_peak",
        "_read_paused",
        "_serve",
        "_server",
        "_start",
        "_stopping",
        "_tls",
        "_transport",
        "_view",
        "_wakeups",
        "_write_paused",
        "held_bytes",
        "idle_bucket",
        "last_active_tick",
        "refused_for_s",
        "session",
    )

    def __init__(
        self,
        server: Server,
        dispatcher: Dispatcher,
        session: Session,
        *,
        tls: ListenerTls | None = None,
        logins: Logins | None = None,
    ) -> None:
        self._server = server
        self._serve = dispatcher.serve
        self._wakeups = dispatcher.wakeups
        self._tls = tls
        self.session = session
        self._transport: Any = None
        self._view = _NOTHING
        self._start = 0
        self._end = 0
        # Where reading stops: the end of a large frame, else that of the buffer.
        self._limit = 0
        self._peak = 0
        self._max_frame_bytes = server.settings.request_max_bytes
        # A request is in flight, an answer not yet handed over, or the next turn already arranged.
        self._busy = False
        self._exchange: Exchange | None = None
        self._outgoing: deque[Any] | None = None
        self._read_paused = False
        self._write_paused = False
        # The client sends no more.
        self._ended = False
        self._stopping = False
        self._closed = False
        # Nothing is served for a while, because of a quota.
        self._muted: asyncio.TimerHandle | None = None
        session.keep_still = self.mute
        self.held_bytes = 0
        self.last_active_tick = server.tick
        self.refused_for_s = 0.0
        self.idle_bucket = 0
        if logins is not None:
            login = logins.begin(dispatcher, session, self._logged_in)
            session.login = login
            self._serve = login.serve
            self._max_frame_bytes = min(self._max_frame_bytes, logins.max_receive_bytes)

    # What the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES, low=WRITE_LOW_BYTES)
        address = transport.get_extra_info("peername")
        if address:
            self.session.client_host = host_address(str(address[0]))
            self.session.client_port = int(address[1])
        if not self._server.admit(self):
            self._closed = self._busy = True  # nothing is served that still arrives
            self._server.turn_away(self._transport, self.refused_for_s)
        elif self._tls is not None:
            try:
                self.session.principal = self._tls.principal(transport)
            except NoRuleApplies as error:
                self.abort(str(error))

    def get_buffer(self, sizehint: int) -> memoryview:
        if not self._limit:
            self._view = allocate(BASE_BYTES)
            self._limit = BASE_BYTES
            self._server.buffered.add(self)
        return self._view[self._end : self._limit]

    def buffer_updated(self, nbytes: int) -> None:
        server = self._server
        server.counters.bytes_in += nbytes
        self.last_active_tick = server.tick
        self._end += nbytes
        if not self._busy:
            self._serve_frames()
        else:
            self._pause_if_full()

    def eof_received(self) -> bool:
        """True keeps the transport until what has arrived is served."""
        self._ended = True
        if self._busy and self._tls is not None:
            self._serve_without_client()
            return False
        self._give_up_waiting()
        if not self._busy:
            self._closed = True
        return self._busy

    def connection_lost(self, exc: Exception | None) -> None:
        if self._busy and not self._closed and self._tls is not None and exc is None:
            self._serve_without_client().is_lost = True
            return
        self._closed = True
        self._outgoing = None
        self._server.forget(self)
        if self._muted is not None:
            self._muted.cancel()
        self.session.keep_still = no_connection
        if self.session.on_closed is not None:
            self.session.on_closed(self.session)
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.cancel()
        self.release_buffer()

    def _give_up_waiting(self) -> None:
        exchange = self._exchange
        if exchange is not None and not exchange.outlives_client:
            self._exchange = None
            exchange.cancel()
            self._server.loop.call_soon(self._next)

    def _serve_without_client(self) -> Departed:
        if not isinstance(self._transport, Departed):
            self._ended = True
            self._take_rest(self._transport.get_extra_info("ssl_object"))
            self._transport = Departed(self)
            self._give_up_waiting()
            if self._write_paused or self._outgoing is not None:
                self._write_paused = False
                self._outgoing = None
                self._server.loop.call_soon(self._next)
        return self._transport

    def _take_rest(self, tls: ssl.SSLObject) -> None:
        """What TLS still holds because reading was paused, a few hundred KiB at most: its transport forgets it."""
        rest = []
        try:
            while data := tls.read(BASE_BYTES):
                rest.append(data)
        except ssl.SSLError:
            pass  # there is no more
        if rest:
            whole = bytearray().join([self._view[self._start : self._end], *rest])
            self._view = memoryview(whole)
            self._start, self._end, self._limit = 0, len(whole), len(whole)

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        # In another turn, for a transport may call this in the middle of a write of ours.
        self._write_paused = False
        self.last_active_tick = self._server.tick
        self._server.loop.call_soon(self._write_on)

    # What the server calls

    @property
    def awaits_handler(self) -> bool:
        return self._exchange is not None

    @property
    def is_receiving(self) -> bool:
        return not self._busy and self._end > self._start

    def _logged_in(self, is_in: bool) -> None:
        """Called while a request is being served."""
        if is_in:
            login = self.session.login
            if login is None or not login.has_end:
                self._serve = self._server.dispatcher.serve
            self._max_frame_bytes = self._server.settings.request_max_bytes
        else:
            self._stopping = True
            self._server.report(self, "the login was refused")

    def mute(self, seconds: float) -> None:
        """Serves nothing more for so long. What is being answered still is."""
        if self._closed:
            return
        if self._muted is not None:
            self._muted.cancel()
        self._muted = self._server.loop.call_later(seconds, self._unmute)

    def _unmute(self) -> None:
        self._muted = None
        if self._busy:
            self._next()

    def proceed(self) -> None:
        """The receive budget has granted the growth this connection stood in line for."""
        if not self._closed:
            self._enlarge()
            self._resume_reading()

    def stop(self) -> None:
        """Closes once what is in flight has been answered."""
        self._stopping = True
        if not self._busy:
            self.close()

    def close(self) -> None:
        """Answers already written are still delivered."""
        self._closed = True
        self._transport.close()

    def abort(self, reason: str) -> None:
        self._server.report(self, reason)
        self._closed = True
        self._transport.abort()

    def tidy(self) -> bool:
        """Called with every tick while there is a buffer. Gives it back if it was not needed; true if it is gone."""
        if not self._limit:
            return True
        if not self._busy and self._start == self._end:
            if self._peak * GROWTH < len(self._view) and (self._peak == 0 or len(self._view) > BASE_BYTES):
                self.release_buffer()
                return True
            self._peak = 0
        return False

    def release_buffer(self) -> None:
        self._view = _NOTHING
        self._start = self._end = self._limit = self._peak = 0
        self._server.budget.give_back(self)

    # Frames

    def _serve_frames(self) -> None:
        """Serves what has arrived whole, up to a turn's worth, and writes the answers together.

        Requests that waited for it are answered before.
        """
        self._busy = True
        answers: list[Part] = []
        wakeups = self._wakeups
        is_first = wakeups.open()
        try:
            try:
                wanted = self._serve_turn(answers)
            finally:
                if is_first:
                    wakeups.close()
        except InvalidRequest as error:
            self._write(answers)
            self._reject(str(error))
            return
        except Unanswerable as error:
            self._write(answers)
            self._give_up(error)
            return
        self._write(answers)
        if wanted == WAITS:
            self._pause_if_full()
        elif self._write_paused or self._stopping:
            self._pause_or_stop()
        elif wanted == TURN_IS_OVER:
            self._pause_if_full()
            self._server.dispatcher.lane.add(self._next)
        elif self._ended:
            self.close()
        else:
            self._busy = False
            self._make_room(wanted)

    def _serve_turn(self, answers: list[Part]) -> int:
        """Where the frame that is coming in ends, as far as that is known, or one of the negative outcomes."""
        view, start, end, serve = self._view, self._start, self._end, self._serve
        turns = REQUESTS_PER_TURN
        over_at = 0.0  # a request that came alone is a turn whatever it takes
        unwritten_bytes = 0
        while end - start >= 4:
            size: int = _read_size(view, start)[0]
            if not 0 <= size <= self._max_frame_bytes:
                raise InvalidRequest(f"a frame cannot have {size} bytes")
            stop = start + 4 + size
            if stop > end:
                self._start = start
                return stop
            if self._muted is not None:
                self._start = start
                return WAITS
            if not turns or unwritten_bytes > WRITE_TOGETHER_BYTES or (over_at and perf_counter() > over_at):
                self._start = start
                return TURN_IS_OVER
            turns -= 1
            if not over_at and stop < end:
                over_at = perf_counter() + TURN_S
            answer = serve(self.session, view[start + 4 : stop])
            self._start = start = stop
            if isinstance(answer, bytearray):
                answers.append(answer)
                unwritten_bytes += len(answer)
            elif isinstance(answer, Exchange):
                self._exchange = answer
                answer.finished = self._finished
                return WAITS
            elif answer is not None:
                if PLAIN_PARTS.issuperset(map(type, answer)):
                    answers += answer
                    unwritten_bytes += sum(map(len, answer))
                    continue
                self._write(answers)
                answers.clear()
                if not self._send(answer):
                    return WAITS
                unwritten_bytes = WRITE_TOGETHER_BYTES + 1
        return start + 4

    def _next(self) -> None:
        """Serves on after an answer, a turn of the others, or a client that has begun to read again."""
        if self._closed or self._exchange is not None or self._outgoing is not None or self._muted is not None:
            return
        if self._write_paused or self._stopping:
            self._pause_or_stop()
            return
        self._serve_frames()
        if self._end < self._limit or not self._limit:
            self._resume_reading()

    def _pause_or_stop(self) -> None:
        if self._stopping:
            self.close()
        else:
            self._pause_if_full()

    def _finished(self, answer: Answer | None, error: Unanswerable | InvalidRequest | None) -> None:
        self._exchange = None
        if self._closed:
            return
        if isinstance(error, InvalidRequest):
            self._reject(str(error))
            return
        if error is not None:
            self._give_up(error)
            return
        if answer is None or self._send(answer):
            self._next()

    def _reject(self, reason: str) -> None:
        self._server.counters.requests_invalid += 1
        self._server.report(self, reason)
        self.close()

    def _give_up(self, error: Unanswerable) -> None:
        self._server.report(self, str(error))
        self.close()

    # Answers

    def _write(self, parts: list[Part]) -> None:
        if len(parts) == 1:
            self._server.counters.bytes_out += len(parts[0])
            self._transport.write(parts[0])
        elif parts:
            self._server.counters.bytes_out += sum(map(len, parts))
            self._transport.writelines(parts)

    def _send(self, answer: Answer) -> bool:
        """True if all of it has been handed over."""
        if isinstance(answer, bytearray):
            self._write([answer])
        elif PLAIN_PARTS.issuperset(map(type, answer)):
            self._write(answer)
        else:
            self._server.counters.bytes_out += sum(map(len, answer))
            self._outgoing = deque(answer)
            return self._pump(self._outgoing)
        return True

    def _write_on(self) -> None:
        """The client has begun to read again."""
        if self._closed or not self._busy:
            return
        if self._outgoing is None or self._pump(self._outgoing):
            self._next()

    def _pump(self, outgoing: deque[Any]) -> bool:
        """Writes until the socket has enough. True when nothing is left."""
        while outgoing and not self._write_paused:
            part = outgoing.popleft()
            if type(part) in PLAIN_PARTS:
                self._transport.write(part)
                continue
            size = min(REGION_READ_BYTES, len(part))
            try:
                data = part.read(0, size)
                if len(data) != size:
                    raise OSError(f"{len(data)} bytes where {size} were expected")
            except OSError as error:
                self.abort(f"an answer that can no longer be read: {error}")
                return False
            if size < len(part):
                outgoing.appendleft(Rest(part, size))
            self._transport.write(data)
        if outgoing:
            return False
        self._outgoing = None
        return True

    # The buffer

    def _make_room(self, wanted: int) -> None:
        """Nothing is in flight. `wanted` is where the frame that is coming in ends, as far as that is known."""
        capacity = len(self._view)
        if self._end > self._peak:
            self._peak = self._end
        if self._start == self._end:
            self._start = self._end = 0
            self._limit = capacity
            if capacity > KEEP_BYTES or (self.held_bytes and self._server.budget.waiting):
                self.release_buffer()
            return
        if wanted > capacity and self._start:
            held = self._end - self._start
            self._view[:held] = self._view[self._start : self._end]
            wanted -= self._start
            self._start, self._end = 0, held
        # Reading a large frame to its end and no further spares moving the beginning of the next.
        self._limit = min(capacity, wanted) if wanted - self._start > BASE_BYTES else capacity
        if self._end == capacity:
            enough = 1 << (wanted - 1).bit_length()
            if self._server.budget.take(self, min(enough, capacity * GROWTH) - capacity):
                self._enlarge()
            else:
                self._pause_reading()

    def _enlarge(self) -> None:
        """To what the budget has granted in all."""
        larger = allocate(BASE_BYTES + self.held_bytes)
        larger[: self._end] = self._view[: self._end]
        self._view = larger
        self._limit = min(len(larger), 4 + _read_size(larger, 0)[0])

    def _pause_if_full(self) -> None:
        if self._end == self._limit:
            self._pause_reading()

    def _pause_reading(self) -> None:
        if not self._read_paused and not self._closed and not self._ended:
            self._read_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._read_paused and not self._closed and not self._ended:
            self._read_paused = False
            self._transport.resume_reading()


class Departed:
    """In place of the transport of a client that is gone: what it has sent is served, and the answers are dropped."""

    __slots__ = ("_connection", "is_lost")

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        # The transport itself has said that it is closed.
        self.is_lost = False

    def write(self, data: Part) -> None:
        pass

    def writelines(self, parts: list[Part]) -> None:
        pass

    def close(self) -> None:
        if self.is_lost:
            self._connection.connection_lost(None)

    def abort(self) -> None:
        self.close()


class Rest:
    """What is left of a region of which some has been sent."""

    __slots__ = ("_offset", "_region")

    def __init__(self, part: Region | Rest, offset: int) -> None:
        self._region: Region = part._region if isinstance(part, Rest) else part
        self._offset: int = part._offset + offset if isinstance(part, Rest) else offset

    def __len__(self) -> int:
        return len(self._region) - self._offset

    def read(self, offset: int, size: int) -> bytes | memoryview:
        return self._region.read(self._offset + offset, size)
