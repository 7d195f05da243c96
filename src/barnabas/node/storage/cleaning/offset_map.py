"""Key -> latest offset, in a fixed amount of memory: 24 bytes for each key, however long it is.

A flat table with open addressing: 16 bytes of a key's BLAKE2 digest and its offset. Two keys with the same 128 bits
would be taken for one; for ten million keys the odds are 1 in 10^25. The number of slots is prime and the digest's
second half gives the step from slot to slot, so chains stay short while the table is filled to nine tenths.
"""

from __future__ import annotations

import struct
from hashlib import blake2b

SLOT_BYTES = 24
DIGEST_BYTES = 16
NOT_FOUND = -1
SLOTS_MIN = 101

split_digest = struct.Struct("<QQ").unpack


class OffsetMap:
    __slots__ = ("_first", "_offsets", "_second", "_slots", "keys_max", "latest_offset", "size")

    def __init__(self, max_bytes: int, load_factor: float, expected_keys: int) -> None:
        """As many slots as `expected_keys` at most need, and as `max_bytes` allow."""
        wanted = max(int(expected_keys / min(load_factor, 0.75)), SLOTS_MIN)
        self._slots = slots = prime_below(min(wanted, max(max_bytes // SLOT_BYTES, 3)))
        self.keys_max = min(max(int(slots * load_factor), 1), slots - 1)
        self.size = 0
        self.latest_offset = NOT_FOUND
        # Zeroed memory that is only taken when it is written to. An offset is kept plus one, 0 is a free slot.
        self._first, self._second, self._offsets = (memoryview(bytearray(8 * slots)).cast("Q") for _ in range(3))

    def put(self, key: bytes, offset: int) -> None:
        first, second = split_digest(blake2b(key, digest_size=DIGEST_BYTES).digest())
        slots, offsets, firsts = self._slots, self._offsets, self._first
        slot = first % slots
        step = 1 + second % (slots - 1)
        while offsets[slot]:
            if firsts[slot] == first and self._second[slot] == second:
                offsets[slot] = offset + 1
                return
            slot += step
            if slot >= slots:
                slot -= slots
        firsts[slot] = first
        self._second[slot] = second
        offsets[slot] = offset + 1
        self.size += 1

    def get(self, key: bytes) -> int:
        first, second = split_digest(blake2b(key, digest_size=DIGEST_BYTES).digest())
        slots, offsets, firsts = self._slots, self._offsets, self._first
        slot: int = first % slots
        step: int = 1 + second % (slots - 1)
        while found := offsets[slot]:
            if firsts[slot] == first and self._second[slot] == second:
                return found - 1
            slot += step
            if slot >= slots:
                slot -= slots
        return NOT_FOUND


def prime_below(limit: int) -> int:
    """The greatest prime that is not above `limit`."""
    while any(limit % divisor == 0 for divisor in range(2, int(limit**0.5) + 1)):
        limit -= 1
    return max(limit, 2)
