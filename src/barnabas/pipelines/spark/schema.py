"""The row of a record: the JVM Kafka connector's columns, as Spark's types and as Arrow's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
HEADERS = "headers"


def spark_schema(columns: Sequence[str]) -> StructType:
    from pyspark.sql import types

    header = types.StructType(
        [types.StructField("key", types.StringType()), types.StructField("value", types.BinaryType())]
    )
    kinds: dict[str, types.DataType] = {
        "key": types.BinaryType(),
        "value": types.BinaryType(),
        "topic": types.StringType(),
        "partition": types.IntegerType(),
        "offset": types.LongType(),
        "timestamp": types.TimestampType(),
        "timestampType": types.IntegerType(),
        HEADERS: types.ArrayType(header),
    }
    return types.StructType([types.StructField(name, kinds[name]) for name in columns])


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """Exactly what Spark expects of `spark_schema(columns)`: it compares names, types and nullability."""
    import pyarrow as pa

    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    kinds = {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestampType": pa.int32(),
        HEADERS: pa.list_(pa.field("element", header)),
    }
    return pa.schema([pa.field(name, kinds[name]) for name in columns])
