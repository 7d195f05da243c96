from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.wire import batch as batches
from barnabas.wire.batch import (
    Record,
    build_batch,
    decode_records,
    only_record,
    pack_batch,
    read_header,
    validate,
)
from barnabas.wire.compression import Compression, compress, decompress
from barnabas.wire.errors import ErrorCode, KafkaError

optional_bytes = st.none() | st.binary(max_size=40)
headers = st.lists(st.tuples(st.text(max_size=8), optional_bytes), max_size=3).map(tuple)
timestamps = st.integers(min_value=0, max_value=2**42)


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    first = draw(st.integers(min_value=0, max_value=2**60))
    count = draw(st.integers(min_value=1, max_value=12))
    return [
        Record(first + i, draw(timestamps), draw(optional_bytes), draw(optional_bytes), draw(headers))
        for i in range(count)
    ]


def outcome(attempt: Callable[[], object]) -> ErrorCode | None:
    try:
        attempt()
    except KafkaError as error:
        return error.code
    return None


@given(record_lists(), st.sampled_from(list(Compression)))
def test_what_is_built_is_read_back_by_both_readers(records: list[Record], compression: Compression) -> None:
    built = build_batch(records, compression=compression, producer_id=7, producer_epoch=2, base_sequence=5)
    header = validate(built)
    assert header.compression is compression
    assert (header.base_offset, header.last_offset) == (records[0].offset, records[-1].offset)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 5)
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert decode_records(built) == records
    compiled = batches.compiled_records(built)
    assert [
        Record(each.offset, each.timestamp, each.key, each.value, tuple(each.headers)) for each in compiled
    ] == records
    outlines = [(record.offset, record.timestamp, record.key is not None) for record in records]
    assert [tuple(outline) for outline in batches.outline_records(built)] == outlines


def test_a_batch_of_aiokafka_is_read_and_its_bytes_are_ours() -> None:
    from aiokafka.record.default_records import DefaultRecordBatchBuilder

    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 100_000)
    records = [Record(i, 1_700_000_000_000 + i, b"k%d" % i, b"v" * i, (("h", b"x"), ("n", None))) for i in range(50)]
    for record in records:
        builder.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
    theirs = builder.build()
    assert decode_records(theirs) == records
    ours = build_batch(records, leader_epoch=read_header(theirs).leader_epoch)
    assert ours == theirs


def test_stamping_offset_and_epoch_leaves_the_checksum_valid() -> None:
    buffer = bytearray(b"....") + build_batch([Record(0, 5, b"k", b"v"), Record(1, 6, b"k", b"v")])
    batches.stamp(memoryview(buffer), 4, base_offset=1_000, leader_epoch=9)
    header = validate(buffer, 4)
    assert (header.base_offset, header.last_offset, header.leader_epoch) == (1_000, 1_001, 9)
    assert [record.offset for record in decode_records(buffer, 4)] == [1_000, 1_001]


def test_log_append_time_is_every_record_s_time() -> None:
    batch = build_batch([Record(0, 5, None, b"a"), Record(1, 9, None, b"b")])
    batches.set_timestamp(batch, 0, max_timestamp=77, log_append_time=True)
    header = validate(batch)
    assert header.is_log_append_time
    assert (header.base_timestamp, header.max_timestamp) == (5, 77)
    assert [record.timestamp for record in decode_records(batch)] == [77, 77]
    assert [record.timestamp for record in batches.outline_records_fast(batch)] == [77, 77]
    batches.set_timestamp(batch, 0, max_timestamp=9, log_append_time=False)
    assert batch == build_batch([Record(0, 5, None, b"a"), Record(1, 9, None, b"b")])


def test_flags_and_delete_horizon_are_kept() -> None:
    batch = build_batch([Record(3, 50, b"k", None)], control=True, transactional=True, delete_horizon_ms=1_000)
    header = validate(batch)
    assert (header.is_control, header.is_transactional, header.delete_horizon_ms) == (True, True, 1_000)
    assert decode_records(batch)[0].timestamp == 50


@pytest.mark.parametrize("position", [0, 8, 16, 17, 21, 30, 57, 61, 70])
def test_a_flipped_bit_is_noticed_except_in_front_of_the_checksum(position: int) -> None:
    batch = build_batch([Record(0, 5, b"key", b"value")])
    batch[position] ^= 0x40
    if position < batches.LENGTH_OFFSET:
        validate(batch)
        return
    with pytest.raises(KafkaError) as refused:
        validate(batch)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


