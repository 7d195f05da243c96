"""Arrow against the plain reader of batches, for records of all shapes."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.pipelines.spark.decoding import Decoder, scan
from barnabas.pipelines.spark.schema import COLUMNS, HEADERS, arrow_schema
from barnabas.pipelines.spark.varints import CorruptRecords
from barnabas.wire.batch import LOG_APPEND_TIME_FLAG, Record, build_batch, decode_records, read_header
from barnabas.wire.compression import Compression

ALL = (*COLUMNS, HEADERS)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

texts = st.one_of(st.none(), st.binary(max_size=20), st.binary(min_size=60, max_size=200))
headers = st.lists(st.tuples(st.text(max_size=5), st.one_of(st.none(), st.binary(max_size=9))), max_size=3).map(tuple)
records = st.lists(st.tuples(texts, texts, headers, st.integers(0, 2**40)), min_size=1, max_size=80)


def batch(base: int, rows: list[tuple[Any, ...]], codec: Compression = Compression.NONE, gap: int = 1) -> bytes:
    made = [
        Record(base + index * gap, timestamp, key, value, found)
        for index, (key, value, found, timestamp) in enumerate(rows)
    ]
    return bytes(build_batch(made, base_offset=base, compression=codec))


def decoded(data: bytes, start: int = 0, end: int = 2**60, columns: tuple[str, ...] = ALL) -> list[dict[str, Any]]:
    found = Decoder("plant", 3, columns).decode(data, scan(data, "plant-3"), start, end)
    if found is None:
        return []
    found.validate(full=True)
    assert found.schema.equals(arrow_schema(columns))
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def expected(data: bytes, start: int = 0, end: int = 2**60) -> list[dict[str, Any]]:
    rows = []
    for one in scan(data, "plant-3"):
        for record in decode_records(data, one.position):
            if start <= record.offset < end:
                rows.append(
                    {
                        "key": record.key,
                        "value": record.value,
                        "topic": "plant",
                        "partition": 3,
                        "offset": record.offset,
                        "timestamp": EPOCH + dt.timedelta(milliseconds=record.timestamp),
                        "timestampType": int(one.header.is_log_append_time),
                        "headers": [{"key": key, "value": value} for key, value in record.headers] or None,
                    }
                )
    return rows


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(records, st.sampled_from(Compression), st.integers(1, 3)), min_size=1, max_size=4))
def test_rows_are_what_the_plain_reader_reads(batches: list[Any]) -> None:
    data, base = b"", 5
    for rows, codec, gap in batches:
        data += batch(base, rows, codec, gap)
        base += len(rows) * gap
    assert decoded(data) == expected(data)


@settings(max_examples=40, deadline=None)
@given(records, st.integers(0, 90), st.integers(0, 90))
def test_only_offsets_of_the_range_are_rows(rows: list[Any], start: int, end: int) -> None:
    data = batch(2, rows, gap=2) + batch(2 + 2 * len(rows), rows)
    end = max(start, end)  # no range ends before it begins
    assert decoded(data, start, end) == expected(data, start, end)


@pytest.mark.parametrize("sizes", [[92] * 9000, [1] * 70 + [300_000] + [5] * 70, [92, 93] * 500])
def test_runs_of_equal_records_are_found_and_left(sizes: list[int]) -> None:
    rows = [(b"%07d" % index, random.randbytes(size), (), index) for index, size in enumerate(sizes)]
    data = batch(0, rows)
    assert [row["value"] for row in decoded(data, columns=("value",))] == [value for _, value, _, _ in rows]
    assert [row["key"] for row in decoded(data, columns=("key",))] == [key for key, _, _, _ in rows]


def test_the_time_of_append_is_the_time_where_the_topic_has_it_so() -> None:
    data = bytearray(batch(0, [(None, b"a", (), 1000), (None, b"b", (), 5000)]))
    data[22] |= LOG_APPEND_TIME_FLAG
    found = Decoder("plant", 3, ALL, check_crcs=False).decode(data, scan(data, "plant-3"), 0, 9)
    assert isinstance(found, pa.RecordBatch)
    assert found.column("timestampType").to_pylist() == [1, 1]
    assert found.column("timestamp").to_pylist() == [EPOCH + dt.timedelta(seconds=5)] * 2


def test_a_batch_that_is_cut_off_waits_for_the_next_fetch() -> None:
    first, second = batch(0, [(None, b"a", (), 0)]), batch(1, [(None, b"b", (), 0)])
    for missing in range(1, len(second)):
        assert len(scan((first + second)[:-missing], "plant-3")) == 1


def test_damage_is_told_with_topic_partition_and_offset() -> None:
    data = bytearray(batch(7, [(b"key", b"value", (), 0)]))
    data[-3] ^= 1
    with pytest.raises(CorruptRecords, match="plant-3: the batch at offset 7 does not match its checksum"):
        decoded(bytes(data))
    data = bytearray(batch(7, [(b"key", b"value", (), 0)]))
    data[61] = 0x7E
    with pytest.raises(CorruptRecords, match="plant-3: records from offset 7 on can't be read"):
        Decoder("plant", 3, ALL, check_crcs=False).decode(data, scan(data, "plant-3"), 0, 99)
    data[16] = 1
    with pytest.raises(CorruptRecords, match=r"older than Kafka 0\.11"):
        scan(data, "plant-3")
    assert read_header(data).magic == 1
