"""`format("barnabas-topology")`: the first stage of a topology, run by the task that reads the records.

Records of topics go from the fetch into the operators as Arrow, in one process. Spark plans the tasks and carries what
leaves the stage. Were the stage a function behind the source, every record would go to the JVM and back first.
"""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from barnabas.pipelines.spark.data_source import BarnabasDataSource
from barnabas.pipelines.spark.options import SourceOptions
from barnabas.pipelines.spark.stream_reader import StreamReader
from barnabas.pipelines.spark.tasks import read_task

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "barnabas-topology"
STAGE = "stage"
ROWS = "rows"


class TopologySource(BarnabasDataSource):
    """The option `stage` is the function over Arrow batches, `rows` the schema of what it gives, in JSON."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return StructType.fromJson(json.loads(self.options[ROWS]))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = SourceOptions.parse(self.options)
        return StageReader(options, options.columns, self.options[STAGE])


class StageReader(StreamReader):
    def __init__(self, options: SourceOptions, columns: Sequence[str], stage: str) -> None:
        super().__init__(options, columns)
        self._stage = stage

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        records = read_task(self._options, self._columns, partition)
        part = " ".join(f"{one.partition} {one.start} {one.end}" for one in partition.value or ())
        found: Iterator[pa.RecordBatch] = loaded(self._stage)(records, part)
        return found


def packed(function: Any) -> str:
    from pyspark import cloudpickle

    return base64.b64encode(cloudpickle.dumps(function)).decode()  # type: ignore[no-untyped-call]


@functools.lru_cache(maxsize=8)
def loaded(text: str) -> Any:
    from pyspark import cloudpickle

    return cloudpickle.loads(base64.b64decode(text))
