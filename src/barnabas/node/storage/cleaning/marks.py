"""What the table has decided for each offset of the dirty section, a byte each, so that no key is looked up twice.

A batch none of whose offsets survives is dropped unseen, and one of which all do is copied unseen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from barnabas.node.storage.cleaning.records import Outline

TOMBSTONE = 1
SURVIVES = 2
SURVIVING_TOMBSTONE = TOMBSTONE | SURVIVES


class Marks:
    def __init__(self, start_offset: int, end_offset: int) -> None:
        self._start = start_offset
        self._end = end_offset
        self._marks = bytearray(end_offset - start_offset)

    def note_tombstones(self, offsets: Iterable[int]) -> None:
        for offset in offsets:
            self._marks[offset - self._start] = TOMBSTONE

    def decide(self, latest_offsets: Iterable[int], end_offset: int) -> None:
        """Only what is below `end_offset` is decided; the table may know of some that lie behind."""
        start, marks, size = self._start, self._marks, end_offset - self._start
        self._end = end_offset
        for offset in latest_offsets:
            if offset - start < size:
                marks[offset - start] |= SURVIVES

    def of(self, base_offset: int, last_offset: int) -> bytearray | None:
        """The marks of a batch, None if it is not wholly in the dirty section."""
        if base_offset < self._start or last_offset >= self._end:
            return None
        return self._marks[base_offset - self._start : last_offset + 1 - self._start]


def surviving(records: Sequence[Outline], marks: bytearray) -> list[Outline]:
    return [record for record in records if record[3] is not None and marks[record[2]] & SURVIVES]
