from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.node.storage.cleaning.records import emptied
from barnabas.node.storage.directory.files import FileRange
from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.log_opening import create_log, open_log
from barnabas.node.storage.origin import Origin
from barnabas.node.storage.segment import segment as segment_module
from barnabas.node.storage.segment.segments import NotFoundYet
from barnabas.wire.batch import BatchHeader, Record, build_batch, decode_records, iterate_batches, read_header
from barnabas.wire.errors import ErrorCode, KafkaError
from tests.support.log_reading import iterate, max_timestamp, offset_for_timestamp

NOW_MS = 1_700_000_000_000
Create = Callable[..., PartitionLog]
Build = Callable[..., bytearray]


def append(log: PartitionLog, batch: bytes | bytearray | memoryview, *, epoch: int = 0, now_ms: int = NOW_MS) -> int:
    return log.append(batch, leader_epoch=epoch, now_ms=now_ms).first_offset


def headers(data: bytes) -> list[BatchHeader]:
    found = list(iterate_batches(data))
    assert sum(header.size for _, header in found) == len(data), "only whole batches"
    return [header for _, header in found]


def test_offsets_and_epoch_are_written_into_a_writable_buffer(create: Create, batch: Build) -> None:
    log = create()
    buffer = batch(3)
    result = log.append(memoryview(buffer), leader_epoch=5, now_ms=NOW_MS)
    assert (result.first_offset, result.last_offset, result.log_append_time_ms) == (0, 2, -1)
    second = batch(2)
    assert append(log, second, epoch=5) == 3
    assert (read_header(second).base_offset, read_header(second).leader_epoch) == (3, 5)
    assert log.read(0, 1 << 20) == bytes(buffer + second)


def test_a_read_only_buffer_gives_the_same_bytes_on_disk(create: Create, batch: Build) -> None:
    log = create()
    for _ in range(3):
        append(log, bytes(batch(4)), epoch=2)
    assert [(h.base_offset, h.leader_epoch) for h in headers(log.read(0, 1 << 20))] == [(0, 2), (4, 2), (8, 2)]
    assert [r.offset for r in decode_records(log.read(5, 1))] == [4, 5, 6, 7]


def test_reads_outside_the_log_are_out_of_range_and_at_its_end_empty(create: Create, batch: Build) -> None:
    log = create()
    append(log, batch(5))
    assert log.read(5, 100) == b""
    for offset in (-1, 6):
        with pytest.raises(KafkaError) as refused:
            log.read(offset, 100)
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_at_least_one_batch_is_read_if_asked_for(create: Create, batch: Build) -> None:
    log = create()
    first = len(batch(10, value=b"x" * 500))
    for _ in range(3):
        append(log, batch(10, value=b"x" * 500))
    assert len(log.read(0, 10)) == first
    assert log.read(0, 10, min_one_batch=False) == b""
    assert len(log.read(0, first + 1)) == first
    assert len(log.read(0, 2 * first)) == 2 * first


def test_what_is_fetched_beyond_the_eager_bytes_stays_in_the_file(create: Create, batch: Build) -> None:
    log = create()
    for _ in range(3):
        append(log, batch(2))
    whole = log.read(0, 1 << 20)
    size = len(whole)
    lazy = log.fetch(0, 1 << 20, upper_bound_offset=6, min_one_batch=True, eager_bytes=size - 1)
    assert isinstance(lazy, FileRange)
    assert lazy.read(0, len(lazy)) == whole
    assert log.fetch(0, 1 << 20, upper_bound_offset=6, min_one_batch=True, eager_bytes=size) == whole
    assert log.fetch(6, 1 << 20, upper_bound_offset=6, min_one_batch=True, eager_bytes=0) == b""


