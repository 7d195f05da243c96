"""Rounds through the partitions in the background: segments that retention no longer keeps are deleted.

The first round comes `log.initial.task.delay.ms` after the start, the others every `log.retention.check.interval.ms`.
However much there is to do, a round works for some milliseconds at a time and lets requests be answered in between;
the files are left to the thread of their disk.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from barnabas.node.broker.partition import Partition
from barnabas.node.broker.partitions import Partitions
from barnabas.node.storage.retention import SEGMENTS_AT_ONCE, Retention
from barnabas.node.storage.segment.verification import DamagedIndex
from barnabas.wire.errors import KafkaError

logger = logging.getLogger("barnabas.housekeeping")

TURN_S = 0.002


class Housekeeping:
    def __init__(
        self, partitions: Partitions, clock: Callable[[], int], *, initial_delay_ms: int, retention_check_ms: int
    ) -> None:
        self._partitions = partitions
        self._clock = clock
        self._initial_delay_ms = initial_delay_ms
        self._retention_check_ms = retention_check_ms
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        await asyncio.sleep(self._initial_delay_ms / 1000)
        while True:
            try:
                await self.retain()
            except Exception:
                logger.exception("a round of retention failed; the next one tries again")
            await asyncio.sleep(self._retention_check_ms / 1000)

    async def retain(self) -> int:
        """One round: how many segments it deleted."""
        deleted = 0
        turn_ends = time.monotonic() + TURN_S
        for partition in list(self._partitions):
            retention = Retention(partition.log, self._clock())
            before, count = deleted, SEGMENTS_AT_ONCE
            while count == SEGMENTS_AT_ONCE:
                count = self._retain(partition, retention)
                deleted += count
                if time.monotonic() > turn_ends:
                    await asyncio.sleep(0)
                    turn_ends = time.monotonic() + TURN_S
            if deleted > before:
                logger.log(logging.WARNING if retention.is_surprising else logging.INFO, retention.describe())
        return deleted

    def _retain(self, partition: Partition, retention: Retention) -> int:
        log = partition.log
        if partition.is_gone or log.offline:
            return 0
        start = log.log_start_offset
        try:
            count = retention.delete_some(partition.high_watermark)
        except DamagedIndex as damaged:
            log.background.repair_index(log, damaged)  # the next round sees how old the segment is
            return 0
        except KafkaError as error:
            logger.error("could not delete old segments of %s: %s", log.name, error.message)
            return 0
        if log.log_start_offset != start:
            partition.log_start_moved()
        return count
