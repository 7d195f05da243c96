"""The order in which Confluent's registry tells differences: that of Java's hash tables, in which it keeps the names
and numbers of both schemas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

K = TypeVar("K", int, str)

CAPACITY_MIN = 16
LOAD_MAX = 0.75


def in_hash_order(old: Iterable[K], new: Iterable[K]) -> list[K]:
    """All that is in either, each once."""
    before = _table(list(old), CAPACITY_MIN)
    after = _table(list(new), CAPACITY_MIN)
    known = set(before)
    return _table(before + [each for each in after if each not in known], int(len(before) / LOAD_MAX) + 1)


def _table(keys: list[K], capacity_wanted: int) -> list[K]:
    """Keys of one bucket stay in the order in which they came, also when the table grows."""
    capacity = CAPACITY_MIN
    while capacity < capacity_wanted or len(keys) > LOAD_MAX * capacity:
        capacity *= 2
    return sorted(keys, key=lambda each: _spread(each) & (capacity - 1))


def _spread(key: int | str) -> int:
    value = key & 0xFFFFFFFF if isinstance(key, int) else _text_hash(key)
    return value ^ value >> 16


def _text_hash(text: str) -> int:
    value = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for unit in range(0, len(data), 2):
        value = (value * 31 + (data[unit] << 8 | data[unit + 1])) & 0xFFFFFFFF
    return value
