"""The way to the active controller: whatever is to be decided goes through here, asked for by clients or by this node.

While this node leads the quorum a command is handed over directly. The answer is then released only after this node's
own loader has published what was decided, so that a client finds what it has changed on the node that it asked. While
another node leads, the command goes there, and is answered when it is committed. A command that nobody takes, because
the lead is changing hands, is offered again until its time is over; a quorum of one has nobody to wait for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol

from barnabas.node.broker.forwarding import ControllerPeers
from barnabas.node.controller.local import LocalController
from barnabas.node.raft.interface import Raft
from barnabas.node.requests import RequestContext, own_context
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.schema import Request

# How long a command is offered if nobody says until when it is wanted, and how often.
OFFERED_S = 30.0
PAUSE_S = 0.05


class ToController(Protocol):
    @property
    def versions(self) -> Mapping[int, tuple[int, int]]:
        """What the active controller offers, by API, if that is another node and a connection to it says."""
        ...

    async def execute(self, context: RequestContext, request: Request) -> Any:
        """The response; a KafkaError while there is no controller to ask."""
        ...

    async def request(self, request: Request, timeout_s: float = OFFERED_S) -> Any:
        """In the name of this node."""
        ...


class ControllerChannel:
    def __init__(self, local: LocalController, raft: Raft, peers: ControllerPeers) -> None:
        self._local = local
        self._raft = raft
        self._peers = peers

    @property
    def versions(self) -> Mapping[int, tuple[int, int]]:
        return {} if self._local.is_active else self._peers.versions

    async def execute(self, context: RequestContext, request: Request) -> Any:
        return await self._offer(context, request, OFFERED_S)

    async def request(self, request: Request, timeout_s: float = OFFERED_S) -> Any:
        return await self._offer(own_context(request), request, timeout_s)

    async def close(self) -> None:
        await self._peers.close()

    async def _offer(self, context: RequestContext, request: Request, timeout_s: float) -> Any:
        if self._raft.is_alone:
            return await self._local.execute(context, request)
        loop = asyncio.get_running_loop()
        deadline = context.deadline if context.deadline is not None else loop.time() + timeout_s
        while True:
            left_s = deadline - loop.time()
            try:
                return await self._ask(context, request, left_s)
            except KafkaError as error:
                if error.code is not ErrorCode.NOT_CONTROLLER:
                    raise
                if left_s <= PAUSE_S:
                    why = f"The active controller was not found: {error.message or 'no controller takes it'}"
                    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, why) from error
            await asyncio.sleep(PAUSE_S)

    async def _ask(self, context: RequestContext, request: Request, left_s: float) -> Any:
        if self._local.is_active:
            return await self._local.execute(context, request)
        if context.is_own:
            return await self._peers.request(request, left_s)
        return await self._peers.forward(context, request, left_s)
