"""What of a log is on the disk, and what has to be brought there."""

from __future__ import annotations

import os

from barnabas.node.storage.directory.flush_task import FlushTask
from barnabas.node.storage.directory.partition_metadata import PARTITION_METADATA
from barnabas.node.storage.leader_epochs import LEADER_EPOCH_CHECKPOINT, LeaderEpochs
from barnabas.node.storage.segment.segments import Segments


class LogFlushes:
    __slots__ = (
        "_snapshots",
        "_under_way",
        "directory_changed",
        "last_flush_ms",
        "recovery_point",
        "start_on_disk",
    )

    def __init__(self) -> None:
        self.recovery_point = 0  # everything below survives a crash
        self.start_on_disk = 0  # a start offset that the checkpoint has: no crash brings back what lies below
        self.last_flush_ms = 0
        self.directory_changed = False  # files were created, renamed or removed since the directory's last fsync
        self._snapshots: list[str] = []
        self._under_way: list[FlushTask] = []

    def add_snapshot(self, path: str | None) -> None:
        if path is not None:
            self._snapshots.append(path)

    def gather(
        self,
        segments: Segments,
        epochs: LeaderEpochs,
        log_end_offset: int,
        *,
        closing: bool = False,
        segments_max: int | None = None,
    ) -> FlushTask:
        """Everything appended so far, or as much of it as is in so many segments; give the task to `done` after it ran.

        The active segment's indexes are left out, since recovery writes those of the last segment anew; so the segment
        in which the last flush ended goes along, even if nothing was appended to it since. Two segments at least are
        needed to get on.
        """
        task = FlushTask(log_end_offset)
        try:
            self._add_segments(task, segments, closing, segments_max)
        except OSError:
            task.discard()
            raise
        directory = segments.directory
        task.paths, self._snapshots = self._snapshots, []
        if epochs.dirty:
            epochs.dirty = False
            task.files.append((f"{directory}/{LEADER_EPOCH_CHECKPOINT}", epochs.render()))
        if self.directory_changed:
            self.directory_changed = False
            task.paths += (f"{directory}/{PARTITION_METADATA}", directory, os.path.dirname(directory))
        elif closing:  # the last segment's indexes may be new
            task.paths.append(directory)
        self._under_way.append(task)
        return task

    def _add_segments(self, task: FlushTask, segments: Segments, closing: bool, segments_max: int | None) -> None:
        found = segments.from_offset(max(self.recovery_point - 1, self.start_on_disk))
        if segments_max is not None and len(found) > segments_max:
            task.end_offset, task.is_part = found[segments_max].base_offset, True
            del found[segments_max:]
        task.segments = len(found)
        for segment in found:
            whole = closing or segment is not segments.active
            for file in segment.files() if whole else (segment.file,):
                task.add_file(file)

    def done(self, task: FlushTask, log_end_offset: int, now_ms: int) -> None:
        self._under_way.remove(task)
        self.recovery_point = max(self.recovery_point, min(task.end_offset, log_end_offset))
        self.last_flush_ms = max(self.last_flush_ms, now_ms)

    def truncate_to(self, offset: int) -> None:
        """The log ends there now: what flushes under way were to bring to the disk behind it is gone."""
        self.recovery_point = min(self.recovery_point, offset)
        self.start_on_disk = min(self.start_on_disk, offset)
        for task in self._under_way:
            task.end_offset = min(task.end_offset, offset)

    def relocate(self, directory: str) -> None:
        self._snapshots = [f"{directory}/{os.path.basename(path)}" for path in self._snapshots]
        self.directory_changed = True