@given(st.binary(max_size=120))
def test_garbage_is_refused_and_never_raises_anything_else(garbage: bytes) -> None:
    with pytest.raises(KafkaError):
        validate(garbage)
    assert list(batches.iterate_batches(garbage)) == [] or len(garbage) >= 61


@given(st.binary(max_size=60), st.integers(min_value=0, max_value=2**31 - 1))
def test_records_that_lie_about_lengths_are_corrupt_not_a_crash(payload: bytes, count: int) -> None:
    header = read_header(build_batch([Record(0, 0, None, None)]))._replace(records_count=count)
    batch = batches.assemble(header, payload)
    for read in (decode_records, lambda it: list(batches.outline_records(it))):
        assert outcome(lambda: read(batch)) in (None, ErrorCode.CORRUPT_MESSAGE)  # noqa: B023


def test_count_and_offset_range_must_agree() -> None:
    header = read_header(build_batch([Record(0, 0, None, b"v")]))
    batch = batches.assemble(header._replace(records_count=3), b"\0" * 10)
    with pytest.raises(KafkaError) as refused:
        validate(batch)
    assert refused.value.code is ErrorCode.INVALID_RECORD


def test_a_torn_last_batch_is_not_iterated() -> None:
    whole = build_batch([Record(0, 1, None, b"a")]) + build_batch([Record(1, 1, None, b"b")])
    assert [position for position, _ in batches.iterate_batches(whole)] == [0, len(whole) // 2]
    assert [position for position, _ in batches.iterate_batches(whole[:-1])] == [0]


@pytest.mark.parametrize("source", list(Compression))
@pytest.mark.parametrize("target", list(Compression))
def test_recompression_keeps_records_and_header(source: Compression, target: Compression) -> None:
    records = [Record(i, 10 + i, b"key", b"value" * 50) for i in range(20)]
    again = batches.recompress(build_batch(records, compression=source, producer_id=4), 0, target)
    assert validate(again).compression is target
    assert read_header(again).producer_id == 4
    assert decode_records(again) == records


@pytest.mark.parametrize("codec", list(Compression)[1:])
def test_decompression_is_bounded(codec: Compression) -> None:
    packed = compress(bytes(5_000_000), codec)
    assert len(decompress(packed, codec)) == 5_000_000
    with pytest.raises(KafkaError) as refused:
        decompress(packed, codec, max_bytes=4_999_999)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", list(Compression)[1:])
@given(garbage=st.binary(min_size=1, max_size=80))
def test_garbage_does_not_decompress(codec: Compression, garbage: bytes) -> None:
    result = outcome(lambda: decompress(garbage, codec, max_bytes=1 << 20))
    assert result in (None, ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE)


def test_gzip_of_several_members_is_one_stream() -> None:
    packed = compress(b"abc", Compression.GZIP) + compress(b"def", Compression.GZIP)
    assert decompress(packed, Compression.GZIP) == b"abcdef"


def test_lz4_is_a_frame_of_independent_blocks_as_java_reads_it() -> None:
    magic, flags = struct.unpack_from("<IB", compress(bytes(100_000), Compression.LZ4))
    assert magic == 0x184D2204
    assert flags & 0x20


def test_sequences_wrap_at_the_greatest_int32() -> None:
    assert batches.add_to_sequence(5, 3) == 8
    assert batches.add_to_sequence(2**31 - 1, 1) == 0
    assert batches.add_to_sequence(2**31 - 3, 5) == 2


@pytest.mark.parametrize("key", [None, b"", b"k", b"k" * 63, b"k" * 64, b"k" * 300])
@pytest.mark.parametrize("value", [None, b"", b"v" * 64])
def test_the_only_record_of_a_batch_is_read_without_a_reader(key: bytes | None, value: bytes | None) -> None:
    built = bytes(b"before" + build_batch([Record(7, 5, key, value, (("a", b"b"),))], base_offset=7))
    assert only_record(built, 6, len(built) - 6) == (key, value)
    for size in (61, 62, 65):
        with pytest.raises(KafkaError):
            only_record(built, 6, size)


@given(st.lists(st.tuples(st.binary(max_size=200), st.none() | st.binary(max_size=200)), min_size=1, max_size=100))
def test_a_batch_packed_by_hand_is_the_one_that_is_built(records: list[tuple[bytes, bytes | None]]) -> None:
    packed, header = pack_batch(records, 1_700_000_000_000, base_offset=12, leader_epoch=3)
    listed = [Record(12 + index, 1_700_000_000_000, *record) for index, record in enumerate(records)]
    assert packed == build_batch(listed, leader_epoch=3)
    assert header == validate(packed)
