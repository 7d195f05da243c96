from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from barnabas.pipelines.spark.option_values import OptionError
from barnabas.pipelines.spark.sink.columns import BadRow, Rows, chunks, rows_in
from barnabas.pipelines.spark.sink.messages import Digest
from barnabas.pipelines.spark.sink.rows import HEADERS_TYPE, RowRules
from barnabas.pipelines.spark.sink.writer import digest_of

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def rows_of_(rules: RowRules) -> Callable[[pa.RecordBatch], Rows]:
    return lambda batch: rows_in(batch, rules)


TYPES: dict[str, DataType] = {
    "string": StringType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "timestamp": TimestampType(),
    "map": MapType(StringType(), BinaryType()),
    "headers": HEADERS_TYPE,
}


def rules(columns: str, topic: str | None = "t") -> RowRules:
    pairs = [column.split() for column in columns.split(", ")]
    return RowRules.of(StructType([StructField(name, TYPES[kind]) for name, kind in pairs]), topic)


def batch(**columns: tuple[list[Any], pa.DataType]) -> pa.RecordBatch:
    arrays = {name: pa.array(values, kind) for name, (values, kind) in columns.items()}
    return pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays))


@pytest.mark.parametrize(
    ("columns", "topic", "sentence"),
    [
        ("key string", "t", "a column named 'value' is required and not among key"),
        ("value string", None, "where to write is not said: set the option topic, or give a column named 'topic'"),
        ("value int", "t", "column value must be of type string or binary, not int"),
        ("value string, key bigint", "t", "column key must be of type string or binary, not bigint"),
        ("value string, topic int", None, "column topic must be of type string, not int"),
        ("value string, partition bigint", "t", "column partition must be of type int, not bigint"),
        ("value string, headers map", "t", "column headers must be of type array<struct<key:string,"),
    ],
)
def test_columns_that_cannot_be_written_are_refused(columns: str, topic: str | None, sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        rules(columns, topic)


def test_other_columns_are_ignored_and_the_option_wins_over_the_topic_column() -> None:
    found = rules("value string, when timestamp, topic string, key binary")
    assert found == RowRules("t", ("key", "value"))
    rows = rows_of_(found)(batch(topic=(["x"], pa.string()), value=(["v"], pa.string()), key=([b"k"], pa.binary())))
    assert (rows.topics, rows.topic_of, rows.partition) == (["t"], None, None)
    assert rows.columns.value.to_pylist() == [b"v"]


def test_topics_come_from_the_column() -> None:
    found = rules("value string, topic string", None)
    rows = rows_of_(found)(batch(value=(["1", "2", "3"], pa.string()), topic=(["a", "b", "a"], pa.string())))
    assert rows.topics == ["a", "b"]
    assert rows.topic_of is not None
    assert rows.topic_of.tolist() == [0, 1, 0]


def test_a_row_without_a_topic_is_refused() -> None:
    with pytest.raises(BadRow, match="1 rows have no topic"):
        rows_of_(rules("value string, topic string", None))(
            batch(value=(["1"], pa.string()), topic=([None], pa.string()))
        )


def test_partitions_may_be_left_open_and_must_not_be_negative() -> None:
    found = rules("value string, partition int")
    rows = rows_of_(found)(batch(value=(["1", "2"], pa.string()), partition=([3, None], pa.int32())))
    assert rows.partition is not None
    assert rows.partition.tolist() == [3, -1]
    with pytest.raises(BadRow, match="asks for partition -2"):
        rows_of_(found)(batch(value=(["1"], pa.string()), partition=([-2], pa.int32())))


def test_a_column_may_have_the_times_of_records() -> None:
    schema = StructType([StructField("value", StringType()), StructField("at", TimestampType())])
    found = RowRules.of(schema, "t", "at")
    stamp = pa.timestamp("us", "UTC")
    rows = rows_of_(found)(batch(value=(["1", "2"], pa.string()), at=([5_999, None], stamp)))
    assert rows.times_ms is not None
    assert rows.times_ms.tolist() == [5, -1]
    assert rows_of_(found)(batch(value=(["1"], pa.string()), at=([None], stamp))).times_ms is None
    with pytest.raises(OptionError, match="timestampColumn is when, which is not among value, at"):
        RowRules.of(schema, "t", "when")
    with pytest.raises(OptionError, match="column value must be of type timestamp, not string"):
        RowRules.of(schema, "t", "value")


def test_headers_are_encoded_and_null_keys_are_no_keys() -> None:
    found = rules("value string, key string, headers headers")
    one = batch(
        value=(["v"], pa.string()), key=([None], pa.string()), headers=([[{"key": "h", "value": b"x"}]], HEADERS)
    )
    columns = rows_of_(found)(one).columns
    assert columns.key is None
    assert columns.headers.to_pylist() == [b"\x02\x02h\x02x"]
    with pytest.raises(BadRow, match="header has no key"):
        rows_of_(found)(
            batch(value=(["v"], pa.string()), key=([None], pa.string()), headers=([[{"key": None}]], HEADERS))
        )


def test_small_batches_are_put_together_and_empty_ones_left_out() -> None:
    small = [batch(value=([str(number)], pa.string())) for number in range(5)]
    empty = batch(value=([], pa.string()))
    (whole,) = chunks([empty, *small, empty])
    assert whole.column(0).to_pylist() == ["0", "1", "2", "3", "4"]
    large = batch(value=(["x" * 2_000_000], pa.string()))
    assert [one.num_rows for one in chunks([*small, large, small[0]])] == [6, 1]
    assert list(chunks([empty])) == []


def test_the_digest_of_rows_with_headers_does_not_depend_on_how_they_are_cut() -> None:
    found = rules("value string, headers headers")
    headers: list[Any] = [None, [], [{"key": "h", "value": b"x"}], None]
    whole = batch(value=(list("abcd"), pa.string()), headers=(headers, HEADERS))
    parts = [digest_of(rows_in(whole.slice(start, 1), found)) for start in range(4)]
    assert sum(parts, Digest()) == digest_of(rows_in(whole, found))
