"""Which partition of an internal topic a key belongs to: Java's hash of the string, modulo."""

from __future__ import annotations

from functools import lru_cache

_INT_MIN = -(1 << 31)


def java_hash(text: str) -> int:
    """`String.hashCode`: over UTF-16 units, in 32 bits with a sign."""
    code = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(units), 2):
        code = (31 * code + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    return code - (1 << 32) if code >= 1 << 31 else code


@lru_cache(maxsize=4096)  # the same few groups ask again and again
def partition_for(key: str, partitions: int) -> int:
    code = java_hash(key)
    return (0 if code == _INT_MIN else abs(code)) % partitions
