"""The order in which a Java `HashMap` hands out strings: by bucket, of a table that doubles at three quarters.

Assignors deal partitions out in this order. So a group whose members have the same names is assigned the same here and
in Kafka, and after a hand-over nothing moves.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from barnabas.core.coordinator.partitioning import java_hash

FIRST_CAPACITY = 16


def java_ordered(names: Iterable[str], expected: int | None = None) -> list[str]:
    """Names of one bucket keep the order in which they come. `expected` is the capacity that the map is made with."""
    listed = list(names)
    capacity = FIRST_CAPACITY if expected is None else _power_of_two(expected)
    while len(listed) > capacity * 3 // 4:
        capacity *= 2
    return sorted(listed, key=lambda name: _spread_hash(name) & (capacity - 1))


def _power_of_two(least: int) -> int:
    return 1 << max(least - 1, 0).bit_length()


@lru_cache(maxsize=65_536)  # the members of a group are put in order again at each change
def _spread_hash(name: str) -> int:
    unsigned = java_hash(name) & 0xFFFFFFFF
    return unsigned ^ unsigned >> 16
