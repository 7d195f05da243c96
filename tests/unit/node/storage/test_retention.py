from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from barnabas.node.storage.log import PartitionLog
from barnabas.node.storage.retention import Retention

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
Create = Callable[..., PartitionLog]
Build = Callable[..., bytearray]


def filled(create: Create, batch: Build, segments: int = 5, **configs: object) -> PartitionLog:
    """Segments of two batches of ten records; each segment is an hour older than the next, the last one is of now."""
    log = create(segment_bytes=2 * len(batch(10)), **configs)
    for number in range(segments):
        for _ in range(2):
            at_ms = NOW_MS - (segments - 1 - number) * HOUR_MS
            log.append(batch(10, timestamp=at_ms), leader_epoch=number // 2, now_ms=NOW_MS)
    assert len(log.segments) == segments
    return log


def retain(log: PartitionLog, *, high_watermark: int | None = None, now_ms: int = NOW_MS, limit: int = 16) -> int:
    committed = log.log_end_offset if high_watermark is None else high_watermark
    return Retention(log, now_ms).delete_some(committed, limit)


def test_segments_older_than_retention_ms_go_and_the_log_starts_behind_them(create: Create, batch: Build) -> None:
    log = filled(create, batch, retention_ms=2 * HOUR_MS)
    assert retain(log) == 2
    assert (log.log_start_offset, log.log_end_offset, len(log.segments)) == (40, 100, 3)
    assert log.epochs.entries() == [(1, 40), (2, 80)]
    assert retain(log) == 0


def test_a_segment_exactly_as_old_as_retention_allows_stays(create: Create, batch: Build) -> None:
    log = filled(create, batch, retention_ms=4 * HOUR_MS)
    assert retain(log) == 0
    assert retain(log, now_ms=NOW_MS + 1) == 1


def test_retention_by_age_stops_at_the_first_segment_that_is_young(create: Create, batch: Build) -> None:
    log = create(segment_bytes=len(batch(10)), retention_ms=HOUR_MS)
    for age_ms in (9 * HOUR_MS, 0, 9 * HOUR_MS):
        log.append(batch(10, timestamp=NOW_MS - age_ms), leader_epoch=0, now_ms=NOW_MS)
    assert retain(log) == 1
    assert log.log_start_offset == 10


def test_a_quiet_log_that_is_wholly_expired_is_emptied_with_its_active_segment(
    create: Create, batch: Build, directory: Path
) -> None:
    log = filled(create, batch, retention_ms=HOUR_MS)
    assert retain(log, now_ms=NOW_MS + 2 * HOUR_MS) == 5
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes, len(log.segments)) == (100, 100, 0, 1)
    assert [path.name for path in sorted(directory.glob("*.log"))] == ["00000000000000000100.log"]
    assert retain(log, now_ms=NOW_MS + 9 * HOUR_MS) == 0
    assert log.append(batch(1), leader_epoch=2, now_ms=NOW_MS).first_offset == 100


def test_an_empty_log_stays_as_it_is(create: Create) -> None:
    log = create(retention_ms=0, retention_bytes=0)
    assert retain(log, now_ms=NOW_MS + HOUR_MS) == 0
    assert len(log.segments) == 1


def test_the_log_keeps_at_least_retention_bytes(create: Create, batch: Build) -> None:
    size = 2 * len(batch(10))
    for retention_bytes, expected in ((5 * size, 0), (5 * size - 1, 0), (4 * size, 1), (2 * size + 1, 2), (0, 5)):
        log = filled(create, batch, retention_bytes=retention_bytes)
        assert retain(log) == expected
        assert log.size_bytes == (5 - expected) * size
        log.truncate_fully_and_start_at(0, now_ms=NOW_MS)
        log.close(clean=False)


def test_without_limits_nothing_goes(create: Create, batch: Build) -> None:
    log = filled(create, batch, retention_ms=-1, retention_bytes=-1)
    assert retain(log, now_ms=2**62) == 0


def test_what_is_not_committed_stays(create: Create, batch: Build) -> None:
    log = filled(create, batch, retention_ms=0, retention_bytes=0)
    assert retain(log, high_watermark=59, now_ms=NOW_MS + HOUR_MS) == 2
    assert retain(log, high_watermark=60, now_ms=NOW_MS + HOUR_MS) == 1
    assert retain(log, high_watermark=99, now_ms=NOW_MS + HOUR_MS) == 1
    assert log.log_start_offset == 80


def test_a_compacted_log_keeps_what_is_old_but_not_what_is_below_its_start(create: Create, batch: Build) -> None:
    log = filled(create, batch, cleanup_policy=("compact",), retention_ms=0, retention_bytes=0)
    assert retain(log, now_ms=NOW_MS + HOUR_MS) == 0
    log.log_start_offset = 40
    assert retain(log, now_ms=NOW_MS + HOUR_MS) == 0
    assert log.segments.first_offset == 40


def test_both_policies_delete_by_age_too(create: Create, batch: Build) -> None:
    log = filled(create, batch, cleanup_policy=("compact", "delete"), retention_ms=2 * HOUR_MS)
    assert retain(log) == 2


def test_records_without_timestamps_are_as_old_as_their_file(create: Create, batch: Build, directory: Path) -> None:
    log = create(segment_bytes=len(batch(10)), retention_ms=HOUR_MS)
    for _ in range(2):
        log.append(batch(10, timestamp=-1), leader_epoch=0, now_ms=NOW_MS)
    for name, age_ms in (("0" * 20, 2 * HOUR_MS), (f"{10:020d}", 0)):
        at_s = (NOW_MS - age_ms) / 1000
        os.utime(directory / f"{name}.log", (at_s, at_s))
    assert retain(log) == 1
    assert log.log_start_offset == 10


def test_the_age_of_segments_is_known_again_after_a_restart(create: Create, reopen: Create, batch: Build) -> None:
    log = filled(create, batch)
    log.close(clean=True)
    assert retain(reopen(clean=True, retention_ms=2 * HOUR_MS)) == 2


def test_a_round_takes_many_segments_in_small_helpings(create: Create, batch: Build, directory: Path) -> None:
    log = create(segment_bytes=len(batch(1, pid=7)), retention_bytes=0)
    for number in range(40):
        log.append(batch(1, pid=7, sequence=number), leader_epoch=0, now_ms=NOW_MS)
    assert [retain(log) for _ in range(4)] == [16, 16, 8, 0]
    assert (log.log_start_offset, len(log.segments)) == (40, 1)
    assert sorted(path.name for path in directory.glob("*.snapshot")) == [f"{40:020d}.snapshot"]


def test_by_size_and_by_age_together_take_what_either_would(create: Create, batch: Build) -> None:
    size = 2 * len(batch(10))
    log = filled(create, batch, segments=40, retention_bytes=30 * size, retention_ms=4 * HOUR_MS)
    retention = Retention(log, NOW_MS)
    assert [retention.delete_some(log.log_end_offset) for _ in range(4)] == [16, 16, 3, 0]
    assert (log.log_start_offset, len(log.segments)) == (700, 5)
    assert retention.describe() == (
        f"{log.name}: 35 segments deleted, the log starts at offset 700 (before: 0): "
        f"10 beyond retention.bytes={30 * size}, 25 older than retention.ms={4 * HOUR_MS} by their records' "
        f"timestamps, the newest of which is {5 * 3600} s old"
    )
