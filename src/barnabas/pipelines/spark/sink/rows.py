"""Which columns a sink takes, and of which types.

As in the JVM connector: value is needed, key, topic, partition and headers may be there, others are ignored; strings
and bytes are keys and values; the option `topic` wins over the column. The option `timestampColumn` names one with the
times of records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from barnabas.pipelines.spark.option_values import OptionError

HEADERS_TYPE = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


@dataclass(frozen=True, slots=True)
class RowRules:
    """The columns that are there, and the topic that wins over a topic column."""

    topic: str | None
    columns: tuple[str, ...]
    times: str | None = None

    @classmethod
    def of(cls, schema: StructType, topic: str | None, times: str | None = None) -> RowRules:
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
        if times is not None and times not in types:
            raise OptionError(f"timestampColumn is {times}, which is not among {', '.join(types)}")
        if times is not None:
            _check(types, times, "timestamp", lambda kind: isinstance(kind, TimestampType))
        known = ("topic", "key", "value", "partition", "headers")
        return cls(topic, tuple(name for name in known if name in types), times)


def _check(types: dict[str, DataType], name: str, wanted: str, fits: Any) -> None:
    if name in types and not fits(types[name]):
        raise OptionError(f"column {name} must be of type {wanted}, not {types[name].simpleString()}")


def _is_text_or_bytes(kind: DataType) -> bool:
    return isinstance(kind, (StringType, BinaryType))


def _is_headers(kind: DataType) -> bool:
    return kind.simpleString() == HEADERS_TYPE.simpleString()
