"""`spark.read`: from the starting to the ending offsets, both found when the query is planned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from barnabas.pipelines.spark.options import SourceOptions
from barnabas.pipelines.spark.ranges import OffsetRange
from barnabas.pipelines.spark.tasks import planned, read_task
from barnabas.pipelines.spark.topics import Topics

if TYPE_CHECKING:
    import pyarrow as pa


class BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions, columns: Sequence[str]) -> None:
        options.for_batch()
        self._options = options
        self._columns = tuple(columns)

    def partitions(self) -> Sequence[InputPartition]:
        starting, ending = self._options.for_batch()
        topics = Topics(self._options)
        found = topics.existing_partitions()
        starts = topics.starting(starting, found.partitions)
        ends = topics.at(ending, found.partitions)
        return planned(
            self._options,
            [
                OffsetRange(partition, starts[partition], ends[partition], found.ids.get(partition[0], ""))
                for partition in sorted(found.partitions)
            ],
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(self._options, self._columns, partition)
