"""One cleaning: the dirty section's keys go into a table, then segments are written anew without what it supersedes.

A batch whose records all stay is copied as it is, one that loses all of them vanishes, any other is built again around
the records that stay. Never changed: offsets, order, a batch's base and last offset, its producer, codec and times.
The last batch of a producer stays even if it is empty, and so does the last one of a group of segments that becomes
one: it tells recovery which segments the new one replaces. Tombstones stay until the
delete horizon in their batch's header, which the first cleaning that meets them writes there.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from operator import gt

from barnabas.node.storage.cleaning.choice import SegmentSizes, group_segments
from barnabas.node.storage.cleaning.job import CleanedGroup, Finished, Job
from barnabas.node.storage.cleaning.marks import SURVIVES, SURVIVING_TOMBSTONE, Marks, surviving
from barnabas.node.storage.cleaning.offset_map import OffsetMap
from barnabas.node.storage.cleaning.output import CleanedSegment
from barnabas.node.storage.cleaning.records import Outline, Uncleanable, emptied, keys_of, outline, payload_of, rebuilt
from barnabas.node.storage.cleaning.transactions import WalkedTransactions
from barnabas.node.storage.directory.files import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    FileHandles,
    PooledFile,
    offset_name,
)
from barnabas.node.storage.producer_state import read_marker
from barnabas.node.storage.recovery.recovery import ensure_valid, scan
from barnabas.node.storage.segment.txn_index import AbortedTransaction, TransactionIndex
from barnabas.wire.batch import BatchHeader
from barnabas.wire.errors import KafkaError

OTHER_MARKER = -1
MARKS_SHARE, MARKS_MIN = 4, 100_000
# So many groups reach the disk and come into the log together: each time everybody waits for the file system's journal.
BUNCH_GROUPS = 16
BUNCH_BYTES = 64 * 1024 * 1024

Read = tuple[BatchHeader, memoryview, int]


class Cleaning:
    def __init__(self, job: Job, on_cleaned: Callable[[CleanedGroup], None], throttle: Callable[[int], None]) -> None:
        """Works in the current directory, which is the log's."""
        self.job = job
        self._on_cleaned = on_cleaned
        self._throttle = throttle
        dirty_offsets = job.first_uncleanable_offset - job.first_dirty_offset
        table_bytes = job.dedupe_bytes
        # A byte for each offset, unless these are so many that they would leave too little to the table.
        self._marks: Marks | None = None
        if dirty_offsets <= max(job.dedupe_bytes // MARKS_SHARE, MARKS_MIN):
            self._marks = Marks(job.first_dirty_offset, job.first_uncleanable_offset)
            table_bytes -= min(dirty_offsets, job.dedupe_bytes // MARKS_SHARE)
        self.map = OffsetMap(table_bytes, job.load_factor, dirty_offsets)
        self._bunch: list[tuple[CleanedSegment, list[int]]] = []
        self.result = Finished(end_offset=job.first_dirty_offset)

    def run(self) -> Finished:
        began = time.perf_counter()
        aborted = self._aborted_transactions()
        start = self.job.first_dirty_offset
        self._fill_map(WalkedTransactions(each for each in aborted if each.last_offset >= start))
        result = self.result
        result.end_offset = self.map.latest_offset + 1
        result.keys = self.map.size
        if self._marks is not None:
            self._marks.decide(self.map.offsets(), result.end_offset)
        result.map_s = time.perf_counter() - began
        if result.end_offset <= start:
            raise Uncleanable(
                f"the table of {self.map.keys_max} keys is too small for one batch: "
                "log.cleaner.dedupe.buffer.size has to be raised"
            )
        try:
            transactions = WalkedTransactions(aborted)
            for group in self._groups():
                self._clean_group(group, transactions)
                if len(self._bunch) >= BUNCH_GROUPS or sum(each.size for each, _ in self._bunch) >= BUNCH_BYTES:
                    self._hand_over()
            self._hand_over()
        except BaseException:
            for output, _ in self._bunch:
                output.discard()
            raise
        result.total_s = time.perf_counter() - began
        return result

    def _hand_over(self) -> None:
        for output, _ in self._bunch:
            output.sync()
        bunch, self._bunch = self._bunch, []
        for left, (output, bases) in zip(reversed(range(len(bunch))), bunch, strict=True):
            group = CleanedGroup(
                base_offsets=bases, size=output.size, has_txn_index=output.has_txn_index, more=left > 0
            )
            self._on_cleaned(group)

    def _aborted_transactions(self) -> list[AbortedTransaction]:
        handles = FileHandles(8)
        found: list[AbortedTransaction] = []
        for base_offset in self.job.transaction_indexes:
            file = PooledFile(handles, ".", offset_name(base_offset, TXN_INDEX_SUFFIX))
            found += TransactionIndex(file, exists=True).entries()
            file.close()
        return [each for each in found if each.first_offset < self.job.first_uncleanable_offset]

    def _groups(self) -> list[list[SegmentSizes]]:
        job = self.job
        sizes = [
            SegmentSizes(base_offset, size, size_of(base_offset, INDEX_SUFFIX), size_of(base_offset, TIME_INDEX_SUFFIX))
            for base_offset, size in job.segments
            if base_offset < self.result.end_offset
        ]
        return group_segments(
            sizes,
            segment_bytes=job.segment_bytes,
            index_bytes=job.index_bytes,
            first_uncleanable_offset=job.first_uncleanable_offset,
        )

    # The table

    def _fill_map(self, transactions: WalkedTransactions) -> None:
        job, table = self.job, self.map
        start = job.first_dirty_offset
        ends = [base_offset for base_offset, _ in job.segments[1:]] + [job.first_uncleanable_offset]
        for (base_offset, size), end_offset in zip(job.segments, ends, strict=True):
            if end_offset <= start:
                continue
            for header, view, at in self._batches(base_offset, size):
                last_offset = header.last_offset
                if last_offset < start:
                    continue
                if not self._put_batch(header, view, at, transactions):
                    return
                table.latest_offset = last_offset
            table.latest_offset = end_offset - 1

    def _put_batch(self, header: BatchHeader, view: memoryview, at: int, transactions: WalkedTransactions) -> bool:
        """False if the table is full: then the cleaning ends before this batch."""
        if header.is_control:
            transactions.marker_is_needed(header, marker_kind(header, view, at))
            return True
        if transactions.batch_is_aborted(header):
            return True
        keys, offsets, tombstones = keys_of(view, at, self.job.first_dirty_offset)
        if self._marks is not None:
            self._marks.note_tombstones(tombstones)
        return self.map.put_all(keys, offsets)

    # Writing anew

    def _clean_group(self, group: list[SegmentSizes], transactions: WalkedTransactions) -> None:
        job, result = self.job, self.result
        output = CleanedSegment(group[0].base_offset, job.index_interval_bytes)
        self._bunch.append((output, [each.base_offset for each in group]))
        last: BatchHeader | None = None
        for base_offset, size, _, _ in group:
            for header, view, at in self._batches(base_offset, size):
                self._rewrite(header, view, at, transactions, output)
                last = header
            result.bytes_read += size
        if last is not None and output.last_offset < last.last_offset:
            output.append_new(emptied(last))
        output.finish(os.stat(offset_name(group[-1].base_offset, LOG_SUFFIX)).st_mtime_ns)
        result.bytes_written += output.size
        self._throttle(output.size)

    def _rewrite(
        self,
        header: BatchHeader,
        view: memoryview,
        at: int,
        transactions: WalkedTransactions,
        output: CleanedSegment,
    ) -> None:
        self.result.records_read += header.records_count
        if header.is_control:
            self._rewrite_marker(header, view, at, transactions, output)
        elif transactions.batch_is_aborted(header):
            self._keep_empty(header, output)
        elif header.base_offset > self.map.latest_offset:
            self._keep_whole(header, view, at, output)
        else:
            self._rewrite_records(header, view, at, output)

    def _rewrite_marker(
        self,
        header: BatchHeader,
        view: memoryview,
        at: int,
        transactions: WalkedTransactions,
        output: CleanedSegment,
    ) -> None:
        needed, aborted = transactions.marker_is_needed(header, marker_kind(header, view, at))
        if aborted is not None:
            output.add_transaction(aborted)
        horizon_ms = header.delete_horizon_ms
        if needed or (horizon_ms is not None and horizon_ms > self.job.now_ms):
            self._keep_whole(header, view, at, output)
        elif horizon_ms is not None or not header.records_count:
            self._keep_empty(header, output)
        else:
            payload = payload_of(view, at, header)
            self._keep(header, payload, outline(payload, header.records_count), self._new_horizon_ms(), output)

    def _rewrite_records(self, header: BatchHeader, view: memoryview, at: int, output: CleanedSegment) -> None:
        marks = None
        if self._marks is not None and header.delete_horizon_ms is None:
            marks = self._marks.of(header.base_offset, header.last_offset)
        if marks is None:
            keys, offsets, tombstones = keys_of(view, at, header.base_offset)
            superseded = sum(map(gt, self.map.latest_of(keys), offsets))
            if superseded == len(keys):
                self._keep_empty(header, output)
                return
            # So it is with most batches that were cleaned before, and to see it takes a third of opening them.
            if not superseded and not tombstones and len(keys) == header.records_count:
                self._keep_whole(header, view, at, output)
                return
            payload = payload_of(view, at, header)
            records = outline(payload, header.records_count)
            kept, has_tombstone = self._surviving(header, records)
        else:
            values, has_tombstone = marks.count(SURVIVES), SURVIVING_TOMBSTONE in marks
            if values == header.records_count:
                self._keep_whole(header, view, at, output)
                return
            if not values and not has_tombstone:
                self._keep_empty(header, output)
                return
            payload = payload_of(view, at, header)
            records = outline(payload, header.records_count)
            kept = surviving(records, marks)
        if not kept:
            self._keep_empty(header, output)
            return
        horizon_ms = self._new_horizon_ms() if has_tombstone and header.delete_horizon_ms is None else None
        if horizon_ms is None and len(kept) == len(records):
            self._keep_whole(header, view, at, output)
        else:
            self._keep(header, payload, kept, horizon_ms, output)

    def _surviving(self, header: BatchHeader, records: list[Outline]) -> tuple[list[Outline], bool]:
        """The records that are the latest of their key, without tombstones whose time is over."""
        base_offset = header.base_offset
        horizon_ms = header.delete_horizon_ms
        tombstones_stay = horizon_ms is None or self.job.now_ms < horizon_ms
        kept: list[Outline] = []
        has_tombstone = False
        latest = self.map.latest_of([b"" if key is None else key for _, _, _, key, _ in records])
        for record, found in zip(records, latest, strict=True):
            _, _, delta, key, has_value = record
            if key is not None and (has_value or tombstones_stay) and base_offset + delta >= found:
                kept.append(record)
                has_tombstone = has_tombstone or not has_value
        return kept, has_tombstone

    def _new_horizon_ms(self) -> int:
        return self.job.now_ms + self.job.delete_retention_ms

    def _keep_whole(self, header: BatchHeader, view: memoryview, at: int, output: CleanedSegment) -> None:
        self.result.records_kept += header.records_count
        output.append(header, bytes(view[at : at + header.size]))

    def _keep(
        self, header: BatchHeader, payload: bytes, kept: list[Outline], horizon_ms: int | None, output: CleanedSegment
    ) -> None:
        self.result.records_kept += len(kept)
        output.append_new(rebuilt(header, payload, kept, horizon_ms))

    def _keep_empty(self, header: BatchHeader, output: CleanedSegment) -> None:
        """Nothing of the batch stays; the batch itself does where it is the last of its producer."""
        if self._is_last_of_producer(header):
            output.append_new(emptied(header))

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last = self.job.producers.get(header.producer_id)
        if last is None:
            return False
        last_offset, epoch = last
        if last_offset >= 0:
            return header.last_offset == last_offset
        return header.is_control and header.producer_epoch == epoch

    # Reading

    def _batches(self, base_offset: int, size: int) -> Iterator[Read]:
        """The batches of a segment, each checked: what is damaged must not get a new checksum."""
        name = offset_name(base_offset, LOG_SUFFIX)
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        end = 0
        try:
            for header, position, view, at in scan(fd, size):
                self._throttle(header.size)
                try:
                    ensure_valid(view, at, header)
                    yield header, view, at
                except KafkaError as error:
                    raise Uncleanable(f"{name} at position {position}: {error.message}") from error
                end = position + header.size
        finally:
            os.close(fd)
        if end != size:
            raise Uncleanable(f"{name} has no record batch at position {end}")


def marker_kind(header: BatchHeader, view: memoryview, at: int) -> int | None:
    if not header.records_count:
        return None
    marker = read_marker(view, at)
    return OTHER_MARKER if marker is None else marker[0]


def size_of(base_offset: int, suffix: str) -> int:
    try:
        return os.stat(offset_name(base_offset, suffix)).st_size
    except FileNotFoundError:
        return 0
