"""A cleaned group comes in: one new segment takes the place of the old ones, and a crash at any moment loses nothing.

The steps, each on the loop and followed by an fsync of the directory in the thread of its disk:
  1. `prepare`    `.cleaned` -> `.swap`: from now on recovery brings the new segment in by itself
  2. `take_over`  readers see the new segment, under its `.swap` name; the old files -> `.deleted`
  3. `finish`     `.swap` -> the names of a segment
A log that is truncated, or whose segments are deleted, calls `abandon` first; after step 2 there is nothing to abandon.
"""

from __future__ import annotations

import os

from barnabas.node.storage.cleaning.job import CleanedGroup
from barnabas.node.storage.directory.files import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_name,
)
from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.segment.segment import Segment


class Swap:
    def __init__(self, log: PartitionLog, group: CleanedGroup, now_ms: int) -> None:
        self._log = log
        self._group = group
        self._now_ms = now_ms
        self._base_offset = group.base_offsets[0]
        self._new: Segment | None = None
        self._prepared = False

    def prepare(self) -> None:
        # The log first: recovery takes `.swap` files for unfinished as long as a `.cleaned` one lies beside them.
        for suffix in self._suffixes():
            self._rename(suffix, CLEANED_SUFFIX, SWAP_SUFFIX)
        self._prepared = True

    def take_over(self) -> None:
        log, group = self._log, self._group
        wanted = set(group.base_offsets)
        old = [segment for segment in log.segments if segment.base_offset in wanted]
        assert len(old) == len(wanted)
        self._new = Segment(
            log.segments.handles,
            log.directory,
            self._base_offset,
            index_interval_bytes=log.config.index_interval_bytes,
            created_ms=self._now_ms,
            size=group.size,
            has_txn_index=group.has_txn_index,
            suffix=SWAP_SUFFIX,
        )
        log.replace_segments(old, self._new)

    def finish(self) -> None:
        # The log first here too: an index that is still `.swap` is then renamed by recovery, and nothing is rebuilt.
        assert self._new is not None
        self._new.drop_suffix()

    def abandon(self) -> None:
        """The old segments stay."""
        if not self._prepared or self._new is not None:
            return
        self._prepared = False
        # The log last, so that a crash in between leaves a swap that recovery can complete.
        for suffix in reversed(self._suffixes()):
            self._rename(suffix, SWAP_SUFFIX, SWAP_SUFFIX + DELETED_SUFFIX)
        names = [offset_name(self._base_offset, suffix) + SWAP_SUFFIX + DELETED_SUFFIX for suffix in self._suffixes()]
        self._log.background.delete_later([f"{self._log.directory}/{name}" for name in names], 0)

    def _suffixes(self) -> list[str]:
        always = [LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX]
        return [*always, TXN_INDEX_SUFFIX] if self._group.has_txn_index else always

    def _rename(self, suffix: str, old: str, new: str) -> None:
        path = f"{self._log.directory}/{offset_name(self._base_offset, suffix)}"
        os.rename(path + old, path + new)
