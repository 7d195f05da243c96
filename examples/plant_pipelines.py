"""The demo's pipelines: from the plant's topic to topics and Parquet files, each row exactly once.

A topology makes alerts, measurements with their metadata, and averages. Files are none of its business, as they are
none of Kafka Streams': Spark's own file sink takes the measurements from their topic.
"""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plant import ALERTS, AVERAGES, MEASUREMENTS, METADATA, PLANT

from barnabas.streams import JSON, STRING, Topology, Windowed, col, tumbling

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

MEASUREMENT = "sequence bigint, id string, at bigint, value double, unit string, location string"
SHOWN = ("sequence", "id", "at", "value", "unit", "location", "state")
PARQUET_EVERY = "3 seconds"


def topology() -> Topology:
    plant = Topology("plant", processing_guarantee="exactly_once_v2")
    readings = plant.stream(PLANT)
    measured, failing = readings.branch(col("value.value").is_not_null(), col("value.state") == "error")

    # A small table that all partitions need: global, so that its topic may have one partition where the plant's has
    # three.
    metadata = plant.global_table(METADATA)
    measurements = measured.join(metadata, lambda reading, row: {**row, **reading}, key=lambda sensor, _: sensor)
    measurements.map_values(shown).to(MEASUREMENTS, value=JSON)

    too_high = measurements.filter(col("value.value") > col("value.alert_above"))
    too_high.merge(failing).map_values(shown).to(ALERTS, value=JSON)

    minutes = measured.group_by_key().windowed_by(tumbling(timedelta(minutes=1), grace=timedelta(minutes=2)))
    averages = minutes.aggregate(average=col("value.value").avg(), count=col("value.value").count())
    averages.to_stream().map(of_minute).to(AVERAGES, key=STRING, value=JSON)
    return plant


def shown(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in SHOWN if name in row}


def of_minute(sensor: Windowed[str], row: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return sensor.key, {"id": sensor.key, "minute": sensor.start_ms, **row}


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
        run = topology().start(
            self._spark,
            bootstrap_servers=self._servers,
            checkpoint=self._checkpoints / "plant",
            starting_offsets={PLANT: self._offsets(PLANT)},
        )
        self.queries = [*run.queries, self._measurements_to_parquet()]

    def stop(self) -> None:
        for query in self.queries:
            query.stop()

    def failure(self) -> str | None:
        """The first sentence of the first query that failed."""
        for query in self.queries:
            if error := query.exception():
                return f"{query.name}: {str(error).splitlines()[0]}"
        return None

    def _measurements_to_parquet(self) -> StreamingQuery:
        from pyspark.sql import functions as F

        source = self._spark.readStream.format("barnabas").option("kafka.bootstrap.servers", self._servers)
        source = source.options(
            subscribe=MEASUREMENTS, startingOffsets=json.dumps({MEASUREMENTS: self._offsets(MEASUREMENTS)})
        )
        records = source.option("kafka.isolation.level", "read_committed").load()
        rows = records.select(F.from_json(F.col("value").cast("string"), MEASUREMENT).alias("row")).select("row.*")
        writer = rows.writeStream.queryName("parquet").format("parquet").option("path", str(self._parquet))
        writer = writer.option("checkpointLocation", str(self._checkpoints / "parquet"))
        return writer.trigger(processingTime=PARQUET_EVERY).start()

    def _offsets(self, wanted: str) -> dict[int, int]:
        """Where the topic ended when the demo began."""
        return {partition: offset for (topic, partition), offset in self._starting.items() if topic == wanted}
