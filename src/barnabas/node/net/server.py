"""The listeners of a node and all connections accepted on them.

Limits are checked when a connection arrives. One tick, every second, does what is due for all of them: idle ones are
closed, buffers nobody needs are given back, and the line before the receive budget is moved on. A connection stands in
the bucket of the tick at which it could be idle for too long, and is looked at only then.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from barnabas.node.dispatch import Dispatcher
from barnabas.node.log_limiter import LogLimiter
from barnabas.node.net.budget import ReceiveBudget
from barnabas.node.net.connection import ClientConnection
from barnabas.node.net.connection_rates import ConnectionRates
from barnabas.node.net.handshakes import TlsAcceptor
from barnabas.node.net.settings import Listener, NetworkSettings, bind
from barnabas.node.requests import ListenerKind, Session

log = logging.getLogger("barnabas.net")

TICK_S = 1.0
STOP_GRACE_S = 1.0
# Kafka's default of 50 is soon full when many clients come back at once, and who finds it full waits for a second.
LEAST_BACKLOG = 1024
ABORT_WAIT_S = 1.0
UNWELCOME_MAX = 1000


@dataclass(slots=True)
class NetworkCounters:
    connections_accepted: int = 0
    connections_refused: int = 0
    connections_idle_closed: int = 0
    requests_invalid: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


class Server:
    def __init__(self, dispatcher: Dispatcher, settings: NetworkSettings | None = None) -> None:
        self.settings = settings or NetworkSettings()
        self.dispatcher = dispatcher
        self.loop = asyncio.get_running_loop()
        self.counters = NetworkCounters()
        self.budget = ReceiveBudget(self.settings.queued_max_bytes)
        self.rates = ConnectionRates(self.settings.rate_samples, self.settings.rate_window_s)
        self.listeners: list[Listener] = []
        self.tick = 0
        # Connections that have a receive buffer.
        self.buffered: set[ClientConnection] = set()
        self._tick_s = TICK_S
        self._idle_ticks = 0
        self._connections: set[ClientConnection] = set()
        self._per_ip: Counter[str] = Counter()
        self._buckets: dict[int, set[ClientConnection]] = {}
        self._servers: list[asyncio.AbstractServer | TlsAcceptor] = []
        self._sockets: list[socket.socket] = []  # of the servers, in their order
        self._limiter = LogLimiter()
        # Connections that came too fast, and are closed later.
        self._unwelcome: dict[asyncio.TimerHandle, Any] = {}
        self._all_gone: asyncio.Future[None] | None = None
        self._going: ListenerKind | None = None  # of which listeners all are to go; None: of all
        self.reconfigure(self.settings)
        self._timer = self.loop.call_later(self._tick_s, self._on_tick)

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def reconfigure(self, settings: NetworkSettings) -> None:
        """Limits hold from now on; what is already connected stays."""
        self.settings = settings
        self.budget.limit_bytes = settings.queued_max_bytes
        max_idle_s = settings.max_idle_ms / 1000
        self._tick_s = min(TICK_S, max(max_idle_s / 4, 0.01)) if max_idle_s > 0 else TICK_S
        self._idle_ticks = max(1, round(max_idle_s / self._tick_s)) if max_idle_s > 0 else 0

    async def listen(self, listener: Listener, *, serve: bool = True) -> Listener:
        """Binds the listener and returns it with the port it has got; accepts on it at once, or when `serve` says."""
        bound = bind(listener, self.settings)
        routes = self.dispatcher.routes[listener.kind]
        opened = replace(listener, port=bound.getsockname()[1])

        def accept() -> ClientConnection:
            session = Session(
                listener=opened.name,
                kind=opened.kind,
                security_protocol=opened.security_protocol,
                client_host="",
                client_port=0,
                routes=routes,
                access=opened.access,
            )
            return ClientConnection(self, self.dispatcher, session, tls=opened.tls, logins=opened.logins)

        backlog = self._backlog
        server: asyncio.AbstractServer | TlsAcceptor
        if listener.tls is None:
            server = await self.loop.create_server(accept, sock=bound, backlog=backlog, start_serving=False)
        else:
            context = listener.tls.context
            server = TlsAcceptor(listener.name, bound, backlog, context, accept, self._has_room, self._limiter)
        if serve:
            await self._serve(opened, bound, server)
        self._sockets.append(bound)
        self._servers.append(server)
        self.listeners.append(opened)
        return opened

    @property
    def _backlog(self) -> int:
        return max(self.settings.backlog, LEAST_BACKLOG)

    async def _serve(
        self, listener: Listener, bound: socket.socket, server: asyncio.AbstractServer | TlsAcceptor
    ) -> None:
        """Two processes may bind a port while neither listens on it, and uvloop is silent about who comes second."""
        try:
            bound.listen(self._backlog)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(listener)) from error
        await server.start_serving()

    def _has_room(self, host: str, coming: int, coming_from_host: int) -> bool:
        """Whether there may be one more connection beside those whose handshakes are under way."""
        limit = self.settings.max_connections_per_ip_overrides.get(host, self.settings.max_connections_per_ip)
        is_full = len(self._connections) + coming >= self.settings.max_connections
        return not is_full and self._per_ip[host] + coming_from_host < limit

    async def serve(self, kind: ListenerKind | None = None) -> None:
        """Accepts on all listeners, or on those of one kind. An OSError names the listener whose port is taken."""
        for listener, bound, server in zip(self.listeners, self._sockets, self._servers, strict=True):
            if kind is None or listener.kind is kind:
                await self._serve(listener, bound, server)

    async def stop(self, grace_s: float = STOP_GRACE_S, kind: ListenerKind | None = None) -> None:
        """Accepts no more, gives requests in flight a moment, closes what is left; on listeners of one kind, or all."""
        for listener, server in zip(self.listeners, self._servers, strict=True):
            if kind is None or listener.kind is kind:
                server.close()
        for connection in self._of_kind(kind):
            connection.stop()
        await self._wait_until_gone(grace_s, kind)
        for connection in self._of_kind(kind):
            connection.abort("")
        await self._wait_until_gone(ABORT_WAIT_S, kind)
        if kind is None:
            for timer, transport in self._unwelcome.items():
                timer.cancel()
                transport.abort()
            self._unwelcome.clear()
            self._timer.cancel()

    def _of_kind(self, kind: ListenerKind | None) -> list[ClientConnection]:
        return [each for each in self._connections if kind is None or each.session.kind is kind]

    async def _wait_until_gone(self, limit_s: float, kind: ListenerKind | None) -> None:
        if not self._of_kind(kind):
            return
        self._going, self._all_gone = kind, self.loop.create_future()
        await asyncio.wait([self._all_gone], timeout=limit_s)
        self._all_gone = None

    # What connections call

    def admit(self, connection: ClientConnection) -> bool:
        """Whether one more is within the limits. Only then `forget` is to be called for it."""
        host = connection.session.client_host
        limit = self.settings.max_connections_per_ip_overrides.get(host, self.settings.max_connections_per_ip)
        if len(self._connections) >= self.settings.max_connections:
            self.report(connection, "too many connections")
        elif self._per_ip[host] >= limit:
            self.report(connection, "too many connections from this address")
        elif self.rates.is_active and not self._is_slow_enough(connection):
            self.report(connection, "connections from this address come faster than its quota allows")
        else:
            self._connections.add(connection)
            self._per_ip[host] += 1
            self.counters.connections_accepted += 1
            self._put_in_bucket(connection, self.tick + self._idle_ticks)
            return True
        self.counters.connections_refused += 1
        return False

    def _is_slow_enough(self, connection: ClientConnection) -> bool:
        session = connection.session
        connection.refused_for_s = self.rates.refuse_for_s(session.client_host)
        if connection.refused_for_s:
            return False
        if wait_s := self.rates.wait_s(session.listener):
            connection.mute(wait_s)
        return True

    def turn_away(self, transport: Any, delay_s: float) -> None:
        """Closes a connection that was not admitted, after a delay if it came too fast."""
        if not delay_s or len(self._unwelcome) >= UNWELCOME_MAX:
            transport.abort()
            return

        def close() -> None:
            self._unwelcome.pop(timer, None)
            transport.abort()

        timer = self.loop.call_later(delay_s, close)
        self._unwelcome[timer] = transport

    def forget(self, connection: ClientConnection) -> None:
        if connection not in self._connections:
            return
        self._connections.remove(connection)
        self.buffered.discard(connection)
        host = connection.session.client_host
        self._per_ip[host] -= 1
        if not self._per_ip[host]:
            del self._per_ip[host]
        bucket = self._buckets.get(connection.idle_bucket)
        if bucket is not None:
            bucket.discard(connection)
        waits = self._all_gone is not None and not self._all_gone.done()
        if waits and self._all_gone is not None and not self._of_kind(self._going):
            self._all_gone.set_result(None)

    def report(self, connection: ClientConnection, reason: str) -> None:
        """A peer's mistake, once a minute for each address and listener."""
        session = connection.session
        if reason and self._limiter.allows((session.client_host, session.listener)):
            log.warning(
                "connection from %s:%d on %s is closed: %s",
                session.client_host,
                session.client_port,
                session.listener,
                reason,
            )

    # The tick

    def _on_tick(self) -> None:
        self._timer = self.loop.call_later(self._tick_s, self._on_tick)
        self.tick += 1
        for connection in list(self.buffered):
            if connection.tidy():
                self.buffered.discard(connection)
        if self.budget.waiting:
            self.budget.relieve(self.tick)
        for connection in self._buckets.pop(self.tick, ()):
            self._close_if_idle(connection)

    def _close_if_idle(self, connection: ClientConnection) -> None:
        due = connection.last_active_tick + self._idle_ticks
        if due > self.tick:
            self._put_in_bucket(connection, due)
        elif connection.awaits_handler:
            self._put_in_bucket(connection, self.tick + self._idle_ticks)
        else:
            self.counters.connections_idle_closed += 1
            connection.abort("")

    def _put_in_bucket(self, connection: ClientConnection, tick: int) -> None:
        if self._idle_ticks:
            connection.idle_bucket = max(tick, self.tick + 1)
            self._buckets.setdefault(connection.idle_bucket, set()).add(connection)
