"""What the driver plans and an executor does: one range of one partition, or those of one number in all topics."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from barnabas.pipelines.spark.options import SourceOptions
from barnabas.pipelines.spark.ranges import OffsetRange, cut

if TYPE_CHECKING:
    import pyarrow as pa


class RangePartition(InputPartition):
    def __init__(self, range: OffsetRange) -> None:
        super().__init__(range)


class RangesPartition(InputPartition):
    def __init__(self, ranges: tuple[OffsetRange, ...]) -> None:
        super().__init__(ranges)


def planned(options: SourceOptions, ranges: Iterable[OffsetRange]) -> Sequence[RangePartition | RangesPartition]:
    if options.partitions_together:
        together: dict[int, list[OffsetRange]] = {}
        for one in cut(ranges, min_partitions=None, max_records_per_partition=None):
            together.setdefault(one.partition.partition, []).append(one)
        return [RangesPartition(tuple(together[number])) for number in sorted(together)]
    tasks = cut(
        ranges,
        min_partitions=options.min_partitions,
        max_records_per_partition=options.max_records_per_partition,
    )
    return [RangePartition(one) for one in tasks]


def read_task(options: SourceOptions, columns: Sequence[str], task: InputPartition) -> Iterator[pa.RecordBatch]:
    if not isinstance(task, (RangePartition, RangesPartition)):  # Spark makes one of its own when nothing is planned
        return iter(())
    from barnabas.pipelines.spark.fetching import FetchSettings, read_range

    settings = FetchSettings.of(
        options.properties, poll_timeout_ms=options.poll_timeout_ms, fail_on_data_loss=options.fail_on_data_loss
    )
    ranges = task.value if isinstance(task, RangesPartition) else (task.value,)
    return itertools.chain.from_iterable(read_range(settings, one, columns) for one in ranges)
