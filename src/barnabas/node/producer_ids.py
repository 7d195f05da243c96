"""Producer ids for this broker: the controller gives them out by the block, and one is taken at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class ProducerIds:
    def __init__(self, allocate: Callable[[], Awaitable[range]]) -> None:
        self._allocate = allocate
        self._block = range(0)
        self._allocation: asyncio.Future[None] | None = None

    async def next(self) -> int:
        """An id that nobody had before. Whoever comes while a block is on its way waits for that one."""
        while not self._block:
            if self._allocation is None or self._allocation.done():
                self._allocation = asyncio.ensure_future(self._fetch_block())
            await asyncio.shield(self._allocation)
        producer_id, self._block = self._block[0], self._block[1:]
        return producer_id

    async def _fetch_block(self) -> None:
        self._block = await self._allocate()
