"""Key -> latest offset, in a bounded amount of memory.

As long as the keys need less than a quarter of what is allowed, they are in a dict: that is twice as fast. Then they
move into a flat table with open addressing, where a key takes 24 bytes, however long it is: its offset and 16 bytes of
its BLAKE2 digest. Two keys with the same 128 bits would be taken for one; for ten million keys the odds are 1 in 10^24.
The number of slots is prime, and the digest's second half gives the step from slot to slot, so chains stay short while
the table is filled to nine tenths.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b

from barnabas.node.storage.cleaning.records import Outline

SLOT_BYTES = 24
SLOT_WORDS = 3
DIGEST_BYTES = 16
CHUNK_WORDS = SLOT_WORDS * 10_000
SLOTS_MIN = 101
LOAD_MIN, LOAD_MAX = 0.1, 0.95
NOTHING = -1
DICT_ENTRY_BYTES = 200  # with the objects for key and offset, without the key's bytes

split_digest = struct.Struct("<QQ").unpack


class OffsetMap:
    def __init__(self, max_bytes: int, load_factor: float, expected_keys: int) -> None:
        """At most as many slots as `expected_keys` need, and as `max_bytes` allow."""
        load_factor = min(max(load_factor, LOAD_MIN), LOAD_MAX)
        wanted = max(int(1.25 * expected_keys / load_factor), SLOTS_MIN)  # the prime below it may be some less
        self._slots = prime_below(min(wanted, max(max_bytes // SLOT_BYTES, 3)))
        self.keys_max = max(int(self._slots * load_factor), 1)
        self.latest_offset = NOTHING
        self._dict: dict[bytes, int] | None = {}
        self._dict_bytes_left = max_bytes // 4
        self._table: memoryview = memoryview(b"")
        self._taken = 0

    @property
    def size(self) -> int:
        return self._taken if self._dict is None else len(self._dict)

    def put_all(self, records: Sequence[Outline], base_offset: int, start_offset: int = 0) -> bool:
        """Those with a key, from `start_offset` on; False if not all of them could be taken."""
        pairs = [
            (key, base_offset + delta)
            for _, _, delta, key, _ in records
            if key is not None and base_offset + delta >= start_offset
        ]
        if self._dict is not None:
            if self._put_into_dict(self._dict, pairs):
                return True
            # So few of the bytes allowed are in the dict that the table takes them all.
            known, self._dict = self._dict, None
            self._table = memoryview(bytearray(SLOT_BYTES * self._slots)).cast("Q")  # taken when it is written to
            self._put_into_table(dismantled(known))
        return self._put_into_table(pairs)

    def getter(self) -> Callable[[bytes], int | None]:
        """What finds the latest offset of a key, None if there is none."""
        return self._get_from_table if self._dict is None else self._dict.get

    def offsets(self) -> Iterator[int]:
        """The latest offset of every key."""
        if self._dict is not None:
            yield from self._dict.values()
            return
        for start in range(0, len(self._table), CHUNK_WORDS):
            for found in self._table[start : start + CHUNK_WORDS].tolist()[::SLOT_WORDS]:
                if found:
                    yield found - 1

    def _put_into_dict(self, known: dict[bytes, int], pairs: list[tuple[bytes, int]]) -> bool:
        """False if they might be too much for it."""
        entry_bytes = DICT_ENTRY_BYTES + max((len(key) for key, _ in pairs), default=0)
        if entry_bytes * len(pairs) > self._dict_bytes_left:
            return False
        before = len(known)
        known.update(pairs)
        self._dict_bytes_left -= entry_bytes * (len(known) - before)
        return True

    def _put_into_table(self, pairs: Iterable[tuple[bytes, int]]) -> bool:
        table, slots, left = self._table, self._slots, self.keys_max - self._taken
        words = SLOT_WORDS * slots
        try:
            for key, offset in pairs:
                if left <= 0:
                    return False
                first, second = split_digest(blake2b(key, digest_size=DIGEST_BYTES).digest())
                at = first % slots * SLOT_WORDS
                while table[at]:
                    if table[at + 1] == first and table[at + 2] == second:
                        break
                    at = (at + SLOT_WORDS * (1 + second % (slots - 1))) % words
                else:
                    table[at + 1] = first
                    table[at + 2] = second
                    left -= 1
                table[at] = offset + 1  # 0 is a free slot
        finally:
            self._taken = self.keys_max - left
        return True

    def _get_from_table(self, key: bytes) -> int | None:
        table, slots = self._table, self._slots
        first, second = split_digest(blake2b(key, digest_size=DIGEST_BYTES).digest())
        at: int = first % slots * SLOT_WORDS
        while found := table[at]:
            if table[at + 1] == first and table[at + 2] == second:
                offset: int = found - 1
                return offset
            at = (at + SLOT_WORDS * (1 + second % (slots - 1))) % (SLOT_WORDS * slots)
        return None


def dismantled(pairs: dict[bytes, int]) -> Iterable[tuple[bytes, int]]:
    """The pairs, each of which is forgotten when it is given away."""
    while pairs:
        yield pairs.popitem()


def prime_below(limit: int) -> int:
    """The greatest prime that is not above `limit`."""
    while any(limit % divisor == 0 for divisor in range(2, int(limit**0.5) + 1)):
        limit -= 1
    return max(limit, 2)
