"""What the offset index and the time index share: entries of one size, in order, searched by `pread`.

New entries wait in memory and are written some at a time: an index is only trusted up to the recovery point, and a
flush writes it before the recovery point moves, so a crash loses nothing that would not be rebuilt.
"""

from __future__ import annotations

import os
import struct
from typing import ClassVar

from barnabas.node.storage.directory.files import PooledFile

PAGE_ENTRIES = 512
PENDING_ENTRIES = 128


class SparseIndex:
    entry: ClassVar[struct.Struct]
    __slots__ = ("_page", "_page_start", "_pending", "_written", "base_offset", "entries", "file")

    def __init__(self, file: PooledFile, base_offset: int, *, new: bool = False) -> None:
        self.file = file
        self.base_offset = base_offset
        self._written = 0 if new else file.size() // self.entry.size
        self._pending = bytearray()
        self.entries: int = self._written
        # The page of the last search: who reads on, or looks up where his read ends, finds himself there again.
        self._page = b""
        self._page_start = 0

    @property
    def size(self) -> int:
        return self.entries * self.entry.size

    def row(self, slot: int) -> tuple[int, int]:
        size = self.entry.size
        if slot >= self._written:
            first, second = self.entry.unpack_from(self._pending, (slot - self._written) * size)
        else:
            first, second = self.entry.unpack(os.pread(self.file.fileno(), size, slot * size))
        return first, second

    def append_row(self, first: int, second: int) -> None:
        self._pending += self.entry.pack(first, second)
        self.entries += 1
        if len(self._pending) >= PENDING_ENTRIES * self.entry.size:
            self.write()

    def write(self, *, trim: bool = False) -> None:
        """Bring waiting entries into the file, make sure that there is one, and on demand cut what lies behind them.

        A rebuilt index overwrites the old one: emptying a file first makes ext4 write the new content to the disk.
        """
        fd = self.file.fileno()
        if self._pending:
            size = self.entry.size
            if os.pwrite(fd, self._pending, self._written * size) != len(self._pending):
                raise OSError(f"short write to {self.file.path}")
            self._written += len(self._pending) // size
            self._pending.clear()
        if trim and self.file.size() > self._written * self.entry.size:
            os.ftruncate(fd, self._written * self.entry.size)

    def truncate_entries(self, entries: int) -> None:
        size = self.entry.size
        self.entries = min(self.entries, entries)
        if entries < self._written:
            os.ftruncate(self.file.fileno(), entries * size)
            self._written = entries
            self._pending.clear()
            self._page = b""
        else:
            del self._pending[(entries - self._written) * size :]

    def last_slot(self, column: int, target: int) -> int:
        """The last slot whose value in `column` is at most `target`, -1 if there is none: the columns never fall."""
        size = self.entry.size
        if self._page:
            found = self._last_in(self._page, len(self._page) // size, column, target)
            if 0 <= found < len(self._page) // size - 1:
                return self._page_start + found
            if found < 0 and not self._page_start:
                return found
        low, high = 0, self.entries
        if high > self._written:
            if self._written == 0 or self.row(self._written)[column] <= target:
                return self._written + self._last_in(self._pending, high - self._written, column, target)
            high = self._written
        fd = self.file.fileno() if high else -1
        while high - low > PAGE_ENTRIES:
            middle = (low + high) // 2
            if self.entry.unpack(os.pread(fd, size, middle * size))[column] <= target:
                low = middle
            else:
                high = middle
        if high == low:
            return -1
        page = os.pread(fd, (high - low) * size, low * size)
        self._page, self._page_start = page, low
        found = self._last_in(page, len(page) // size, column, target)
        return low + found if found >= 0 else low - 1

    def _last_in(self, rows: bytes | bytearray, count: int, column: int, target: int) -> int:
        unpack, size = self.entry.unpack_from, self.entry.size
        low, high = -1, count
        while high - low > 1:
            middle = (low + high) // 2
            if unpack(rows, middle * size)[column] <= target:
                low = middle
            else:
                high = middle
        return low
