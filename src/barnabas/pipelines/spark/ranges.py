"""What a batch reads: the share of each partition in a limited batch, and how ranges are cut into tasks.

The arithmetic is the JVM Kafka connector's, so that a query has the same batches with either, and the same tasks. But
the small ranges of a stream's batch are read together: a task costs milliseconds however little it has to do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from barnabas.client.metadata import TopicPartition
from barnabas.pipelines.spark.offsets import Offsets


@dataclass(frozen=True, slots=True)
class OffsetRange:
    partition: TopicPartition
    start: int
    end: int
    topic_id: str = ""

    @property
    def size(self) -> int:
        return self.end - self.start


def limited(begin: Offsets, until: Offsets, limit: int) -> dict[TopicPartition, int]:
    """Ends such that about `limit` offsets are read, from each partition in proportion to what it has."""
    sizes = {partition: end - begin[partition] for partition, end in until.items() if end > begin[partition]}
    total = sum(sizes.values())
    ends = dict(until)
    for partition, size in sizes.items():
        share = limit * (size / total)
        # At least one offset of each, or a small partition would wait for ever beside a large one.
        taken = math.ceil(share) if share < 1 else math.floor(share)
        ends[partition] = min(until[partition], begin[partition] + taken)
    return ends


def cut(
    ranges: Iterable[OffsetRange], *, min_partitions: int | None, max_records_per_partition: int | None
) -> list[OffsetRange]:
    """One task per range, more where ranges are too long, or too few for `min_partitions`; empty ranges make none."""
    whole = [one for one in ranges if one.size > 0]
    tasks = whole
    if max_records_per_partition is not None:
        tasks = [part for one in whole for part in _parts(one, math.ceil(one.size / max_records_per_partition))]
    if min_partitions is None or len(tasks) >= min_partitions:
        return tasks
    return _at_least(whole if max_records_per_partition is None else tasks, min_partitions)


def together(groups: Iterable[tuple[OffsetRange, ...]], records: int) -> list[tuple[OffsetRange, ...]]:
    """Neighbours share a task as long as they have no more records than that between them; a group is never parted."""
    tasks: list[tuple[OffsetRange, ...]] = []
    size = 0
    for group in groups:
        own = sum(one.size for one in group)
        if tasks and size + own <= records:
            tasks[-1] += group
            size += own
        else:
            tasks.append(group)
            size = own
    return tasks


def _at_least(ranges: Sequence[OffsetRange], count: int) -> list[OffsetRange]:
    """Cuts in proportion to size; ranges too small to be cut are left out of the proportions of the others."""
    total = sum(one.size for one in ranges)
    small = {id(one) for one in ranges if _part_count(one.size, total, count) == 1}
    total_of_large = total - sum(one.size for one in ranges if id(one) in small)
    count_of_large = max(count - len(small), 1)
    cut_up: list[OffsetRange] = []
    for one in ranges:
        parts = 1 if id(one) in small else _part_count(one.size, total_of_large, count_of_large)
        cut_up += _parts(one, parts)
    return cut_up


def _part_count(size: int, total: int, count: int) -> int:
    return max(math.floor(size / total * count + 0.5), 1)


def _parts(one: OffsetRange, count: int) -> list[OffsetRange]:
    parts: list[OffsetRange] = []
    start = one.start
    for index in range(count):
        end = start + (one.end - start) // (count - index)
        if end > start:
            parts.append(replace(one, start=start, end=end))
        start = end
    return parts
