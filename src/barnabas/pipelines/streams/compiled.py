"""Stages as DataFrames: the first is in the source, and each of the others behind a shuffle by partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.pipelines.streams.carried import send_by_value
from barnabas.pipelines.streams.context import Headers
from barnabas.pipelines.streams.plan import Plan, StagePlan

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from barnabas.pipelines.streams.sink import TopicSink
    from barnabas.pipelines.streams.stage import StageFunction

ROWS_HERE = 7  # few, so that even small tests see several Arrow batches
# Topic, partition, offset, milliseconds, key, value and headers.
GivenRecord = tuple[str, int, int, int, bytes | None, bytes | None, Headers]


class Piped(NamedTuple):
    """A record that is given, without a topic to be read from."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def first_stage(plan: Plan, sink: TopicSink | None) -> tuple[StageFunction, str]:
    """The function for records of topics, and the schema of what it gives."""
    send_by_value(plan)
    return _stage(plan, plan.stages[0], None, "", sink)


def compiled(
    frame: DataFrame,
    plan: Plan,
    *,
    batch: int | None = None,
    run: str = "",
    sink: TopicSink | None = None,
    tasks: int = 0,
    wall_clock_ms: int | None = None,
) -> DataFrame:
    """What the last stage gives, of what the first gave. `tasks` is how many there are behind a shuffle: if it is 0,
    as many as Spark would take, for a task runs any number of partitions."""
    from pyspark.sql import functions as f

    tasks = tasks or min(plan.partitions, tasks_of(frame.sparkSession))
    for stage in plan.stages[1:]:
        function, schema = _stage(plan, stage, batch, run, sink, wall_clock_ms)
        parcels = frame.where(f.col("parcel").isNotNull())
        frame = parcels.repartitionById(tasks, f.col("part") % tasks).mapInArrow(_called(function), schema)
    return frame


def _stage(
    plan: Plan,
    stage: StagePlan,
    batch: int | None,
    run: str,
    sink: TopicSink | None = None,
    wall_clock_ms: int | None = None,
) -> tuple[StageFunction, str]:
    from barnabas.pipelines.streams.stage import PARCELS, SEEN, StageFunction, output_schema

    schema = PARCELS if not stage.last else output_schema(plan) if sink is None else SEEN
    return StageFunction(plan, stage.number, batch, run, sink, wall_clock_ms), schema


def tasks_of(spark: SparkSession) -> int:
    wanted = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    return max(wanted, spark.sparkContext.defaultParallelism)


def _called(function: StageFunction) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return function(batches)

    return stage


def run_batch(spark: SparkSession, plan: Plan, rows: list[Piped], batch: int, run: str, wall_clock_ms: int) -> pa.Table:
    """One batch of given records, without a query."""
    frame = spark.createDataFrame(record_table(rows))
    tasks = max(min(len({row.partition for row in rows}), spark.sparkContext.defaultParallelism), 1)
    frame = frame.coalesce(1) if tasks == 1 else frame.repartition(tasks, "partition").sortWithinPartitions("offset")
    send_by_value(plan)
    function, schema = _stage(plan, plan.stages[0], batch, run, wall_clock_ms=wall_clock_ms)
    first = frame.mapInArrow(_called(function), schema)
    return compiled(first, plan, batch=batch, run=run, tasks=tasks, wall_clock_ms=wall_clock_ms).toArrow()


def run_batch_here(plan: Plan, rows: Sequence[GivenRecord], batch: int, run: str, wall_clock_ms: int) -> pa.Table:
    """The same without Spark, in this process."""
    import pyarrow as pa

    from barnabas.pipelines.streams.stage import StageFunction, sink_schema

    batches = record_table(rows).to_batches(max_chunksize=ROWS_HERE)
    for stage in plan.stages:
        batches = list(StageFunction(plan, stage.number, batch, run, wall_clock_ms=wall_clock_ms)(batches))
    return pa.Table.from_batches(batches, schema=sink_schema(plan))


def record_table(rows: Sequence[GivenRecord]) -> pa.Table:
    import pyarrow as pa

    from barnabas.pipelines.spark.schema import arrow_schema

    topic, partition, offset, time, key, value, headers = zip(*rows, strict=True)
    schema = arrow_schema(["key", "value", "topic", "partition", "offset", "timestamp", "headers"])
    entries = [[{"key": name, "value": data} for name, data in one] if one else None for one in headers]
    columns: list[Any] = [key, value, topic, partition, offset, [one * 1000 for one in time], entries]
    arrays = [pa.array(one, kind) for one, kind in zip(columns, schema.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
