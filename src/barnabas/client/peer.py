"""Another node, asked from an event loop: raft, replica fetchers, forwarding, transaction markers and HTTP services.

    async with Peer(("broker-2", 9092), PeerSettings(client_id="broker-1-fetcher")) as peer:
        answer = await peer.send(request, timeout_ms=2_000)

A peer has one connection at a time, made when there is something to send. Requests leave in the order of `send`, at
most `in_flight_max` of them unanswered; the others wait here. As brokers answer in order, requests that are long in
coming (fetches) want a peer of their own.

    idle      -> send -> connecting
    connecting -> set up -> connected; the requests that wait are sent
               -> failed -> they fail with the reason; backing off
    connected  -> the connection ends -> what is in flight fails; backing off, or idle if nothing waits
               -> the SASL session is about to end -> the answers in flight are awaited, and the login is repeated
    backing off -> `reconnect_backoff_ms`, doubled at each failure up to `reconnect_backoff_max_ms` -> connecting
               (a request that is made meanwhile waits for the next try, and fails with it)

A request's deadline covers all of it: waiting, connecting, and the answer. If it passes while the answer is awaited,
the connection is closed, since an answer that comes later could be taken for another's. A caller that is cancelled
leaves the connection open, and its answer is dropped. A connection that the broker closes while nothing is asked of it
is no failure. For one event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from barnabas.client.backoff import Backoff
from barnabas.client.errors import BrokerUnreachable, ClientError, TimedOut
from barnabas.client.loop_connection import Call, LoopConnection
from barnabas.client.properties import integer
from barnabas.client.protocol import Features, api_name
from barnabas.client.security import SecuritySettings
from barnabas.client.settings import Address, ClientSettings, show_address
from barnabas.wire.schema import Request

if TYPE_CHECKING:
    import ssl

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSettings:
    client_id: str = "barnabas"
    security: SecuritySettings = field(default_factory=SecuritySettings)
    # Without it no versions are asked for, and every request is sent in a version that its caller gives.
    negotiate: bool = True
    in_flight_max: int = 5
    request_timeout_ms: int = 30_000
    connection_setup_timeout_ms: int = 10_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000

    @classmethod
    def from_client(cls, settings: ClientSettings, *, negotiate: bool = True) -> Self:
        """As Kafka's properties of a client say."""
        properties = settings.properties
        return cls(
            client_id=settings.client_id,
            security=settings.security,
            negotiate=negotiate,
            in_flight_max=integer(properties, "max.in.flight.requests.per.connection", 5, least=1),
            request_timeout_ms=settings.request_timeout_ms,
            connection_setup_timeout_ms=settings.socket_connection_setup_timeout_ms,
            reconnect_backoff_ms=integer(properties, "reconnect.backoff.ms", 50),
            reconnect_backoff_max_ms=integer(properties, "reconnect.backoff.max.ms", 1_000),
        )


