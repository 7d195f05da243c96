"""Reading a log, and finding places in it: by offset, by time, by leader epoch."""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.node.storage.files import FileRange
from barnabas.node.storage.log_state import LogState
from barnabas.node.storage.producer_state import ActiveProducer
from barnabas.node.storage.segment import TimestampOffset
from barnabas.node.storage.segments import first_record
from barnabas.node.storage.txn_index import AbortedTransaction
from barnabas.wire.batch import NO_TIMESTAMP, read_header
from barnabas.wire.errors import ErrorCode, KafkaError


class ReadableLog(LogState):
    def read(
        self, offset: int, max_bytes: int, *, upper_bound_offset: int | None = None, min_one_batch: bool = True
    ) -> bytes:
        """Whole batches below the upper bound, from the one that holds `offset` on; empty if there is none yet."""
        end = self._readable_end(offset, upper_bound_offset)
        try:
            return self.segments.read(offset, max_bytes, end, min_one_batch) if offset < end else b""
        except OSError as error:
            raise self._failed(error) from error

    def fetch(
        self, offset: int, max_bytes: int, *, upper_bound_offset: int, min_one_batch: bool, eager_bytes: int
    ) -> bytes | FileRange:
        """As `read`, but more than `eager_bytes` are left in the file until they are sent."""
        end = self._readable_end(offset, upper_bound_offset)
        try:
            found = self.segments.find(offset, max_bytes, end, min_one_batch) if offset < end else None
            if found is None:
                return b""
            segment, start, stop = found
            return segment.read(start, stop) if stop - start <= eager_bytes else FileRange(segment.file, start, stop)
        except OSError as error:
            raise self._failed(error) from error

    def past_empty_batches(self, offset: int, upper_bound_offset: int) -> int:
        """Where compaction has left nothing but empty batches in the rest of a segment, the offset of the first batch
        behind it that has records, if there is one.

        librdkafka takes an answer without a record for one that was cut too short, and asks for twice as much.
        """
        if not self._config.compacted or not self.log_start_offset <= offset < upper_bound_offset:
            return offset
        try:
            for slot, segment in enumerate(self.segments.from_offset(offset)):
                for _, header in segment.headers(segment.position_of(offset)):
                    if header.base_offset >= upper_bound_offset:
                        return offset
                    if header.records_count:
                        return header.base_offset if slot else offset
        except (OSError, KafkaError):
            pass  # the read itself says what is wrong
        return offset

    def _readable_end(self, offset: int, upper_bound_offset: int | None) -> int:
        end = self.log_end_offset
        if offset < self.log_start_offset or offset > end:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Received request for offset {offset} for partition {self.name}, "
                f"but we only have log segments in the range {self.log_start_offset} to {end}.",
            )
        return end if upper_bound_offset is None else min(end, upper_bound_offset)

    def iterate(self, offset: int | None = None) -> Iterator[memoryview]:
        """Batch by batch from `offset` (or the start) to the end as it is now."""
        return self.segments.iterate(self.log_start_offset if offset is None else offset, self.log_end_offset)

    # -- places

    def batch_for_timestamp(self, timestamp: int, from_offset: int = 0) -> memoryview | None:
        """The first batch, from an offset on, that says to have a record not earlier than `timestamp`."""
        try:
            return self.segments.batch_for_timestamp(timestamp, max(from_offset, self.log_start_offset))
        except OSError as error:
            raise self._failed(error) from error

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record that is not earlier than `timestamp`."""
        from_offset = self.log_start_offset
        while (batch := self.batch_for_timestamp(timestamp, from_offset)) is not None:
            found = first_record(batch, timestamp, self.log_start_offset)
            if found is not None:
                return found
            from_offset = read_header(batch).last_offset + 1
        return None

    def earliest(self) -> TimestampOffset:
        entries = self.epochs.entries()
        known = entries and entries[0][1] <= self.log_start_offset
        return TimestampOffset(NO_TIMESTAMP, self.log_start_offset, entries[0][0] if known else -1)

    def latest(self) -> TimestampOffset:
        return TimestampOffset(NO_TIMESTAMP, self.log_end_offset, self.epochs.latest)

    def batch_of_max_timestamp(self) -> memoryview | None:
        try:
            return self.segments.batch_of_max_timestamp()
        except OSError as error:
            raise self._failed(error) from error

    def max_timestamp(self) -> TimestampOffset | None:
        """The record with the greatest timestamp, None in an empty log."""
        batch = self.batch_of_max_timestamp()
        return None if batch is None else first_record(batch, read_header(batch).max_timestamp, 0)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) as OffsetForLeaderEpoch answers it, (-1, -1) if unknown."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Up to where nothing is undecided."""
        self.producers.high_watermark_moved(high_watermark)
        first = self.producers.first_unstable_offset()
        return high_watermark if first is None else min(max(first, self.log_start_offset), high_watermark)

    def aborted_transactions(self, first_offset: int, upper_bound_offset: int) -> list[AbortedTransaction]:
        return self.segments.aborted_transactions(first_offset, upper_bound_offset)

    def aborted_in_read(self, offset: int, size: int, upper_bound_offset: int) -> list[AbortedTransaction]:
        """Those to which records may belong that a read of `size` bytes has found."""
        try:
            return self.segments.aborted_in_read(offset, size, upper_bound_offset)
        except OSError as error:
            raise self._failed(error) from error

    def active_producers(self) -> list[ActiveProducer]:
        return list(self.producers.active())
