"""What a log loses: its end when it is truncated, its start to retention and DeleteRecords, segments to compaction."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.node.storage.files import fsync_path
from barnabas.node.storage.log_state import LogState
from barnabas.node.storage.segment import Segment
from barnabas.wire.errors import ErrorCode, KafkaError

SEGMENTS_AT_ONCE = 4  # a few renames each: deleting so many does not hold up the loop


class ShrinkingLog(LogState):
    def truncate_to(self, offset: int, *, now_ms: int = 0) -> bool:
        """Keep what is below `offset`; False if there was nothing behind it. On the loop use `LogDirs.truncate`."""
        if offset >= self.log_end_offset:
            self.epochs.truncate_from_end(self.log_end_offset)
            return False
        self._abort_cleaning()
        if offset < self.segments.first_offset:
            self.truncate_fully_and_start_at(offset, now_ms=now_ms)
            return True
        try:
            self._remove_for_good(self.segments.remove_behind(offset))
            self._insist(lambda: self.segments.active.truncate_to(offset, now_ms))
            self._end_at(offset)
            self.epochs.truncate_from_end(offset)
            self.log_start_offset = min(self.log_start_offset, offset)
            self._load_producers(now_ms)
        except OSError as error:
            raise self._failed(error) from error
        return True

    def truncate_fully_and_start_at(self, offset: int, *, now_ms: int = 0, log_start_offset: int | None = None) -> None:
        """Forget everything and continue at `offset`."""
        self._abort_cleaning()
        try:
            self._remove_for_good(self.segments.clear())
            self.epochs.clear()
            self.producers.remove_snapshots(after=-1)
            self._end_at(offset)
            self._start_empty(offset, now_ms)
        except OSError as error:
            raise self._failed(error) from error
        if log_start_offset is not None:
            self.log_start_offset = log_start_offset

    def _end_at(self, offset: int) -> None:
        self.log_end_offset = offset
        self.recovery_point = min(self.recovery_point, offset)
        if self.first_dirty_offset is not None:
            self.first_dirty_offset = min(self.first_dirty_offset, offset)
        for task in self._flushing:
            task.end_offset = min(task.end_offset, offset)

    def advance_log_start_offset(self, offset: int, *, delete_max: int = SEGMENTS_AT_ONCE) -> bool:
        """No longer offer what is below `offset`; segments wholly below are deleted, many of them by the next round of
        retention. False if it already was so."""
        if offset > self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Cannot increment the log start offset to {offset} of partition {self.name} "
                f"since it is larger than the log end offset {self.log_end_offset}",
            )
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.epochs.truncate_from_start(offset)
        self.producers.high_watermark_moved(offset)
        self.delete_segments(lambda _, following: following.base_offset <= offset, limit=delete_max)
        # Not to the new start itself: segments below it that are still there may come back after a crash, and are to be
        # whole then.
        self.recovery_point = max(self.recovery_point, min(offset, self.segments.first_offset))
        return True

    def delete_segments(self, removable: Callable[[Segment, Segment], bool], *, limit: int | None = None) -> int:
        """Delete segments from the start while `removable(segment, next segment)` holds; how many there were."""
        try:
            removed = self.segments.remove_from_start(removable, limit)
            if removed:
                self._abort_cleaning()
                self._remove(removed)
                first = self.segments.first_offset
                if len(removed) == limit:  # the last of several rounds looks for all of them in the directory
                    self.producers.remove_snapshots_at(segment.base_offset for segment in removed)
                else:
                    self.producers.remove_snapshots(before=first)
                if first > self.log_start_offset:
                    self.log_start_offset = first
                    self.epochs.truncate_from_start(first)
        except OSError as error:
            raise self._failed(error) from error
        return len(removed)

    def _remove_for_good(self, segments: list[Segment]) -> None:
        """The end of the log, the last first, and before anything is written: after a crash they must not come back."""
        if segments:
            self._remove(segments[::-1])
            fsync_path(self.directory)

    def replace_segments(self, old: list[Segment], new: Segment) -> None:
        """Compaction has made one of several; their files are removed later, so who reads them may finish."""
        self.segments.replace(old, new)
        self._remove(old)
        self.producers.remove_snapshots_at(segment.base_offset for segment in old[1:])
