"""Raw record batches to one Arrow batch, without a Python object per record.

Headers are walked in Python, a few per fetch; the records of all batches are then decoded together in numpy. Keys and
values stay where they lie: an Arrow array is laid over the raw bytes whose elements are, by turns, a value and what
lies between two values, and Arrow copies out every second element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barnabas.pipelines.spark.header_columns import header_column
from barnabas.pipelines.spark.schema import HEADERS, arrow_schema
from barnabas.pipelines.spark.varints import CorruptRecords, Positions, read_varints, record_starts, skip_varints
from barnabas.wire.batch import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_OFFSET,
    BatchHeader,
    batch_crc,
    read_header,
)
from barnabas.wire.compression import decompress

Raw = bytes | bytearray | memoryview


@dataclass(slots=True)
class RawBatch:
    position: int
    header: BatchHeader

    @property
    def next_offset(self) -> int:
        return self.header.last_offset + 1


def scan(data: Raw, name: str) -> list[RawBatch]:
    """The whole batches in `data`; what a broker cut off at the end is left out."""
    found: list[RawBatch] = []
    position, size = 0, len(data)
    while size - position > MAGIC_OFFSET:
        if data[position + MAGIC_OFFSET] != MAGIC:
            raise CorruptRecords(f"{name} holds messages in a format older than Kafka 0.11, which is not read here")
        if size - position < HEADER_BYTES:
            break
        header = read_header(data, position)
        if header.batch_length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
            raise CorruptRecords(f"{name} has a batch of {header.batch_length} bytes at offset {header.base_offset}")
        if position + header.size > size:
            break
        found.append(RawBatch(position, header))
        position += header.size
    return found


class Decoder:
    """Turns what was fetched of one partition into Arrow batches with the columns that are wanted."""

    def __init__(self, topic: str, partition: int, columns: Sequence[str], *, check_crcs: bool = True) -> None:
        self.name = f"{topic}-{partition}"
        self.columns = tuple(columns)
        self.schema = arrow_schema(columns)
        self._check_crcs = check_crcs
        self._constants = _Constants(topic, partition)

    def decode(self, data: Raw, batches: Sequence[RawBatch], start: int, end: int) -> pa.RecordBatch | None:
        """The records of `batches` from offset `start` up to before `end`; None if there are none."""
        batches = [
            batch
            for batch in batches
            if batch.header.records_count > 0 and batch.header.base_offset < end and batch.next_offset > start
        ]
        if not batches:
            return None
        if self._check_crcs:
            self._verify(data, batches)
        try:
            records = _Records(data, batches)
        except (CorruptRecords, IndexError) as error:
            first = batches[0].header.base_offset
            raise CorruptRecords(f"{self.name}: records from offset {first} on can't be read: {error}") from error
        if batches[0].header.base_offset < start or batches[-1].next_offset > end:
            records.trim(start, end)
        return self._arrow(records) if records.count else None

    def _verify(self, data: Raw, batches: Sequence[RawBatch]) -> None:
        for batch in batches:
            if batch_crc(data, batch.position, batch.header.size) != batch.header.crc:
                offset = batch.header.base_offset
                raise CorruptRecords(f"{self.name}: the batch at offset {offset} does not match its checksum")

    def _arrow(self, records: _Records) -> pa.RecordBatch:
        build: dict[str, Callable[[], pa.Array]] = {
            "key": lambda: _binary(records.data, records.key_starts, records.key_lengths),
            "value": lambda: _binary(records.data, records.value_starts, records.value_lengths),
            "topic": lambda: self._constants.topic(records.count),
            "partition": lambda: self._constants.partition(records.count),
            "offset": lambda: pa.array(records.offsets),
            "timestamp": lambda: _timestamps(records.timestamps_ms),
            "timestampType": lambda: self._constants.timestamp_type(records),
            HEADERS: lambda: header_column(records.data, records.view, records.header_starts),
        }
        arrays = [build[name]() for name in self.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


class _Records:
    """Arrays over the records of some batches, one element a record; only `offsets` may still be beyond the range."""

    def __init__(self, data: Raw, batches: Sequence[RawBatch]) -> None:
        self.batches = batches
        self.data, spans = _bodies(data, batches)
        self.view = np.frombuffer(self.data, np.uint8)
        counts = [batch.header.records_count for batch in batches]
        starts = [
            record_starts(self.data, self.view, begin, end, count)
            for (begin, end), count in zip(spans, counts, strict=True)
        ]
        self._counts = np.array(counts)
        self.count = int(self._counts.sum())
        begins = np.concatenate([of_batch[:-1] for of_batch in starts])
        ends = np.concatenate([of_batch[1:] for of_batch in starts])
        attributes = skip_varints(self.view, begins)
        self._timestamps_at = attributes + 1
        offsets_at = skip_varints(self.view, self._timestamps_at)
        deltas, keys_at = read_varints(self.view, offsets_at)
        self.offsets: Positions = deltas + np.repeat([batch.header.base_offset for batch in batches], self._counts)
        self.key_lengths, self.key_starts = read_varints(self.view, keys_at)
        values_at = self.key_starts + np.maximum(self.key_lengths, 0)
        self.value_lengths, self.value_starts = read_varints(self.view, values_at)
        self.header_starts = self.value_starts + np.maximum(self.value_lengths, 0)
        if (self.header_starts >= ends).any():
            raise CorruptRecords("a key or a value ends behind its record")
        self._kept = slice(0, self.count)

    def trim(self, start: int, end: int) -> None:
        first, behind = np.searchsorted(self.offsets, [start, end])
        self._kept = kept = slice(int(first), int(behind))
        self.count = int(behind) - int(first)
        self.offsets = self.offsets[kept]
        self.key_lengths, self.key_starts = self.key_lengths[kept], self.key_starts[kept]
        self.value_lengths, self.value_starts = self.value_lengths[kept], self.value_starts[kept]
        self.header_starts = self.header_starts[kept]

    @property
    def timestamps_ms(self) -> Positions:
        """The record's own, or the time of its append where the topic has it so."""
        deltas, _ = read_varints(self.view, self._timestamps_at)
        headers = [batch.header for batch in self.batches]
        by_append = [bool(header.attributes & LOG_APPEND_TIME_FLAG) for header in headers]
        bases = [
            header.max_timestamp if appended else header.base_timestamp
            for header, appended in zip(headers, by_append, strict=True)
        ]
        if any(by_append):
            deltas[np.repeat(by_append, self._counts)] = 0
        return (deltas + np.repeat(np.array(bases, np.int64), self._counts))[self._kept]

    @property
    def timestamp_types(self) -> npt.NDArray[np.int32]:
        types = [int(bool(batch.header.attributes & LOG_APPEND_TIME_FLAG)) for batch in self.batches]
        return np.repeat(np.array(types, np.int32), self._counts)[self._kept]