def test_what_is_still_being_sent_does_not_change_when_the_log_is_truncated(create: Create, batch: Build) -> None:
    log = create()
    for _ in range(3):
        append(log, batch(2))
    being_sent = log.fetch(0, 1 << 20, upper_bound_offset=6, min_one_batch=True, eager_bytes=0)
    committed = log.fetch(0, 1 << 20, upper_bound_offset=4, min_one_batch=True, eager_bytes=0)
    assert isinstance(being_sent, FileRange)
    assert isinstance(committed, FileRange)
    kept = log.read(0, 1 << 20, upper_bound_offset=4)
    log.truncate_to(4)
    append(log, batch(2, value=b"another"))
    assert committed.read(0, len(committed)) == kept
    with pytest.raises(OSError, match="truncated meanwhile"):
        being_sent.read(0, len(being_sent))


def test_nothing_at_or_past_the_upper_bound_is_read(create: Create, batch: Build) -> None:
    log = create()
    for _ in range(4):
        append(log, batch(5))
    assert [h.base_offset for h in headers(log.read(0, 1 << 20, upper_bound_offset=10))] == [0, 5]
    assert [h.base_offset for h in headers(log.read(0, 1 << 20, upper_bound_offset=12))] == [0, 5]
    assert log.read(10, 1 << 20, upper_bound_offset=10) == b""
    assert log.read(0, 1, upper_bound_offset=3) == b""


batch_shapes = st.lists(st.tuples(st.integers(1, 8), st.integers(0, 700), st.integers(0, 50)), min_size=1, max_size=80)


@settings(max_examples=60, deadline=None)
@given(
    batch_shapes,
    st.sampled_from([1_000, 4_000, 30_000, 1 << 20]),
    st.sampled_from([0, 200, 4096]),
    st.integers(0, 2**32),
)
def test_reads_and_lookups_agree_with_a_naive_scan(
    shapes: list[tuple[int, int, int]], segment_bytes: int, interval: int, seed: int
) -> None:
    random_source = random.Random(seed)
    ring, segment_module.RING_BATCHES = segment_module.RING_BATCHES, 4
    try:
        with tempfile.TemporaryDirectory() as root:
            config = LogConfig(segment_bytes=max(segment_bytes, 900), index_interval_bytes=interval)
            log = create_log(f"{root}/t-0", "t", 0, config, now_ms=0)
            naive = fill(log, shapes)
            check_against(log, naive, random_source)
            log.close(clean=True)
            again = open_log(f"{root}/t-0", "t", 0, config, clean=True, recovery_point=0, log_start_offset=0, now_ms=0)
            check_against(again, naive, random_source)
            again.close(clean=False)
    finally:
        segment_module.RING_BATCHES = ring


