"""Columns of an Arrow batch as record batches, without a loop over the records.

A record is a row of small binary columns (varints, key, value, headers), and Arrow joins columns row by row: the bytes
behind the joined column are the records of all batches, one after the other. Rows come sorted by partition. Where rows
have no times of their own, the records of a call carry one timestamp, that of the batch.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from barnabas.pipelines.spark.sink.murmur2 import spans
from barnabas.wire.batch import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    assemble,
)
from barnabas.wire.compression import Compression, compress

Numbers = npt.NDArray[np.int64]

TABLE_END = 1 << 16  # numbers from -1 to here have their varint ready
ATTRIBUTES_AND_TIMESTAMP_DELTA = b"\0\0"
OFFSET_DELTA_BYTES_MAX = 4  # batches below 2^27 records
ATTRIBUTES = pa.scalar(b"\0", pa.binary())
TIMESTAMP_DELTA_BYTES_MAX = 10
RECORD_OVERHEAD_BYTES = 5 + 2 + OFFSET_DELTA_BYTES_MAX + 5 + 5 + 5  # the most that is around key, value and headers
NOTHING = pa.scalar(b"", pa.binary())
NO_HEADERS = pa.scalar(b"\0", pa.binary())


class Columns(NamedTuple):
    """Of the same length and of type binary; `headers` are encoded already, count in front, None for no headers."""

    key: pa.Array | None
    value: pa.Array
    headers: pa.Array | None

    def take(self, order: npt.NDArray[Any]) -> Columns:
        rows = pa.array(order)
        return Columns(*(None if column is None else column.take(rows) for column in self))


class Records(NamedTuple):
    """The uncompressed records of one batch to be."""

    rows: int
    payload: memoryview
    times_ms: tuple[int, int] | None = None  # of the first, and the latest, where records have times of their own


def encode_records(
    columns: Columns, ends: Numbers, batch_bytes: int, times_ms: Numbers | None = None
) -> Iterator[tuple[int, Records]]:
    """The batches of rows sorted by partition: (which partition, records). `ends` holds where each partition's end."""
    if len(columns.value) == 0:
        return
    sizes = field_bytes(columns.key) + field_bytes(columns.value) + field_bytes(columns.headers)
    overhead = RECORD_OVERHEAD_BYTES + (TIMESTAMP_DELTA_BYTES_MAX if times_ms is not None else 0)
    cuts = batch_cuts(sizes + overhead, ends, batch_bytes)
    starts = np.concatenate([np.zeros(1, np.int64), cuts[:-1]])
    in_front = deltas_of(cuts - starts) if times_ms is None else timed_deltas(times_ms, starts, cuts)
    joined = join_records(columns, in_front)
    latest = None if times_ms is None else np.maximum.reduceat(times_ms, starts)
    offsets, data = spans(joined)
    view = memoryview(data.data)
    owners = np.searchsorted(ends, starts, side="right")
    for number, (start, cut, owner) in enumerate(zip(starts.tolist(), cuts.tolist(), owners.tolist(), strict=True)):
        times = None if times_ms is None or latest is None else (int(times_ms[start]), int(latest[number]))
        yield owner, Records(cut - start, view[offsets[start] : offsets[cut]], times)


def batch_cuts(sizes: Numbers, ends: Numbers, batch_bytes: int) -> Numbers:
    """Where batches end: at the ends of partitions, and before a batch would outgrow its bytes."""
    running = np.cumsum(sizes)
    cuts: list[int] = []
    start = 0
    for end in np.unique(ends[ends > 0]).tolist():
        while start < end:
            before = int(running[start - 1]) if start else 0
            cut = int(np.searchsorted(running, before + batch_bytes, side="right"))
            start = min(max(cut, start + 1), end)
            cuts.append(start)
    return np.array(cuts, np.int64)


def deltas_of(batches: Numbers) -> pa.Array:
    """Of all records, given the number of records in each batch."""
    deltas = delta_table(1 << max(int(batches.max()) - 1, TABLE_END - 1).bit_length())
    return pa.concat_arrays([deltas.slice(0, records) for records in batches.tolist()])


def timed_deltas(times_ms: Numbers, starts: Numbers, cuts: Numbers) -> pa.Array:
    """The same where every record has its time: they count from the first of the batch, and may run backwards."""
    sizes = cuts - starts
    since_first = times_ms - np.repeat(times_ms[starts], sizes)
    offsets = np.arange(len(times_ms), dtype=np.int64) - np.repeat(starts, sizes)
    return join([ATTRIBUTES, build_varints(since_first, TIMESTAMP_DELTA_BYTES_MAX), varints(offsets)])


