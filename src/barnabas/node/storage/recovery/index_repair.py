"""Indexes of one log directory that are written anew: here if the segment is small, else by a process, one at a time.

Whoever finds that an index is wrong (`DamagedIndex`) gives it to the log, and the log to its directory. Reads that need
the index wait until it is right (`IndexBeingRepaired`); the log itself goes on, and what happens to it meanwhile
counts: a segment that was cut or deleted takes nothing over. A process that dies leaves its work to this one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable

from barnabas.node.storage.directory.files import fsync_path
from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.recovery import index_rebuild
from barnabas.node.storage.recovery.index_rebuild import ANSWER, Kind, Order, Rebuilt
from barnabas.node.storage.segment.segment import Segment
from barnabas.node.storage.segment.verification import DamagedIndex

logger = logging.getLogger("barnabas.storage")

# To read so much takes a millisecond or two.
HERE_BYTES = 1024 * 1024


class IndexRepair:
    def __init__(self, sync_later: Callable[[Callable[[], None]], None], failed: Callable[[OSError], None]) -> None:
        self._sync_later = sync_later
        self._failed = failed
        self._under_way: dict[tuple[Segment, Kind], asyncio.Task[None]] = {}
        self._one = asyncio.Semaphore(1)

    def begin(self, log: PartitionLog, damaged: DamagedIndex) -> asyncio.Task[None] | None:
        """Done when the index is right; None if it is so already. Raises `OSError`."""
        key = damaged.segment, damaged.kind
        task = self._under_way.get(key)
        if task is None:
            order = log.segments.order(*key)
            if order.size <= HERE_BYTES:
                self._sync(log.repair_index_now(damaged))
                return None
            task = asyncio.get_running_loop().create_task(self._repair(log, damaged, order))
            self._under_way[key] = task
            task.add_done_callback(lambda _: self._under_way.pop(key, None))
        return task

    async def stop(self) -> None:
        """No process is left when this returns."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _repair(self, log: PartitionLog, damaged: DamagedIndex, order: Order) -> None:
        segment, cuts = damaged.segment, damaged.segment.file.cuts
        async with self._one:
            found = await rebuild_in_child(order)
        if log.offline or segment.file.cuts != cuts or segment not in log.segments:
            return
        try:
            if found is None:
                logger.warning("%s: the process that rebuilds its index died; rebuilding it here", segment.file.path)
                self._sync(log.repair_index_now(damaged))
            else:
                self._sync(log.take_rebuilt(damaged, found))
        except OSError as error:
            self._failed(error)

    def _sync(self, paths: list[str]) -> None:
        def sync() -> None:
            for path in paths:
                fsync_path(path)

        self._sync_later(sync)


async def rebuild_in_child(order: Order) -> Rebuilt | None:
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # nothing in the current directory is to be taken for a module
        "-m",
        index_rebuild.__name__,
        str(os.getpid()),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        answer, _ = await child.communicate(order.encode())
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    if child.returncode or len(answer) < ANSWER.size:
        return None
    first, second, end_offset = ANSWER.unpack_from(answer)
    content = answer[ANSWER.size :]
    return Rebuilt(content[:first], content[first : first + second], end_offset)
