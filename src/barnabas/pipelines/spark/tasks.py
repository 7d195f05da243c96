"""What the driver plans and an executor does: one range of one partition."""

from __future__ import annotations

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


def planned(options: SourceOptions, ranges: Iterable[OffsetRange]) -> list[RangePartition]:
    tasks = cut(
        ranges,
        min_partitions=options.min_partitions,
        max_records_per_partition=options.max_records_per_partition,
    )
    return [RangePartition(one) for one in tasks]


def read_task(options: SourceOptions, columns: Sequence[str], task: InputPartition) -> Iterator[pa.RecordBatch]:
    if not isinstance(task, RangePartition):  # Spark makes one of its own when nothing is planned
        return iter(())
    from barnabas.pipelines.spark.fetching import FetchSettings, read_range

    settings = FetchSettings.of(
        options.properties, poll_timeout_ms=options.poll_timeout_ms, fail_on_data_loss=options.fail_on_data_loss
    )
    return read_range(settings, task.value, columns)
