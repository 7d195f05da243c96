"""`leader-epoch-checkpoint`: where each leader's time began. Followers and consumers find divergence by it.

Epochs and start offsets both rise. The file is written with the next flush: after a crash, epochs behind the recovery
point are read from the batches again, and a flush writes this file before it moves the recovery point.
"""

from __future__ import annotations

from bisect import bisect_right

from barnabas.node.storage.directory.checkpoints import CorruptCheckpoint, read_lines, render

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1


class LeaderEpochs:
    __slots__ = ("_epochs", "_offsets", "dirty", "latest")

    def __init__(self, entries: list[tuple[int, int]] | None = None) -> None:
        self._epochs: list[int] = []
        self._offsets: list[int] = []
        self.latest = UNDEFINED_EPOCH
        for epoch, start_offset in entries or ():
            self.assign(epoch, start_offset)
        self.dirty = False

    @classmethod
    def load(cls, directory: str) -> LeaderEpochs:
        """A missing or unreadable file is an empty one: the caller's recovery fills it."""
        try:
            lines = read_lines(f"{directory}/{LEADER_EPOCH_CHECKPOINT}")
            return cls([(int(epoch), int(offset)) for epoch, offset in (line.split() for line in lines)])
        except (CorruptCheckpoint, ValueError):
            return cls()

    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._offsets, strict=True))

    def render(self) -> bytes:
        return render(f"{epoch} {offset}" for epoch, offset in self.entries())

    def assign(self, epoch: int, start_offset: int) -> None:
        """A new epoch begins; entries it contradicts are dropped."""
        if epoch < 0 or (epoch == self.latest and start_offset >= self._offsets[-1]):
            return
        while self._epochs and (self._epochs[-1] >= epoch or self._offsets[-1] >= start_offset):
            self._drop_last()
        self._epochs.append(epoch)
        self._offsets.append(start_offset)
        self._changed()

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The greatest epoch not above the asked one, and where it ended; (-1, -1) if that cannot be known."""
        if epoch == UNDEFINED_EPOCH:
            return UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        above = bisect_right(self._epochs, epoch)
        if above == len(self._epochs):
            return UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
        return (self._epochs[above - 1] if above else epoch), self._offsets[above]

    def epoch_for_offset(self, offset: int) -> int:
        """The epoch in which the offset was written, -1 if it lies before the first known one."""
        above = bisect_right(self._offsets, offset)
        return self._epochs[above - 1] if above else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget epochs that begin at or behind the log's new end."""
        if self._offsets and self._offsets[-1] >= end_offset:
            while self._offsets and self._offsets[-1] >= end_offset:
                self._drop_last()
            self._changed()

    def truncate_from_start(self, start_offset: int) -> None:
        """The epoch of the log's new start begins there."""
        below = bisect_right(self._offsets, start_offset)
        if below and (below > 1 or self._offsets[0] < start_offset):
            del self._epochs[: below - 1]
            del self._offsets[: below - 1]
            self._offsets[0] = start_offset
            self._changed()

    def clear(self) -> None:
        if self._epochs:
            self._epochs.clear()
            self._offsets.clear()
            self._changed()

    def _drop_last(self) -> None:
        self._epochs.pop()
        self._offsets.pop()

    def _changed(self) -> None:
        self.latest = self._epochs[-1] if self._epochs else UNDEFINED_EPOCH
        self.dirty = True
