from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from barnabas.node.storage.cleaning.choice import Dirt, SegmentSizes, examine, group_segments
from barnabas.node.storage.log_config import LogConfig

MB = 1_000_000
NOW_MS = 1_700_000_000_000
COMPACT = LogConfig(cleanup_policy=("compact",))


@dataclass
class Facts:
    base_offset: int
    size: int
    largest_timestamp: int = NOW_MS
    rolling_timestamp: int | None = NOW_MS


SLIDES = [Facts(0, 400 * MB), Facts(100, 450 * MB), Facts(200, 500 * MB), Facts(300, 500 * MB), Facts(400, 7 * MB)]


def look(
    segments: list[Facts],
    *,
    checkpoint: int | None = None,
    stable: int = 500,
    config: LogConfig = COMPACT,
    start: int = 0,
) -> Dirt:
    return examine(
        segments,
        checkpoint=checkpoint,
        log_start_offset=start,
        log_end_offset=500,
        last_stable_offset=stable,
        config=config,
        now_ms=NOW_MS,
    )


def test_the_dirty_ratio_of_the_slides_is_54_percent_and_due() -> None:
    dirt = look(SLIDES, checkpoint=200)
    assert dirt == Dirt(200, 400, clean_bytes=850 * MB, cleanable_bytes=1000 * MB)
    assert round(dirt.ratio, 2) == 0.54
    assert dirt.is_due(0.5)
    assert not dirt.is_due(0.55)


def test_a_ratio_that_is_just_reached_is_not_due() -> None:
    assert not look([Facts(0, 10), Facts(10, 10), Facts(20, 1)], checkpoint=10).is_due(0.5)


def test_a_log_without_a_checkpoint_is_dirty_from_its_start() -> None:
    assert look(SLIDES) == Dirt(0, 400, clean_bytes=0, cleanable_bytes=1850 * MB)


@pytest.mark.parametrize("checkpoint", [3, 501])
def test_a_checkpoint_outside_the_log_counts_for_nothing(checkpoint: int) -> None:
    assert look(SLIDES, checkpoint=checkpoint, start=50).first_dirty_offset == 50


def test_the_active_segment_is_never_cleaned() -> None:
    dirt = look([Facts(0, 10)])
    assert dirt == Dirt(0, 0)
    assert not dirt.is_due(0.0)


def test_nothing_is_cleaned_behind_the_last_stable_offset() -> None:
    assert look(SLIDES, stable=250) == Dirt(0, 200, clean_bytes=0, cleanable_bytes=850 * MB)
    assert look(SLIDES, stable=200).first_uncleanable_offset == 200
    assert not look(SLIDES, stable=50).is_due(0.0)


def test_a_young_segment_and_all_behind_it_wait_for_the_lag() -> None:
    old = [replace(each, largest_timestamp=NOW_MS - 10_000) for each in SLIDES]
    old[2].largest_timestamp = NOW_MS - 500
    dirt = look(old, config=replace(COMPACT, min_compaction_lag_ms=1_000))
    assert (dirt.first_uncleanable_offset, dirt.cleanable_bytes) == (200, 850 * MB)


def test_a_record_that_waits_too_long_makes_the_log_due_whatever_its_ratio() -> None:
    lagging = replace(COMPACT, max_compaction_lag_ms=1_000)
    segments = [Facts(0, 1000), Facts(100, 1, rolling_timestamp=NOW_MS - 1_001), Facts(200, 1)]
    assert look(segments, checkpoint=100, config=lagging).is_due(0.5)
    segments[1].rolling_timestamp = NOW_MS - 1_000
    assert not look(segments, checkpoint=100, config=lagging).is_due(0.5)


def sizes(*of: int, index: int = 8, step: int = 100) -> list[SegmentSizes]:
    return [SegmentSizes(step * i, size, index, 12) for i, size in enumerate(of)]


def grouped(segments: list[SegmentSizes], index_bytes: int = 1000) -> list[list[int]]:
    end = segments[-1].base_offset + 100
    groups = group_segments(segments, segment_bytes=100, index_bytes=index_bytes, first_uncleanable_offset=end)
    return [[each.base_offset for each in group] for group in groups]


def test_neighbours_that_fit_into_one_segment_are_merged() -> None:
    assert grouped(sizes(50, 50, 1, 99, 200, 10)) == [[0, 100], [200, 300], [400], [500]]


def test_a_group_ends_where_its_index_would_be_too_large() -> None:
    assert grouped(sizes(1, 1, 1, index=40), index_bytes=80) == [[0, 100], [200]]


def test_a_group_ends_where_an_offset_would_not_fit_behind_its_base() -> None:
    assert grouped(sizes(1, 1, 1, step=2**30)) == [[0, 2**30], [2**31]]
