"""What a log loses: its end when it is truncated, its start to retention and DeleteRecords, segments to compaction."""

from __future__ import annotations

from barnabas.node.storage.directory.files import fsync_path
from barnabas.node.storage.log_state import LogState
from barnabas.node.storage.segment.segment import Segment
from barnabas.wire.errors import ErrorCode, KafkaError


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
        self.start_on_disk = min(self.start_on_disk, offset)
        if self.first_dirty_offset is not None:
            self.first_dirty_offset = min(self.first_dirty_offset, offset)
        for task in self._flushing:
            task.end_offset = min(task.end_offset, offset)

    def advance_log_start_offset(self, offset: int) -> bool:
        """No longer offer what is below `offset`; segments wholly below it are deleted, in the background. False if it
        already was so."""
        if offset > self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Cannot increment the log start offset to {offset} of partition {self.name} "
                f"since it is larger than the log end offset {self.log_end_offset}",
            )
        if offset <= self.log_start_offset:
            return False
        self._start_at(offset)
        self.producers.high_watermark_moved(offset)
        self.delete_below_start()
        return True

    def _start_at(self, offset: int) -> None:
        self.log_start_offset = offset
        self.epochs.truncate_from_start(offset)

    def delete_below_start(self) -> None:
        if self.segments.count_below(self.log_start_offset):
            self.background.delete_below_start(self)

    def delete_segments(self, offset: int) -> None:
        """Delete the segments that are wholly below `offset`, here and now. After a crash some of them may be back."""
        try:
            removed = self.give_up_segments(offset)
            if removed:
                self._remove(removed)
                self.producers.remove_snapshots(before=self.segments.first_offset)
        except OSError as error:
            raise self._failed(error) from error

    def give_up_segments(self, offset: int, limit: int | None = None) -> list[Segment]:
        """Segments that are wholly below `offset`, the first ones; their files are left to whoever calls this."""
        removed = self.segments.remove_below(offset, limit)
        if removed:
            self._abort_cleaning()
            self._directory_changed = True
            first = self.segments.first_offset
            if first > self.log_start_offset:
                self._start_at(first)
            self.recovery_point = max(self.recovery_point, first)
        return removed

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
