"""Requests that wait: a fetch for bytes, a produce for replicas.

A waiting request is one future and one timer. What it waits for is known to the partitions: a partition tells its
watchers by how many bytes its readable end has advanced, and when it has changed so that waiting is pointless (another
leader, deleted, its disk gone). Bytes are counted, never read again to find out; a partition without news costs
nothing. Whoever waits removes its watchers on every way out, also when its client has gone and `CancelledError` is
thrown into it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

from barnabas.node.wakeups import Wakeup
from barnabas.wire.errors import ErrorCode


class Watcher(Protocol):
    def advanced(self, size_bytes: int, stable_bytes: int) -> bool:
        """So many more bytes lie below the high watermark, and so many more below the last stable offset.

        False: this was enough, the watcher is not told again.
        """

    def changed(self) -> None:
        """Leader, epoch or existence of the partition are no longer what they were."""


class WaitingRequest:
    __slots__ = ("_future",)

    def __init__(self) -> None:
        self._future = Wakeup()

    @property
    def is_over(self) -> bool:
        return self._future.done()

    def wake(self) -> None:
        self._future.wake()

    async def until_woken(self, timeout_ms: int) -> None:
        timer = asyncio.get_running_loop().call_later(timeout_ms / 1000, self.wake)
        try:
            await self._future
        finally:
            timer.cancel()
            self._future.cancel()


class WaitingFetch(WaitingRequest):
    """A fetch that has found less than its least bytes."""

    __slots__ = ("missing_bytes", "read_committed")

    def __init__(self, missing_bytes: int, read_committed: bool) -> None:
        super().__init__()
        self.missing_bytes = missing_bytes
        self.read_committed = read_committed

    def count_new(self, size_bytes: int) -> None:
        self.missing_bytes -= size_bytes
        if self.missing_bytes <= 0:
            self.wake()


class Replicated(Protocol):
    """What a waiting produce needs to know of a partition."""

    watchers: dict[Watcher, None]

    @property
    def high_watermark(self) -> int: ...

    def acknowledgement_error(self, leader_epoch: int) -> ErrorCode: ...


class WaitingProduce(WaitingRequest):
    """A produce with acks=-1 whose records are not yet on all in-sync replicas."""

    __slots__ = ("_pending",)

    def __init__(self) -> None:
        super().__init__()
        self._pending = 1  # not all partitions are watched yet

    def watch(self, partition: Replicated, leader_epoch: int, required_offset: int) -> PendingAcknowledgement:
        self._pending += 1
        pending = PendingAcknowledgement(self, partition, leader_epoch, required_offset)
        pending.look()
        return pending

    def decided(self) -> None:
        self._pending -= 1
        if not self._pending:
            self.wake()

    async def until_decided(self, timeout_ms: int, acknowledgements: Iterable[PendingAcknowledgement]) -> None:
        self.decided()
        try:
            await self.until_woken(timeout_ms)
        finally:
            for each in acknowledgements:
                each.partition.watchers.pop(each, None)


class PendingAcknowledgement:
    """One partition of a waiting produce: its error is REQUEST_TIMED_OUT until something better is known."""

    __slots__ = ("_leader_epoch", "_required_offset", "_waiting", "error", "partition")

    def __init__(self, waiting: WaitingProduce, partition: Replicated, leader_epoch: int, required_offset: int) -> None:
        self._waiting = waiting
        self.partition = partition
        self._leader_epoch = leader_epoch
        self._required_offset = required_offset
        self.error = ErrorCode.REQUEST_TIMED_OUT
        partition.watchers[self] = None

    def look(self) -> None:
        """What may have happened since the append."""
        self.changed()
        self.advanced(0, 0)

    def advanced(self, size_bytes: int, stable_bytes: int) -> bool:
        if self.partition.high_watermark < self._required_offset:
            return True
        self._decide(self.partition.acknowledgement_error(self._leader_epoch))
        return False

    def changed(self) -> None:
        """Another leader may keep these records or not: the client has to ask it."""
        error = self.partition.acknowledgement_error(self._leader_epoch)
        if error is not ErrorCode.NONE and error is not ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
            self._decide(error)

    def _decide(self, error: ErrorCode) -> None:
        if self.error is ErrorCode.REQUEST_TIMED_OUT:
            self.error = error
            self._waiting.decided()
