"""The order in which maps of Java hand out strings: by bucket, of a table that doubles at three quarters.

Assignors deal partitions out in the order of a `HashMap`. So a group whose members have the same names is assigned the
same here and in Kafka, and after a hand-over nothing moves. Members are described in the order of Kafka's
`TimelineHashMap`, which has buckets of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from barnabas.core.coordinator.partitioning import java_hash

FIRST_CAPACITY = 16
FIRST_TIMELINE_CAPACITY = 2
# Knuth's multiplicative hash with the golden ratio, as Kafka's BaseHashTable has it.
_FIBONACCI = -7046029254386353131


def java_ordered(names: Iterable[str], expected: int | None = None) -> list[str]:
    """Names of one bucket keep the order in which they come. `expected` is the capacity that the map is made with."""
    listed = list(names)
    capacity = FIRST_CAPACITY if expected is None else _power_of_two(expected)
    while len(listed) > capacity * 3 // 4:
        capacity *= 2
    return sorted(listed, key=lambda name: _spread_hash(name) & (capacity - 1))


def timeline_ordered(names: Iterable[str]) -> list[str]:
    """Names of one bucket come in the reverse of the order in which they came."""
    newest_first = list(names)[::-1]
    capacity = FIRST_TIMELINE_CAPACITY
    while len(newest_first) * 3 > capacity * 4:
        capacity *= 2
    shift = 65 - capacity.bit_length()
    return sorted(newest_first, key=lambda name: (java_hash(name) * _FIBONACCI & 0xFFFFFFFFFFFFFFFF) >> shift)


def _power_of_two(least: int) -> int:
    return 1 << max(least - 1, 0).bit_length()


@lru_cache(maxsize=65_536)  # the members of a group are put in order again at each change
def _spread_hash(name: str) -> int:
    unsigned = java_hash(name) & 0xFFFFFFFF
    return unsigned ^ unsigned >> 16
