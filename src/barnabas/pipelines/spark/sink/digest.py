"""How a replayed batch is told from the one that was committed: the number of its rows, and a hash that does not
depend on their order nor on how they were cut into Arrow batches.

A row's hash is a polynomial in its eight-byte words; all rows of a batch are summed with one table of powers, and what
a row's place in that table contributes is divided out (the base is odd, hence invertible modulo 2^64). Row hashes are
mixed and then added up, so digests of parts add up to the digest of the whole.
"""

from __future__ import annotations

import functools
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barnabas.pipelines.spark.sink.batches import Columns, field_bytes, join, lengths_of
from barnabas.pipelines.spark.sink.messages import Digest
from barnabas.pipelines.spark.sink.murmur2 import spans

Words = npt.NDArray[np.uint64]

BASE = 0x9E3779B97F4A7C15
WEIGHTS = [np.uint64(odd) for odd in (0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F)]
CHUNK_BYTES = 1 << 22
BLOCK_ROWS = 2048  # what is done at once of rows of one size stays in the processor's cache


def digest(columns: Columns, topics: Words, partitions: npt.NDArray[np.int64]) -> Digest:
    """`topics` holds a number for the topic of each row, `partitions` the partition asked for, -1 for none."""
    count = len(columns.value)
    sizes = field_bytes(columns.key) + field_bytes(columns.value) + field_bytes(columns.headers)
    running = np.cumsum(sizes)
    total = Digest()
    start = 0
    while start < count:
        before = int(running[start - 1]) if start else 0
        end = max(int(np.searchsorted(running, before + CHUNK_BYTES, side="right")), start + 1)
        part = Columns(*(None if column is None else column.slice(start, end - start) for column in columns))
        hashes = row_hashes(part, topics[start:end], partitions[start:end])
        total += Digest(end - start, int(hashes.sum(dtype=np.uint64)))
        start = end
    return total


def row_hashes(columns: Columns, topics: Words, partitions: npt.NDArray[np.int64]) -> Words:
    count = len(columns.value)
    contents = [column for column in columns if column is not None]
    with np.errstate(over="ignore"):
        hashes = polynomials(contents, count)
        fields: list[Any] = [lengths_of(columns.key, count), lengths_of(columns.value, count), partitions, topics]
        for field, weight in zip(fields, WEIGHTS, strict=True):
            hashes += field.astype(np.uint64) * weight
            hashes = mixed(hashes)
    return hashes


def polynomials(contents: list[pa.Array], count: int) -> Words:
    lengths = [lengths_of(column, count) for column in contents]
    if all(int(each.min()) == int(each.max()) >= 0 for each in lengths):
        return polynomials_of_equals(contents, [int(each[0]) for each in lengths], count)
    sizes = sum(np.maximum(each, 0) for each in lengths)
    padding = paddings().take(pa.array(-sizes & 7))
    offsets, data = spans(join([*contents, padding]))
    words = data[: int(offsets[-1])].view(np.uint64)
    places = offsets[:-1] >> 3
    hashes = np.zeros(count, np.uint64)
    filled = np.flatnonzero(sizes)
    if len(filled):
        powers, inverses = power_tables(len(words))
        hashes[filled] = np.add.reduceat(terms(words, powers[: len(words)]), places[filled]) * inverses[places[filled]]
    return hashes


def polynomials_of_equals(contents: list[pa.Array], lengths: list[int], count: int) -> Words:
    """Rows that are all of one size are a matrix, and one table of powers serves them all."""
    width = -(-sum(lengths) // 8)
    if not width:
        return np.zeros(count, np.uint64)
    # Powers begin with the first, as behind the division by that of a row's place.
    powers = np.concatenate([np.ones(1, np.uint64), power_tables(width)[0][: width - 1]])
    hashes = np.empty(count, np.uint64)
    for start in range(0, count, BLOCK_ROWS):
        rows = min(BLOCK_ROWS, count - start)
        matrix = np.zeros((rows, 8 * width), np.uint8)
        at = 0
        for column, length in zip(contents, lengths, strict=True):
            offsets, data = spans(column.slice(start, rows))
            matrix[:, at : at + length] = data[offsets[0] : offsets[-1]].reshape(rows, length)
            at += length
        hashes[start : start + rows] = terms(matrix.view(np.uint64), powers).sum(axis=1, dtype=np.uint64)
    return hashes


def terms(words: Words, powers: Words) -> Words:
    found = words >> np.uint64(29)
    found ^= words
    found *= powers
    return found


def mixed(hashes: Words) -> Words:
    hashes ^= hashes >> np.uint64(32)
    hashes *= np.uint64(BASE)
    hashes ^= hashes >> np.uint64(29)
    return hashes


def topic_number(topic: str) -> int:
    name = topic.encode()
    return zlib.crc32(name) << 32 | zlib.adler32(name)


@functools.cache
def paddings() -> pa.Array:
    return pa.array([b"\0" * count for count in range(8)], pa.binary())


_tables: list[tuple[Words, Words]] = []


def power_tables(count: int) -> tuple[Words, Words]:
    """Powers of the base and of its inverse, at least `count` of them."""
    if not _tables or len(_tables[0][0]) < count:
        size = max(1 << count.bit_length(), CHUNK_BYTES // 4)
        with np.errstate(over="ignore"):
            bases = (BASE, pow(BASE, -1, 1 << 64))
            powers, inverses = (np.cumprod(np.full(size, base, np.uint64), dtype=np.uint64) for base in bases)
        _tables[:] = [(powers, inverses)]
    return _tables[0]
