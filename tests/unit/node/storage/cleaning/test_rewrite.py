from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.node.storage.cleaning.offset_map import SLOT_BYTES
from barnabas.node.storage.cleaning.records import Uncleanable
from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.log_opening import create_log, open_log
from barnabas.node.storage.origin import Origin
from barnabas.node.storage.producer_state import MARKER_KEY, MARKER_VALUE
from barnabas.wire.batch import Record, build_batch, read_header
from barnabas.wire.compression import Compression
from tests.support.log_reading import iterate, offset_for_timestamp

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000

Read = Callable[[PartitionLog], list[Record]]


def append(log: PartitionLog, *pairs: tuple[str, str | None], timestamp: int = NOW_MS, **options: object) -> int:
    """One batch; returns its first offset."""
    records = [
        Record(i, timestamp + i, key.encode(), None if value is None else value.encode())
        for i, (key, value) in enumerate(pairs)
    ]
    batch = build_batch(records, **options)  # type: ignore[arg-type]
    return log.append(batch, leader_epoch=0, now_ms=NOW_MS).first_offset


def mark(log: PartitionLog, pid: int, *, commit: bool) -> int:
    record = Record(0, NOW_MS, MARKER_KEY.pack(0, int(commit)), MARKER_VALUE.pack(0, 0))
    batch = build_batch([record], producer_id=pid, producer_epoch=0, transactional=True, control=True)
    return log.append(batch, leader_epoch=0, now_ms=NOW_MS, origin=Origin.COORDINATOR).first_offset


def pairs(records: Sequence[Record]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(each.offset, each.key, each.value) for each in records]


def headers(log: PartitionLog) -> list[object]:
    return [read_header(batch) for batch in iterate(log)]


@pytest.fixture
def log(create) -> PartitionLog:
    made: PartitionLog = create(cleanup_policy=("compact",))
    return made


TABLE = ["K1", "K2", "K1", "K1", "K3", "K2", "K4", "K5", "K5", "K2", "K6"]


@pytest.mark.parametrize("records_per_batch", [1, 3, 11])
def test_the_table_of_the_slides(log, clean, records, records_per_batch: int) -> None:
    rows = [(key, f"V{number}") for number, key in enumerate(TABLE, start=1)]
    for at in range(0, len(rows), records_per_batch):
        append(log, *rows[at : at + records_per_batch])
    clean(log, NOW_MS)
    assert pairs(records(log)) == [
        (3, b"K1", b"V4"),
        (4, b"K3", b"V5"),
        (6, b"K4", b"V7"),
        (8, b"K5", b"V9"),
        (9, b"K2", b"V10"),
        (10, b"K6", b"V11"),
    ]
    assert (log.log_start_offset, log.log_end_offset) == (0, 11)


def test_a_batch_whose_records_all_stay_is_the_same_to_the_byte(log, clean) -> None:
    append(log, ("a", "1"), ("b", "1"), compression=Compression.GZIP)
    append(log, ("c", "1"))
    before = [bytes(batch) for batch in iterate(log)]
    clean(log, NOW_MS)
    assert [bytes(batch) for batch in iterate(log)] == before


@pytest.mark.parametrize("codec", list(Compression))
def test_what_stays_of_a_batch_keeps_its_place_its_times_and_its_codec(log, clean, records, codec) -> None:
    append(
        log, ("a", "1"), ("b", "1"), ("c", "1"), compression=codec, producer_id=7, producer_epoch=1, base_sequence=40
    )
    append(log, ("a", "2"), ("c", "2"))
    clean(log, NOW_MS)
    first = next(iter(iterate(log)))
    header = read_header(first)
    assert (header.base_offset, header.last_offset_delta, header.records_count) == (0, 2, 1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 40)
    assert header.compression == codec
    assert (header.base_timestamp, header.max_timestamp) == (NOW_MS, NOW_MS + 1)
    assert records(log)[0] == Record(1, NOW_MS + 1, b"b", b"1")


def test_log_append_time_stays(create, clean, records) -> None:
    log = create(cleanup_policy=("compact",), message_timestamp_type="LogAppendTime")
    append(log, ("a", "1"), ("b", "1"), timestamp=5)
    append(log, ("a", None), timestamp=5)
    clean(log, NOW_MS)
    assert [each.timestamp for each in records(log)] == [NOW_MS, NOW_MS]


