"""The controller of this node, as those ask it who know controllers: NOT_CONTROLLER if it is not the active one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.node.controller.controller import Controller
from barnabas.node.metadata.loader import MetadataLoader
from barnabas.node.raft.interface import Raft
from barnabas.node.requests import RequestContext, own_context
from barnabas.wire.schema import Request


class LocalController:
    def __init__(self, controller: Controller, loader: MetadataLoader, raft: Raft) -> None:
        self._controller = controller
        self._loader = loader
        self._raft = raft

    @property
    def is_active(self) -> bool:
        return self._controller.active is not None

    @property
    def versions(self) -> Mapping[int, tuple[int, int]]:
        """Nothing is forwarded from here."""
        return {}

    async def execute(self, context: RequestContext, request: Request) -> Any:
        response = await self._controller.execute(context, request)
        await self._loader.reached(self._raft.high_watermark - 1)
        return response

    async def request(self, request: Request, timeout_s: float = 0.0) -> Any:
        return await self.execute(own_context(request), request)
