"""Which partition a record goes to, as the Java client decides it.

A key always meets the same partition: murmur2 of its bytes, modulo the number of partitions. Records without a key stay
with one partition until about a batch has been filled, then go on to another, so that batches are full.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence

SEED = 0x9747B28C
M = 0x5BD1E995
MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit hash, without a sign."""
    length = len(data)
    value = SEED ^ length
    whole = length & ~3
    for (k,) in struct.iter_unpack("<I", memoryview(data)[:whole]):
        k = k * M & MASK
        k = (k ^ k >> 24) * M & MASK
        value = value * M & MASK ^ k
    if whole != length:
        value = (value ^ int.from_bytes(data[whole:], "little")) * M & MASK
    value = (value ^ value >> 13) * M & MASK
    return value ^ value >> 15


def partition_for_key(key: bytes, partitions: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class StickyPartitions:
    """The partition of records without a key, of one topic."""

    def __init__(self, stay_bytes: int, choose: Callable[[int], int] | None = None) -> None:
        self._stay_bytes = stay_bytes
        self._choose = choose or random_below
        self._current = -1
        self._bytes = 0

    def stay(self, record_bytes: int) -> int:
        """The partition for a record, -1 if it is time to move."""
        if self._bytes >= self._stay_bytes or self._current < 0:
            return -1
        self._bytes += record_bytes
        return self._current

    def move(self, available: Sequence[int], record_bytes: int) -> int:
        """To another of the partitions that have a leader; there is one."""
        others = [partition for partition in available if partition != self._current] or available
        self._current = others[self._choose(len(others))]
        self._bytes = record_bytes
        return self._current

    def leave(self) -> None:
        """A batch is full: the next record begins one elsewhere."""
        self._bytes = self._stay_bytes


class RoundRobinPartitions:
    def __init__(self) -> None:
        self._next = random_below(1 << 16)

    def stay(self, record_bytes: int) -> int:
        return -1

    def move(self, available: Sequence[int], record_bytes: int) -> int:
        self._next += 1
        return available[self._next % len(available)]

    def leave(self) -> None:
        pass


def random_below(limit: int) -> int:
    return int.from_bytes(os.urandom(4), "big") % limit
