"""Whether bytes are the records a header promises: what the quick walk accepts, the reader of records accepts too."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.wire import record_layout
from barnabas.wire.batch import HEADER_BYTES, Record, assemble, build_batch, decode_records, read_header
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.record_layout import Irregular, Shapes, check_layout

NOW_MS = 1_700_000_000_000


def payload_of(records: list[Record]) -> bytes:
    return bytes(build_batch(records, base_offset=0))[HEADER_BYTES:]


ONE = payload_of([Record(0, NOW_MS, None, None)])
data = st.none() | st.binary(max_size=20) | st.integers(0, 9000).map(bytes)
shapes = st.tuples(data, data, st.lists(st.tuples(st.text(max_size=3), data), max_size=2).map(tuple))


@st.composite
def runs_of_records(draw: st.DrawFn) -> list[Record]:
    """Some records of one shape, then some of another."""
    records: list[Record] = []
    for _ in range(draw(st.integers(1, 5))):
        key, value, headers = draw(shapes)
        delta_ms = draw(st.sampled_from([0, 1, 63, 64, 8_191, 8_192, 10**9, -5]))
        for _ in range(draw(st.integers(1, 90))):
            records.append(Record(len(records), NOW_MS + delta_ms, key, value, headers))
    return records


def begins_of(records: list[Record]) -> list[int]:
    """Where the records begin."""
    sizes = [len(payload_of(records[: count + 1])) for count in range(min(len(records) - 1, 3))]
    return [0, *sizes]


@given(runs_of_records())
def test_sound_records_are_accepted(records: list[Record]) -> None:
    widest = check_layout(payload_of(records), len(records))
    first = records[0].timestamp
    deltas = [record.timestamp - first for record in records]
    assert all(-(1 << (7 * widest - 1)) <= delta < 1 << (7 * widest - 1) for delta in deltas)


@given(shapes, st.data())
def test_a_single_record_is_accepted_as_one_of_many_would_be(shape: Any, drawn: st.DataObject) -> None:
    payload = bytearray(payload_of([Record(0, NOW_MS, *shape)]))
    assert check_layout(bytes(payload), 1) == 1
    payload[drawn.draw(st.integers(0, len(payload) - 1))] = drawn.draw(st.integers(0, 255))
    outcomes = []
    for check in (lambda: check_layout(bytes(payload), 1), lambda: check_layout(bytes(payload + ONE), 2)):
        try:
            check()
            outcomes.append(True)
        except KafkaError:
            outcomes.append(False)
    assert outcomes[0] <= outcomes[1]
    if outcomes[0]:
        header = read_header(build_batch([Record(0, NOW_MS, b"", b"")]))
        assert len(decode_records(assemble(header, payload))) == 1


@given(runs_of_records(), st.data())
def test_what_is_accepted_can_be_read(records: list[Record], drawn: st.DataObject) -> None:
    payload = bytearray(payload_of(records))
    at = drawn.draw(st.integers(0, len(payload) - 1))
    harm = drawn.draw(st.sampled_from(["set", "cut", "add", "count"]))
    count = len(records)
    if harm == "set":
        payload[at] = drawn.draw(st.integers(0, 255))
    elif harm == "cut":
        del payload[at]
    elif harm == "add":
        payload.insert(at, drawn.draw(st.integers(0, 255)))
    else:
        count += drawn.draw(st.sampled_from([-1, 1]))
    header = read_header(build_batch(records, base_offset=0))._replace(records_count=count)
    try:
        check_layout(bytes(payload), count)
    except (KafkaError, Irregular):
        return
    assert len(decode_records(assemble(header, payload))) == count


@given(runs_of_records(), st.data())
def test_a_known_shape_decides_as_a_look_at_every_record_does(records: list[Record], drawn: st.DataObject) -> None:
    payload = bytearray(payload_of(records))
    record_layout._shapes = Shapes()
    for _ in range(3):
        check_layout(bytes(payload), len(records))
    known = record_layout._shapes
    at = drawn.draw(st.integers(0, len(payload) - 1) | st.sampled_from(begins_of(records)))
    payload[at] = drawn.draw(st.integers(0, 255))
    outcomes = []
    for shapes_then in (known, Shapes()):
        record_layout._shapes = shapes_then
        try:
            outcomes.append(check_layout(bytes(payload), len(records), patience=1_000))
        except KafkaError as error:
            outcomes.append(error.code)
    assert outcomes[0] == outcomes[1]


def test_only_a_batch_of_the_very_same_shape_is_taken_for_one() -> None:
    records = [Record(at, NOW_MS, None, b"value") for at in range(100)]
    payload = payload_of(records)
    shapes_then = record_layout._shapes = Shapes()
    check_layout(payload, 100)
    assert shapes_then.get(100, len(payload)) is None
    check_layout(payload, 100)
    shape = shapes_then.get(100, len(payload))
    assert shape is not None
    assert shape.is_that_of(payload)
    other = payload_of([record._replace(value=b"other") for record in records])
    assert shape.is_that_of(other)
    span = len(payload_of(records[:1]))
    for at in range(len(payload)):
        changed = bytearray(payload)
        changed[at] ^= 0x80
        # Of the first run: a byte of attributes, then the value; of the second, an offset's delta has two bytes.
        begin, length = (at, span) if at < 64 * span else (at - 64 * span, span + 1)
        free = {1, *range(span - 6, span - 1)} if length == span else {1, *range(span - 5, span)}
        assert shape.is_that_of(bytes(changed)) is (begin % length in free)


def test_records_without_runs_are_left_to_the_compiled_reader() -> None:
    records = [Record(i, NOW_MS, None, bytes(i % 7)) for i in range(record_layout.PATIENCE + 1)]
    with pytest.raises(Irregular):
        check_layout(payload_of(records), len(records))
    assert check_layout(payload_of(records[:-1]), len(records) - 1) == 1


@pytest.mark.parametrize(
    "payload",
    [b"", b"\xff" * 20, bytes(20), b"\x0c\0\0\0\1\1", b"\x80\x80\x80\x80\x80\0", b"\1\0"],
    ids=["nothing", "noise", "zeros", "cut", "long varint", "negative length"],
)
def test_bytes_that_are_no_records_are_refused(payload: bytes) -> None:
    with pytest.raises(KafkaError) as refused:
        check_layout(payload, 1)
    assert refused.value.code is ErrorCode.INVALID_RECORD