def test_headers_and_large_records_survive(log, clean, records) -> None:
    big = Record(0, NOW_MS, b"k" * 9_000, b"v" * 70_000, (("trace", b"1"), ("empty", None)))
    small = Record(1, NOW_MS, b"gone", b"v")
    log.append(build_batch([big, small]), leader_epoch=0, now_ms=NOW_MS)
    append(log, ("gone", "2"))
    clean(log, NOW_MS)
    assert records(log)[0] == big


def test_a_record_without_a_key_goes(create, clean, records) -> None:
    """Which a topic may have from the time before it was compacted."""
    log = create()
    log.append(
        build_batch([Record(0, NOW_MS, None, b"v"), Record(1, NOW_MS, b"k", b"v")]), leader_epoch=0, now_ms=NOW_MS
    )
    clean(log, NOW_MS)
    assert pairs(records(log)) == [(1, b"k", b"v")]


def test_a_tombstone_stays_until_its_horizon_has_passed(log, clean, records) -> None:
    append(log, ("a", "1"), ("b", "1"))
    append(log, ("a", None), ("c", "1"))
    clean(log, NOW_MS)
    assert pairs(records(log)) == [(1, b"b", b"1"), (2, b"a", None), (3, b"c", b"1")]
    assert [read_header(batch).delete_horizon_ms for batch in iterate(log)] == [None, NOW_MS + DAY_MS]
    assert [each.timestamp for each in records(log)] == [NOW_MS + 1, NOW_MS, NOW_MS + 1]

    append(log, ("d", "1"))
    clean(log, NOW_MS + DAY_MS - 1)
    assert (2, b"a", None) in pairs(records(log))
    assert [read_header(batch).delete_horizon_ms for batch in iterate(log)][1] == NOW_MS + DAY_MS

    append(log, ("e", "1"))
    clean(log, NOW_MS + DAY_MS)
    assert [each.offset for each in records(log)] == [1, 3, 4, 5]
    assert read_header(list(iterate(log))[1]).max_timestamp == NOW_MS + 1


def test_a_tombstone_that_has_a_successor_goes_at_once(log, clean, records) -> None:
    append(log, ("a", None))
    append(log, ("a", "2"))
    clean(log, NOW_MS)
    assert pairs(records(log)) == [(1, b"a", b"2")]


def test_the_last_batch_of_a_producer_stays_though_it_is_empty(log, clean, reopen) -> None:
    append(log, ("a", "1"), producer_id=7, producer_epoch=0, base_sequence=0)
    append(log, ("a", "2"), ("b", "2"), producer_id=7, producer_epoch=0, base_sequence=1)
    append(log, ("a", "3"), ("b", "3"))
    clean(log, NOW_MS)
    empty, kept = (read_header(batch) for batch in iterate(log))
    assert (empty.base_offset, empty.last_offset, empty.records_count, empty.base_sequence) == (1, 2, 0, 1)
    assert kept.base_offset == 3
    log.close(clean=False)
    for snapshot in Path(log.directory).glob("*.snapshot"):
        snapshot.unlink()
    again = reopen(cleanup_policy=("compact",))
    assert again.producers.producers[7].last_sequence == 2
    again.close(clean=False)


def test_the_last_batch_of_the_cleaning_stays_though_it_is_empty(log, clean, records) -> None:
    append(log, ("a", "1"))
    log.append(build_batch([Record(0, NOW_MS, b"a", None)]), leader_epoch=0, now_ms=NOW_MS)
    clean(log, NOW_MS)
    append(log, ("b", "1"))
    log.roll(now_ms=NOW_MS)
    append(log, ("b", "2"))
    clean(log, NOW_MS + 2 * DAY_MS)
    assert pairs(records(log)) == [(3, b"b", b"2")]
    assert read_header(list(iterate(log))[-1]).last_offset == 3


def test_records_behind_what_the_table_could_take_wait_for_the_next_cleaning(log, clean, records) -> None:
    for number in range(200):
        append(log, (f"key-{number % 100}", f"value-{number}"))
    first = clean(log, NOW_MS, dedupe_buffer_bytes=24 * 41)
    assert 0 < first.end_offset <= 41
    passes = 1
    while log.first_dirty_offset < 200:
        clean(log, NOW_MS, dedupe_buffer_bytes=24 * 41)
        passes += 1
    assert passes > 3
    assert [each.offset for each in records(log)] == list(range(100, 200))


def test_a_table_that_does_not_take_one_batch_is_an_error_not_an_endless_loop(log, clean) -> None:
    append(log, *((f"key-{number}", "v") for number in range(50)))
    with pytest.raises(Uncleanable, match=r"log\.cleaner\.dedupe\.buffer\.size has to be raised"):
        clean(log, NOW_MS, dedupe_buffer_bytes=24 * 20)


