from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.node.storage.directory.files import FileHandles, PooledFile
from barnabas.node.storage.log_config import LogConfig
from barnabas.node.storage.segment.offset_index import OffsetIndex
from barnabas.node.storage.segment.segment import RollLimits
from barnabas.node.storage.segment.sparse_index import PENDING_ENTRIES
from barnabas.node.storage.segment.time_index import TimeIndex

BASE = 1_000


def offset_index(directory: str, rows: list[tuple[int, int]], written: int) -> OffsetIndex:
    index = OffsetIndex(PooledFile(FileHandles(), directory, "0.index"), BASE, new=True)
    for slot, (offset, position) in enumerate(rows):
        index.append(offset, position)
        if slot + 1 == written:
            index.write()
    return index


rows = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 9_000)), max_size=700).map(
    lambda steps: [
        (BASE + sum(step[0] for step in steps[: i + 1]), sum(step[1] for step in steps[: i + 1]))
        for i in range(len(steps))
    ]
)


@settings(max_examples=60, deadline=None)
@given(rows, st.integers(0, 700), st.integers(BASE - 1, BASE + 40_000), st.integers(0, 7_000_000))
def test_lookups_agree_with_a_naive_search(entries: list[tuple[int, int]], written: int, offset: int, at: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        index = offset_index(directory, entries, written)
        assert index.entries == len(entries)
        for each in (offset, BASE - 1, offset, offset + 1, BASE):
            assert index.entry_for_offset(each)[1] == max((p for o, p in entries if o <= each), default=0)
        for limit in (at, 0, at, at + 1):
            assert index.entry_before(limit)[1] == max((p for _, p in entries if p <= limit), default=0)
        assert index.last() == (entries[-1] if entries else (BASE, 0))
        index.file.close()


@settings(max_examples=40, deadline=None)
@given(rows, st.integers(0, 700), st.integers(BASE, BASE + 40_000))
def test_truncation_keeps_what_ends_before_the_offset(
    entries: list[tuple[int, int]], written: int, offset: int
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        index = offset_index(directory, entries, written)
        index.truncate_to(offset)
        kept = [row for row in entries if row[0] < offset]
        assert [(BASE + o, p) for o, p in (index.row(i) for i in range(index.entries))] == kept
        index.append(BASE + 50_000, 8_000_000)
        index.write()
        assert Path(index.file.path).stat().st_size == 8 * (len(kept) + 1)
        index.file.close()


def test_entries_are_written_some_at_a_time_and_found_meanwhile(tmp_path: Path) -> None:
    index = offset_index(str(tmp_path), [(BASE + i, i * 10) for i in range(1, PENDING_ENTRIES)], 0)
    assert not Path(index.file.path).exists()
    assert index.entry_for_offset(BASE + 7)[1] == 70
    index.append(BASE + PENDING_ENTRIES, 10 * PENDING_ENTRIES)
    assert Path(index.file.path).stat().st_size == 8 * PENDING_ENTRIES


def test_a_segment_has_as_many_entries_as_an_index_has_room_for_and_one_slot_of_the_time_index_stays_free() -> None:
    full = [RollLimits.of(LogConfig(segment_index_bytes=size))[2:] for size in (31, 32, 36)]
    assert full == [(3, 1), (4, 1), (4, 2)]


def test_the_time_index_takes_only_later_timestamps_and_is_read_back(tmp_path: Path) -> None:
    file = PooledFile(FileHandles(), str(tmp_path), "0.timeindex")
    index = TimeIndex(file, BASE, new=True)
    for timestamp, offset in ((100, BASE + 4), (90, BASE + 8), (100, BASE + 9), (130, BASE + 20)):
        index.maybe_append(timestamp, offset)
    index.write()
    again = TimeIndex(file, BASE)
    assert again.entries == 2
    assert again.last() == (130, BASE + 20)
    assert [again.entry_for_timestamp(at)[1] for at in (99, 100, 129, 130, 500)] == [
        BASE,
        BASE + 4,
        BASE + 4,
        1020,
        1020,
    ]
    again.truncate_to(BASE + 20)
    assert again.last() == (100, BASE + 4)
    again.maybe_append(120, BASE + 30)
    assert again.last() == (120, BASE + 30)
