"""The Java client's hash of a key, for a whole column at once: records of one key land where every other client puts
them. Word by word over all keys that are long enough to have that word.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

SEED = np.uint32(0x9747B28C)
MULTIPLIER = np.uint32(0x5BD1E995)
POSITIVE = np.uint32(0x7FFFFFFF)

Hashes = npt.NDArray[np.uint32]


def murmur2(keys: pa.Array) -> Hashes:
    """Of binary keys; what stands for a null key means nothing."""
    offsets, data = spans(keys)
    starts, lengths = offsets[:-1], np.diff(offsets)
    with np.errstate(over="ignore"):
        hashes = SEED ^ lengths.astype(np.uint32)
        for word in range(int(lengths.max(initial=0)) >> 2):
            rows: Any = np.flatnonzero(lengths >= 4 * word + 4)
            if len(rows) == len(lengths):
                rows = slice(None)
            mixed = words_at(data, starts[rows] + 4 * word) * MULTIPLIER
            mixed ^= mixed >> np.uint32(24)
            hashes[rows] = hashes[rows] * MULTIPLIER ^ mixed * MULTIPLIER
        mix_tails(hashes, data, starts, lengths)
        hashes ^= hashes >> np.uint32(13)
        hashes *= MULTIPLIER
        hashes ^= hashes >> np.uint32(15)
    return hashes


def mix_tails(hashes: Hashes, data: npt.NDArray[np.uint8], starts: Any, lengths: Any) -> None:
    """The last one to three bytes of keys whose length is no multiple of four."""
    left = lengths & 3
    tails = starts + (lengths & ~3)
    for at in (2, 1, 0):
        rows = np.flatnonzero(left > at)
        hashes[rows] ^= data[tails[rows] + at].astype(np.uint32) << np.uint32(8 * at)
    rows = np.flatnonzero(left)
    hashes[rows] *= MULTIPLIER


def words_at(data: npt.NDArray[np.uint8], positions: Any) -> Hashes:
    word: Hashes = data[positions].astype(np.uint32)
    for byte in (1, 2, 3):
        word |= data[positions + byte].astype(np.uint32) << np.uint32(8 * byte)
    return word


def partitions_of(keys: pa.Array, partitions: int) -> npt.NDArray[np.int64]:
    return (murmur2(keys) & POSITIVE).astype(np.int64) % partitions


def spans(values: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Offsets and bytes of a binary column: value i is bytes[offsets[i]:offsets[i + 1]]."""
    _, offsets, data = values.buffers()
    wide = pa.types.is_large_binary(values.type) or pa.types.is_large_string(values.type)
    kind = np.int64 if wide else np.int32
    found = np.frombuffer(offsets, kind, len(values) + 1, offset=values.offset * np.dtype(kind).itemsize)
    return found.astype(np.int64), np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
