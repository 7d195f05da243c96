"""One connection to one broker, used by one thread: set up, negotiated, and then requests and answers in order.

Set-up is: TCP to the first address of the host that answers, TLS, ApiVersions, SASL. A broker that does not know our
ApiVersions says so in the oldest form and is asked again in its own newest; one that closes instead is asked once more
in the oldest.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections import deque
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from barnabas import __version__
from barnabas.client.errors import (
    AuthenticationFailed,
    BrokerUnreachable,
    ClientError,
    ConnectionLost,
    Refused,
    TimedOut,
    UnreadableAnswer,
    UnsupportedByBroker,
)
from barnabas.client.exchange import read_response, request_frame
from barnabas.client.settings import Address, ClientSettings, show_address
from barnabas.wire.apis import APIS
from barnabas.wire.codec import DecodeError
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.schema import Request

if TYPE_CHECKING:
    import ssl

BUFFER_BYTES = 32 * 1024
LENGTH = struct.Struct(">i")
API_VERSIONS_KEY = 18
SESSION_SHARE = 0.85  # of a SASL session's lifetime that is used before the login is repeated
TLS_ALERT, HTTP = b"\x15\x03", b"HTTP"


class Features(NamedTuple):
    supported: Mapping[str, tuple[int, int]]
    finalized: Mapping[str, int]
    finalized_epoch: int


class Pending(NamedTuple):
    request: type[Request]
    version: int
    correlation_id: int
    deadline: float


class Connection:
    def __init__(
        self, address: Address, settings: ClientSettings, *, tls: ssl.SSLContext | None = None, node_id: int = -1
    ) -> None:
        """Raises BrokerUnreachable, AuthenticationFailed or TimedOut; there is no connection that is not set up."""
        self.address = address
        self.peer = show_address(address)
        self.node_id = node_id
        self.versions: Mapping[int, tuple[int, int]] = {}
        self.features = Features({}, {}, -1)
        self.last_used = time.monotonic()
        self._settings = settings
        if tls is None and settings.security.uses_tls:
            tls = settings.security.ssl_context()
        self._tls = tls
        self._correlation_id = 0
        self._pending: deque[Pending] = deque()
        self._newest: dict[type[Request], int] = {}
        self._login_ends = float("inf")
        self._received = memoryview(b"")  # read from the socket and not yet used
        self._buffer = bytearray(BUFFER_BYTES)
        self._timeout_s = -1.0
        self._socket = self._connect()
        try:
            self._negotiate()
            if settings.security.uses_sasl:
                self._log_in()
        except BaseException:
            self.close()
            raise

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
            self._log_in()
        return self._send(request, self.version_of(type(request)) if version is None else version, timeout_ms, answered)

    def receive(self) -> Any:
        """The answer to the oldest request that has none yet."""
        pending = self._pending[0]
        frame = self._receive_frame(pending.deadline, pending.request)
        self._pending.popleft()
        self.last_used = time.monotonic()
        if pending.request is ApiVersionsRequest and frame[4:6] == b"\x00\x23":  # UNSUPPORTED_VERSION, in version 0
            return ApiVersionsResponse.decode(memoryview(frame)[4:], 0)
        try:
            return read_response(pending.request, pending.version, pending.correlation_id, frame)
        except DecodeError as error:
            self.close()
            name = f"{api_name(pending.request)} version {pending.version}"
            raise UnreadableAnswer(f"{self.peer} gave an answer to {name} that cannot be read: {error}.") from error

    def version_of(self, request: type[Request]) -> int:
        """The newest version both sides know."""
        if request in self._newest:
            return self._newest[request]
        api = APIS[request.api_key]
        known = api.broker or api.controller or request.valid_versions
        low, high = max(known[0], request.valid_versions[0]), min(known[1], request.valid_versions[1])
        offered = self.versions.get(request.api_key)
        if offered is None:
            raise UnsupportedByBroker(f"The broker at {self.peer} does not know {api_name(request)}.")
        if max(low, offered[0]) > min(high, offered[1]):
            raise UnsupportedByBroker(
                f"The broker at {self.peer} knows {api_name(request)} in versions {offered[0]} to {offered[1]}, "
                f"and this client in {low} to {high}."
            )
        self._newest[request] = min(high, offered[1])
        return self._newest[request]

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
        import ssl

        assert self._tls is not None
        plain.settimeout(self._settings.request_timeout_ms / 1000)
        try:
            return self._tls.wrap_socket(plain, server_hostname=self.address[0])
        except ssl.SSLCertVerificationError as error:
            raise AuthenticationFailed(
                f"The certificate of {self.peer} is not trusted: {error.verify_message}."
            ) from None
        except TimeoutError:
            raise TimedOut(f"{self.peer} did not answer the TLS handshake.") from None
        except ssl.SSLError as error:
            what = error.reason or str(error)
            raise AuthenticationFailed(f"TLS with {self.peer} failed ({what}): does this listener speak TLS?") from None
        except OSError:
            raise ConnectionLost(
                f"{self.peer} closed the connection in the TLS handshake: does it speak TLS?"
            ) from None

    def _negotiate(self) -> None:
        version = ApiVersionsRequest.valid_versions[1]
        try:
            answer = self._ask_versions(version)
        except ConnectionLost:
            self._socket.close()
            self._received, self._timeout_s = memoryview(b""), -1.0
            self._socket = self._connect()
            answer = self._ask_versions(0)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            offered = next((api.max_version for api in answer.api_keys if api.api_key == API_VERSIONS_KEY), 0)
            answer = self._ask_versions(min(offered, version))
        if answer.error_code:
            raise Refused(answer.error_code, f"{self.peer} refused to say what it speaks")
        self.versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        self.features = Features(
            {item.name: (item.min_version, item.max_version) for item in answer.supported_features},
            {item.name: item.max_version_level for item in answer.finalized_features},
            answer.finalized_features_epoch,
        )

    def _ask_versions(self, version: int) -> Any:
        request = ApiVersionsRequest(client_software_name="barnabas", client_software_version=__version__)
        self._send(request, version)
        return self.receive()

    def _log_in(self) -> None:
        from barnabas.client.sasl import exchange_for
        from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
        from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest

        security = self._settings.security
        self._send(SaslHandshakeRequest(mechanism=security.mechanism), self.version_of(SaslHandshakeRequest))
        offer = self.receive()
        if offer.error_code:
            raise AuthenticationFailed(
                f"{self.peer} does not take {security.mechanism}; it offers {', '.join(offer.mechanisms) or 'nothing'}."
            )
        exchange = exchange_for(security.mechanism, security.username, security.password)
        message = exchange.first()
        version = self.version_of(SaslAuthenticateRequest)
        while not exchange.done:
            self._send(SaslAuthenticateRequest(auth_bytes=message), version)
            answer = self.receive()
            if answer.error_code:
                said = (answer.error_message or known_name(answer.error_code)).rstrip(".")
                raise AuthenticationFailed(f"{self.peer} refused the login of {security.username}: {said}.")
            message = exchange.answer(bytes(answer.auth_bytes))
        lifetime_ms = answer.session_lifetime_ms
        self._login_ends = time.monotonic() + lifetime_ms / 1000 * SESSION_SHARE if lifetime_ms > 0 else float("inf")

    def _send(self, request: Request, version: int, timeout_ms: int | None = None, answered: bool = True) -> int:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        frame = request_frame(request, version, self._correlation_id, self._settings.client_id)
        deadline = time.monotonic() + (self._settings.request_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        try:
            self._set_timeout(deadline)
            self._socket.sendall(frame)
        except TimeoutError:
            raise self._timed_out(type(request)) from None
        except OSError as error:
            raise self._lost(type(request), error) from None
        if answered:
            self._pending.append(Pending(type(request), version, self._correlation_id, deadline))
        return self._correlation_id

    def _receive_frame(self, deadline: float, request: type[Request]) -> bytearray:
        try:
            head = bytearray(4)
            self._receive_into(memoryview(head), deadline)
            (length,) = LENGTH.unpack(head)
            wants_tls = head.startswith(TLS_ALERT)
            if length < 4 or wants_tls or head == HTTP:
                self.close()
                hint = " It seems to want TLS." if wants_tls else ""
                raise UnreadableAnswer(f"{self.peer} does not answer as a Kafka broker does.{hint}")
            frame = bytearray(length)
            self._receive_into(memoryview(frame), deadline)
            return frame
        except TimeoutError:
            raise self._timed_out(request) from None
        except OSError as error:
            raise self._lost(request, error) from None

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
        """An answer that comes later could be taken for another's: the connection is of no use any more."""
        self.close()
        return TimedOut(f"{self.peer} did not answer {api_name(request)} in time.")

    def _lost(self, request: type[Request], error: OSError) -> ConnectionLost:
        self.close()
        hint = ""
        if not self.versions:
            protocol = self._settings.security.protocol
            hint = f" (security.protocol is {protocol}: is that what this listener speaks?)"
        return ConnectionLost(f"{self.peer} closed the connection before it answered {api_name(request)}{hint}.")


def wait_readable(connections: Iterable[Connection], timeout_s: float) -> set[int]:
    """File numbers of the connections that have something to receive, or have ended."""
    poller = select.poll()  # select() ends at 1024 open files
    for connection in connections:
        poller.register(connection.fileno(), select.POLLIN)
    return {number for number, _ in poller.poll(timeout_s * 1000)}


def api_name(request: type[Request]) -> str:
    return request.__name__.removesuffix("Request")


def known_name(code: int) -> str:
    return Refused(code).code.name
