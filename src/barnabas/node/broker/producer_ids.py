"""Ids for idempotent producers, given out one by one from blocks that the controller grants to this broker.

A block is asked for when the current one is used up, once for all who wait; ids left over at a stop are never used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class ProducerIds:
    def __init__(self, allocate: Callable[[], Awaitable[range]]) -> None:
        """`allocate` brings the next block once it is committed."""
        self._allocate = allocate
        self._next_id = 0
        self._end_id = 0
        self._request: asyncio.Task[None] | None = None

    async def next(self) -> int:
        """Raises KafkaError if there is no controller to ask."""
        while self._next_id >= self._end_id:
            if self._request is None:
                self._request = asyncio.get_running_loop().create_task(self._take_block())
            await asyncio.shield(self._request)
        self._next_id += 1
        return self._next_id - 1

    async def _take_block(self) -> None:
        try:
            block = await self._allocate()
            self._next_id, self._end_id = block.start, block.stop
        finally:
            self._request = None