class Peer:
    def __init__(
        self, address: Address, settings: PeerSettings | None = None, *, tls: ssl.SSLContext | None = None
    ) -> None:
        """`tls` is for many peers to share one context; without it one is made of the settings."""
        self.address = address
        self.name = show_address(address)
        self._settings = settings or PeerSettings()
        self._tls = tls
        self._queue: deque[Call] = deque()
        self._connection: LoopConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._backoff = Backoff(self._settings.reconnect_backoff_ms, self._settings.reconnect_backoff_max_ms)
        self._retry_at = 0.0
        self._problem: ClientError | None = None  # why there is no connection, if the last one failed
        self._closed = False

    @property
    def connected(self) -> bool:
        return self._connection is not None and self._connecting is None

    @property
    def in_flight(self) -> int:
        return len(self._connection.calls) if self._connection is not None else 0

    @property
    def waiting(self) -> int:
        """Requests that have not been sent yet."""
        return len(self._queue)

    @property
    def features(self) -> Features:
        """As the peer said when it was last connected to; empty before, and without negotiation."""
        return self._connection.protocol.features if self._connection is not None else Features({}, {}, -1)

    @property
    def versions(self) -> Mapping[int, tuple[int, int]]:
        """The lowest and highest version of each API that the peer offers; empty as `features` is."""
        return self._connection.protocol.versions if self._connection is not None else {}

    async def send(self, request: Request, version: int | None = None, *, timeout_ms: float | None = None) -> Any:
        """The answer; without a version the request goes out in the newest that both sides know.

        Raises BrokerUnreachable (ConnectionLost if the request may have been done), TimedOut, AuthenticationFailed,
        UnsupportedByBroker or UnreadableAnswer. Error codes in the answer are the caller's.
        """
        assert version is not None or self._settings.negotiate, "without negotiation a version must be given"
        call = self._new_call(request, version, timeout_ms)
        self._queue.append(call)
        self._pump()
        return await call.answer

    async def close(self) -> None:
        """What is waiting or in flight fails."""
        self._closed = True
        self._fail_waiting(BrokerUnreachable(f"The connection to {self.name} was closed here."))
        connecting, self._connecting = self._connecting, None
        if connecting is not None:
            connecting.cancel()
            await asyncio.gather(connecting, return_exceptions=True)
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    def _new_call(self, request: Request, version: int | None, timeout_ms: float | None) -> Call:
        if self._closed:
            raise BrokerUnreachable(f"The connection to {self.name} was closed here.")
        loop = asyncio.get_running_loop()
        limit_ms = self._settings.request_timeout_ms if timeout_ms is None else timeout_ms
        call = Call(request, version, loop.create_future(), loop.time() + limit_ms / 1000)
        call.timer = loop.call_at(call.deadline, self._overdue, call)
        return call

    def _pump(self) -> None:
        """Sends what may be sent now, and connects if somebody waits for it."""
        if self._connection is not None and self._connection.ended is not None:
            self._lose(self._connection)
        while self._queue and self._queue[0].answer.done():  # cancelled
            self._drop(self._queue.popleft())
        if not self._queue or self._connecting is not None:
            return
        connection = self._connection
        if connection is None:
            self._connecting = asyncio.create_task(self._connect())
        elif connection.login_due:
            if not connection.calls:
                self._connecting = asyncio.create_task(self._log_in(connection))
        else:
            self._send_waiting(connection)

    def _send_waiting(self, connection: LoopConnection) -> None:
        while self._queue and len(connection.calls) < self._settings.in_flight_max:
            call = self._queue.popleft()
            if call.answer.done():
                self._drop(call)
            else:
                connection.call(call)

    @staticmethod
    def _drop(call: Call) -> None:
        if call.timer is not None:
            call.timer.cancel()

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await asyncio.sleep(self._retry_at - loop.time())
            if self._tls is None and self._settings.security.uses_tls:
                self._tls = await asyncio.to_thread(self._settings.security.ssl_context)
            self._connection = await LoopConnection.open(self.address, self._settings, self._tls, self._changed)
        except Exception as error:
            if not isinstance(error, ClientError):
                log.exception("Connecting to %s failed", self.name)
                error = BrokerUnreachable(f"{self.name} cannot be reached: {error!r}.")
            self._connecting = None
            self._back_off(error)
            self._fail_waiting(error)
            return
        self._connecting = None
        if self._problem is not None:
            log.info("Connected to %s again.", self.name)
            self._problem = None
        self._pump()

    async def _log_in(self, connection: LoopConnection) -> None:
        try:
            await connection.log_in()
        except ClientError as error:
            connection.end(error)
        self._connecting = None
        self._pump()

    def _changed(self) -> None:
        connection = self._connection
        if connection is None:
            return  # it is being set up
        if connection.ended is None and self._connecting is None:
            self._backoff.reset()
        self._pump()

    def _lose(self, connection: LoopConnection) -> None:
        self._connection = None
        if connection.ended is not None and not connection.was_idle:
            self._back_off(connection.ended)

    def _back_off(self, error: ClientError) -> None:
        pause_s = self._backoff.fail()
        self._retry_at = asyncio.get_running_loop().time() + pause_s
        if self._problem is None:
            log.warning("%s", error)
        self._problem = error

    def _fail_waiting(self, error: ClientError) -> None:
        queue, self._queue = self._queue, deque()
        for call in queue:
            call.fail(error)

    def _overdue(self, call: Call) -> None:
        """The call's deadline has passed."""
        name = type(call.request)
        if call.asked is None:
            if call in self._queue:
                self._queue.remove(call)
            why = f": {self._problem}" if self._problem is not None else "."
            call.fail(TimedOut(f"{api_name(name)} could not be sent to {self.name} in time{why}"))
        elif self._connection is not None and call in self._connection.calls:
            self._connection.end(self._connection.protocol.timed_out(name), call)
