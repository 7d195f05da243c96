"""`.txnindex`: the aborted transactions that ended in a segment, so that consumers can skip their records."""

from __future__ import annotations

import os
import struct
from bisect import bisect_left
from operator import attrgetter
from typing import NamedTuple

from barnabas.node.storage.directory.files import PooledFile, overwrite

ENTRY = struct.Struct(">hqqqq")
VERSION = 0
_last_offset = attrgetter("last_offset")


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The file exists only where a transaction was aborted, or truncation has emptied it."""

    __slots__ = ("_appended", "_entries", "exists", "file")

    def __init__(self, file: PooledFile, *, exists: bool) -> None:
        self.file = file
        self.exists = exists
        self._entries: list[AbortedTransaction] | None = None if exists else []
        self._appended: list[AbortedTransaction] = []  # of them, those that did not come from the file

    def entries(self) -> list[AbortedTransaction]:
        if self._entries is None:
            content = os.pread(self.file.fileno(), self.file.size(), 0)
            whole = len(content) // ENTRY.size * ENTRY.size
            self._entries = [AbortedTransaction._make(row[1:]) for row in ENTRY.iter_unpack(content[:whole])]
        return self._entries

    def is_whole(self) -> bool:
        """Whether the file is made of entries, and of nothing else."""
        content = os.pread(self.file.fileno(), self.file.size(), 0)
        return not len(content) % ENTRY.size and all(row[0] == VERSION for row in ENTRY.iter_unpack(content))

    def append(self, aborted: AbortedTransaction) -> None:
        entries = self.entries()
        self.exists = True
        row = ENTRY.pack(VERSION, *aborted)
        if os.pwrite(self.file.fileno(), row, len(entries) * ENTRY.size) != len(row):
            raise OSError(f"short write to {self.file.path}")
        entries.append(aborted)
        self._appended.append(aborted)

    def replace(self, rows: bytes, end_offset: int) -> bool:
        """What ended below `end_offset` is this. False if there is nothing to write, and no file."""
        later = [each for each in self._appended if each.last_offset >= end_offset]
        found = [AbortedTransaction._make(row[1:]) for row in ENTRY.iter_unpack(rows)]
        self._entries = [*found, *later]
        self.exists = self.exists or bool(self._entries)
        if self.exists:
            overwrite(self.file.fileno(), b"".join(ENTRY.pack(VERSION, *each) for each in self._entries))
        return self.exists

    def clear(self) -> None:
        """Also where the file holds what never was an entry."""
        if self.exists:
            os.ftruncate(self.file.fileno(), 0)
            self._entries = []

    def truncate_to(self, offset: int) -> None:
        """Keep the transactions whose last offset is below `offset`."""
        if not self.exists:
            return
        entries = self.entries()
        kept = next((i for i, aborted in enumerate(entries) if aborted.last_offset >= offset), len(entries))
        if kept < len(entries):
            os.ftruncate(self.file.fileno(), kept * ENTRY.size)
            del entries[kept:]
            self._appended = [each for each in self._appended if each.last_offset < offset]

    def collect(self, first_offset: int, upper_bound_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """Those that overlap the range, and whether later segments need not be asked."""
        found = []
        entries = self.entries() if self.exists else []
        # They stand in the order in which they ended.
        for slot in range(bisect_left(entries, first_offset, key=_last_offset), len(entries)):
            aborted = entries[slot]
            if aborted.first_offset < upper_bound_offset:
                found.append(aborted)
            if aborted.last_stable_offset >= upper_bound_offset:
                return found, True
        return found, False
