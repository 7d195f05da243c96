"""Raw batches become records: every codec, no markers, nothing aborted, and errors that say where."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.client.errors import UnreadableAnswer
from barnabas.client.fetcher import Fetched, offset_behind
from barnabas.client.records import ConsumerRecord, count, iterate_records
from barnabas.wire.batch import Record, build_batch
from barnabas.wire.compression import Compression

ABORT, COMMIT = 0, 1


def fetched(*batches: bytes | bytearray, offset: int = 0, aborted: tuple[tuple[int, int], ...] = ()) -> Fetched:
    records = b"".join(batches)
    return Fetched("t", 3, offset, offset_behind(records, offset), records, 100, 100, 0, aborted)


def batch(first: int, *values: bytes, producer: int = -1, compression: Compression = Compression.NONE) -> bytearray:
    records = [Record(first + index, 1000 + index, None, value) for index, value in enumerate(values)]
    state = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0} if producer >= 0 else {}
    return build_batch(records, compression=compression, transactional=producer >= 0, leader_epoch=5, **state)  # type: ignore[arg-type]


def marker(offset: int, kind: int, producer: int) -> bytearray:
    record = Record(offset, 1000, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0))
    return build_batch([record], producer_id=producer, producer_epoch=0, transactional=True, control=True)


def values(given: Fetched) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.value) for record in iterate_records(given)]


@pytest.mark.parametrize("compression", list(Compression))
def test_records_come_back_as_they_were_written(compression: Compression) -> None:
    written = [
        Record(7, 1000, b"k", b"v" * 1000, (("h", b"x"), ("none", None))),
        Record(8, 1001, None, None),
        Record(9, 999, b"", b""),
    ]
    read = list(iterate_records(fetched(build_batch(written, compression=compression, leader_epoch=5), offset=7)))
    assert read == [
        ConsumerRecord("t", 3, record.offset, record.timestamp, 0, record.key, record.value, list(record.headers), 5)
        for record in written
    ]


def test_what_lies_before_the_offset_asked_for_is_left_out() -> None:
    given = fetched(batch(10, b"a", b"b", b"c"), batch(13, b"d"), offset=12)
    assert values(given) == [(12, b"c"), (13, b"d")]
    assert (given.next_offset, count(given)) == (14, (2, 2))


def test_a_batch_that_was_cut_is_left_for_the_next_fetch() -> None:
    given = fetched(batch(0, b"a"), batch(1, b"b")[:-1])
    assert (values(given), given.next_offset) == ([(0, b"a")], 1)
    assert fetched(batch(5, b"b")[:-1], offset=5).next_offset == 5
    assert fetched(offset=5).next_offset == 5


def test_a_topics_own_time_is_told() -> None:
    appended = build_batch([Record(0, 1, None, b"a"), Record(1, 2, None, b"b")], log_append_time_ms=77)
    assert [(each.timestamp, each.timestamp_type) for each in iterate_records(fetched(appended))] == [(77, 1), (77, 1)]


def test_aborted_transactions_are_left_out_from_their_first_offset_to_their_marker() -> None:
    log = [
        batch(0, b"other"),
        batch(1, b"gone", producer=7),
        batch(2, b"kept", producer=8),
        marker(3, ABORT, 7),
        batch(4, b"again", producer=7),
        marker(5, COMMIT, 8),
        batch(6, b"gone too", producer=8),
        marker(7, COMMIT, 7),
        marker(8, ABORT, 8),
        batch(9, b"last", producer=8),
    ]
    visible = [(0, b"other"), (2, b"kept"), (4, b"again"), (9, b"last")]
    assert values(fetched(*log, aborted=((8, 6), (7, 1)))) == visible
    assert count(fetched(*log, aborted=((8, 6), (7, 1)))) == (4, 18)
    everything = [offset for offset, _ in values(fetched(*log))]
    assert everything == [0, 1, 2, 4, 6, 9], "markers are never seen, and without the list nothing else is missing"


def test_a_producer_that_is_not_transactional_is_not_touched_by_an_abort() -> None:
    plain = build_batch([Record(1, 1, None, b"plain")], producer_id=7, producer_epoch=0, base_sequence=0)
    assert values(fetched(plain, aborted=((7, 0),))) == [(1, b"plain")]


def test_damage_is_found_and_named() -> None:
    good = batch(4, b"abc")
    flipped = bytearray(good)
    flipped[-2] ^= 1
    with pytest.raises(UnreadableAnswer, match=r"^The batch at offset 4 of t-3 is corrupt: its checksum is wrong\.$"):
        values(fetched(flipped))
    old = bytearray(good)
    old[16] = 1
    with pytest.raises(UnreadableAnswer, match="t-3 holds records of the old format 1"):
        values(fetched(old))
    short = struct.pack(">qi", 4, 3) + good[12:]
    with pytest.raises(UnreadableAnswer, match="too short"):
        values(fetched(short))


@pytest.mark.parametrize(
    "read", [lambda given: list(iterate_records(given, check_crcs=False)), lambda given: count(given, check_crcs=False)]
)
def test_records_that_cannot_be_unpacked_are_named(read: object) -> None:
    noise = batch(4, b"abc" * 50, compression=Compression.ZSTD)
    noise[70:80] = bytes(10)
    cut = batch(4, b"abc")
    cut[61] = 0x7E  # longer than the batch
    for damaged in (noise, cut):
        with pytest.raises(UnreadableAnswer, match=r"^The batch at offset 4 of t-3 cannot be read: .*\.$"):
            read(fetched(damaged))  # type: ignore[operator]


@given(st.binary(max_size=300))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    try:
        list(iterate_records(fetched(data), check_crcs=False))
    except UnreadableAnswer:
        pass
