"""Segments below the start of a log go: first the start is on the disk, then their files have other names, then none.

In this order, because of the names of many files a crash may keep some and lose others, the later ones of all things:
the log would begin with segments that were deleted, and have a hole behind them. With the start on the disk whatever
comes back is known to be no part of the log (`recovery` removes it). One write serves all logs that ask meanwhile.

Everything that touches the disk is done by its thread, some segments at a time and with pauses, so that a log with
thousands of them holds up neither requests nor fsyncs. Of a segment only the records stay for readers, under another
name; its indexes nobody asks any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from barnabas.node.storage.directory.files import SNAPSHOT_SUFFIX, offset_name, rename_all, unlink_all
from barnabas.node.storage.directory.removals import Pace
from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.producer_state import snapshot_offsets
from barnabas.node.storage.segment.segment import Segment

if TYPE_CHECKING:
    from barnabas.node.storage.directory.log_dir import LogDir

SEGMENTS_AT_ONCE = 4  # five changes of the directory each


class StartDeletion:
    def __init__(self, directory: LogDir) -> None:
        self._directory = directory
        self._asked: dict[PartitionLog, None] = {}
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._pace = Pace()

    def ask_for(self, log: PartitionLog) -> None:
        self._asked[log] = None
        if self._task is None and not self._stopping:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def idle(self) -> None:
        """Nothing below the logs' starts is under way any more."""
        while self._task is not None:
            self._pace.hurry()
            await asyncio.wait([self._task])

    async def stop(self) -> None:
        """What is left goes after the next start."""
        self._stopping = True
        await self.idle()

    async def _run(self) -> None:
        try:
            while self._asked and not self._stopping:
                starts = {log: log.log_start_offset for log in self._asked}
                self._asked.clear()
                await self._directory.write_log_starts()
                for log, written in starts.items():
                    log.flushes.start_on_disk = min(written, log.log_start_offset)
                    await self._delete(log, written)
        except OSError as error:
            self._directory.failed(error)
        finally:
            self._task = None
            self._pace.take_time()

    async def _delete(self, log: PartitionLog, start: int) -> None:
        run = self._directory.flusher.run
        while not (log.offline or self._stopping):
            start = min(start, log.log_start_offset)  # where a truncation has moved it back, other records are
            segments = log.give_up_segments(start, SEGMENTS_AT_ONCE)
            if not segments:
                break
            # A look into a directory from which files are just removed would wait for its disk, and the loop with it.
            repeats = log.had_replaced_segments
            names = [segment.mark_deleted(may_repeat=repeats) for segment in segments]
            await run(partial(set_aside, log, segments, names))
            paths = [f"{log.directory}/{renamed}" for (_, renamed), *_ in names]
            self._directory.delete_later(paths, log.config.file_delete_delay_ms)
            await self._pace.pause(log.segments.count_below(start) // SEGMENTS_AT_ONCE)
        if not (log.offline or self._stopping):
            first = log.segments.first_offset
            await run(partial(remove_snapshots_before, log.directory, first))


def set_aside(log: PartitionLog, segments: Sequence[Segment], names: Sequence[Sequence[tuple[str, str]]]) -> None:
    """Of each segment the old and new names of its files, the records' first."""
    for segment, (records, *indexes) in zip(segments, names, strict=True):
        rename_all(log.directory, [records])
        snapshot = offset_name(segment.base_offset, SNAPSHOT_SUFFIX)
        unlink_all(f"{log.directory}/{name}" for name in (*(old for old, _ in indexes), snapshot))


def remove_snapshots_before(directory: str, offset: int) -> None:
    """Not only those of the segments: a stop leaves one at the end of the log."""
    try:
        found = snapshot_offsets(directory)
    except FileNotFoundError:
        return  # the partition was deleted meanwhile
    unlink_all(f"{directory}/{offset_name(each, SNAPSHOT_SUFFIX)}" for each in found if each < offset)