def fill(log: PartitionLog, shapes: list[tuple[int, int, int]]) -> list[BatchHeader]:
    naive, timestamp = [], 1_000
    for count, size, step in shapes:
        timestamp += step - 10
        built = build_batch([Record(i, max(timestamp, 0) + i, None, b"v" * (size // count)) for i in range(count)])
        log.append(built, leader_epoch=1, now_ms=NOW_MS)
        naive.append(read_header(built))
    return naive


def check_against(log: PartitionLog, naive: list[BatchHeader], random_source: random.Random) -> None:
    end = naive[-1].last_offset + 1
    assert log.log_end_offset == end
    for _ in range(15):
        offset, bound = random_source.randrange(end), random_source.randrange(end + 1)
        max_bytes = random_source.choice([1, 150, 700, 3_000, 1 << 20])
        expected = [h for h in naive if h.last_offset >= offset and h.last_offset < bound]
        found = headers(log.read(offset, max_bytes, upper_bound_offset=bound))
        assert found == expected[: len(found)]
        assert bool(found) == bool(expected)
        assert len(found) <= 1 or sum(h.size for h in found) <= max_bytes
        if found and len(found) < len(expected):
            following = expected[len(found)]
            at_segment_end = any(segment.base_offset == following.base_offset for segment in log.segments)
            assert at_segment_end or sum(h.size for h in found) + following.size > max_bytes
    records = [(h.base_timestamp + i, h.base_offset + i) for h in naive for i in range(h.records_count)]
    for timestamp in {random_source.choice(records)[0] + step for step in (0, 1)}:
        expected_record = next((r for r in records if r[0] >= timestamp), None)
        found_record = offset_for_timestamp(log, timestamp)
        assert (found_record and tuple(found_record[:2])) == expected_record
    greatest = max(record[0] for record in records)
    found_max = max_timestamp(log)
    assert found_max is not None
    assert found_max[:2] == next(r for r in records if r[0] == greatest)


def test_segments_roll_by_size_and_a_read_goes_on_in_the_next(create: Create, batch: Build) -> None:
    size = len(batch(10))
    log = create(segment_bytes=3 * size)
    for _ in range(10):
        append(log, batch(10))
    assert [segment.base_offset for segment in log.segments] == [0, 30, 60, 90]
    assert [h.base_offset for h in headers(log.read(20, 1 << 20))] == [20]
    assert [h.base_offset for h in headers(log.read(30, 1 << 20))] == [30, 40, 50]
    assert log.size_bytes == 10 * size


def test_segments_roll_by_the_time_of_their_batches(create: Create, batch: Build) -> None:
    log = create(segment_ms=1_000)
    append(log, batch(timestamp=NOW_MS))
    append(log, batch(timestamp=NOW_MS + 1_000))
    assert len(log.segments) == 1
    append(log, batch(timestamp=NOW_MS + 1_001))
    assert len(log.segments) == 2


def test_segments_without_timestamps_roll_by_the_clock(create: Create, batch: Build) -> None:
    log = create(segment_ms=1_000)
    append(log, batch(timestamp=-1))
    append(log, batch(timestamp=-1), now_ms=NOW_MS + 1_000)
    assert len(log.segments) == 1
    append(log, batch(timestamp=-1), now_ms=NOW_MS + 1_001)
    assert len(log.segments) == 2


def test_jitter_rolls_earlier_but_never_after_segment_ms(create: Create, batch: Build) -> None:
    log = create(segment_ms=1_000, segment_jitter_ms=900)
    assert 0 <= log.active_segment.roll_jitter_ms < 900


def test_segments_roll_when_their_index_is_full(create: Create, batch: Build) -> None:
    log = create(index_interval_bytes=0, segment_index_bytes=40)
    for i in range(12):
        append(log, batch(timestamp=NOW_MS + i))
    assert len(log.segments) > 2
    assert max(segment.time_index.entries for segment in log.segments) <= 3


def test_segments_roll_before_relative_offsets_overflow(create: Create) -> None:
    log = create()
    log.append_as_follower(build_batch([Record(0, NOW_MS, b"k", b"v")]), now_ms=NOW_MS)
    log.append_as_follower(build_batch([Record(2**31 - 1, NOW_MS, b"k", b"v")]), now_ms=NOW_MS)
    log.append_as_follower(build_batch([Record(2**31, NOW_MS, b"k", b"v")]), now_ms=NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 2**31]
    assert [h.base_offset for h in headers(log.read(1, 1 << 20))] == [2**31 - 1]


def test_a_changed_configuration_holds_from_the_next_append_on(create: Create, batch: Build) -> None:
    log = create()
    append(log, batch(10))
    log.config = LogConfig(segment_bytes=len(batch(10)) + 10)
    append(log, batch(10))
    assert len(log.segments) == 2
    log.config = LogConfig(max_message_bytes=100)
    with pytest.raises(KafkaError) as refused:
        append(log, batch(10))
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_larger_than_a_segment_is_refused(create: Create, batch: Build) -> None:
    log = create(segment_bytes=100)
    with pytest.raises(KafkaError) as refused:
        append(log, batch(10))
    assert refused.value.code is ErrorCode.RECORD_LIST_TOO_LARGE


def test_replicated_batches_keep_their_offsets_and_epochs_and_a_cut_off_one_is_left_out(
    create: Create, batch: Build
) -> None:
    leader_bytes = b"".join(
        bytes(build_batch([Record(offset, NOW_MS, b"k", b"v")], leader_epoch=epoch))
        for offset, epoch in ((5, 1), (9, 1), (10, 4))
    )
    log = create()
    result = log.append(leader_bytes + leader_bytes[:40], leader_epoch=-1, now_ms=NOW_MS, origin=Origin.REPLICATION)
    assert (result.first_offset, result.last_offset) == (5, 10)
    assert log.read(7, 1 << 20) == leader_bytes[len(leader_bytes) // 3 :]
    assert log.epochs.entries() == [(1, 5), (4, 10)]
    with pytest.raises(KafkaError):
        log.append_as_follower(leader_bytes, now_ms=NOW_MS)


def test_the_metadata_log_takes_control_batches_and_several_at_once(create: Create, batch: Build) -> None:
    log = create()
    append(log, batch())
    both = batch(2, control=True) + batch(3)
    result = log.append(both, leader_epoch=7, now_ms=NOW_MS, origin=Origin.QUORUM)
    assert (result.first_offset, result.last_offset) == (1, 5)
    assert [(h.base_offset, h.leader_epoch) for h in headers(log.read(1, 1 << 20))] == [(1, 7), (3, 7)]


def test_truncation_forgets_batches_epochs_and_producers_behind_the_offset(create: Create, batch: Build) -> None:
    log = create(segment_bytes=3 * len(batch(10)))
    for i in range(10):
        append(log, batch(10, pid=1, sequence=10 * i), epoch=i // 4)
    assert log.truncate_to(45)
    assert log.log_end_offset == 45
    assert [h.base_offset for h in headers(log.read(30, 1 << 20))] == [30]
    assert log.epochs.entries() == [(0, 0), (1, 40)]
    assert [producer.last_sequence for producer in log.active_producers()] == [39]
    assert append(log, batch(5), epoch=3) == 45
    assert log.end_offset_for_epoch(1) == (1, 45)
    assert not log.truncate_to(50)


def test_truncation_below_the_first_segment_starts_anew_there(create: Create, batch: Build, directory: Path) -> None:
    log = create(segment_bytes=3 * len(batch(10)), file_delete_delay_ms=0)
    for _ in range(10):
        append(log, batch(10), epoch=1)
    log.advance_log_start_offset(65)
    log.truncate_to(20)
    assert (log.log_start_offset, log.log_end_offset, log.epochs.entries()) == (20, 20, [])
    assert append(log, batch(2)) == 20
    assert sorted(path.name for path in directory.glob("*.log")) == ["00000000000000000020.log"]


def test_a_log_can_start_anew_at_any_offset(create: Create, batch: Build) -> None:
    log = create()
    append(log, batch(10, pid=4), epoch=1)
    log.truncate_fully_and_start_at(1_000)
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (1_000, 1_000, 1_000)
    assert log.active_producers() == []
    assert append(log, batch(2)) == 1_000


def test_deleting_records_moves_the_start_and_removes_whole_segments(
    create: Create, batch: Build, directory: Path
) -> None:
    log = create(segment_bytes=3 * len(batch(10)))
    for i in range(10):
        append(log, batch(10), epoch=i // 5)
    assert log.advance_log_start_offset(65)
    assert log.log_start_offset == 65
    assert [segment.base_offset for segment in log.segments] == [60, 90]
    assert log.epochs.entries() == [(1, 65)]
    assert log.earliest() == (-1, 65, 1)
    assert [h.base_offset for h in headers(log.read(65, 1 << 20))] == [60, 70, 80]
    with pytest.raises(KafkaError):
        log.read(64, 100)
    assert not log.advance_log_start_offset(10)
    with pytest.raises(KafkaError):
        log.advance_log_start_offset(101)
    assert log.advance_log_start_offset(100)
    assert log.read(100, 100) == b""
    assert list(directory.glob("*.deleted")) == []


def test_offsets_by_time_carry_epoch_and_the_record_s_own_timestamp(create: Create) -> None:
    log = create()
    times = [[10, 30, 20], [40, 35], [25]]
    for i, stamps in enumerate(times):
        log.append(
            build_batch([Record(j, at, b"k", b"v") for j, at in enumerate(stamps)]), leader_epoch=i, now_ms=NOW_MS
        )
    assert offset_for_timestamp(log, 0) == (10, 0, 0)
    assert offset_for_timestamp(log, 15) == (30, 1, 0)
    assert offset_for_timestamp(log, 31) == (40, 3, 1)
    assert offset_for_timestamp(log, 41) is None
    assert max_timestamp(log) == (40, 3, 1)
    assert log.latest() == (-1, 6, 2)
    log.advance_log_start_offset(2)
    assert offset_for_timestamp(log, 5) == (20, 2, 0)


def test_a_search_by_time_looks_at_some_batches_at_once(create: Create) -> None:
    log = create()
    for at in [10] * 100 + [20]:
        log.append(build_batch([Record(0, at, b"k", b"v")]), leader_epoch=0, now_ms=NOW_MS)
    offset = 0
    for behind in (30, 60, 90):
        with pytest.raises(NotFoundYet) as search:
            log.batch_for_timestamp(15, offset, 30)
        offset = search.value.offset
        assert offset == behind
    batch = log.batch_for_timestamp(15, offset, 30)
    assert batch is not None
    assert read_header(batch).base_offset == 100
    found = log.batch_for_timestamp(15)
    assert found is not None
    assert bytes(found) == bytes(batch)


def test_an_empty_log_has_no_offsets_by_time(create: Create) -> None:
    log = create()
    assert max_timestamp(log) is None
    assert offset_for_timestamp(log, 0) is None
    assert log.earliest() == (-1, 0, -1)
    assert log.latest() == (-1, 0, -1)


def test_log_append_time_is_the_log_s_clock(create: Create, batch: Build) -> None:
    log = create(message_timestamp_type="LogAppendTime")
    result = log.append(bytes(batch(3, timestamp=5)), leader_epoch=0, now_ms=NOW_MS + 7)
    assert result.log_append_time_ms == NOW_MS + 7
    assert {record.timestamp for record in decode_records(log.read(0, 1))} == {NOW_MS + 7}
    assert max_timestamp(log) == (NOW_MS + 7, 0, 0)
    assert offset_for_timestamp(log, NOW_MS) == (NOW_MS + 7, 0, 0)


def test_a_clean_close_and_open_change_nothing(create: Create, reopen: Create, batch: Build, directory: Path) -> None:
    log = create(segment_bytes=3 * len(batch(10)))
    for i in range(10):
        append(log, batch(10, pid=9, sequence=10 * i), epoch=i // 4)
    producers, epochs, data = log.active_producers(), log.epochs.entries(), log.read(90, 1 << 20)
    log.close(clean=True)
    again = reopen(clean=True)
    assert (again.log_end_offset, again.recovery_point) == (100, 100)
    assert (again.active_producers(), again.epochs.entries()) == (producers, epochs)
    assert again.read(90, 1 << 20) == data
    assert append(again, batch(10, pid=9, sequence=100)) == 100
    assert again.append(batch(10, pid=9, sequence=90), leader_epoch=0, now_ms=NOW_MS).duplicate
    names = {path.name for path in directory.iterdir()}
    assert {"00000000000000000090.index", "00000000000000000090.timeindex", "00000000000000000100.snapshot"} <= names


def test_flushing_moves_the_recovery_point_and_a_truncation_meanwhile_moves_it_back(
    create: Create, batch: Build
) -> None:
    log = create()
    append(log, batch(10))
    assert log.flush() == 10
    append(log, batch(10))
    task = log.prepare_flush()
    log.truncate_to(10)
    append(log, batch(10))
    task.run()
    log.flushed(task)
    assert (log.recovery_point, log.log_end_offset) == (10, 20)


def test_flush_messages_asks_for_a_sync(create: Create, batch: Build) -> None:
    log = create(flush_messages=3, flush_ms=100)
    assert not log.append(batch(2), leader_epoch=0, now_ms=NOW_MS).flush_due
    assert log.append(batch(1), leader_epoch=0, now_ms=NOW_MS).flush_due
    assert not log.is_flush_overdue(NOW_MS + 99)
    assert log.is_flush_overdue(NOW_MS + 100)
    log.flush()
    assert not log.is_flush_overdue(NOW_MS + 100)


def test_a_reader_is_led_past_batches_that_compaction_has_emptied(create: Create) -> None:
    log = create(cleanup_policy=("compact",), segment_bytes=200)
    for i in range(8):
        whole = build_batch([Record(i, NOW_MS, b"key", b"value")])
        log.append_as_follower(whole if i in (0, 5) else bytes(emptied(read_header(whole))), now_ms=NOW_MS)
    ends = [segment.base_offset for segment in log.segments][1:]
    assert ends[0] < 5 and ends[-1] > 5  # noqa: PT018
    led = [5 if 0 < offset < max(end for end in ends if end <= 5) else offset for offset in range(8)]
    assert [log.past_empty_batches(offset, 8) for offset in range(8)] == led
    assert [log.past_empty_batches(offset, 4) for offset in range(4)] == [0, 1, 2, 3]  # nothing with records in reach


@pytest.mark.parametrize("clean", [False, True])
def test_after_a_crash_each_of_the_last_five_batches_is_recognized(
    create: Create, reopen: Create, batch: Build, clean: bool
) -> None:
    """All of them may have been under way; a clean stop waits for answers, and its snapshot holds the last one."""
    log = create(segment_bytes=1000)
    for i in range(8):
        log.append(batch(10, pid=9, sequence=10 * i), leader_epoch=0, now_ms=NOW_MS)
    log.close(clean=clean)
    again = reopen(clean=clean, segment_bytes=1000)
    for i in range(3, 7):
        sent = batch(10, pid=9, sequence=10 * i)
        if clean:
            with pytest.raises(KafkaError, match="Out of order"):
                again.append(sent, leader_epoch=0, now_ms=NOW_MS)
        else:
            appended = again.append(sent, leader_epoch=0, now_ms=NOW_MS)
            assert (appended.duplicate, appended.first_offset) == (True, 10 * i)
    assert again.append(batch(10, pid=9, sequence=70), leader_epoch=0, now_ms=NOW_MS).duplicate
    assert not again.append(batch(10, pid=9, sequence=80), leader_epoch=0, now_ms=NOW_MS).duplicate


def test_a_duplicate_is_not_answered_before_its_original_is_on_the_disk(create: Create, batch: Build) -> None:
    log = create(flush_messages=1)
    first = log.append(batch(2, pid=7), leader_epoch=0, now_ms=NOW_MS)
    again = log.append(batch(2, pid=7), leader_epoch=0, now_ms=NOW_MS)
    assert (first.flush_due, again.duplicate, again.flush_due) == (True, True, True)
    log.flush()
    again = log.append(batch(2, pid=7), leader_epoch=0, now_ms=NOW_MS)
    assert (again.duplicate, again.flush_due) == (True, False)


def test_a_full_disk_leaves_the_file_as_it_was_and_takes_the_directory_offline(
    create: Create, batch: Build, monkeypatch: pytest.MonkeyPatch, directory: Path
) -> None:
    log = create()
    append(log, batch(10))
    before = (directory / "00000000000000000000.log").read_bytes()
    failures: list[OSError] = []
    monkeypatch.setattr(log.background, "failed", failures.append)
    real = segment_module.os.pwrite
    monkeypatch.setattr(segment_module.os, "pwrite", lambda fd, data, at: real(fd, data[:50], at))
    with pytest.raises(KafkaError) as refused:
        append(log, batch(10))
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    monkeypatch.undo()
    assert (directory / "00000000000000000000.log").read_bytes() == before
    assert log.log_end_offset == 10
    assert len(failures) == 1
    with pytest.raises(KafkaError) as refused:
        append(log, batch(10))
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_batches_are_iterated_from_any_offset(create: Create, batch: Build) -> None:
    log = create(segment_bytes=3 * len(batch(10)))
    for _ in range(10):
        append(log, batch(10))
    assert [read_header(each).base_offset for each in iterate(log, 35)] == [30, 40, 50, 60, 70, 80, 90]
    assert len(list(iterate(log))) == 10


def synced_names(log: PartitionLog) -> set[str]:
    task = log.prepare_flush()
    names = {Path(f"/proc/self/fd/{fd}").readlink().name for fd in task.fds} | set(task.names)
    task.discard()
    return names


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="asks Linux for the names of open files")
def test_the_indexes_of_a_segment_that_was_flushed_while_active_are_flushed_after_the_roll(create, batch) -> None:
    log = create()
    log.append(batch(10), leader_epoch=0, now_ms=NOW_MS)
    assert log.flush() == 10
    log.roll(now_ms=NOW_MS)
    log.flushes.recovery_point = 10
    assert {f"{0:020d}.index", f"{0:020d}.timeindex"} <= synced_names(log)


def test_after_an_fsync_that_failed_no_other_one_is_believed(create, batch, monkeypatch) -> None:
    log = create()
    log.append(batch(10), leader_epoch=0, now_ms=NOW_MS)

    def fails(fd: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("barnabas.node.storage.directory.flush_task.fdatasync", fails)
    with pytest.raises(KafkaError):
        log.flush()
    monkeypatch.undo()
    with pytest.raises(KafkaError, match="offline"):
        log.flush()
    assert log.recovery_point == 0


def test_a_flush_leaves_it_to_its_thread_to_open_files(
    create: Create, batch: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory from which thousands of files are removed is locked most of the time, and the loop would wait."""
    log = create(segment_bytes=len(batch(10)))
    for _ in range(3):
        append(log, batch(10))
    for segment in log.segments:
        segment.close()
    with monkeypatch.context() as watched:
        opened: list[str] = []
        open_file = os.open

        def noting(path: str, flags: int, *rest: int, **options: int) -> int:
            opened.append(path)
            return open_file(path, flags, *rest, **options)

        watched.setattr(os, "open", noting)
        task = log.prepare_flush()
    assert opened == [log.directory]
    moved = Path(f"{log.directory}-moved")
    Path(log.directory).rename(moved)
    log.relocate(str(moved))
    (moved / task.names[0]).unlink()  # its segment was deleted meanwhile
    task.run()
    log.flushed(task)
    assert log.recovery_point == 30


def test_the_files_of_segments_that_nobody_has_read_are_named_without_a_look_at_the_disk(
    create: Create, batch: Build, reopen: Create, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention of a log with thousands of segments names all their files on the event loop."""
    log = create(segment_bytes=len(batch(10)))
    for _ in range(4):
        append(log, batch(10))
    log.close(clean=True)
    again = reopen(clean=True, recovery_point=40, segment_bytes=len(batch(10)))
    segments = again.give_up_segments(20)
    with monkeypatch.context() as watched:
        for call in ("stat", "open"):
            watched.setattr(os, call, lambda *args, call=call, **options: pytest.fail(f"{call} of {args}"))
        names = [new for segment in segments for _, new in segment.mark_deleted(may_repeat=False)]
    assert names == [f"{base:020d}{suffix}.deleted" for base in (0, 10) for suffix in (".log", ".index", ".timeindex")]
    again.close(clean=False)


def test_segments_below_a_start_that_is_on_the_disk_are_not_flushed_any_more(create: Create, batch: Build) -> None:
    log = create(segment_bytes=len(batch(10)))
    for _ in range(5):
        append(log, batch(10))
    log.flushes.start_on_disk = 30
    first = f"{30:020d}.log"
    assert min(synced_names(log)) == min(first, f"{30:020d}.index")
    log.truncate_to(15)
    assert min(synced_names(log)) <= f"{10:020d}.log"
