"""Reading a log, and finding places in it: by offset, by time, by leader epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from barnabas.node.storage.directory.files import FileRange
from barnabas.node.storage.log_state import LogState
from barnabas.node.storage.producer_state import ActiveProducer
from barnabas.node.storage.segment.segment import Segment, TimestampOffset
from barnabas.node.storage.segment.segments import first_record
from barnabas.node.storage.segment.txn_index import AbortedTransaction
from barnabas.node.storage.segment.verification import DamagedIndex
from barnabas.wire.batch import NO_TIMESTAMP, read_header
from barnabas.wire.errors import ErrorCode, KafkaError

ITERATE_BYTES = 1024 * 1024
P = ParamSpec("P")
T = TypeVar("T")


def reading(
    method: Callable[Concatenate[ReadableLog, P], T],
) -> Callable[Concatenate[ReadableLog, P], T]:
    """A read that needs an index written anew is done after that, or by who asks again: `IndexBeingRepaired`."""

    @wraps(method)
    def read(log: ReadableLog, /, *args: P.args, **kwargs: P.kwargs) -> T:
        while True:
            try:
                return method(log, *args, **kwargs)
            except DamagedIndex as damaged:
                log.repair_index(damaged)
            except OSError as error:
                raise log._failed(error) from error

    return read


class ReadableLog(LogState):
    @reading
    def read(
        self, offset: int, max_bytes: int, *, upper_bound_offset: int | None = None, min_one_batch: bool = True
    ) -> bytes:
        """Whole batches below the upper bound, from the one that holds `offset` on; empty if there is none yet."""
        end = self._readable_end(offset, upper_bound_offset)
        return self.segments.read(offset, max_bytes, end, min_one_batch) if offset < end else b""

    @reading
    def fetch(
        self, offset: int, max_bytes: int, *, upper_bound_offset: int, min_one_batch: bool, eager_bytes: int
    ) -> bytes | FileRange:
        """As `read`, but more than `eager_bytes` are left in the file until they are sent."""
        end = self._readable_end(offset, upper_bound_offset)
        found = self.segments.find(offset, max_bytes, end, min_one_batch) if offset < end else None
        if found is None:
            return b""
        segment, start, stop = found
        return segment.read(start, stop) if stop - start <= eager_bytes else FileRange(segment.file, start, stop)

    @reading
    def find(self, offset: int, max_bytes: int) -> tuple[Segment, int, int] | None:
        """Where whole batches from the one that holds `offset` on begin and end, up to the end of the log."""
        return self.segments.find(offset, max_bytes, self.log_end_offset, True)

    @reading
    def bytes_from(self, offset: int) -> int:
        segments = self.segments.from_offset(offset)
        return sum(segment.size for segment in segments) - segments[0].position_of(offset)

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
        """Batch by batch from `offset` (or the start) to the end as it is now, read a megabyte at a time."""
        offset, end_offset = self.log_start_offset if offset is None else offset, self.log_end_offset
        while offset < end_offset:
            chunk = memoryview(self.read(offset, ITERATE_BYTES, upper_bound_offset=end_offset))
            if not chunk:
                return
            position = 0
            while position < len(chunk):
                header = read_header(chunk, position)
                yield chunk[position : position + header.size]
                position += header.size
                offset = header.last_offset + 1

    # -- places

    @reading
    def batch_for_timestamp(
        self, timestamp: int, from_offset: int = 0, max_batches: int | None = None
    ) -> memoryview | None:
        """The first batch, from an offset on, that says to have a record not earlier than `timestamp`; `NotFoundYet`
        if it is not among so many."""
        return self.segments.batch_for_timestamp(timestamp, max(from_offset, self.log_start_offset), max_batches)

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

    @reading
    def batch_of_max_timestamp(self) -> memoryview | None:
        return self.segments.batch_of_max_timestamp(self.log_start_offset)

    def max_timestamp(self) -> TimestampOffset | None:
        """The record with the greatest timestamp, None in an empty log."""
        batch = self.batch_of_max_timestamp()
        return None if batch is None else first_record(batch, read_header(batch).max_timestamp, 0)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) as OffsetForLeaderEpoch answers it, (-1, -1) if unknown."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Up to where nothing is undecided."""
        producers = self.producers
        if producers.all_decided:
            return high_watermark
        producers.high_watermark_moved(high_watermark)
        first = producers.first_unstable_offset()
        return high_watermark if first is None else min(max(first, self.log_start_offset), high_watermark)

    @reading
    def aborted_transactions(self, first_offset: int, upper_bound_offset: int) -> list[AbortedTransaction]:
        return self.segments.aborted_transactions(first_offset, upper_bound_offset)

    @reading
    def check_transactions(self) -> None:
        """Every segment's transaction index is there, and right as far as can be told without reading the batches."""
        self.segments.check_transactions()

    @reading
    def aborted_in_read(self, offset: int, size: int, upper_bound_offset: int) -> list[AbortedTransaction]:
        """Those to which records may belong that a read of `size` bytes has found."""
        return self.segments.aborted_in_read(offset, size, upper_bound_offset)

    def active_producers(self) -> list[ActiveProducer]:
        return list(self.producers.active())
