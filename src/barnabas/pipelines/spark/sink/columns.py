"""Arrow batches as Spark gives them, cut down to the columns that become records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from barnabas.pipelines.spark.sink.batches import Columns, encode_headers
from barnabas.pipelines.spark.sink.rows import RowRules

ANY_PARTITION = -1
CHUNK_BYTES = 1 << 20  # smaller Arrow batches are put together first


class BadRow(ValueError):
    """A row that cannot be written; the text says why."""


class Rows(NamedTuple):
    """`topics` are the names that occur, `topic_of` says for each row which; None for all the first. `times_ms` are
    below 0 where a record gets the time of its writing, None for all."""

    columns: Columns
    topics: list[str]
    topic_of: npt.NDArray[np.int64] | None
    partition: npt.NDArray[np.int64] | None
    times_ms: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.columns.value)


def rows_of(batches: Iterable[pa.RecordBatch], rules: RowRules) -> Iterator[Rows]:
    for chunk in chunks(batches):
        yield rows_in(chunk, rules)


def chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches that are worth the work; none is empty."""
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            held_bytes += batch.nbytes
        if held_bytes >= CHUNK_BYTES:
            yield together(held)
            held, held_bytes = [], 0
    if held:
        yield together(held)


def together(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    (whole,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return whole


def rows_in(batch: pa.RecordBatch, rules: RowRules) -> Rows:
    found = {name: batch.column(batch.schema.get_field_index(name)) for name in rules.columns}
    key = _binary(found["key"]) if "key" in found else None
    try:
        given = found.get("headers")
        headers = None if given is None or given.null_count == len(given) else encode_headers(given)
    except ValueError as error:
        raise BadRow(str(error)) from None
    if key is not None and key.null_count == len(key):
        key = None
    columns = Columns(key, _binary(found["value"]), headers)
    topics, topic_of = _topics(found.get("topic"), rules)
    times = None if rules.times is None else _times(batch.column(batch.schema.get_field_index(rules.times)))
    return Rows(columns, topics, topic_of, _partitions(found.get("partition")), times)


def _topics(column: pa.Array | None, rules: RowRules) -> tuple[list[str], npt.NDArray[np.int64] | None]:
    if column is None:
        assert rules.topic is not None
        return [rules.topic], None
    if column.null_count:
        raise BadRow(f"{column.null_count} rows have no topic: fill the topic column, or set the option topic")
    coded = column.dictionary_encode()
    names = coded.dictionary.to_pylist()
    return names, None if len(names) == 1 else np.asarray(coded.indices, np.int64)


def _partitions(column: pa.Array | None) -> npt.NDArray[np.int64] | None:
    if column is None or column.null_count == len(column):
        return None
    partitions = np.asarray(pc.fill_null(column, ANY_PARTITION), np.int64)
    negative = np.flatnonzero((partitions < 0) & ~np.asarray(column.is_null(), bool))
    if len(negative):
        raise BadRow(f"a row asks for partition {int(partitions[negative[0]])}, and partitions are counted from 0")
    return partitions


def _times(column: pa.Array) -> npt.NDArray[np.int64] | None:
    if column.null_count == len(column):
        return None
    micros = np.asarray(pc.fill_null(column.cast(pa.timestamp("us", "UTC")).cast(pa.int64()), -1), np.int64)
    return micros // 1000


def _binary(column: pa.Array) -> pa.Array:
    return column if pa.types.is_binary(column.type) else column.cast(pa.binary())
