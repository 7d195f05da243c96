"""`.index`: for some batches, the last offset (relative to the segment's base) and where the batch begins."""

from __future__ import annotations

import struct

from barnabas.node.storage.sparse_index import SparseIndex


class OffsetIndex(SparseIndex):
    entry = struct.Struct(">ii")
    __slots__ = ()

    def append(self, last_offset: int, position: int) -> None:
        self.append_row(last_offset - self.base_offset, position)

    def is_full(self, max_bytes: int) -> bool:
        return self.entries >= max_bytes // self.entry.size

    def position_for_offset(self, offset: int) -> int:
        """Where a walk that looks for `offset` may begin."""
        slot = self.last_slot(0, offset - self.base_offset)
        return self.row(slot)[1] if slot >= 0 else 0

    def position_before(self, position: int) -> int:
        """The greatest indexed position that is not above `position`."""
        slot = self.last_slot(1, position)
        return self.row(slot)[1] if slot >= 0 else 0

    def last(self) -> tuple[int, int]:
        """Offset and position of the last entry, the segment's beginning if there is none."""
        if not self.entries:
            return self.base_offset, 0
        offset, position = self.row(self.entries - 1)
        return self.base_offset + offset, position

    def truncate_to(self, offset: int) -> None:
        """Keep entries of batches whose last offset is below `offset`."""
        self.truncate_entries(self.last_slot(0, offset - self.base_offset - 1) + 1)
