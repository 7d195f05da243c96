"""Accepts connections of a TLS listener and sees their handshakes through.

A connection counts from its first moment, not from the end of its handshake: those that only begin one would else pass
by all limits. So many handshakes are under way at most; one more ends the oldest. Who stops amid a handshake loses its
place to others when there are many, and after `HANDSHAKE_TIMEOUT_S` in any case; an honest client needs a few
milliseconds.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable

from barnabas.node.log_limiter import LogLimiter
from barnabas.node.net.settings import host_address

log = logging.getLogger("barnabas.net")

HANDSHAKE_TIMEOUT_S = 10.0
HANDSHAKES_MAX = 1000
# No file handles, for instance: asked again after a while.
ACCEPT_PAUSE_S = 0.5


class TlsAcceptor:
    """As an `asyncio.Server`, as far as ours uses one."""

    def __init__(
        self,
        name: str,
        listening: socket.socket,
        backlog: int,
        context: Callable[[], ssl.SSLContext],
        new_connection: Callable[[], asyncio.BaseProtocol],
        has_room: Callable[[str, int, int], bool],
        limiter: LogLimiter,
    ) -> None:
        """`context` gives that of the next handshake. `has_room` says whether one more from an address is within the
        limits, beside so many handshakes that are under way, and so many of this address."""
        self._name = name
        self._listening = listening
        self._backlog = backlog
        self._context = context
        self._new_connection = new_connection
        self._has_room = has_room
        self._limiter = limiter
        self._loop = asyncio.get_running_loop()
        self._accepting: asyncio.Task[None] | None = None
        # The oldest first.
        self._handshakes: dict[asyncio.Task[None], str] = {}
        self._per_host: Counter[str] = Counter()
        self._is_closed = False

    async def start_serving(self) -> None:
        if self._accepting is not None:
            return
        self._listening.setblocking(False)
        self._listening.listen(self._backlog)
        self._accepting = self._loop.create_task(self._accept())

    def close(self) -> None:
        self._is_closed = True
        for task in (self._accepting, *self._handshakes):
            if task is not None:
                task.cancel()
        self._loop.call_soon(self._listening.close)

    async def _accept(self) -> None:
        while True:
            try:
                accepted, address = await self._loop.sock_accept(self._listening)
            except OSError as error:
                if self._limiter.allows(("accept", self._name)):
                    log.error("listener %s: could not accept a connection, trying again: %s", self._name, error)
                await asyncio.sleep(ACCEPT_PAUSE_S)
                continue
            host = host_address(str(address[0]))
            if not self._has_room(host, len(self._handshakes), self._per_host[host]):
                self._report(host, address[1], "there are too many connections")
                accepted.close()
                continue
            if len(self._handshakes) >= HANDSHAKES_MAX:
                next(iter(self._handshakes)).cancel()
            task = self._loop.create_task(self._shake_hands(accepted, host, address[1]))
            self._handshakes[task] = host
            self._per_host[host] += 1
            task.add_done_callback(self._ended)

    async def _shake_hands(self, accepted: socket.socket, host: str, port: int) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._new_connection, accepted, ssl=self._context(), ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S
            )
        except (OSError, TimeoutError, asyncio.CancelledError) as error:
            if not self._is_closed:
                self._report(host, port, _reason(error))

    def _ended(self, task: asyncio.Task[None]) -> None:
        host = self._handshakes.pop(task)
        self._per_host[host] -= 1
        if not self._per_host[host]:
            del self._per_host[host]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a TLS handshake on %s failed", self._name, exc_info=error)

    def _report(self, host: str, port: int, reason: str) -> None:
        """Once a minute for each address and listener."""
        if self._limiter.allows((host, self._name)):
            log.warning("connection from %s:%d on %s is closed: %s", host, port, self._name, reason)


def _reason(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted ({error.verify_message})"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({error.reason or 'it does not speak TLS'})"
    if isinstance(error, asyncio.CancelledError):
        return "it did not finish its TLS handshake while others came"
    if isinstance(error, TimeoutError | ConnectionAbortedError):
        return f"it did not finish its TLS handshake in {HANDSHAKE_TIMEOUT_S:.0f} s"
    return f"TLS failed ({error})"
