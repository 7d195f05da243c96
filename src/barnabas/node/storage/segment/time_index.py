"""`.timeindex`: greatest timestamp so far, and the last offset (relative) of the batch that has it."""

from __future__ import annotations

import struct

from barnabas.node.storage.directory.files import PooledFile
from barnabas.node.storage.segment.sparse_index import SparseIndex

NO_TIMESTAMP = -1


class TimeIndex(SparseIndex):
    entry = struct.Struct(">qi")
    __slots__ = ("last_timestamp",)

    def __init__(self, file: PooledFile, base_offset: int, *, new: bool = False) -> None:
        super().__init__(file, base_offset, new=new)
        self.last_timestamp = self.last()[0]

    def maybe_append(self, timestamp: int, offset: int) -> None:
        if timestamp > self.last_timestamp:
            self.append_row(timestamp, offset - self.base_offset)
            self.last_timestamp = timestamp

    def last(self) -> tuple[int, int]:
        return self._entry(self.entries - 1)

    def entry_for_timestamp(self, timestamp: int) -> tuple[int, int]:
        """The last entry that is not later than `timestamp`: what is asked for lies behind its offset."""
        return self._entry(self.last_slot(0, timestamp))

    def _entry(self, slot: int) -> tuple[int, int]:
        if slot < 0:
            return NO_TIMESTAMP, self.base_offset
        timestamp, offset = self.row(slot)
        return timestamp, self.base_offset + offset

    def truncate_to(self, offset: int) -> None:
        self.truncate_entries(self.last_slot(1, offset - self.base_offset - 1) + 1)
        self.last_timestamp = self.last()[0]
