"""Key -> latest offset, in a bounded amount of memory.

As long as the keys need less than a sixteenth of what is allowed, they are in a dict, which is faster. Then they move
into a flat table with open addressing, where a key takes 24 bytes, however long it is: 128 bits of its hash and its
offset. Two keys with the same 128 bits would be taken for one; for ten million keys the odds are 1 in 10^24. The number
of slots is prime, and the second half of the hash gives the step from slot to slot, so chains stay short while the
table is filled to nine tenths.

The hash is Python's own of the key and of the key with something behind it: SipHash with a key that every process draws
anew, so that nobody can choose keys which collide, and four times as fast as a digest.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence

SLOT_BYTES = 24
SLOT_WORDS = 3
CHUNK_WORDS = SLOT_WORDS * 10_000
SLOTS_MIN = 101
LOAD_MIN, LOAD_MAX = 0.1, 0.95
NOTHING = -1
DICT_SHARE = 16
DICT_ENTRY_BYTES = 200  # with the objects for key and offset, without the key's bytes
OTHER = b"\xb5other half"

KeyOffset = tuple[bytes, int]


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
        self._taken = 0

    @property
    def size(self) -> int:
        return self._taken if self._dict is None else len(self._dict)

    def put_all(self, pairs: Sequence[KeyOffset]) -> bool:
        """False if not all of them could be taken."""
        if self._dict is not None:
            if self._put_into_dict(self._dict, pairs):
                return True
            # So few of the bytes allowed are in the dict that the table takes them all.
            known, self._dict = self._dict, None
            self._table = array("q", (0,)) * (SLOT_WORDS * self._slots)
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
        for start in range(SLOT_WORDS - 1, len(self._table), CHUNK_WORDS):
            for found in self._table[start : start + CHUNK_WORDS : SLOT_WORDS]:
                if found:
                    yield found - 1

    def _put_into_dict(self, known: dict[bytes, int], pairs: Sequence[KeyOffset]) -> bool:
        """False if they might be too much for it."""
        entry_bytes = DICT_ENTRY_BYTES + max((len(key) for key, _ in pairs), default=0)
        if entry_bytes * len(pairs) > self._dict_bytes_left:
            return False
        before = len(known)
        known.update(pairs)
        self._dict_bytes_left -= entry_bytes * (len(known) - before)
        return True

    def _put_into_table(self, pairs: Iterable[KeyOffset]) -> bool:
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

    def _get_from_table(self, key: bytes) -> int | None:
        table, slots = self._table, self._slots
        first, second = hash(key), hash(key + OTHER)
        at = first % slots * SLOT_WORDS
        while found := table[at + 2]:
            if table[at] == first and table[at + 1] == second:
                return found - 1
            at = (at + SLOT_WORDS * (1 + second % (slots - 1))) % (SLOT_WORDS * slots)
        return None


def dismantled(pairs: dict[bytes, int]) -> Iterable[KeyOffset]:
    """The pairs, each of which is forgotten when it is given away."""
    while pairs:
        yield pairs.popitem()


def prime_below(limit: int) -> int:
    """The greatest prime that is not above `limit`."""
    while any(limit % divisor == 0 for divisor in range(2, int(limit**0.5) + 1)):
        limit -= 1
    return max(limit, 2)
