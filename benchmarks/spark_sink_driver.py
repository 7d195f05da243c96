"""A Spark session that does what it is told, line by line: one side of the sink's benchmarks.

It runs in the Python of either environment, ours or that of the JVM connector, so it imports nothing of ours itself.
Commands come as JSON on standard input; every one is answered by one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

ROW_BYTES = 100


class Side:
    def __init__(self, connector: str) -> None:
        self.format = "kafka" if connector else "barnabas"
        if connector:
            builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
            self.spark = builder.config("spark.jars", connector).getOrCreate()
        else:
            from barnabas.spark import session

            self.spark = session("benchmark", master="local[2]")
        self.spark.sparkContext.setLogLevel("ERROR")
        self.rows: DataFrame | None = None
        self.queries: list[Any] = []

    def prepare(self, rows: int) -> dict[str, float]:
        """Rows in memory: a key of 10 and a value of 100 bytes each, in four partitions."""
        number = F.lpad(F.col("id").cast("string"), 10, "0")
        columns = [number.alias("key"), F.concat(F.lit("x" * (ROW_BYTES - 10)), number).alias("value")]
        self.rows = self.spark.range(0, rows, 1, 4).select(*columns).cache()
        return {"rows": self.rows.count()}

    def write(self, options: dict[str, str]) -> dict[str, float]:
        assert self.rows is not None
        began = time.perf_counter()
        self.rows.write.format(self.format).mode("append").options(**options).save()
        return {"seconds": time.perf_counter() - began}

    def stateless(self, source: dict[str, str], sink: dict[str, str]) -> dict[str, float]:
        records = self._records(source)
        return self._start(records.select("key", F.upper("value").alias("value")), sink, "append")

    def windowed(self, source: dict[str, str], sink: dict[str, str]) -> dict[str, float]:
        """The values are times of production: a count carries the latest of those it counted."""
        timed = self._records(source).withColumn(
            "time", F.timestamp_millis(F.col("value").cast("double").cast("bigint"))
        )
        windows = timed.withWatermark("time", "1 minute").groupBy(F.window("time", "10 seconds"), "key")
        counted = windows.agg(F.max("value").alias("value"), F.count("*").alias("count"))
        return self._start(counted.select("key", "value"), sink, "update")

    def stop(self) -> dict[str, float]:
        durations = [query.lastProgress["durationMs"] for query in self.queries if query.lastProgress]
        for query in self.queries:
            query.stop()
        self.queries.clear()
        return durations[0] if durations else {}

    def _records(self, options: dict[str, str]) -> DataFrame:
        records = self.spark.readStream.format(self.format).options(**options).load()
        return records.select(F.col("key").cast("string"), F.col("value").cast("string"))

    def _start(self, rows: DataFrame, sink: dict[str, str], mode: str) -> dict[str, float]:
        writer = rows.writeStream.outputMode(mode).option("checkpointLocation", sink.pop("checkpointLocation"))
        if mode == "update":  # which Spark hands to sinks in Python only so

            def write(batch: DataFrame, number: int) -> None:
                batch.write.format(self.format).mode("append").options(sinkName="counts", **sink).save()

            self.queries.append(writer.foreachBatch(write).start())
        else:
            self.queries.append(writer.format(self.format).options(**sink).start())
        return {}


def main() -> None:
    side = Side(sys.argv[1] if len(sys.argv) > 1 else "")
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        command, *arguments = json.loads(line)
        print(json.dumps(getattr(side, command)(*arguments)), flush=True)
    side.spark.stop()


if __name__ == "__main__":
    main()
