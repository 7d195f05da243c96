"""What to clean: which part of a log is dirty, how dirty the log is, and which segments become one. Pure.

A log has a clean section, which an earlier cleaning has passed, and behind it a dirty one. Dirty is what the checkpoint
says and everything after it; cleanable of it are whole segments below the active one, below the last stable offset,
and older than `min.compaction.lag.ms`. The log is due when the cleanable share of its bytes exceeds
`min.cleanable.dirty.ratio`, or when a cleanable record waits for longer than `max.compaction.lag.ms`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from barnabas.node.storage.log_config import LogConfig

RELATIVE_OFFSET_MAX = 2**31 - 1
# The swap of a group renames all its files in one step of the loop.
GROUP_SEGMENTS_MAX = 64


class SegmentFacts(Protocol):
    """What is asked of a segment; the timestamps only if a lag is configured."""

    @property
    def base_offset(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def largest_timestamp(self) -> int: ...
    @property
    def rolling_timestamp(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Dirt:
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int = 0
    cleanable_bytes: int = 0
    overdue: bool = False

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    def is_due(self, min_cleanable_dirty_ratio: float) -> bool:
        if self.first_dirty_offset >= self.first_uncleanable_offset or not self.cleanable_bytes:
            return False
        return self.overdue or self.ratio > min_cleanable_dirty_ratio


def examine(
    segments: Sequence[SegmentFacts],
    *,
    checkpoint: int | None,
    log_start_offset: int,
    log_end_offset: int,
    last_stable_offset: int,
    config: LogConfig,
    now_ms: int,
) -> Dirt:
    """How dirty a log is. `segments` are all of it in order, the active one last."""
    first_dirty = log_start_offset if checkpoint is None else checkpoint
    if not log_start_offset <= first_dirty <= log_end_offset:
        first_dirty = log_start_offset
    bases = [segment.base_offset for segment in segments]
    first_of_dirty = max(bisect_right(bases, first_dirty) - 1, 0)
    closed_dirty = segments[first_of_dirty:-1]
    uncleanable = min(last_stable_offset, bases[-1])
    if config.min_compaction_lag_ms > 0:
        youngest = now_ms - config.min_compaction_lag_ms
        kept_back = (segment.base_offset for segment in closed_dirty if segment.largest_timestamp > youngest)
        uncleanable = min(uncleanable, next(kept_back, uncleanable))
    # Only whole segments: the one that holds the first uncleanable offset is out.
    uncleanable = bases[max(bisect_right(bases, max(uncleanable, first_dirty)) - 1, 0)]
    return Dirt(
        first_dirty_offset=first_dirty,
        first_uncleanable_offset=uncleanable,
        clean_bytes=sum(segment.size for segment in segments[:first_of_dirty]),
        cleanable_bytes=sum(segment.size for segment in closed_dirty if segment.base_offset < uncleanable),
        overdue=is_overdue(closed_dirty, config.max_compaction_lag_ms, now_ms),
    )


def is_overdue(closed_dirty: Iterable[SegmentFacts], max_compaction_lag_ms: int, now_ms: int) -> bool:
    limit = now_ms - max_compaction_lag_ms
    if limit <= 0:
        return False
    return any(0 < (segment.rolling_timestamp or 0) < limit for segment in closed_dirty)


class SegmentSizes(NamedTuple):
    base_offset: int
    size: int
    offset_index_bytes: int
    time_index_bytes: int


def group_segments(
    segments: Sequence[SegmentSizes], *, segment_bytes: int, index_bytes: int, first_uncleanable_offset: int
) -> list[list[SegmentSizes]]:
    """Neighbours that fit into one segment, judged by their sizes before cleaning."""
    groups: list[list[SegmentSizes]] = []
    ends = [segment.base_offset for segment in segments[1:]] + [first_uncleanable_offset]
    for segment, end_offset in zip(segments, ends, strict=True):
        if groups and len(groups[-1]) < GROUP_SEGMENTS_MAX:
            together = [*groups[-1], segment]
            in_range = not segment.size or end_offset - 1 - together[0].base_offset <= RELATIVE_OFFSET_MAX
            if (
                in_range
                and sum(each.size for each in together) <= segment_bytes
                and sum(each.offset_index_bytes for each in together) <= index_bytes
                and sum(each.time_index_bytes for each in together) <= index_bytes
            ):
                groups[-1].append(segment)
                continue
        groups.append([segment])
    return groups
