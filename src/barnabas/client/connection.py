"""One connection to one broker, used by one thread: the blocking driver of `protocol`.

It connects to the first address of the host that answers, with TLS if the settings say so, and sets the connection up.
A broker that closes the connection when it is asked for its versions is asked once more, in the oldest form.
"""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from barnabas.client.errors import BrokerUnreachable, ClientError, ConnectionLost, TimedOut, UnreadableAnswer
from barnabas.client.protocol import Asked, ClientProtocol, Features, Steps
from barnabas.client.settings import Address, ClientSettings, show_address
from barnabas.wire.schema import Request

if TYPE_CHECKING:
    import ssl

BUFFER_BYTES = 32 * 1024


class Pending(NamedTuple):
    asked: Asked
    deadline: float


class Connection:
    def __init__(
        self, address: Address, settings: ClientSettings, *, tls: ssl.SSLContext | None = None, node_id: int = -1
    ) -> None:
        """Raises BrokerUnreachable, AuthenticationFailed or TimedOut; there is no connection that is not set up."""
        self.address = address
        self.peer = show_address(address)
        self.node_id = node_id
        self.last_used = time.monotonic()
        self._settings = settings
        if tls is None and settings.security.uses_tls:
            tls = settings.security.ssl_context()
        self._tls = tls
        self._protocol = ClientProtocol(self.peer, settings.client_id, settings.security)
        self._pending: deque[Pending] = deque()
        self._login_ends = float("inf")
        self._received = memoryview(b"")  # read from the socket and not yet used
        self._buffer = bytearray(BUFFER_BYTES)
        self._timeout_s = -1.0
        self._socket = self._connect()
        try:
            self._set_up()
        except BaseException:
            self.close()
            raise

    @property
    def versions(self) -> Mapping[int, tuple[int, int]]:
        return self._protocol.versions

    @property
    def features(self) -> Features:
        return self._protocol.features

    @property
    def closed(self) -> bool:
        return self._socket.fileno() < 0

    @property
    def in_flight(self) -> int:
        """Requests whose answers have not been received."""
        return len(self._pending)

    @property
    def oldest_deadline(self) -> float:
        return self._pending[0].deadline if self._pending else float("inf")

    def fileno(self) -> int:
        """For poll. What has been read already does not show there: see `has_buffered`."""
        return self._socket.fileno()

    @property
    def has_buffered(self) -> bool:
        if self._received:
            return True
        return self._tls is not None and not self.closed and bool(self._socket.pending())  # type: ignore[attr-defined]

    def request(self, request: Request, version: int | None = None, timeout_ms: int | None = None) -> Any:
        """The answer to a request; without a version in the newest that both sides know."""
        assert not self._pending, "answers that were not received are in the way"
        try:
            self.send(request, version, timeout_ms=timeout_ms)
            return self.receive()
        except ClientError:
            raise
        except BaseException:  # an interrupt: half of something may have been sent or read
            self.close()
            raise

    def send(
        self, request: Request, version: int | None = None, *, timeout_ms: int | None = None, answered: bool = True
    ) -> int:
        """The request's correlation id. `answered` is false for Produce without acks."""
        if time.monotonic() > self._login_ends and not self._pending:
            self._take(self._protocol.log_in())
        return self._send(request, self.version_of(type(request)) if version is None else version, timeout_ms, answered)

    def receive(self) -> Any:
        """The answer to the oldest request that has none yet."""
        asked, deadline = self._pending[0]
        frame = self._receive_frame(deadline, asked.request)
        self._pending.popleft()
        self.last_used = time.monotonic()
        try:
            return self._protocol.read_answer(asked, frame)
        except UnreadableAnswer:
            self.close()
            raise

    def version_of(self, request: type[Request]) -> int:
        """The newest version both sides know."""
        return self._protocol.version_of(request)

    def close(self) -> None:
        self._received = memoryview(b"")
        self._pending.clear()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _connect(self) -> socket.socket:
        host, port = self.address
        timeout_s = self._settings.socket_connection_setup_timeout_ms / 1000
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            raise BrokerUnreachable(f"{self.peer} cannot be reached: the name {host} does not resolve.") from None
        problem = "no address"
        for family, kind, protocol, _, resolved in found:
            candidate = socket.socket(family, kind, protocol)
            try:
                candidate.settimeout(timeout_s)
                candidate.connect(resolved)
                candidate.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return self._wrap(candidate) if self._tls is not None else candidate
            except TimeoutError:
                problem = f"no answer within {timeout_s:g} s"
                candidate.close()
            except OSError as error:
                problem = (error.strerror or str(error)).lower()
                candidate.close()
            except BaseException:
                candidate.close()
                raise
        raise BrokerUnreachable(f"{self.peer} cannot be reached: {problem}.")

    def _wrap(self, plain: socket.socket) -> socket.socket:
        from barnabas.client.tls import tls_problem

        assert self._tls is not None
        plain.settimeout(self._settings.request_timeout_ms / 1000)
        try:
            return self._tls.wrap_socket(plain, server_hostname=self.address[0])
        except OSError as error:
            raise tls_problem(self.peer, error) from None

    def _set_up(self) -> None:
        try:
            self._take(self._protocol.set_up())
        except ConnectionLost:
            if self._protocol.versions:
                raise
            self._socket.close()
            self._received, self._timeout_s = memoryview(b""), -1.0
            self._socket = self._connect()
            self._take(self._protocol.set_up(first_version=0))

    def _take(self, steps: Steps) -> None:
        """Sends what the steps ask for, until there is nothing more to ask."""
        answer = None
        while True:
            try:
                request, version = steps.send(answer)
            except StopIteration:
                break
            self._send(request, version)
            answer = self.receive()
        self._login_ends = time.monotonic() + self._protocol.session_ms / 1000

    def _send(self, request: Request, version: int, timeout_ms: int | None = None, answered: bool = True) -> int:
        asked, frame = self._protocol.request_frame(request, version)
        deadline = time.monotonic() + (self._settings.request_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        try:
            self._set_timeout(deadline)
            self._socket.sendall(frame)
        except TimeoutError:
            raise self._timed_out(type(request)) from None
        except OSError:
            raise self._lost(type(request)) from None
        if answered:
            self._pending.append(Pending(asked, deadline))
        return asked.correlation_id

    def _receive_frame(self, deadline: float, request: type[Request]) -> bytearray:
        try:
            head = bytearray(4)
            self._receive_into(memoryview(head), deadline)
            frame = bytearray(self._protocol.answer_length(head))
            self._receive_into(memoryview(frame), deadline)
            return frame
        except UnreadableAnswer:
            self.close()
            raise
        except TimeoutError:
            raise self._timed_out(request) from None
        except OSError:
            raise self._lost(request) from None

    def _receive_into(self, view: memoryview, deadline: float) -> None:
        """Small answers come out of the buffer, several of one read; of large ones most goes straight to its place."""
        while view:
            if self._received:
                count = min(len(view), len(self._received))
                view[:count] = self._received[:count]
                self._received = self._received[count:]
                view = view[count:]
            elif len(view) >= BUFFER_BYTES:
                view = view[self._read(view, deadline) :]
            else:
                self._received = memoryview(self._buffer)[: self._read(memoryview(self._buffer), deadline)]

    def _read(self, view: memoryview, deadline: float) -> int:
        while True:
            self._set_timeout(deadline)
            try:
                count = self._socket.recv_into(view)
            except TimeoutError:
                if time.monotonic() >= deadline:
                    raise
                self._timeout_s = -1.0
                continue
            if not count:
                raise ConnectionResetError("closed")
            return count

    def _set_timeout(self, deadline: float) -> None:
        """At most the time that is left. It costs a system call, so half of it is good enough if it is set already."""
        left_s = max(deadline - time.monotonic(), 0.001)
        if not left_s / 2 <= self._timeout_s <= left_s:
            self._timeout_s = left_s * 0.9
            self._socket.settimeout(self._timeout_s)

    def _timed_out(self, request: type[Request]) -> TimedOut:
        self.close()
        return self._protocol.timed_out(request)

    def _lost(self, request: type[Request]) -> ConnectionLost:
        self.close()
        return self._protocol.lost(request)


def wait_readable(connections: Iterable[Connection], timeout_s: float) -> set[int]:
    """File numbers of the connections that have something to receive, or have ended."""
    poller = select.poll()  # select() ends at 1024 open files
    for connection in connections:
        poller.register(connection.fileno(), select.POLLIN)
    return {number for number, _ in poller.poll(timeout_s * 1000)}