def _bodies(data: Raw, batches: Sequence[RawBatch]) -> tuple[Raw, list[tuple[int, int]]]:
    """One buffer with the records of all batches, and where each batch's begin and end in it."""
    if not any(batch.header.attributes & COMPRESSION_MASK for batch in batches):
        return data, [(batch.position + HEADER_BYTES, batch.position + batch.header.size) for batch in batches]
    view = memoryview(data)
    parts = [
        decompress(view[batch.position + HEADER_BYTES : batch.position + batch.header.size], batch.header.compression)
        for batch in batches
    ]
    behind = np.cumsum([len(part) for part in parts]).tolist()
    return b"".join(parts), list(zip([0, *behind[:-1]], behind, strict=True))


def _binary(data: Raw, starts: Positions, lengths: Positions) -> pa.Array:
    count = len(starts)
    if not count:
        return pa.array([], pa.binary())
    missing = lengths < 0
    any_missing = bool(missing.any())
    if any_missing and missing.all():
        return pa.nulls(count, pa.binary())
    edges = np.empty(2 * count + 1, np.int32)
    edges[0:-1:2] = starts
    np.add(starts, np.maximum(lengths, 0) if any_missing else lengths, out=edges[1::2], casting="unsafe")
    edges[-1] = edges[-2]
    laid_over = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(edges), pa.py_buffer(data)])
    taken = laid_over.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))
    if not any_missing:
        return taken
    validity = pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return pa.Array.from_buffers(pa.binary(), count, [validity, *taken.buffers()[1:]])


def _timestamps(milliseconds: Positions) -> pa.Array:
    return pa.Array.from_buffers(
        pa.timestamp("us", tz="UTC"), len(milliseconds), [None, pa.py_buffer(milliseconds * 1000)]
    )


class _Constants:
    """Columns that are the same in every row, made once as long as the longest batch and sliced."""

    def __init__(self, topic: str, partition: int) -> None:
        self._topic = topic.encode()
        self._partition = partition
        self._made: dict[str, Any] = {}

    def topic(self, count: int) -> pa.Array:
        return self._sliced("topic", count, self._topics)

    def partition(self, count: int) -> pa.Array:
        return self._sliced("partition", count, lambda rows: pa.array(np.full(rows, self._partition, np.int32)))

    def timestamp_type(self, records: _Records) -> pa.Array:
        if any(batch.header.attributes & LOG_APPEND_TIME_FLAG for batch in records.batches):
            return pa.array(records.timestamp_types)
        return self._sliced("timestampType", records.count, lambda rows: pa.array(np.zeros(rows, np.int32)))

    def _topics(self, rows: int) -> pa.Array:
        edges = np.arange(rows + 1, dtype=np.int32) * len(self._topic)
        return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(edges), pa.py_buffer(self._topic * rows)])

    def _sliced(self, name: str, count: int, make: Callable[[int], pa.Array]) -> pa.Array:
        made = self._made.get(name)
        if made is None or len(made) < count:
            made = self._made[name] = make(count)
        return made.slice(0, count)
