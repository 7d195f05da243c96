"""A segment that was found on the disk is doubted until it has been looked at: bits may have flipped meanwhile.

Recovery reads only what lies behind the recovery point. The rest is verified when it is first read: batches whose
checksum is wrong, or whose offsets do not follow on each other, are not given to anybody. What this process has written
itself was verified on its way in.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from barnabas.node.storage.directory.files import PooledFile
from barnabas.wire.batch import FIXED_LENGTH_BYTES, HEADER_BYTES, MAGIC, TRANSACTIONAL_FLAG, batch_crc, read_header
from barnabas.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from barnabas.node.storage.recovery.index_rebuild import Kind
    from barnabas.node.storage.segment.segment import Segment

AT_ONCE_BYTES = 1024 * 1024
AT_MOST_BYTES = 4 * AT_ONCE_BYTES  # of one read, so that nobody waits for long


class DamagedSegment(KafkaError):
    """What lies in the file there is not what was written."""

    def __init__(self, path: str, position: int, why: str) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, f"{path} is damaged at position {position}: {why}")


class DamagedIndex(KafkaError):
    """What an index says of its segment is wrong; the batches are asked (`index_repair`)."""

    def __init__(self, segment: Segment, kind: Kind, *, missing: bool = False) -> None:
        fault = "missing" if missing else "damaged"
        super().__init__(ErrorCode.OFFSET_NOT_AVAILABLE, f"{segment.file.path}: its {kind.value} is {fault}")
        self.segment = segment
        self.kind = kind


class UnverifiedPart:
    """One stretch of the file is known to be sound: who reads on makes it longer."""

    __slots__ = ("_verified_from", "_verified_to", "end", "has_transactions")

    def __init__(self, end: int) -> None:
        self.end = end
        self.has_transactions = False  # whether records of a transaction were met
        self._verified_from = self._verified_to = 0

    def cut(self, end: int) -> None:
        """The file was truncated: what is written behind that is this process's own, whatever its batches' sizes."""
        self.end = min(self.end, end)
        self._verified_to = min(self._verified_to, end)
        self._verified_from = min(self._verified_from, self._verified_to)

    def verified_until(self, file: PooledFile, start: int, stop: int) -> int:
        """Where a read of whole batches from `start` to `stop` has to end; raises if not even the first is sound."""
        sound = self._verified_to if self._verified_from <= start <= self._verified_to else start
        if sound != self._verified_to or start < self._verified_from:
            self._verified_from = self._verified_to = start
        limit = min(stop, self.end)
        while sound < limit and sound - start < AT_MOST_BYTES:
            good, why, transactional = look_at(file, sound, limit)
            self.has_transactions = self.has_transactions or transactional
            if good == sound:
                if sound == start:
                    raise DamagedSegment(file.path, start, why)
                return sound
            self._verified_to = sound = good
        return stop if sound >= limit else sound


def look_at(file: PooledFile, start: int, limit: int) -> tuple[int, str, bool]:
    """The end of the sound batches of the next piece, and what is wrong with the one behind them, if it is; whether
    there are records of transactions."""
    piece = os.pread(file.fileno(), min(AT_ONCE_BYTES, limit - start), start)
    at, previous, next_offset, transactional = 0, 0, -1, 0
    while len(piece) - at >= HEADER_BYTES:
        header = read_header(piece, at)
        if header.batch_length < FIXED_LENGTH_BYTES or header.size > limit - start - at:
            return start + at, f"a batch of {header.size} bytes", bool(transactional)
        if header.size > len(piece) - at:
            if at:
                return start + at, "", bool(transactional)
            piece = os.pread(file.fileno(), header.size, start)
        if header.magic != MAGIC or batch_crc(piece, at, header.size) != header.crc:
            why = f"the batch at offset {header.base_offset} does not match its checksum"
            return start + at, why, bool(transactional)
        if header.base_offset < next_offset or header.last_offset < header.base_offset:
            # One of the two has the wrong offset.
            return start + previous, f"offset {header.base_offset} comes after {next_offset - 1}", bool(transactional)
        transactional |= header.attributes & TRANSACTIONAL_FLAG
        previous, next_offset = at, header.last_offset + 1
        at += header.size
    return start + at, "the file ends there", bool(transactional)
