from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipelines.spark.sink.batches import (
    Columns,
    Records,
    batch_cuts,
    build_varints,
    encode_headers,
    encode_records,
    record_batch,
    varints,
)
from barnabas.wire.batch import Record, decode_records, read_varint, validate
from barnabas.wire.compression import Compression

HEADER_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
keys = st.none() | st.binary(max_size=30)
headers = st.none() | st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3)
rows = st.lists(st.tuples(keys, keys, headers), min_size=1, max_size=40)


def batch_of(records: Records, compression: Compression = Compression.NONE) -> bytearray:
    return record_batch(
        records,
        timestamp_ms=1_700_000_000_000,
        compression=compression,
        level=None,
    )


@given(rows, st.sampled_from(Compression), st.booleans(), st.integers(30, 300))
def test_batches_read_back_are_the_rows(
    given_rows: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]] | None]],
    compression: Compression,
    with_headers: bool,
    batch_bytes: int,
) -> None:
    key, value, header = zip(*given_rows, strict=True)
    entries = pa.array(
        [None if row is None else [{"key": name, "value": content} for name, content in row] for row in header],
        HEADER_TYPE,
    )
    columns = Columns(
        pa.array(key, pa.binary()), pa.array(value, pa.binary()), encode_headers(entries) if with_headers else None
    )
    middle = len(given_rows) // 2
    found: dict[int, list[Record]] = {0: [], 1: []}
    for owner, records in encode_records(columns, np.array([middle, len(given_rows)]), batch_bytes):
        batch = batch_of(records, compression)
        head = validate(batch)
        assert (head.producer_id, head.producer_epoch, head.base_sequence) == (-1, -1, -1)
        assert not head.is_transactional
        decoded = decode_records(batch)
        assert [record.offset for record in decoded] == list(range(records.rows))
        found[owner] += decoded
    assert [(record.key, record.value, record.headers, record.timestamp) for record in found[0] + found[1]] == [
        (key, value, tuple(header or ()) if with_headers else (), 1_700_000_000_000)
        for key, value, header in given_rows
    ]
    assert len(found[0]) == middle


def test_rows_without_keys_need_no_key_column() -> None:
    columns = Columns(None, pa.array([b"a", b"b"], pa.binary()), None)
    ((owner, records),) = encode_records(columns, np.array([0, 0, 2]), 1 << 20)
    assert owner == 2
    assert [(record.key, record.value) for record in decode_records(batch_of(records))] == [(None, b"a"), (None, b"b")]


@given(st.lists(st.integers(0, 1 << 45), min_size=1, max_size=40), st.data())
def test_rows_may_have_times_of_their_own(times: list[int], data: st.DataObject) -> None:
    middle = data.draw(st.integers(0, len(times)))
    columns = Columns(None, pa.array([str(time).encode() for time in times], pa.binary()), None)
    found: list[Record] = []
    for _, records in encode_records(columns, np.array([middle, len(times)]), 120, np.array(times)):
        batch = batch_of(records)
        decoded = decode_records(batch)
        assert [record.offset for record in decoded] == list(range(records.rows))
        assert validate(batch).max_timestamp == max(record.timestamp for record in decoded)
        found += decoded
    assert [(record.timestamp, record.value) for record in found] == [(time, str(time).encode()) for time in times]


@given(st.lists(st.integers(1, 50), min_size=1), st.integers(1, 120))
def test_a_batch_holds_what_fits_and_at_least_one_record(sizes: list[int], batch_bytes: int) -> None:
    cuts = batch_cuts(np.array(sizes), np.array([len(sizes)]), batch_bytes).tolist()
    assert cuts[-1] == len(sizes)
    for start, end in zip([0, *cuts], cuts, strict=False):
        assert end - start == 1 or sum(sizes[start:end]) <= batch_bytes
        assert end == len(sizes) or sum(sizes[start : end + 1]) > batch_bytes


@pytest.mark.parametrize("edge", [0, 1 << 6, 1 << 13, 1 << 16, 1 << 20, 1 << 27, (1 << 31) - 2])
def test_varints_around_the_edges_of_their_lengths(edge: int) -> None:
    numbers = [edge - 1, edge, edge + 1]
    for build in (varints, build_varints):
        assert [read_varint(text, 0) for text in build(np.array(numbers)).to_pylist()] == [
            (number, len(text)) for number, text in zip(numbers, build(np.array(numbers)).to_pylist(), strict=True)
        ]


def test_a_header_without_a_key_is_refused() -> None:
    with pytest.raises(ValueError, match="header has no key"):
        encode_headers(pa.array([[{"key": None, "value": b"x"}]], HEADER_TYPE))
