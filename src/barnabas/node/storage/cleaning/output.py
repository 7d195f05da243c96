"""The segment that a group becomes: `.cleaned` files with their indexes, on the disk when `finish` returns."""

from __future__ import annotations

import os

from barnabas.node.storage.files import (
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
)
from barnabas.node.storage.offset_index import OffsetIndex
from barnabas.node.storage.time_index import NO_TIMESTAMP, TimeIndex
from barnabas.node.storage.txn_index import AbortedTransaction, TransactionIndex
from barnabas.wire.batch import BatchHeader, read_header

WRITE_BYTES = 1024 * 1024
# Written to the disk as it comes: one large fsync at the end would hold up everybody else's.
SYNC_BYTES = 16 * 1024 * 1024
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
        self._waiting = self._written = self._synced = 0

    @property
    def has_txn_index(self) -> bool:
        return self._transactions.exists

    def append_new(self, batch: bytearray) -> None:
        self.append(read_header(batch), batch)

    def append(self, header: BatchHeader, batch: bytes | bytearray) -> None:
        last_offset = header.last_offset
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
        """Retention of segments without timestamps goes by the time of the last change, so the old one is kept."""
        self._write()
        self._times.maybe_append(self._max_timestamp, self._max_timestamp_at)
        self._offsets.write(trim=True)
        self._times.write(trim=True)
        files = [self._log, self._offsets.file, self._times.file]
        if self._transactions.exists:
            files.append(self._transactions.file)
        for file in files:
            os.fsync(file.fileno())
            file.close()
        os.utime(self._log.path, ns=(modified_ns, modified_ns))

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
        if self._written - self._synced >= SYNC_BYTES:
            fdatasync(fd)
            self._synced = self._written
