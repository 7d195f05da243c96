"""A partition's log in memory, as `Partition` sees it: one batch for each record, whose value is its producer id.

What was flushed survives the loss of power, the rest may be gone; a killed process loses nothing.
"""

from __future__ import annotations

import struct
from random import Random
from typing import Any

from barnabas.node.storage.leader_epochs import LeaderEpochs
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.placing import Appended
from barnabas.wire.batch import Record, build_batch, iterate_batches
from barnabas.wire.errors import ErrorCode, KafkaError

EPOCH_AT = 12


def batch_of(value: int) -> bytearray:
    return build_batch([Record(0, 0, None, b"")], producer_id=value, producer_epoch=0, base_sequence=0)


class MemoryLog:
    """What lies on the disk of one broker, and the index of its epochs."""

    def __init__(self, name: str, config: LogConfig) -> None:
        self.name = name
        self.config = config
        self.offline = False
        self.log_start_offset = 0
        self.batches: list[bytes] = []
        self.values: list[int] = []
        self.epoch_of: list[int] = []
        self.epochs = LeaderEpochs()
        self.flushed = 0

    @property
    def log_end_offset(self) -> int:
        return len(self.batches)

    def last_stable_offset(self, high_watermark: int) -> int:
        return high_watermark

    # Stopping

    def flush(self) -> None:
        self.flushed = len(self.batches)

    def lose_tail(self, random: Random) -> bool:
        """Whether anything is lost."""
        kept = random.randint(min(self.flushed, len(self.batches)), len(self.batches))
        is_less = kept < len(self.batches)
        self.cut(kept)
        return is_less

    def reopen(self) -> None:
        """After a stop: epochs are read from the batches."""
        self.epochs = LeaderEpochs()
        for offset, epoch in enumerate(self.epoch_of):
            self.epochs.assign(epoch, offset)

    # As a partition uses it

    def assign_epoch_start(self, epoch: int) -> None:
        self.epochs.assign(epoch, self.log_end_offset)

    def append(self, records: Any, *, leader_epoch: int, now_ms: int, origin: Any = None, opening: Any = None) -> Any:
        batch = bytearray(records)
        struct.pack_into(">q", batch, 0, self.log_end_offset)
        struct.pack_into(">i", batch, EPOCH_AT, leader_epoch)
        return self._write([bytes(batch)])

    def append_as_follower(self, batches: Any, *, now_ms: int) -> Appended:
        found = [bytes(batches[at : at + header.size]) for at, header in iterate_batches(memoryview(batches))]
        return self._write(found)

    def _write(self, batches: list[bytes]) -> Appended:
        first = self.log_end_offset
        for batch in batches:
            ((_, header),) = iterate_batches(memoryview(batch))
            if header.base_offset != self.log_end_offset:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{header.base_offset} is not {self.log_end_offset}")
            self.epochs.assign(header.leader_epoch, header.base_offset)
            self.batches.append(batch)
            self.values.append(header.producer_id)
            self.epoch_of.append(header.leader_epoch)
        size = sum(map(len, batches))
        return Appended(first, self.log_end_offset - 1, -1, 0, size)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def past_empty_batches(self, offset: int, end: int) -> int:
        return offset

    def fetch(
        self, offset: int, max_bytes: int, *, upper_bound_offset: int, min_one_batch: bool, eager_bytes: int
    ) -> bytes:
        if not 0 <= offset <= self.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, "")
        end = min(upper_bound_offset, offset + max(max_bytes // 80, 1))
        return b"".join(self.batches[offset:end])

    def cut(self, end: int) -> None:
        del self.batches[end:], self.values[end:], self.epoch_of[end:]
        self.flushed = min(self.flushed, end)
        self.epochs.truncate_from_end(end)


class MemoryLogDirs:
    """Truncation that is done at once."""

    async def truncate(self, log: MemoryLog, offset: int, *, now_ms: int) -> bool:
        log.cut(offset)
        log.flush()
        return True

    async def sync(self, log: MemoryLog) -> int:
        log.flush()
        return log.log_end_offset

    def dir_of(self, log: MemoryLog) -> Any:
        return self

    @property
    def start_deletion(self) -> Any:
        return self

    async def idle(self) -> None:
        """Nothing is deleted."""
