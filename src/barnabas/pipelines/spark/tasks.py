"""What the driver plans and an executor does: a range of one partition, or small ones of several."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from barnabas.pipelines.spark.options import SourceOptions
from barnabas.pipelines.spark.ranges import OffsetRange, cut, together

if TYPE_CHECKING:
    import pyarrow as pa


class RangePartition(InputPartition):
    """What one task reads, one range after the other. A task that reads all of a batch is told where it can go on, at
    the ends of all partitions, and for how long."""

    def __init__(self, ranges: tuple[OffsetRange, ...]) -> None:
        super().__init__(ranges)
        self.onward: tuple[OffsetRange, ...] = ()
        self.run_on_ms = 0


def planned(options: SourceOptions, ranges: Iterable[OffsetRange]) -> list[RangePartition]:
    tasks = cut(
        ranges,
        min_partitions=options.min_partitions,
        max_records_per_partition=options.max_records_per_partition,
    )
    return [RangePartition((one,)) for one in tasks]


def planned_for_stream(options: SourceOptions, ranges: Iterable[OffsetRange]) -> list[RangePartition]:
    """The fewer tasks, the sooner a small batch is done; who asks for tasks of a certain size gets those."""
    if options.partitions_together:
        by_number: dict[int, tuple[OffsetRange, ...]] = {}
        for one in ranges:
            if one.size > 0:
                by_number[one.partition[1]] = (*by_number.get(one.partition[1], ()), one)
        groups = [group for _, group in sorted(by_number.items())]
        return [RangePartition(each) for each in together(groups, options.min_records_per_task)]
    if options.min_partitions is not None or options.max_records_per_partition is not None:
        return planned(options, ranges)
    whole = [(one,) for one in ranges if one.size > 0]
    return [RangePartition(each) for each in together(whole, options.min_records_per_task)]


def read_task(options: SourceOptions, columns: Sequence[str], task: InputPartition) -> Iterator[pa.RecordBatch]:
    if not isinstance(task, RangePartition):  # Spark makes one of its own when nothing is planned
        return
    from barnabas.pipelines.spark.fetching import read_ranges, task_settings

    yield from read_ranges(task_settings(options), task.value, columns)
