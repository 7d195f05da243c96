"""When a record of the metadata log is committed: the one thing that a quorum of several will do differently."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from typing import Protocol

from barnabas.node.metadata.log import MetadataLog


class CommitRule(Protocol):
    async def committed(self, end_offset: int) -> None:
        """Returns once every record below `end_offset` is committed. An OSError means that it never will be."""
        ...


class OwnFsync:
    """A quorum of one: what this node has on its disk, a majority has."""

    def __init__(self, log: MetadataLog, flusher: Executor) -> None:
        self._log = log
        self._flusher = flusher

    async def committed(self, end_offset: int) -> None:
        task = self._log.prepare_sync()
        await asyncio.get_running_loop().run_in_executor(self._flusher, task.run)
        self._log.synced(task)
