"""The segments of one log in order, and reading across them."""

from __future__ import annotations

import os
import random
from bisect import bisect_right
from collections.abc import Callable, Iterator

from barnabas.node.storage.directory.files import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    FileHandles,
    offset_name,
    offset_of,
)
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.recovery.index_rebuild import Kind, Order
from barnabas.node.storage.segment.segment import Segment, TimestampOffset
from barnabas.node.storage.segment.txn_index import AbortedTransaction
from barnabas.wire.batch import Outline, outline_records, read_header

Outliner = Callable[[memoryview], Iterator[Outline]]


class NotFoundYet(Exception):
    """The search goes on from `offset`, when others have had their turn."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


class Segments:
    __slots__ = ("_base_offsets", "_segments", "active", "directory", "handles")

    def __init__(self, handles: FileHandles, directory: str) -> None:
        self.handles = handles
        self.directory = directory
        self._segments: list[Segment] = []
        self._base_offsets: list[int] = []
        self.active: Segment

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def first_offset(self) -> int:
        return self._base_offsets[0]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    def load(self, config: LogConfig, now_ms: int, names: set[str]) -> list[int]:
        """The segments among these names of the directory; the base offsets of those that lack an index."""
        incomplete = []
        for base_offset in sorted(offset for name in names if (offset := log_offset(name)) is not None):
            size = os.stat(f"{self.directory}/{offset_name(base_offset, LOG_SUFFIX)}").st_size
            if any(offset_name(base_offset, suffix) not in names for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX)):
                incomplete.append(base_offset)
            has_txn_index = offset_name(base_offset, TXN_INDEX_SUFFIX) in names
            self._add(self._segment(base_offset, config, now_ms, size=size, has_txn_index=has_txn_index))
        return incomplete

    def _segment(
        self, base_offset: int, config: LogConfig, now_ms: int, *, size: int | None = None, has_txn_index: bool = False
    ) -> Segment:
        jitter_ms = min(config.segment_jitter_ms, config.segment_ms)
        return Segment(
            self.handles,
            self.directory,
            base_offset,
            index_interval_bytes=config.index_interval_bytes,
            created_ms=now_ms,
            size=size,
            has_txn_index=has_txn_index,
            roll_jitter_ms=random.randrange(jitter_ms) if jitter_ms else 0,
        )

    def _add(self, segment: Segment) -> None:
        self._segments.append(segment)
        self._base_offsets.append(segment.base_offset)
        self.active = segment

    def create(self, base_offset: int, config: LogConfig, now_ms: int, *, touch: bool = True) -> Segment:
        """A new active segment; with `touch` its file exists when this returns."""
        segment = self._segment(base_offset, config, now_ms)
        if config.preallocate:
            segment.preallocate(config.roll_bytes)
        elif touch:
            segment.file.fileno()
        self._add(segment)
        return segment

    def clear(self) -> list[Segment]:
        removed = list(self._segments)
        self._segments.clear()
        self._base_offsets.clear()
        return removed

    def from_offset(self, offset: int, limit: int | None = None) -> list[Segment]:
        """The segment that holds `offset`, and those behind it; `limit` of them at most."""
        first = max(bisect_right(self._base_offsets, offset) - 1, 0)
        return self._segments[first : None if limit is None else first + limit]

    def count_below(self, offset: int) -> int:
        """How many segments are wholly below `offset`: the next one begins there or before."""
        return max(bisect_right(self._base_offsets, offset) - 1, 0)

    def remove_below(self, offset: int, limit: int | None) -> list[Segment]:
        """Take out segments that are wholly below `offset`; the active one stays."""
        count = self.count_below(offset)
        if limit is not None:
            count = min(count, limit)
        removed = self._segments[:count]
        del self._segments[:count]
        del self._base_offsets[:count]
        return removed

    def replace(self, old: list[Segment], new: Segment) -> None:
        """One segment in the place of several neighbours."""
        at = self._segments.index(old[0])
        assert self._segments[at : at + len(old)] == old
        assert self.active not in old
        self._segments[at : at + len(old)] = [new]
        self._base_offsets[at : at + len(old)] = [new.base_offset]

    def remove_behind(self, offset: int) -> list[Segment]:
        """Take out the segments behind the one that holds `offset`."""
        keep = max(bisect_right(self._base_offsets, offset), 1)
        removed = self._segments[keep:]
        del self._segments[keep:]
        del self._base_offsets[keep:]
        self.active = self._segments[-1]
        return removed

    def read(self, offset: int, max_bytes: int, upper_bound_offset: int, min_one_batch: bool) -> bytes:
        """Whole batches from the one with `offset` on, of one segment, all of them below the upper bound."""
        found = self.find(offset, max_bytes, upper_bound_offset, min_one_batch)
        return b"" if found is None else found[0].read(found[1], found[2])

    def find(
        self, offset: int, max_bytes: int, upper_bound_offset: int, min_one_batch: bool
    ) -> tuple[Segment, int, int] | None:
        """Where those batches begin and end."""
        if offset >= self.active.base_offset:
            slot = len(self._segments) - 1
        else:
            slot = bisect_right(self._base_offsets, offset) - 1
        bases = self._base_offsets
        for at in range(max(slot, 0), len(bases)):
            segment = self._segments[at]
            if segment.base_offset >= upper_bound_offset:
                break
            start = segment.position_of(offset)
            whole = at + 1 < len(bases) and bases[at + 1] <= upper_bound_offset
            end = segment.size if whole else segment.position_of(upper_bound_offset)
            if start >= end:
                continue
            if end - start > max_bytes:
                end = segment.boundary_before(start + max_bytes, start)
                if end <= start:
                    if not min_one_batch:
                        break
                    end = start + segment.batch_size_at(start)
            if segment.unverified is not None and start < segment.unverified.end:
                end = segment.unverified.verified_until(segment.file, start, end)
            return segment, start, end
        return None

    def past_empty_batches(self, offset: int, upper_bound_offset: int) -> int:
        """The offset of the first batch with records behind a segment that has none from `offset` on; else `offset`."""
        for slot, segment in enumerate(self.from_offset(offset)):
            for _, header in segment.headers(segment.position_of(offset)):
                if header.base_offset >= upper_bound_offset:
                    return offset
                if header.records_count:
                    return header.base_offset if slot else offset
        return offset

    def batch_for_timestamp(
        self, timestamp: int, start_offset: int, max_batches: int | None = None
    ) -> memoryview | None:
        """The first batch, with offsets from `start_offset` on, that says to have a record not before `timestamp`.

        Records of one time have one entry in the time index, and a scan of very many batches: `NotFoundYet` is raised
        after `max_batches`.
        """
        looked_at = 0
        for segment in self.from_offset(start_offset):
            if segment.largest_timestamp >= timestamp:
                for position, header in segment.batches_for_timestamp(timestamp, start_offset):
                    if header.last_offset < start_offset:
                        continue
                    if header.max_timestamp >= timestamp:
                        return segment.batch_at(position, header.size)
                    looked_at += 1
                    if looked_at == max_batches:
                        raise NotFoundYet(header.last_offset + 1)
        return None

    def batch_of_max_timestamp(self, start_offset: int) -> memoryview | None:
        """In the segments from the one that holds `start_offset` on."""
        segment = max(self.from_offset(start_offset), key=lambda each: each.max_timestamp)
        found = segment.batch_of_max_timestamp()
        return None if found is None else segment.batch_at(found[0], found[1].size)

    def aborted_transactions(self, first_offset: int, upper_bound_offset: int) -> list[AbortedTransaction]:
        found: list[AbortedTransaction] = []
        for segment in self.from_offset(first_offset):
            is_behind = segment.base_offset >= upper_bound_offset
            if segment.may_lack_transactions and is_behind and not segment.begins_in_transaction():
                break
            segment.check_transactions()
            some, complete = segment.transactions.collect(first_offset, upper_bound_offset)
            found += some
            if complete:
                break
        return found

    def check_transactions(self) -> None:
        for segment in self._segments:
            segment.check_transactions()

    def suspect_transaction_indexes(self, *, below: int | None = None) -> None:
        """Segments that begin below this offset, or all, may have lost their transaction index."""
        for segment in self._segments:
            if below is None or segment.base_offset < below:
                segment.suspect_transaction_indexes()

    def transaction_indexes_suspected_below(self) -> int | None:
        """The same after the next start, for those that nobody has looked at until now."""
        bases = [segment.base_offset for segment in self._segments if segment.may_lack_transactions]
        return bases[-1] + 1 if bases else None

    def order(self, segment: Segment, kind: Kind) -> Order:
        """What has to be read for an index of this segment to be written anew."""
        return segment.order(kind, self._base_offsets[: self._segments.index(segment) + 1])

    def aborted_in_read(self, offset: int, size: int, upper_bound_offset: int) -> list[AbortedTransaction]:
        """As `aborted_transactions`, but only as far as a read of `size` bytes reaches: there may be many behind it."""
        if not any(each.transactions.exists or each.may_lack_transactions for each in self.from_offset(offset)):
            return []
        found = self.find(offset, size, upper_bound_offset, True)
        if found is None:
            return []
        segment, _, stop = found
        unverified = segment.unverified
        if unverified is not None and stop <= unverified.end and not unverified.has_transactions:
            return []
        if stop < segment.size:
            upper_bound_offset = min(upper_bound_offset, segment.base_offset_at(stop))
        return self.aborted_transactions(offset, upper_bound_offset)


def first_record(
    batch: memoryview, timestamp: int, start_offset: int, outline: Outliner = outline_records
) -> TimestampOffset | None:
    """The first record of a batch, from `start_offset` on, that is not earlier than `timestamp`."""
    for record in outline(batch):
        if record.timestamp >= timestamp and record.offset >= start_offset:
            return TimestampOffset(record.timestamp, record.offset, read_header(batch).leader_epoch)
    return None


def log_offset(name: str) -> int | None:
    return offset_of(name) if name.endswith(LOG_SUFFIX) and len(name) == 24 else None
