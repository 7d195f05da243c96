"""Which columns a sink takes and of which types, and an Arrow batch cut down to them.

As in the JVM connector: value is needed, key, topic, partition and headers may be there, others are ignored; strings
and bytes are keys and values; the option `topic` wins over the column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructField, StructType

from barnabas.pipelines.spark.option_values import OptionError
from barnabas.pipelines.spark.sink_batches import Columns, encode_headers

ANY_PARTITION = -1
HEADERS_TYPE = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


class BadRow(ValueError):
    """A row that cannot be written; the text says why."""


class Rows(NamedTuple):
    """`topics` are the names that occur, `topic_of` says for each row which; None for all the first."""

    columns: Columns
    topics: list[str]
    topic_of: npt.NDArray[np.int64] | None
    partition: npt.NDArray[np.int64] | None

    def __len__(self) -> int:
        return len(self.columns.value)


@dataclass(frozen=True, slots=True)
class RowRules:
    """Checked once on the driver, applied to every batch in the tasks."""

    topic: str | None
    columns: tuple[str, ...]

    @classmethod
    def of(cls, schema: StructType, topic: str | None) -> RowRules:
        types = {field.name: field.dataType for field in schema.fields}
        if topic is not None:
            types.pop("topic", None)
        if "value" not in types:
            raise OptionError(f"a column named 'value' is required and not among {', '.join(types) or 'no columns'}")
        if topic is None and "topic" not in types:
            raise OptionError("where to write is not said: set the option topic, or give a column named 'topic'")
        _check(types, "topic", "string", lambda kind: isinstance(kind, StringType))
        _check(types, "key", "string or binary", _is_text_or_bytes)
        _check(types, "value", "string or binary", _is_text_or_bytes)
        _check(types, "partition", "int", lambda kind: isinstance(kind, IntegerType))
        _check(types, "headers", "array<struct<key:string,value:binary>>", _is_headers)
        known = ("topic", "key", "value", "partition", "headers")
        return cls(topic, tuple(name for name in known if name in types))

    def apply(self, batch: pa.RecordBatch) -> Rows:
        found = {name: batch.column(batch.schema.get_field_index(name)) for name in self.columns}
        key = _binary(found["key"]) if "key" in found else None
        headers = found.get("headers")
        if headers is not None and headers.null_count < len(headers):
            try:
                encoded = encode_headers(headers)
            except ValueError as error:
                raise BadRow(str(error)) from None
        else:
            encoded = None
        if key is not None and key.null_count == len(key):
            key = None
        columns = Columns(key, _binary(found["value"]), encoded)
        topics, topic_of = self._topics(found.get("topic"))
        return Rows(columns, topics, topic_of, _partitions(found.get("partition")))

    def _topics(self, column: pa.Array | None) -> tuple[list[str], npt.NDArray[np.int64] | None]:
        if column is None:
            assert self.topic is not None
            return [self.topic], None
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


def _binary(column: pa.Array) -> pa.Array:
    return column if pa.types.is_binary(column.type) else column.cast(pa.binary())


def _check(types: dict[str, DataType], name: str, wanted: str, fits: Any) -> None:
    if name in types and not fits(types[name]):
        raise OptionError(f"column {name} must be of type {wanted}, not {types[name].simpleString()}")


def _is_text_or_bytes(kind: DataType) -> bool:
    return isinstance(kind, (StringType, BinaryType))


def _is_headers(kind: DataType) -> bool:
    return kind.simpleString() == HEADERS_TYPE.simpleString()
