"""Which segments of a log are too old, too many, or below its start, and their deletion.

Only whole segments go, from the start on, and none that reaches beyond the high watermark. The active segment goes too
once it is due: a new one is begun first, so that retention works on topics to which nobody writes any more. How old a
segment is, its greatest timestamp says; without any timestamp, the time at which its file was last written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.segment import Segment

SEGMENTS_AT_ONCE = 16  # to learn how old so many are takes a millisecond at most

Due = Callable[[Segment], bool]


def delete_old_segments(log: PartitionLog, *, high_watermark: int, now_ms: int, limit: int = SEGMENTS_AT_ONCE) -> int:
    """Give up to `limit` segments up that are due; if there were as many, there may be more. Raises `KafkaError`."""
    log.delete_below_start()  # what DeleteRecords, or an earlier start of the node, has left
    given_up = 0
    if "delete" in log.config.cleanup_policy:
        for is_due in (beyond_size(log), beyond_age(log, now_ms)):
            if is_due is not None and given_up < limit:
                given_up += give_up_while(log, is_due, high_watermark, now_ms, limit - given_up)
    return given_up


def beyond_size(log: PartitionLog) -> Due | None:
    """A segment is due if without it the log still holds `retention.bytes`."""
    if log.config.retention_bytes < 0:
        return None
    surplus = sum(segment.size for segment in offered(log)) - log.config.retention_bytes

    def is_due(segment: Segment) -> bool:
        nonlocal surplus
        surplus -= segment.size
        return surplus >= 0

    return is_due


def beyond_age(log: PartitionLog, now_ms: int) -> Due | None:
    retention_ms = log.config.retention_ms
    return None if retention_ms < 0 else lambda segment: now_ms - segment.largest_timestamp > retention_ms


def give_up_while(log: PartitionLog, is_due: Due, high_watermark: int, now_ms: int, limit: int) -> int:
    segments = offered(log)
    count = 0
    end_offset = log.log_start_offset
    for segment, next_offset in with_next_offsets(segments, log.log_end_offset):
        if count == limit or next_offset > high_watermark or is_unused(log, segment) or not is_due(segment):
            break
        count, end_offset = count + 1, next_offset
    if count == len(segments):
        log.roll(now_ms=now_ms)
    if count:
        log.advance_log_start_offset(end_offset)
    return count


def offered(log: PartitionLog) -> list[Segment]:
    """Without those that are below the start already, and about to be removed."""
    return log.segments.from_offset(log.log_start_offset)


def is_unused(log: PartitionLog, segment: Segment) -> bool:
    """An active segment to which nothing was written; compaction may leave others without records, and they may go."""
    return not segment.size and segment is log.active_segment


def with_next_offsets(segments: Sequence[Segment], log_end_offset: int) -> Iterator[tuple[Segment, int]]:
    for segment, following in pairwise(segments):
        yield segment, following.base_offset
    yield segments[-1], log_end_offset
