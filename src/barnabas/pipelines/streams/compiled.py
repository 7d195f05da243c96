"""Stages as DataFrames: a hop to Python for each, and a shuffle by partition between two."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from barnabas.pipelines.streams.carried import send_by_value
from barnabas.pipelines.streams.plan import Plan

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

ROWS_HERE = 7  # few, so that even small tests see several Arrow batches


def compiled(records: DataFrame, plan: Plan, *, batch: int | None = None, run: str = "", tasks: int = 0) -> DataFrame:
    """The rows for the sink, of a frame with the columns of a topic. `tasks` is how many there are behind a shuffle: if
    it is 0, as many as Spark would take, for a task runs any number of partitions."""
    from pyspark.sql import functions as f

    from barnabas.pipelines.streams.stage import PARCELS, StageFunction, output_schema

    send_by_value(plan)
    frame = records
    tasks = tasks or min(plan.partitions, tasks_of(records.sparkSession))
    if plan.values_unread:
        frame = records.withColumn("value", f.when(f.col("value").isNotNull(), f.lit(b"")))
    for stage in plan.stages:
        if stage.number:
            frame = frame.repartitionById(tasks, f.col("part") % tasks)
        function = StageFunction(plan, stage.number, batch, run)
        frame = frame.mapInArrow(_called(function), output_schema(plan) if stage.last else PARCELS)
    return frame


def tasks_of(spark: SparkSession) -> int:
    wanted = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    return max(wanted, spark.sparkContext.defaultParallelism)


def _called(function: Any) -> Any:
    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return function(batches)  # type: ignore[no-any-return]

    return stage


def run_batch(spark: SparkSession, plan: Plan, rows: list[tuple[Any, ...]], batch: int, run: str) -> pa.Table:
    """One batch of given records, without a query: (topic, partition, offset, timestamp in ms, key, value)."""
    frame = spark.createDataFrame(record_table(rows))
    tasks = max(min(len({row[1] for row in rows}), spark.sparkContext.defaultParallelism), 1)
    frame = frame.coalesce(1) if tasks == 1 else frame.repartition(tasks, "partition").sortWithinPartitions("offset")
    return compiled(frame, plan, batch=batch, run=run, tasks=tasks).toArrow()


def run_batch_here(plan: Plan, rows: list[tuple[Any, ...]], batch: int, run: str) -> pa.Table:
    """The same without Spark, in this process."""
    import pyarrow as pa

    from barnabas.pipelines.streams.stage import StageFunction, sink_schema

    batches = record_table(rows).to_batches(max_chunksize=ROWS_HERE)
    for stage in plan.stages:
        batches = list(StageFunction(plan, stage.number, batch, run)(batches))
    return pa.Table.from_batches(batches, schema=sink_schema(plan))


def record_table(rows: list[tuple[Any, ...]]) -> pa.Table:
    import pyarrow as pa

    from barnabas.pipelines.spark.schema import arrow_schema

    topic, partition, offset, time, key, value = zip(*rows, strict=True)
    schema = arrow_schema(["key", "value", "topic", "partition", "offset", "timestamp"])
    columns: list[Any] = [key, value, topic, partition, offset, [one * 1000 for one in time]]
    arrays = [pa.array(one, kind) for one, kind in zip(columns, schema.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
