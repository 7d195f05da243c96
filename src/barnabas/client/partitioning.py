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
    """The partition of records without a key, of one topic; asked for when a batch begins."""

    def __init__(self, stay_bytes: int, choose: Callable[[int], int] | None = None) -> None:
        self._stay_bytes = stay_bytes
        self._choose = choose or random_below
        self._current = -1
        self._filled_before = 0

    def partition(self, available: Sequence[int], filled: Callable[[int], int]) -> int:
        """One of those that have a leader. `filled` tells how many bytes of batches a partition has had so far."""
        current = self._current
        if current in available and filled(current) - self._filled_before < self._stay_bytes:
            return current
        others = [partition for partition in available if partition != current] or available
        self._current = others[self._choose(len(others))] if len(others) > 1 else others[0]
        self._filled_before = filled(self._current)
        return self._current


class RoundRobinPartitions:
    def __init__(self) -> None:
        self._next = random_below(1 << 16)

    def partition(self, available: Sequence[int], filled: Callable[[int], int]) -> int:
        self._next += 1
        return available[self._next % len(available)]


def random_below(limit: int) -> int:
    return int.from_bytes(os.urandom(4), "big") % limit