def join_records(columns: Columns, in_front: pa.Array) -> pa.Array:
    """`in_front` is what stands between a record's length and its key's."""
    count = len(columns.value)
    key_lengths, value_lengths = lengths_of(columns.key, count), lengths_of(columns.value, count)
    before_key, before_value = length_prefixes(key_lengths), length_prefixes(value_lengths)
    headers = NO_HEADERS if columns.headers is None else columns.headers
    key = () if columns.key is None else (columns.key,)
    parts = [in_front, before_key, *key, before_value, columns.value, headers]
    bodies = np.maximum(key_lengths, 0) + np.maximum(value_lengths, 0)
    for part in (in_front, before_key, before_value, headers):
        bodies += np.asarray(pc.binary_length(part)) if isinstance(part, pa.Array) else len(part.as_py())
    return join([length_prefixes(bodies), *parts])


def join(parts: list[Any]) -> pa.Array:
    joined = pc.binary_join_element_wise(*parts, NOTHING, null_handling="replace", null_replacement=b"")
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined


def encode_headers(headers: pa.Array) -> pa.Array:
    """A column of lists of (key, value) as each record's headers in bytes, count in front."""
    entries = headers.flatten()
    keys, values = entries.flatten()
    keys, values = keys.cast(pa.binary()), values.cast(pa.binary())
    if keys.null_count:
        raise ValueError("a header has no key, and headers must have one")
    encoded = join([varints(lengths_of(keys, len(keys))), keys, varints(lengths_of(values, len(values))), values])
    counts = np.asarray(pc.fill_null(pc.list_value_length(headers), 0), np.int64)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), encoded)
    return join([varints(counts), pc.binary_join(lists, NOTHING)])


def lengths_of(column: pa.Array | None, count: int) -> Numbers:
    """-1 for null, as the record says it."""
    if column is None:
        return np.full(count, -1, np.int64)
    return np.asarray(pc.fill_null(pc.binary_length(column), -1), np.int64)


def field_bytes(column: pa.Array | None) -> Any:
    return 0 if column is None else np.maximum(lengths_of(column, len(column)), 0)


def zigzag(numbers: Numbers) -> Numbers:
    return (numbers << 1) ^ (numbers >> 63)


def varint_bytes(numbers: Numbers, longest: int = 5) -> Numbers:
    coded = zigzag(numbers)
    sizes = np.ones(len(coded), np.int64)
    for byte in range(1, longest):
        sizes += coded >> 7 * byte > 0
    return sizes


def length_prefixes(lengths: Numbers) -> Any:
    """One for all where they are the same, which they often are."""
    if len(lengths) and lengths.min() == lengths.max():
        return varints(lengths[:1])[0]
    return varints(lengths)


@functools.cache
def delta_table(size: int) -> pa.Array:
    """What stands between a record's length and its key's: attributes, timestamp delta, offset delta."""
    prefix = pa.scalar(ATTRIBUTES_AND_TIMESTAMP_DELTA, pa.binary())
    return join([prefix, build_varints(np.arange(size, dtype=np.int64))])


def varints(numbers: Numbers) -> pa.Array:
    if len(numbers) and numbers.max() < TABLE_END:
        return varint_table().take(pa.array(numbers + 1))
    return build_varints(numbers)


@functools.cache
def varint_table() -> pa.Array:
    return build_varints(np.arange(-1, TABLE_END, dtype=np.int64))


def build_varints(numbers: Numbers, longest: int = 5) -> pa.Array:
    """Zigzag varints of at most five bytes, which is what lengths and deltas take, or of more."""
    coded = zigzag(numbers)
    sizes = varint_bytes(numbers, longest)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    data = np.zeros(int(offsets[-1]), np.uint8)
    for byte in range(int(sizes.max(initial=0))):
        rows = np.flatnonzero(sizes > byte)
        more = np.where(sizes[rows] > byte + 1, 0x80, 0)
        data[offsets[rows] + byte] = (coded[rows] >> 7 * byte & 0x7F) | more
    buffers = [None, pa.py_buffer(offsets.astype(np.int32).tobytes()), pa.py_buffer(data.tobytes())]
    return pa.Array.from_buffers(pa.binary(), len(numbers), buffers)


def record_batch(
    records: Records,
    *,
    timestamp_ms: int,
    compression: Compression,
    level: int | None,
) -> bytearray:
    """Without a producer: who sends it writes that into it."""
    first_ms, latest_ms = records.times_ms or (timestamp_ms, timestamp_ms)
    header = BatchHeader(
        base_offset=0,
        batch_length=0,
        leader_epoch=NO_LEADER_EPOCH,
        magic=2,
        crc=0,
        attributes=compression,
        last_offset_delta=records.rows - 1,
        base_timestamp=first_ms,
        max_timestamp=latest_ms,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        records_count=records.rows,
    )
    packed = records.payload if compression is Compression.NONE else compress(records.payload, compression, level)
    return assemble(header, packed)
