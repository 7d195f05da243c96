"""One segment: a `.log` file of whole batches from a base offset on, with its indexes.

A position is found without a list of all batches: near the end by a ring of the last ones, elsewhere by the sparse
offset index and a short walk over batch headers. `position_of` and `boundary_before` are all that reading needs.

What an index says of a segment that was found on the disk is compared with the batch it points to; an index that is
wrong is written anew (`index_repair`).
"""

from __future__ import annotations

import errno
import os
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import NamedTuple

from barnabas.node.storage.directory.files import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    FileHandles,
    PooledFile,
    offset_name,
    overwrite,
)
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.producer_state import has_open_transaction
from barnabas.node.storage.recovery.index_rebuild import Kind, Order, Rebuilt
from barnabas.node.storage.segment.offset_index import OffsetIndex
from barnabas.node.storage.segment.time_index import NO_TIMESTAMP, TimeIndex
from barnabas.node.storage.segment.txn_index import TransactionIndex
from barnabas.node.storage.segment.verification import DamagedIndex, DamagedSegment, UnverifiedPart
from barnabas.wire.batch import (
    FIXED_LENGTH_BYTES,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    SPAN,
    STAMP,
    STAMP_BYTES,
    BatchHeader,
    read_header,
)

RING_BATCHES = 256
WALK_BYTES = 16 * 1024
RELATIVE_OFFSET_MAX = 2**31 - 1
NOT_LOADED = -2

Placed = list[tuple[int, BatchHeader]]  # batches by their position in a buffer, with the offsets they get
copies = count(1)


class ShortWrite(OSError):
    """The device took only a part."""


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


