"""What a log leaves to its directory, so that nothing on the event loop waits for a disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from barnabas.node.storage.directory.files import fsync_path, unlink_all
from barnabas.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from barnabas.node.storage.log import PartitionLog
    from barnabas.node.storage.segment.verification import DamagedIndex

T = TypeVar("T")


class Background(Protocol):
    """The log directory, as a log sees it."""

    def flush_later(self, log: PartitionLog) -> None: ...

    def delete_later(self, paths: list[str], delay_ms: int) -> None: ...

    def delete_below_start(self, log: PartitionLog) -> None:
        """Segments that are wholly below the log's start are to go."""

    def repair_index(self, log: PartitionLog, damaged: DamagedIndex) -> asyncio.Future[None] | None:
        """An index is to be written anew; None if that is done."""

    def failed(self, error: OSError) -> None: ...


class IndexBeingRepaired(KafkaError):
    """An index is written anew by another process: whoever wants to read asks again when it is `done`."""

    def __init__(self, done: asyncio.Future[None]) -> None:
        super().__init__(ErrorCode.OFFSET_NOT_AVAILABLE, "An index of the segment is being written anew")
        self.done = done


async def when_repaired(read: Callable[[], T]) -> T:
    """What a read finds once the indexes that it needs are right."""
    while True:
        try:
            return read()
        except IndexBeingRepaired as repair:
            await asyncio.shield(repair.done)


class Abortable(Protocol):
    """Work on a log's files that must stop before somebody else changes them."""

    def abort(self) -> None: ...


class Foreground:
    """Does it at once: for tools and tests."""

    def flush_later(self, log: PartitionLog) -> None:
        log.flush()

    def delete_later(self, paths: list[str], delay_ms: int) -> None:
        unlink_all(paths)

    def delete_below_start(self, log: PartitionLog) -> None:
        log.delete_segments(log.log_start_offset)

    def repair_index(self, log: PartitionLog, damaged: DamagedIndex) -> None:
        for path in log.repair_index_now(damaged):
            fsync_path(path)

    def failed(self, error: OSError) -> None:
        return None
