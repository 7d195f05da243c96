"""Brokers whose process is gone, noticed before their session ends.

A process that dies closes its connections, and the machine that it ran on refuses new ones to its port. So when the
connection over which a broker sent its heartbeats closes, the active controller tries the broker's own address; if
nobody listens there any more, `gone` is told. That counts only if the address answered the controller while the broker
was in service: a broker that cannot be reached from here is left to its session. A new active controller, which nobody
has sent heartbeats to yet, tries all addresses; who refuses, and is silent for longer than brokers are between two
heartbeats, is gone too.

No rule rests on this: a broker that is fenced though it lives is unfenced by its next heartbeat.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine, Iterable
from enum import Enum
from typing import Any

from barnabas.core.metadata.state import BrokerState
from barnabas.node.requests import Session

log = logging.getLogger(__name__)

CONNECT_S = 1.0
# A process that dies closes its sockets one after the other: the one that listens may be the last. So its address is
# tried again a little later.
TRIES_AFTER_S = (0.0, 0.05, 0.2, 0.5)
# Of the time between two heartbeats, how much a new active controller waits for the next one.
SILENT_INTERVALS = 1.25


class Answer(Enum):
    LISTENS = "listens"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class Presence:
    def __init__(
        self,
        brokers: Callable[[int], BrokerState | None],
        heard_since: Callable[[BrokerState, int], bool],
        gone: Callable[[BrokerState], None],
        clock: Callable[[], int],
        *,
        listener: str,
    ) -> None:
        """`brokers` are those of the cluster by id; `heard_since`: whether a broker has sent a heartbeat since then;
        `listener` is the one by which brokers reach each other."""
        self._broker = brokers
        self._heard_since = heard_since
        self._gone = gone
        self._clock = clock
        self._listener = listener
        self._watched: dict[Session, tuple[int, int]] = {}  # broker and epoch, by connection
        self._reached: dict[int, int] = {}  # the epochs of brokers whose address has answered
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, brokers: Iterable[BrokerState], heartbeat_interval_ms: int) -> None:
        """Of a new active controller."""
        for broker in brokers:
            if not broker.fenced:
                self._start(self._try_unheard(broker, heartbeat_interval_ms))

    def heard(self, session: Session, broker_id: int, epoch: int) -> None:
        """A heartbeat came over this connection."""
        if self._watched.get(session) == (broker_id, epoch):
            if self._reached.get(broker_id) == epoch:
                return
        elif session not in self._watched:
            former = session.on_closed

            def closed(session: Session) -> None:
                if former is not None:
                    former(session)
                self._closed(session)

            session.on_closed = closed
        self._watched[session] = (broker_id, epoch)
        broker = self._broker(broker_id)
        if broker is not None and not broker.fenced and broker.epoch == epoch:
            self._start(self._try_reaching(broker))

    def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._watched.clear()
        self._reached.clear()

    def _closed(self, session: Session) -> None:
        broker_id, epoch = self._watched.pop(session, (-1, -1))
        broker = self._broker(broker_id)
        is_known = broker is not None and broker.epoch == epoch == self._reached.get(broker_id)
        if broker is not None and is_known and not broker.fenced:
            self._start(self._try_again(broker))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name="broker-presence")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _try_reaching(self, broker: BrokerState) -> None:
        if await self._ask(broker) is Answer.LISTENS:
            self._reached[broker.id] = broker.epoch

    async def _try_again(self, broker: BrokerState) -> None:
        """After its connection closed."""
        closed_ms = self._clock()
        for pause_s in TRIES_AFTER_S:
            await asyncio.sleep(pause_s)
            answer = await self._ask(broker)
            if self._heard_since(broker, closed_ms + 1):
                return
            if answer is Answer.REFUSED:
                message = "Broker %d has closed its connections, and nobody listens at its address any more"
                log.warning(message, broker.id)
                self._gone(broker)
                return

    async def _try_unheard(self, broker: BrokerState, heartbeat_interval_ms: int) -> None:
        began_ms = self._clock()
        if await self._ask(broker) is not Answer.REFUSED:
            return
        await asyncio.sleep(heartbeat_interval_ms * SILENT_INTERVALS / 1000)
        if not self._heard_since(broker, began_ms + 1) and await self._ask(broker) is Answer.REFUSED:
            log.warning("broker %d sends no heartbeats and its address refuses connections: fencing it", broker.id)
            self._gone(broker)

    async def _ask(self, broker: BrokerState) -> Answer:
        endpoint = broker.endpoints.get(self._listener) or next(iter(broker.endpoints.values()), None)
        if endpoint is None:
            return Answer.UNKNOWN
        try:
            async with asyncio.timeout(CONNECT_S):
                return await _try_address(endpoint.host, endpoint.port)
        except (OSError, UnicodeError):  # among them TimeoutError
            return Answer.UNKNOWN


async def _try_address(host: str, port: int) -> Answer:
    """Refused only if all that the name stands for refuse."""
    loop = asyncio.get_running_loop()
    for _, _, _, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        try:
            transport, _ = await loop.create_connection(asyncio.Protocol, str(address[0]), port)
        except ConnectionRefusedError:
            continue
        transport.abort()
        return Answer.LISTENS
    return Answer.REFUSED
