from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.node.storage.cleaning.records import (
    Uncleanable,
    keys_by_runs,
    keys_of,
    keys_one_by_one,
    outline_by_runs,
    outline_one_by_one,
)
from barnabas.wire.batch import HEADER_BYTES, Record, build_batch, read_header
from barnabas.wire.compression import Compression


@pytest.mark.parametrize("codec", list(Compression))
def test_keys_from_an_offset_on_and_who_has_no_value(codec: Compression) -> None:
    records = [
        Record(70, 5, b"before", b"1"),
        Record(71, 5, b"a", b"2"),
        Record(72, 5, None, b"3"),
        Record(73, 5, b"b", None),
        Record(74, 5, b"", b"", (("h", b"v"),)),
    ]
    batch = build_batch(records, compression=codec)
    assert keys_of(b"xxx" + batch, 3, 71) == ([b"a", b"b", b""], [71, 73, 74], [73])


@pytest.mark.parametrize("at", range(0, 40, 3))
def test_records_that_make_no_sense_cannot_be_cleaned(at: int) -> None:
    batch = build_batch([Record(offset, 5, b"key", b"value") for offset in range(4)])
    assert read_header(batch).records_count == 4
    batch[HEADER_BYTES + at :] = b"\xff" * (len(batch) - HEADER_BYTES - at)
    with pytest.raises(Uncleanable):
        keys_of(batch, 0, 0)


# Records of a run look alike; between runs of them, offsets are left out, as compaction does.
RUNS = st.lists(
    st.tuples(
        st.integers(1, 300),
        st.sampled_from((None, 0, 1, 5, 70)),
        st.sampled_from((None, 0, 3, 200)),
        st.sampled_from((0, 1, 60, 9_000)),
        st.sampled_from((1, 2)),
    ),
    min_size=1,
    max_size=4,
)


@given(RUNS)
def test_keys_by_runs_are_those_of_the_records(runs: list[tuple[int, int | None, int | None, int, int]]) -> None:
    records: list[Record] = []
    offset = 1_000
    for count, key_bytes, value_bytes, hole, step in runs:
        offset += hole
        for number in range(count):
            key = None if key_bytes is None else b"%05d" % number * 20
            value = None if value_bytes is None else bytes(value_bytes)
            records.append(Record(offset, 5 + number, key if key is None else key[:key_bytes], value))
            offset += step
    batch = build_batch(records)
    header, payload = read_header(batch), bytes(batch[HEADER_BYTES:])
    found = keys_by_runs(payload, header)
    assert found == keys_one_by_one(payload, header)
    assert found.offsets == [record.offset for record in records if record.key is not None]
    assert outline_by_runs(payload, len(records)) == outline_one_by_one(payload, len(records))
