"""`.index`: for some batches, the last offset (relative to the segment's base) and where the batch begins."""

from __future__ import annotations

import struct

from barnabas.node.storage.segment.sparse_index import SparseIndex


class OffsetIndex(SparseIndex):
    entry = struct.Struct(">ii")
    __slots__ = ()

    def append(self, last_offset: int, position: int) -> None:
        self.append_row(last_offset - self.base_offset, position)

    def entry_for_offset(self, offset: int) -> tuple[int, int]:
        """Where a walk that looks for `offset` may begin: the last offset of a batch, and its position."""
        return self._entry(self.last_slot(0, offset - self.base_offset))

    def entry_before(self, position: int) -> tuple[int, int]:
        """The entry with the greatest position that is not above `position`."""
        return self._entry(self.last_slot(1, position))

    def _entry(self, slot: int) -> tuple[int, int]:
        if slot < 0:
            return self.base_offset, 0
        offset, position = self.row(slot)
        return self.base_offset + offset, position

    def last(self) -> tuple[int, int]:
        """Offset and position of the last entry, the segment's beginning if there is none."""
        return self._entry(self.entries - 1)

    def truncate_to(self, offset: int) -> None:
        """Keep entries of batches whose last offset is below `offset`."""
        self.truncate_entries(self.last_slot(0, offset - self.base_offset - 1) + 1)