def test_small_segments_become_one_with_indexes_that_find_everything(create, clean, records, reopen) -> None:
    log = create(cleanup_policy=("compact",), index_interval_bytes=100)
    for number in range(100):
        append(log, (f"key-{number % 30}", f"value-{number}"), timestamp=NOW_MS + number)
        if number % 10 == 9:
            log.roll(now_ms=NOW_MS)
    clean(log, NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 100]
    for offset in range(100):
        batch = log.read(offset, 1)
        assert read_header(batch).base_offset == max(offset, 70)
    found = offset_for_timestamp(log, NOW_MS + 85)
    assert found is not None
    assert found.offset == 85
    log.close(clean=True)
    again = reopen(clean=True)
    assert [each.offset for each in records(again)] == list(range(70, 100))
    again.close(clean=False)


def test_nothing_happens_to_a_damaged_log(log, clean) -> None:
    append(log, ("a", "1"))
    append(log, ("a", "2"))
    log.roll(now_ms=NOW_MS)
    path = Path(log.directory) / "00000000000000000000.log"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(Uncleanable, match="at position"):
        clean(log, NOW_MS)
    assert path.read_bytes() == content
    assert not list(Path(log.directory).glob("*.cleaned"))


# Transactions


def test_records_of_an_aborted_transaction_go_and_supersede_nothing(log, clean, records) -> None:
    append(log, ("a", "1"))
    append(log, ("a", "2"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    append(log, ("b", "2"), producer_id=8, producer_epoch=0, base_sequence=0, transactional=True)
    mark(log, 7, commit=False)
    mark(log, 8, commit=True)
    append(log, ("c", "1"))
    clean(log, NOW_MS)
    kept = [each for each in records(log) if len(each.key or b"") == 1]
    assert pairs(kept) == [(0, b"a", b"1"), (2, b"b", b"2"), (5, b"c", b"1")]
    # The marker has met records of its transaction, so it and its index entry are still there.
    assert [each.offset for each in records(log)] == [0, 2, 3, 4, 5]
    [aborted] = log.aborted_transactions(0, 6)
    assert (aborted.producer_id, aborted.first_offset, aborted.last_offset) == (7, 1, 3)


@pytest.mark.parametrize("damage", ["an abort is gone", "a commit is taken for an abort"])
def test_markers_that_contradict_the_index_leave_the_log_as_it_is(log, clean, records, damage: str) -> None:
    """Records of a lost abort would supersede what was committed, and be committed ones from then on."""
    append(log, ("a", "1"))
    for sequence, commit in enumerate((True, False)):
        append(log, ("a", "2"), producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True)
        mark(log, 7, commit=commit)
    before = pairs(records(log))
    index = log.active_segment.transactions
    [aborted] = index.entries()
    index.clear()
    if damage == "a commit is taken for an abort":
        index.append(aborted._replace(first_offset=1))
    with pytest.raises(Uncleanable, match="contradicts what the transaction indexes say of producer 7"):
        clean(log, NOW_MS)
    assert pairs(records(log)) == before


def test_a_marker_goes_when_its_records_are_gone_and_its_horizon_has_passed(log, clean, records) -> None:
    append(log, ("a", "1"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    mark(log, 7, commit=False)
    log.producers.producers.clear()  # long expired
    append(log, ("z", "1"))
    clean(log, NOW_MS)
    assert [each.offset for each in records(log)] == [1, 2]
    append(log, ("z", "2"))
    clean(log, NOW_MS)
    assert [read_header(batch).delete_horizon_ms for batch in iterate(log)] == [NOW_MS + DAY_MS, None]
    assert log.aborted_transactions(0, 4) == []
    append(log, ("z", "3"))
    clean(log, NOW_MS + DAY_MS)
    assert [each.offset for each in records(log)] == [4]


def test_a_marker_stays_empty_while_its_producer_is_remembered_by_nothing_else(log, clean) -> None:
    append(log, ("a", "1"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    mark(log, 7, commit=True)
    log.producers.producers[7].batches.clear()
    append(log, ("a", "2"))
    for later in range(3):
        append(log, ("b", str(later)))
        clean(log, NOW_MS + later * DAY_MS)
    header = read_header(next(iter(iterate(log))))
    assert (header.is_control, header.base_offset, header.records_count) == (True, 1, 0)


def test_an_aborted_transaction_of_the_clean_section_says_nothing_of_later_ones(log, clean, records) -> None:
    append(log, ("a", "1"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    mark(log, 7, commit=False)
    append(log, ("k", "1"))
    clean(log, NOW_MS)
    append(log, ("a", "2"), producer_id=7, producer_epoch=0, base_sequence=1, transactional=True)
    mark(log, 7, commit=True)
    append(log, ("a", "3"), producer_id=7, producer_epoch=0, base_sequence=2, transactional=True)
    mark(log, 7, commit=True)
    clean(log, NOW_MS)
    assert (5, b"a", b"3") in pairs(records(log))
    assert (3, b"a", b"2") not in pairs(records(log))


def test_nothing_of_an_open_transaction_is_cleaned(log, clean, dirt) -> None:
    append(log, ("a", "1"))
    log.roll(now_ms=NOW_MS)
    append(log, ("a", "2"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    log.roll(now_ms=NOW_MS)
    append(log, ("a", "3"))
    assert dirt(log, NOW_MS).first_uncleanable_offset == 1


# Any log at all, against a naive model

KEYS = st.sampled_from("abcdef")
VALUES = st.one_of(st.none(), st.text("xyz", max_size=3))
BATCHES = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=6)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), BATCHES, st.sampled_from(list(Compression))),
        st.tuples(st.just("roll")),
        # The small table has room for six keys, whatever the marks of dirty offsets take of it.
        st.tuples(st.just("clean"), st.integers(0, 30), st.sampled_from([SLOT_BYTES * 10, 1 << 20])),
    ),
    max_size=30,
)
RETENTION_MS = 20


class Model:
    """Every record ever written, and the delete horizon of those that a cleaning has passed."""

    def __init__(self) -> None:
        self.written: list[tuple[str, str | None]] = []
        self.horizons: list[int] = []
        self.cleaned_at_ms = NOW_MS

    def cleaned(self, end_offset: int, now_ms: int) -> None:
        self.horizons += [now_ms + RETENTION_MS] * (end_offset - len(self.horizons))
        self.cleaned_at_ms = now_ms

    def check(self, found: list[Record]) -> None:
        clean_until = len(self.horizons)
        latest = {key: offset for offset, (key, _) in enumerate(self.written)}
        latest_clean = {key: offset for offset, (key, _) in enumerate(self.written[:clean_until])}
        by_offset = {each.offset: each for each in found}
        assert list(by_offset) == sorted(by_offset), "in order"
        assert len(by_offset) == len(found), "once"
        for offset, each in by_offset.items():
            key, value = self.written[offset]
            assert (each.key, each.value) == (key.encode(), None if value is None else value.encode())
            assert each.timestamp == NOW_MS + offset
            assert offset >= clean_until or latest_clean[key] == offset, "superseded"
        for offset, (key, value) in enumerate(self.written):
            if offset >= clean_until:
                assert offset in by_offset, "not yet cleaned"
            elif latest[key] == offset:
                is_retired = value is None and self.cleaned_at_ms >= self.horizons[offset]
                assert (offset in by_offset) != is_retired, "the latest of its key"


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_any_log_keeps_the_latest_record_of_every_key_in_its_place(clean, records, steps) -> None:
    config = LogConfig(
        cleanup_policy=("compact",), delete_retention_ms=RETENTION_MS, segment_bytes=600, index_interval_bytes=150
    )
    model, now_ms = Model(), NOW_MS
    with TemporaryDirectory() as root, patch("os.fsync"):
        log = create_log(f"{root}/t-0", "t", 0, config, now_ms=NOW_MS)
        for step in steps:
            match step:
                case "append", rows, codec:
                    append(log, *rows, timestamp=NOW_MS + log.log_end_offset, compression=codec)
                    model.written += rows
                case ("roll",):
                    log.roll(now_ms=now_ms)
                case "clean", passed_ms, table_bytes:
                    now_ms += passed_ms
                    log.roll(now_ms=now_ms)
                    if (log.first_dirty_offset or 0) < log.log_end_offset:
                        model.cleaned(clean(log, now_ms, dedupe_buffer_bytes=table_bytes).end_offset, now_ms)
            model.check(records(log))
        log.close(clean=False)
        again = open_log(
            log.directory, "t", 0, config, clean=False, recovery_point=0, log_start_offset=0, now_ms=NOW_MS
        )
        assert again.log_end_offset == len(model.written)
        model.check(records(again))
        again.close(clean=False)
