from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipelines.spark.ranges import OffsetRange, cut, limited, together

P = [("plant", number) for number in range(4)]


def spans(ranges: list[OffsetRange]) -> list[tuple[int, int, int]]:
    return [(one.partition[1], one.start, one.end) for one in ranges]


def test_a_limit_is_shared_in_proportion_and_small_partitions_get_one() -> None:
    begin = {P[0]: 0, P[1]: 100, P[2]: 7, P[3]: 5}
    until = {P[0]: 900, P[1]: 200, P[2]: 8, P[3]: 5}
    assert limited(begin, until, 100) == {P[0]: 89, P[1]: 109, P[2]: 8, P[3]: 5}
    assert limited(begin, until, 10_000) == until


def test_without_limits_every_range_is_a_task_and_empty_ones_are_none() -> None:
    ranges = [OffsetRange(P[0], 5, 9), OffsetRange(P[1], 3, 3)]
    assert spans(cut(ranges, min_partitions=None, max_records_per_partition=None)) == [(0, 5, 9)]
    assert cut(ranges[1:], min_partitions=7, max_records_per_partition=None) == []


def test_small_neighbours_share_a_task() -> None:
    sizes = [3, 4, 2, 11, 10]
    ranges = [(OffsetRange(P[index % 4], 0, size),) for index, size in enumerate(sizes)]
    assert [[one.size for one in task] for task in together(ranges, 10)] == [[3, 4, 2], [11], [10]]
    assert [len(task) for task in together(ranges, 1)] == [1, 1, 1, 1, 1]
    assert together([], 10) == []


def test_ranges_that_belong_together_are_not_parted() -> None:
    pairs = [
        (OffsetRange(P[index], 0, size), OffsetRange(P[index], 0, size)) for index, size in enumerate((2, 3, 40, 1))
    ]
    assert [[one.size for one in task] for task in together(pairs, 10)] == [[2, 2, 3, 3], [40, 40], [1, 1]]


def test_long_ranges_are_cut_to_at_most_so_many_records() -> None:
    ranges = [OffsetRange(P[0], 0, 10), OffsetRange(P[1], 0, 3)]
    expected = [(0, 0, 3), (0, 3, 6), (0, 6, 10), (1, 0, 3)]
    assert spans(cut(ranges, min_partitions=None, max_records_per_partition=4)) == expected


def test_few_ranges_are_cut_into_at_least_so_many_tasks_in_proportion() -> None:
    ranges = [OffsetRange(P[0], 0, 1), OffsetRange(P[1], 0, 1), OffsetRange(P[2], 0, 10_000)]
    tasks = cut(ranges, min_partitions=6, max_records_per_partition=None)
    assert spans(tasks) == [(0, 0, 1), (1, 0, 1), (2, 0, 2500), (2, 2500, 5000), (2, 5000, 7500), (2, 7500, 10_000)]


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=4),
    st.one_of(st.none(), st.integers(1, 30)),
    st.one_of(st.none(), st.integers(1000, 10**6)),
)
def test_cut_ranges_cover_what_was_to_be_read(
    given_ranges: list[tuple[int, int]], least: int | None, most: int | None
) -> None:
    ranges = [OffsetRange(P[index], start, start + size) for index, (start, size) in enumerate(given_ranges)]
    tasks = cut(ranges, min_partitions=least, max_records_per_partition=most)
    for one in ranges:
        parts = sorted((part for part in tasks if part.partition == one.partition), key=lambda part: part.start)
        edges = [one.start, *[part.end for part in parts]]
        assert [part.start for part in parts] == edges[:-1]
        assert edges[-1] == one.end
    assert all(part.size > 0 and (most is None or part.size <= most) for part in tasks)
