"""Key -> latest offset, in a bounded amount of memory.

As long as the keys need less than a sixteenth of what is allowed, they are in a dict, which is faster. Then they move
into a flat table with open addressing, where a key takes 25 bytes, however long it is: 128 bits of its hash, its
offset, and a byte of the filter. Two keys with the same 128 bits would be taken for one; for ten million keys the odds
are 1 in 10^24. The number of slots is prime, and the second half of the hash gives the step from slot to slot, so
chains stay short while the table is filled to nine tenths.

Many keys at once are looked up together, by numpy on the same memory. A key that is not in a table nearly full would be
looked for in ten slots, so a filter says first of most keys that they are not there: one bit for a hash, and four to
eight bits for a slot.

The hash is Python's own of the key and of the key with something behind it: SipHash with a key that every process draws
anew, so that nobody can choose keys which collide, and four times as fast as a digest.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from operator import add
from typing import Any

SLOT_WORDS = 3
SLOT_BYTES = 8 * SLOT_WORDS + 1  # with the filter
CHUNK_SLOTS = 10_000
CHUNK_WORDS = SLOT_WORDS * CHUNK_SLOTS
SLOTS_MIN = 101
LOAD_MIN, LOAD_MAX = 0.1, 0.95
NOTHING = -1
DICT_SHARE = 16
DICT_ENTRY_BYTES = 200  # with the objects for key and offset, without the key's bytes
OTHER = b"\xb5other half"
MANY = 32  # fewer are faster one by one


class OffsetMap:
    def __init__(self, max_bytes: int, load_factor: float, expected_keys: int) -> None:
        """At most as many slots as `expected_keys` need, and as `max_bytes` allow."""
        load_factor = min(max(load_factor, LOAD_MIN), LOAD_MAX)
        wanted = max(int(1.25 * expected_keys / load_factor), SLOTS_MIN)  # the prime below it may be some less
        self._slots = prime_below(min(wanted, max(max_bytes // SLOT_BYTES, 3)))
        self.keys_max = max(int(self._slots * load_factor), 1)
        self.latest_offset = NOTHING
        self._dict: dict[bytes, int] | None = {}
        self._dict_bytes_left = max_bytes // DICT_SHARE
        self._table = array("q")
        self._filter: Any = None
        self._taken = 0

    @property
    def size(self) -> int:
        return self._taken if self._dict is None else len(self._dict)

    def put_all(self, keys: Sequence[bytes], offsets: Sequence[int]) -> bool:
        """False if not all of them could be taken. Of a key that comes twice the last one counts."""
        if self._dict is not None:
            if self._put_into_dict(self._dict, keys, offsets):
                return True
            # So few of the bytes allowed are in the dict that the table takes them all.
            known, self._dict = self._dict, None
            self._table = array("q", (0,)) * (SLOT_WORDS * self._slots)
            self._put_into_table(dismantled(known))
        self._filter = None
        if MANY <= len(keys) <= self.keys_max - self._taken:
            self._put_many(keys, offsets)
            return True
        return self._put_into_table(zip(keys, offsets, strict=True))

    def latest_of(self, keys: Sequence[bytes]) -> list[int]:
        """The latest offset of each key, NOTHING where there is none."""
        if self._dict is not None:
            return list(map(self._dict.get, keys, repeat(NOTHING)))
        if len(keys) >= MANY:
            return self._get_many(keys)
        return [self._get_from_table(key) for key in keys]

    def offsets(self) -> Iterator[int]:
        """The latest offset of every key."""
        if self._dict is not None:
            yield from self._dict.values()
            return
        for start in range(SLOT_WORDS - 1, len(self._table), CHUNK_WORDS):
            for found in self._table[start : start + CHUNK_WORDS : SLOT_WORDS]:
                if found:
                    yield found - 1

    def _put_into_dict(self, known: dict[bytes, int], keys: Sequence[bytes], offsets: Sequence[int]) -> bool:
        """False if they might be too much for it."""
        entry_bytes = DICT_ENTRY_BYTES + max(map(len, keys), default=0)
        if entry_bytes * len(keys) > self._dict_bytes_left:
            return False
        before = len(known)
        known.update(zip(keys, offsets, strict=True))
        self._dict_bytes_left -= entry_bytes * (len(known) - before)
        return True

    def _put_into_table(self, pairs: Iterable[tuple[bytes, int]]) -> bool:
        """A slot has the hash in two words, and the offset plus one: 0 is a free slot."""
        table, slots, left = self._table, self._slots, self.keys_max - self._taken
        words = SLOT_WORDS * slots
        try:
            for key, offset in pairs:
                first, second = hash(key), hash(key + OTHER)
                at = first % slots * SLOT_WORDS
                while table[at + 2]:
                    if table[at] == first and table[at + 1] == second:
                        break
                    at = (at + SLOT_WORDS * (1 + second % (slots - 1))) % words
                else:
                    if left <= 0:
                        return False
                    table[at] = first
                    table[at + 1] = second
                    left -= 1
                table[at + 2] = offset + 1
        finally:
            self._taken = self.keys_max - left
        return True

    def _get_from_table(self, key: bytes) -> int:
        table, slots = self._table, self._slots
        first, second = hash(key), hash(key + OTHER)
        at = first % slots * SLOT_WORDS
        while found := table[at + 2]:
            if table[at] == first and table[at + 1] == second:
                return found - 1
            at = (at + SLOT_WORDS * (1 + second % (slots - 1))) % (SLOT_WORDS * slots)
        return NOTHING

    # Many at once: those that have not found their slot yet go on to the next one together.

    def _put_many(self, keys: Sequence[bytes], offsets: Sequence[int]) -> None:
        """There is room for all of them."""
        import numpy as np

        rows, slots = self._rows(), self._slots
        first, second, at, step = self._beginnings(keys)
        entries = np.stack((first, second, np.array(offsets, np.int64) + 1), axis=1)
        while at.size:
            found = rows[at]
            free = found[:, 2] == 0
            if free.any():
                # Of several that take one slot the last is left in it. It has the last offset of its key, too.
                wanted, new = at[free], entries[free]
                rows[wanted] = new
                written = rows[wanted]
                self._taken += int(np.count_nonzero(written[:, 2] == new[:, 2]))
                found[free] = written
            same = (found[:, 0] == entries[:, 0]) & (found[:, 1] == entries[:, 1])
            rows[at[same], 2] = entries[same, 2]
            others = ~same
            entries, step = entries[others], step[others]
            at = (at[others] + step) % slots

    def _get_many(self, keys: Sequence[bytes]) -> list[int]:
        import numpy as np

        rows, slots = self._rows(), self._slots
        first = np.fromiter(map(hash, keys), np.int64, len(keys))
        index = np.flatnonzero(self._may_have(first))
        latest = np.full(len(keys), NOTHING, np.int64)
        first, second, at, step = self._beginnings([keys[each] for each in index.tolist()])
        while index.size:
            found = rows[at]
            same = (found[:, 0] == first) & (found[:, 1] == second)
            latest[index[same]] = found[same, 2] - 1
            others = (found[:, 2] != 0) & ~same
            index, first, second, step = index[others], first[others], second[others], step[others]
            at = (at[others] + step) % slots
        offsets: list[int] = latest.tolist()
        return offsets

    def _may_have(self, first: Any) -> Any:
        """By the first words of hashes: 0 where the table surely does not have the key."""
        import numpy as np

        bits = 8 << (self._slots.bit_length() - 1)
        if self._filter is None:
            self._filter = np.zeros(bits // 8, np.uint8)
            rows = self._rows()
            for start in range(0, self._slots, CHUNK_SLOTS):
                some = rows[start : start + CHUNK_SLOTS]
                bit = some[some[:, 2] != 0, 0] & (bits - 1)
                np.bitwise_or.at(self._filter, bit >> 3, np.left_shift(1, bit & 7).astype(np.uint8))
        bit = first & (bits - 1)
        return (self._filter[bit >> 3] >> (bit & 7).astype(np.uint8)) & 1

    def _rows(self) -> Any:
        import numpy as np

        return np.frombuffer(self._table, np.int64).reshape(self._slots, SLOT_WORDS)

    def _beginnings(self, keys: Sequence[bytes]) -> tuple[Any, Any, Any, Any]:
        """Both words of each key's hash, its first slot, and the step from there."""
        import numpy as np

        first = np.fromiter(map(hash, keys), np.int64, len(keys))
        second = np.fromiter(map(hash, map(add, keys, repeat(OTHER))), np.int64, len(keys))
        return first, second, first % self._slots, 1 + second % (self._slots - 1)


def dismantled(pairs: dict[bytes, int]) -> Iterable[tuple[bytes, int]]:
    """The pairs, each of which is forgotten when it is given away."""
    while pairs:
        yield pairs.popitem()


def prime_below(limit: int) -> int:
    """The greatest prime that is not above `limit`."""
    while any(limit % divisor == 0 for divisor in range(2, int(limit**0.5) + 1)):
        limit -= 1
    return max(limit, 2)
