"""The segment that a group becomes: `.cleaned` files with their indexes, on the disk when `sync` returns."""

from __future__ import annotations

import os

from barnabas.node.storage.directory.files import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    FileHandles,
    PooledFile,
    fdatasync,
    offset_name,
    unlink_all,
    write_back,
)
from barnabas.node.storage.segment.offset_index import OffsetIndex
from barnabas.node.storage.segment.time_index import NO_TIMESTAMP, TimeIndex
from barnabas.node.storage.segment.txn_index import AbortedTransaction, TransactionIndex
from barnabas.wire.batch import BatchHeader, read_header

WRITE_BYTES = 1024 * 1024
# The disk gets it as it comes: one large fsync at the end would hold up everybody else's.
WRITE_BACK_BYTES = 4 * 1024 * 1024
PARTS_MAX = 512


class CleanedSegment:
    """In the current directory, so that it stays where it is when that is renamed."""

    def __init__(self, base_offset: int, index_interval_bytes: int) -> None:
        handles = FileHandles(8)
        log, offsets, times, transactions = (
            PooledFile(handles, ".", offset_name(base_offset, suffix) + CLEANED_SUFFIX)
            for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
        )
        self.base_offset = base_offset
        self.size = 0
        self._log = log
        self.discard()
        self._offsets = OffsetIndex(offsets, base_offset, new=True)
        self._times = TimeIndex(times, base_offset, new=True)
        self._transactions = TransactionIndex(transactions, exists=False)
        self._index_interval_bytes = index_interval_bytes
        self._since_index = 0
        self._max_timestamp, self._max_timestamp_at = NO_TIMESTAMP, base_offset
        self._parts: list[bytes | bytearray] = []
        self._waiting = self._written = self._written_back = 0
        self._modified_ns = 0
        self.last_offset = base_offset - 1

    @property
    def has_txn_index(self) -> bool:
        return self._transactions.exists

    def append_new(self, batch: bytearray) -> None:
        self.append(read_header(batch), batch)

    def append(self, header: BatchHeader, batch: bytes | bytearray) -> None:
        self.last_offset = last_offset = header.last_offset
        if header.max_timestamp > self._max_timestamp:
            self._max_timestamp, self._max_timestamp_at = header.max_timestamp, last_offset
        if self._since_index > self._index_interval_bytes:
            self._offsets.append(last_offset, self.size)
            self._times.maybe_append(self._max_timestamp, self._max_timestamp_at)
            self._since_index = 0
        self._since_index += len(batch)
        self.size += len(batch)
        self._parts.append(batch)
        self._waiting += len(batch)
        if self._waiting >= WRITE_BYTES or len(self._parts) >= PARTS_MAX:
            self._write()

    def add_transaction(self, aborted: AbortedTransaction) -> None:
        self._transactions.append(aborted)

    def finish(self, modified_ns: int) -> None:
        """Everything is in the files, and on its way to the disk.

        Retention of segments without timestamps goes by the time of the last change, so the old one is kept.
        """
        self._modified_ns = modified_ns
        self._write()
        self._times.maybe_append(self._max_timestamp, self._max_timestamp_at)
        self._offsets.write(trim=True)
        self._times.write(trim=True)
        for file in self._files():
            write_back(file.fileno(), 0, 0)

    def sync(self) -> None:
        """After several have been finished, the first one's takes the others' names and sizes along."""
        for file in self._files():
            fdatasync(file.fileno())
            file.close()
        os.utime(self._log.path, ns=(self._modified_ns, self._modified_ns))

    def _files(self) -> list[PooledFile]:
        files = [self._log, self._offsets.file, self._times.file]
        return [*files, self._transactions.file] if self._transactions.exists else files

    def discard(self) -> None:
        unlink_all(offset_name(self.base_offset, suffix) + CLEANED_SUFFIX for suffix in SEGMENT_SUFFIXES)

    def _write(self) -> None:
        fd = self._log.fileno()
        if self._waiting:
            if os.pwritev(fd, self._parts, self._written) != self._waiting:
                raise OSError(f"short write to {self._log.path}")
            self._written += self._waiting
            self._parts.clear()
            self._waiting = 0
        size = self._written - self._written_back
        if size >= WRITE_BACK_BYTES:
            write_back(fd, self._written_back, size)
            if self._written_back:  # what was begun before: no more than two parts wait for the disk
                write_back(fd, self._written_back - WRITE_BACK_BYTES, WRITE_BACK_BYTES, wait=True)
            self._written_back = self._written
