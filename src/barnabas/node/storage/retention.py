"""Which segments of a log are too old, too many, or below its start, and their deletion.

Only whole segments go, from the start on, and none that reaches beyond the high watermark. The active segment goes too
once it is due: a new one is begun first, so that retention works on topics to which nobody writes any more. How old a
segment is, its greatest timestamp says; without any timestamp, the time at which its file was last written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.segment.segment import Segment

SEGMENTS_AT_ONCE = 16  # to learn how old so many are takes a millisecond at most

Due = Callable[[Segment], bool]


class Retention:
    """One round through one log: what is due is deleted some segments at a time."""

    def __init__(self, log: PartitionLog, now_ms: int) -> None:
        self._log = log
        self._now_ms = now_ms
        self._start_offset = log.log_start_offset
        self._surplus: int | None = None  # bytes above `retention.bytes`, without those that this round deleted
        self._by_size = self._by_age = 0
        self._newest_ms = self._written_ms = -1

    def delete_some(self, high_watermark: int, limit: int = SEGMENTS_AT_ONCE) -> int:
        """Delete up to `limit` segments that are due; if there were as many, there may be more. Raises `KafkaError`."""
        log = self._log
        log.delete_below_start()  # what DeleteRecords, or an earlier start of the node, has left
        if "delete" not in log.config.cleanup_policy:
            return 0
        by_size = by_age = 0
        if log.config.retention_bytes >= 0:
            by_size = self._give_up_while(self._is_surplus, high_watermark, limit)
        if log.config.retention_ms >= 0 and by_size < limit:
            by_age = self._give_up_while(self._is_old, high_watermark, limit - by_size)
        self._by_size += by_size
        self._by_age += by_age
        return by_size + by_age

    def _is_surplus(self, segment: Segment) -> bool:
        """A segment is due if without it the log still holds `retention.bytes`."""
        if self._surplus is None:
            segments = self._log.segments.from_offset(self._log.log_start_offset)
            self._surplus = sum(each.size for each in segments) - self._log.config.retention_bytes
        if self._surplus < segment.size:
            return False
        self._surplus -= segment.size
        return True

    def _is_old(self, segment: Segment) -> bool:
        newest_ms = segment.largest_timestamp
        if self._now_ms - newest_ms <= self._log.config.retention_ms:
            return False
        self._newest_ms = max(self._newest_ms, newest_ms)
        return True

    def _give_up_while(self, is_due: Due, high_watermark: int, limit: int) -> int:
        log = self._log
        # Without those that are below the start already, and about to be removed.
        segments = log.segments.from_offset(log.log_start_offset, limit + 1)
        last = segments[-1] is log.active_segment
        count, end_offset = 0, log.log_start_offset
        for segment, next_offset in with_next_offsets(segments, log.log_end_offset if last else None):
            if count == limit or next_offset > high_watermark or is_unused(log, segment) or not is_due(segment):
                break
            count, end_offset = count + 1, next_offset
        if count == len(segments):
            log.roll(now_ms=self._now_ms)
        if count:
            if self._written_ms < 0:  # of the first ones: to ask for all would wait for the removal of their files
                self._written_ms = last_written_ms(segments[count - 1])
            log.advance_log_start_offset(end_offset)
        return count

    # What is said of it

    @property
    def is_surprising(self) -> bool:
        """Records were deleted because of old timestamps, sooner after they came than `retention.ms` lets expect."""
        return bool(self._by_age) and self._now_ms - self._written_ms < self._log.config.retention_ms

    def describe(self) -> str:
        log, why = self._log, []
        if self._by_size:
            why.append(f"{self._by_size} beyond retention.bytes={log.config.retention_bytes}")
        if self._by_age:
            age_ms = self._now_ms - self._newest_ms
            why.append(f"{self._by_age} older than retention.ms={log.config.retention_ms} by their records' timestamps")
            why.append(f"the newest of which is {age_ms / 1000:.0f} s old")
        return (
            f"{log.name}: {self._by_size + self._by_age} segments deleted, the log starts at offset "
            f"{log.log_start_offset} (before: {self._start_offset}): {', '.join(why)}"
        )


def last_written_ms(segment: Segment) -> int:
    try:
        return int(os.stat(segment.file.path).st_mtime * 1000)
    except FileNotFoundError:
        return -1


def is_unused(log: PartitionLog, segment: Segment) -> bool:
    """An active segment to which nothing was written; compaction may leave others without records, and they may go."""
    return not segment.size and segment is log.active_segment


def with_next_offsets(segments: Sequence[Segment], log_end_offset: int | None) -> Iterator[tuple[Segment, int]]:
    """Each segment and where the next one begins; the last one only if the end of the log is given."""
    for segment, following in pairwise(segments):
        yield segment, following.base_offset
    if log_end_offset is not None:
        yield segments[-1], log_end_offset
