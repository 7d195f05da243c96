"""The demo's pipelines on Spark: from the plant's topic to topics and Parquet files, each row exactly once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from plant import ALERTS, AVERAGES, MEASUREMENTS, METADATA, PLANT
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

READING = "sequence bigint, id string, at bigint, value double, state string"
METADATA_ROW = "id string, kind string, unit string, location string, alert_above double"


class Pipelines:
    def __init__(
        self, spark: SparkSession, servers: str, starting: dict[tuple[str, int], int], checkpoints: Path, parquet: Path
    ) -> None:
        self._spark = spark
        self._servers = servers
        self._starting = starting
        self._checkpoints = checkpoints
        self._parquet = parquet
        self.queries: list[StreamingQuery] = []

    def start(self) -> None:
        metadata = self._metadata()
        self._to_topics("alerts and measurements", self.routed(self._readings(), metadata))
        self._updates_to_topics("averages", self.averages(self._readings()), every="1 second")
        self._to_parquet("parquet", self.measurements(self._readings(), metadata), every="3 seconds")

    def stop(self) -> None:
        for query in self.queries:
            query.stop()

    def failure(self) -> str | None:
        """The first sentence of the first query that failed."""
        for query in self.queries:
            if error := query.exception():
                return f"{query.name}: {str(error).splitlines()[0]}"
        return None

    def measurements(self, readings: DataFrame, metadata: DataFrame) -> DataFrame:
        """Each measurement with its row of the metadata table."""
        joined = readings.where("value is not null").join(F.broadcast(metadata), "id")
        return joined.select("sequence", "id", "at", "value", "kind", "unit", "location", "alert_above")

    def routed(self, readings: DataFrame, metadata: DataFrame) -> DataFrame:
        """Rows for several topics out of one read: the topic column says which."""
        joined = readings.join(F.broadcast(metadata), "id", "left")
        measured = F.to_json(F.struct("sequence", "id", "at", "value", "unit", "location"))
        alarming = F.to_json(F.struct("sequence", "id", "at", "value", "unit", "location", "state"))
        alert = (F.col("value") > F.col("alert_above")) | (F.col("state") == "error")
        rows = F.array(
            F.when(F.col("value").isNotNull(), row(MEASUREMENTS, "id", measured)),
            F.when(alert, row(ALERTS, "id", alarming)),
        )
        return joined.select(F.explode(F.array_compact(rows)).alias("row")).select("row.*")

    def averages(self, readings: DataFrame) -> DataFrame:
        """Average per sensor and minute, sent again whenever it changes."""
        timed = readings.where("value is not null").withColumn("time", F.timestamp_millis("at"))
        minute = F.window("time", "1 minute").alias("minute")
        grouped = timed.withWatermark("time", "2 minutes").groupBy(minute, "id")
        averaged = grouped.agg(F.avg("value").alias("average"), F.count("*").alias("count"))
        known = averaged.select("id", F.unix_millis("minute.start").alias("minute"), "average", "count")
        return known.select(row(AVERAGES, "id", F.to_json(F.struct("*"))).alias("row")).select("row.*")

    def _readings(self) -> DataFrame:
        starting: dict[str, dict[str, int]] = {PLANT: {}}
        for (topic, partition), offset in self._starting.items():
            if topic == PLANT:
                starting[topic][str(partition)] = offset
        source = self._spark.readStream.format("barnabas").option("kafka.bootstrap.servers", self._servers)
        records = source.options(subscribe=PLANT, startingOffsets=json.dumps(starting)).load()
        return records.select(F.from_json(F.col("value").cast("string"), READING).alias("reading")).select("reading.*")

    def _metadata(self) -> DataFrame:
        """The table is a compacted topic: the latest row of each key counts."""
        source = self._spark.read.format("barnabas").option("kafka.bootstrap.servers", self._servers)
        records = source.option("subscribe", METADATA).load()
        latest = records.groupBy("key").agg(F.max_by("value", "offset").alias("value"))
        rows = latest.select(F.from_json(F.col("value").cast("string"), METADATA_ROW).alias("row"))
        # Read once, here: a join with this is a join with rows, not with the topic again for every batch.
        return self._spark.createDataFrame(rows.select("row.*").collect(), METADATA_ROW)

    def _sink(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self._servers, "exactlyOnce": "true"}

    def _to_topics(self, name: str, rows: DataFrame) -> None:
        writer = rows.writeStream.queryName(name).format("barnabas").options(**self._sink())
        self.queries.append(writer.option("checkpointLocation", str(self._checkpoints / name)).start())

    def _updates_to_topics(self, name: str, rows: DataFrame, every: str) -> None:
        """Results that change: Spark hands updates to sinks in Python batch by batch, and exactly once all the same."""

        def write(batch: DataFrame, number: int) -> None:
            batch.write.format("barnabas").mode("append").options(sinkName=name, **self._sink()).save()

        writer = rows.writeStream.queryName(name).outputMode("update").foreachBatch(write)
        writer = writer.option("checkpointLocation", str(self._checkpoints / name))
        self.queries.append(writer.trigger(processingTime=every).start())

    def _to_parquet(self, name: str, rows: DataFrame, every: str) -> None:
        writer = rows.writeStream.queryName(name).format("parquet").option("path", str(self._parquet))
        writer = writer.option("checkpointLocation", str(self._checkpoints / name))
        self.queries.append(writer.trigger(processingTime=every).start())


def row(topic: str, key: str, value: object) -> object:
    return F.struct(F.lit(topic).alias("topic"), F.col(key).alias("key"), value.alias("value"))  # type: ignore[attr-defined]