class Segment:
    __slots__ = (
        "_begins_in_transaction",
        "_bytes_since_index",
        "_indexes_are_new",
        "_max_timestamp",
        "_offset_index",
        "_offset_of_max_timestamp",
        "_ring_floor",
        "_ring_last_offsets",
        "_ring_positions",
        "_rolling_timestamp",
        "_suffix",
        "_time_index",
        "_transactions_are_checked",
        "base_offset",
        "created_ms",
        "cuts",
        "file",
        "handles",
        "index_interval_bytes",
        "may_lack_transactions",
        "preallocated",
        "roll_jitter_ms",
        "size",
        "transactions",
        "unverified",
    )

    def __init__(
        self,
        handles: FileHandles,
        directory: str,
        base_offset: int,
        *,
        index_interval_bytes: int,
        created_ms: int,
        size: int | None = None,
        has_txn_index: bool = False,
        roll_jitter_ms: int = 0,
        suffix: str = "",
    ) -> None:
        """An existing segment has a `size`; without one it is new and empty. `suffix` is behind its files' names."""
        self.handles = handles
        self._suffix = suffix
        self.base_offset = base_offset
        self.file = PooledFile(handles, directory, offset_name(base_offset, LOG_SUFFIX) + suffix)
        self.size = size or 0
        self.index_interval_bytes = index_interval_bytes
        self.created_ms = created_ms
        self.roll_jitter_ms = roll_jitter_ms
        self.preallocated = False
        new = size is None
        self.unverified = None if new else UnverifiedPart(self.size)
        self._indexes_are_new = self._transactions_are_checked = new
        self.may_lack_transactions = False
        self._begins_in_transaction: bool | None = None
        self._offset_index = OffsetIndex(self._beside(INDEX_SUFFIX), base_offset, new=True) if new else None
        self._time_index = TimeIndex(self._beside(TIME_INDEX_SUFFIX), base_offset, new=True) if new else None
        self.transactions = TransactionIndex(self._beside(TXN_INDEX_SUFFIX), exists=has_txn_index)
        self._max_timestamp = NO_TIMESTAMP if new else NOT_LOADED
        self._offset_of_max_timestamp = base_offset
        self._rolling_timestamp: int | None = None
        self._bytes_since_index = 0
        # The ring answers for every offset from its floor on: the last batches' last offsets and positions.
        self._ring_last_offsets = array("q")
        self._ring_positions = array("q")
        self._ring_floor = base_offset if new else base_offset + RELATIVE_OFFSET_MAX + 1

    def _beside(self, suffix: str) -> PooledFile:
        return PooledFile(self.handles, self.file.directory, offset_name(self.base_offset, suffix) + self._suffix)

    @property
    def offset_index(self) -> OffsetIndex:
        if self._offset_index is None:
            self._offset_index = OffsetIndex(self._beside(INDEX_SUFFIX), self.base_offset)
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        if self._time_index is None:
            self._time_index = TimeIndex(self._beside(TIME_INDEX_SUFFIX), self.base_offset)
        return self._time_index

    @property
    def max_timestamp(self) -> int:
        if self._max_timestamp == NOT_LOADED:
            self._max_timestamp, self._offset_of_max_timestamp = self._time_entry(TimeIndex.last)
        return self._max_timestamp

    @property
    def largest_timestamp(self) -> int:
        """What retention and lookups by time go by: without any timestamp, when the file was last written."""
        found = self.max_timestamp
        return found if found >= 0 else int(os.stat(self.file.path).st_mtime * 1000)

    @property
    def rolling_timestamp(self) -> int | None:
        """The first batch's greatest timestamp, from which `segment.ms` counts."""
        if self._rolling_timestamp is None and self.size:
            self._rolling_timestamp = next(self.headers(0))[1].max_timestamp
        return self._rolling_timestamp

    def append(self, parts: list[memoryview | bytes], batches: Placed, size: int) -> None:
        """Write whole batches: `parts` are their bytes, `batches` their positions in them and their headers."""
        start = self.size
        self._put(parts, size)
        if not start:
            self._rolling_timestamp = max(header.max_timestamp for _, header in batches)
        self.size = start + size
        for position, header in batches:
            self._note(header.last_offset, header.max_timestamp, header.size, start + position)
        if len(self._ring_positions) >= 2 * RING_BATCHES:
            self._forget_in_ring(RING_BATCHES)

    def append_one(self, batch: memoryview, last_offset: int, max_timestamp: int, size: int) -> None:
        """As `append`, of one batch."""
        start = self.size
        self._put((batch,), size)
        if not start:
            self._rolling_timestamp = max_timestamp
        self.size = start + size
        self._note(last_offset, max_timestamp, size, start)
        if len(self._ring_positions) >= 2 * RING_BATCHES:
            self._forget_in_ring(RING_BATCHES)

    def _put(self, parts: Sequence[memoryview | bytes], size: int) -> None:
        """The file has all of it, or nothing."""
        start, fd = self.size, self.file.fileno()
        try:
            written = os.pwrite(fd, parts[0], start) if len(parts) == 1 else os.pwritev(fd, parts, start)
            if written != size:
                why = f"{os.strerror(errno.ENOSPC)}, only {written} of {size} bytes were written"
                raise ShortWrite(errno.ENOSPC, why, self.file.path)
        except OSError:
            os.ftruncate(fd, start)
            raise

    def _note(self, last_offset: int, max_timestamp: int, size: int, position: int) -> None:
        """A batch has been written there."""
        self._ring_last_offsets.append(last_offset)
        self._ring_positions.append(position)
        if max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
            self._offset_of_max_timestamp = last_offset
        if self._bytes_since_index > self.index_interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self._max_timestamp, self._offset_of_max_timestamp)
            self._bytes_since_index = 0
        self._bytes_since_index += size

    def _forget_in_ring(self, count: int) -> None:
        self._ring_floor = self._ring_last_offsets[count - 1] + 1
        del self._ring_last_offsets[:count]
        del self._ring_positions[:count]

    def should_roll(self, size: int, max_timestamp: int, last_offset: int, now_ms: int, limits: RollLimits) -> bool:
        if self.size + size > limits.segment_bytes or last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            return True
        if self.size:
            since = self._rolling_timestamp
            if since is None:
                since = self.rolling_timestamp
            waited_ms = max_timestamp - since if since is not None and since >= 0 else now_ms - self.created_ms
            if waited_ms > limits.segment_ms - self.roll_jitter_ms:
                return True
        offset_index, time_index = self._offset_index or self.offset_index, self._time_index or self.time_index
        return offset_index.entries >= limits.offset_entries or time_index.entries >= limits.time_entries

    def headers(self, position: int, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
        """Positions and headers of the batches from a batch boundary on, read some kilobytes at a time."""
        end = self.size if end is None else end
        while end - position >= HEADER_BYTES:
            chunk = os.pread(self.file.fileno(), min(WALK_BYTES, end - position), position)
            at = 0
            while len(chunk) - at >= HEADER_BYTES:
                header = read_header(chunk, at)
                if header.batch_length < FIXED_LENGTH_BYTES:
                    raise self._damaged(position)
                yield position, header
                at += header.size
                position += header.size
            if len(chunk) < HEADER_BYTES:
                return

    def position_of(self, offset: int) -> int:
        """Where the first batch begins whose last offset is not below `offset`; the segment's size if there is none."""
        if offset >= self._ring_floor:
            slot = bisect_left(self._ring_last_offsets, offset)
            return self._ring_positions[slot] if slot < len(self._ring_positions) else self.size
        position = self._indexed(lambda index: index.entry_for_offset(offset))
        unpack = HEADER.unpack_from
        while self.size - position >= HEADER_BYTES:
            chunk = os.pread(self.file.fileno(), WALK_BYTES, position)
            at = 0
            while len(chunk) - at >= HEADER_BYTES:
                base_offset, length, _, _, _, _, last_offset_delta, *_ = unpack(chunk, at)
                if base_offset + last_offset_delta >= offset:
                    return position + at
                if length < FIXED_LENGTH_BYTES:
                    raise self._damaged(position + at)
                at += length + LOG_OVERHEAD_BYTES
            if not at:
                raise self._damaged(position)
            position += at
        return self.size

    def boundary_before(self, limit: int, floor: int) -> int:
        """The greatest batch boundary that is not above `limit`, looked for from the boundary `floor` on."""
        if limit >= self.size:
            return self.size
        ring = self._ring_positions
        if ring and limit >= ring[0]:
            return ring[bisect_right(ring, limit) - 1]
        position = max(self._indexed(lambda index: index.entry_before(limit)), floor)
        unpack = SPAN.unpack_from
        while True:
            chunk = os.pread(self.file.fileno(), min(WALK_BYTES, self.size - position), position)
            at = 0
            while len(chunk) - at >= LOG_OVERHEAD_BYTES:
                size = unpack(chunk, at)[1] + LOG_OVERHEAD_BYTES
                if position + at + size > limit:
                    return position + at
                if size < HEADER_BYTES:
                    raise self._damaged(position + at)
                at += size
            if not at:
                return position
            position += at

    def _damaged(self, position: int) -> DamagedSegment:
        return DamagedSegment(self.file.path, position, "no record batch is there")

    def _indexed(self, find: Callable[[OffsetIndex], tuple[int, int]]) -> int:
        """The position that the offset index gives, 0 if it knows none."""
        offset, position = find(self.offset_index)
        if position and not self._indexes_are_new and not self._is_indexed_right(offset, position):
            raise DamagedIndex(self, Kind.INDEXES)
        return position

    def _is_indexed_right(self, offset: int, position: int) -> bool:
        if not 0 < position <= self.size - HEADER_BYTES:
            return False
        header = read_header(os.pread(self.file.fileno(), HEADER_BYTES, position))
        return header.magic == MAGIC and header.last_offset == offset

    def _time_entry(self, find: Callable[[TimeIndex], tuple[int, int]]) -> tuple[int, int]:
        """What the time index gives: a timestamp, and the offset of a batch that has it."""
        timestamp, offset = find(self.time_index)
        if timestamp != NO_TIMESTAMP and not self._indexes_are_new and not self._is_timed_right(timestamp, offset):
            raise DamagedIndex(self, Kind.INDEXES)
        return timestamp, offset

    def _is_timed_right(self, timestamp: int, offset: int) -> bool:
        position = self.position_of(offset) if offset >= self.base_offset else self.size
        if position > self.size - HEADER_BYTES:
            return False
        header = read_header(os.pread(self.file.fileno(), HEADER_BYTES, position))
        return header.base_offset <= offset and header.max_timestamp == timestamp

    def suspect_transaction_indexes(self) -> None:
        """Without a transaction index, either no transaction was aborted in the segment, or the file is lost."""
        self.may_lack_transactions = not self.transactions.exists

    def begins_in_transaction(self) -> bool:
        """Whether one was open where the segment begins, as far as that can be told without reading batches."""
        if self._begins_in_transaction is None:
            path = f"{self.file.directory}/{offset_name(self.base_offset, SNAPSHOT_SUFFIX)}"
            self._begins_in_transaction = has_open_transaction(path)
        return self._begins_in_transaction

    def check_transactions(self) -> None:
        """Raises if the transaction index may be gone or is wrong."""
        if not self._transactions_are_checked and self.transactions.exists:
            self._transactions_are_checked = self._transactions_are_plausible()
        if self.may_lack_transactions or (self.transactions.exists and not self._transactions_are_checked):
            raise DamagedIndex(self, Kind.TRANSACTIONS, missing=not self.transactions.exists)

    def _transactions_are_plausible(self) -> bool:
        """Whether each entry of the transaction index belongs to a marker of its producer.

        An index that is there has entries, unless a truncation has taken them all.
        """
        ended = self.base_offset - 1
        for each in self.transactions.entries():
            if not ended < each.last_offset or not 0 <= each.first_offset <= each.last_offset:
                return False
            if each.last_stable_offset > each.last_offset + 1 or not self._is_marker(
                each.producer_id, each.last_offset
            ):
                return False
            ended = each.last_offset
        return self.transactions.is_whole() and bool(self.transactions.entries())

    def _is_marker(self, producer_id: int, offset: int) -> bool:
        position = self.position_of(offset)
        if position > self.size - HEADER_BYTES:
            return False
        header = read_header(os.pread(self.file.fileno(), HEADER_BYTES, position))
        return header.is_control and (header.producer_id, header.base_offset) == (producer_id, offset)

    def order(self, kind: Kind, bases: list[int]) -> Order:
        """What it takes to write an index anew; `bases` are those of the log up to this segment."""
        return Order(kind, self.file.directory, bases, self.size, self.index_interval_bytes, self._suffix)

    def take_rebuilt(self, kind: Kind, found: Rebuilt) -> list[str]:
        """The files that were changed, to be synced: nobody flushes what lies below the recovery point."""
        if kind is Kind.TRANSACTIONS:
            self._transactions_are_checked = True
            self.may_lack_transactions = False
            if not self.transactions.replace(found.first, found.end_offset):
                return []
            return [self.transactions.file.path, self.file.directory]
        offsets, times = self.offset_index.file, self.time_index.file
        overwrite(offsets.fileno(), found.first)
        overwrite(times.fileno(), found.second)
        self._offset_index = OffsetIndex(offsets, self.base_offset)
        self._time_index = TimeIndex(times, self.base_offset)
        self._indexes_are_new = True
        return [offsets.path, times.path]

    def read(self, start: int, end: int) -> bytes:
        return os.pread(self.file.fileno(), end - start, start)

    def batch_at(self, position: int, size: int) -> memoryview:
        if self.unverified is not None and position < self.unverified.end:
            self.unverified.verified_until(self.file, position, position + size)
        return memoryview(self.read(position, position + size))

    def batch_size_at(self, position: int) -> int:
        size: int = SPAN.unpack(os.pread(self.file.fileno(), LOG_OVERHEAD_BYTES, position))[1] + LOG_OVERHEAD_BYTES
        return size

    def base_offset_at(self, position: int) -> int:
        offset: int = SPAN.unpack(os.pread(self.file.fileno(), LOG_OVERHEAD_BYTES, position))[0]
        return offset

    def next_offset(self) -> int:
        """The offset behind the last whole batch, found from the last index entry on."""
        found = self.base_offset
        for _, header in self.headers(self.offset_index.last()[1]):
            found = header.last_offset + 1
        return found

    def load_end(self) -> int:
        """Prepare a segment that was opened for appends; returns its next offset."""
        indexed = end = self.offset_index.last()[1]
        next_offset = self.base_offset
        timestamp, of_offset = self._time_entry(TimeIndex.last)
        for position, header in self.headers(indexed):
            end = position + header.size
            next_offset = header.last_offset + 1
            if header.max_timestamp > timestamp:
                timestamp, of_offset = header.max_timestamp, header.last_offset
        if end != self.size:
            raise DamagedSegment(self.file.path, end, f"its batches end there, and it has {self.size} bytes")
        self._max_timestamp, self._offset_of_max_timestamp = timestamp, of_offset
        self._bytes_since_index = self.size - indexed
        self._ring_floor = next_offset
        return next_offset

    def batch_of_max_timestamp(self) -> tuple[int, BatchHeader] | None:
        timestamp = self.max_timestamp
        if timestamp < 0:
            return None
        position = self.position_of(self._offset_of_max_timestamp)
        return next((found for found in self.headers(position) if found[1].max_timestamp == timestamp), None)

    def batches_for_timestamp(self, timestamp: int, start_offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """Batches among which are all, from `start_offset` on, that have a record not earlier than `timestamp`."""
        _, found = self._time_entry(lambda index: index.entry_for_timestamp(timestamp))
        offset = max(found, start_offset)
        return self.headers(self._indexed(lambda index: index.entry_for_offset(offset)))

    def truncate_to(self, offset: int, now_ms: int) -> int:
        """Keep the batches whose last offset is below `offset`; returns the bytes removed."""
        position = self.position_of(offset)
        removed = self.size - position
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transactions.truncate_to(offset)
        self.file.cut(position)
        self.size = position
        if self.unverified is not None:
            self.unverified.cut(position)
        self.forget_ring()
        if not position:
            self.created_ms = now_ms
            self._rolling_timestamp = None
        self.load_end()
        return removed

    def preallocate(self, size: int) -> None:
        """The file gets its final size; what is behind the batches is zeros until it is finished."""
        os.ftruncate(self.file.fileno(), size)
        self.preallocated = True

    def finish(self) -> None:
        """No more appends: the greatest timestamp closes the time index, and all files have their size."""
        if self.preallocated:
            os.ftruncate(self.file.fileno(), self.size)
            self.preallocated = False
        if self._max_timestamp >= 0:
            self.time_index.maybe_append(self._max_timestamp, self._offset_of_max_timestamp)
        self.offset_index.write()
        self.time_index.write()

    def forget_ring(self) -> None:
        """A segment that is no longer active, or was cut, is read by its index."""
        self._ring_floor = self.base_offset + RELATIVE_OFFSET_MAX + 1
        self._ring_last_offsets = array("q")
        self._ring_positions = array("q")

    def files(self) -> list[PooledFile]:
        """None of them is looked at: an index that nobody has used yet stays unread."""
        offsets, times = self._offset_index, self._time_index
        found = [
            self.file,
            self._beside(INDEX_SUFFIX) if offsets is None else offsets.file,
            self._beside(TIME_INDEX_SUFFIX) if times is None else times.file,
        ]
        return [*found, self.transactions.file] if self.transactions.exists else found

    def drop_suffix(self) -> None:
        """The files get the names of a segment's files, unless they have been given others meanwhile."""
        for file in self.files():
            if self._suffix and file.name.endswith(self._suffix):
                file.rename(file.name.removesuffix(self._suffix))
        self._suffix = ""

    def relocate(self, directory: str) -> None:
        """The files are in another directory now, under the same names."""
        self.file.directory = self.transactions.file.directory = directory
        for index in (self._offset_index, self._time_index):
            if index is not None:
                index.file.directory = directory

    def close(self) -> None:
        for index in (self._offset_index, self._time_index):
            if index is not None:
                index.file.close()
        self.transactions.file.close()
        self.file.close()

    def mark_deleted(self, *, may_repeat: bool = True) -> list[tuple[str, str]]:
        """Close the files. They have other names from now on: whoever called this renames them, old to new.

        Another segment of this base offset may have been deleted a moment ago, after compaction or truncation: in a log
        in which that never was, nobody need look for its files.
        """
        suffix = DELETED_SUFFIX
        if may_repeat and os.path.exists(self.file.path + suffix):
            suffix = f".{next(copies)}{DELETED_SUFFIX}"
        names = []
        for file in self.files():
            file.close()
            names.append((file.name, file.name + suffix))
            file.name += suffix
        return names


class RollLimits(NamedTuple):
    segment_bytes: int
    segment_ms: int
    offset_entries: int
    time_entries: int

    @classmethod
    def of(cls, config: LogConfig) -> RollLimits:
        """One slot of the time index stays free for the entry that closes the segment."""
        index_bytes = config.segment_index_bytes
        time_entries = index_bytes // TimeIndex.entry.size - 1
        return cls(config.roll_bytes, config.roll_ms, index_bytes // OffsetIndex.entry.size, time_entries)


def stamped(view: memoryview, placed: Placed) -> list[memoryview | bytes]:
    """The batches with offset and epoch: written into the buffer, or put before the rest if it is read-only."""
    if not view.readonly:
        for position, header in placed:
            STAMP.pack_into(view, position, header.base_offset, header.batch_length, header.leader_epoch)
        return [view]
    parts: list[memoryview | bytes] = []
    for position, header in placed:
        parts.append(STAMP.pack(header.base_offset, header.batch_length, header.leader_epoch))
        parts.append(view[position + STAMP_BYTES : position + header.batch_length + LOG_OVERHEAD_BYTES])
    return parts
