"""Starts Spark, runs what loads the classes of most pipelines, and ends the JVM so that it writes its archive."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from barnabas.pipelines.spark.session import JAVA_OPTIONS, START_UP_OPTIONS, session

QUICK = "-XX:TieredStopAtLevel=1"


def main(made: str) -> None:
    from pyspark.sql import SparkSession, functions

    spark: SparkSession = session(
        "start-up archive",
        master="local[1]",
        conf={JAVA_OPTIONS: f"{START_UP_OPTIONS} {QUICK} -XX:ArchiveClassesAtExit={made}", "spark.log.level": "ERROR"},
        quick_start=False,
    )
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    jvm: subprocess.Popen[bytes] = gateway.proc
    with tempfile.TemporaryDirectory() as directory:
        rows = spark.range(100).withColumn("even", functions.col("id") % 2).groupBy("even").count()
        rows.write.parquet(str(Path(directory) / "rows"))
        ticks = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
        parsed = ticks.select("timestamp", functions.from_json(functions.lit('{"a":1}'), "a int").alias("json"))
        counted = (
            parsed.withWatermark("timestamp", "1 second")
            .groupBy(functions.window("timestamp", "1 second"), "json.a")
            .count()
            .select(functions.to_json(functions.struct("count")).alias("value"))
        )
        for query in (ticks, counted):
            started = (
                query.writeStream.format("noop")
                .outputMode("append" if query is ticks else "update")
                .option("checkpointLocation", str(Path(directory) / f"checkpoint-{id(query)}"))
                .trigger(availableNow=True)
                .start()
            )
            started.awaitTermination(60)
            started.stop()
        functions_of_python(spark)
    spark.stop()
    gateway.shutdown()
    if jvm.stdin is not None:
        jvm.stdin.close()
    jvm.wait(timeout=120)


def functions_of_python(spark: object) -> None:
    """A data source in Python that can't be planned still loads what plans and runs them."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    assert isinstance(spark, SparkSession)
    spark.range(3).mapInArrow(lambda batches: batches, "id long").collect()
    try:
        spark.read.format("barnabas").option("kafka.bootstrap.servers", "127.0.0.1:1").option(
            "subscribe", "t"
        ).load().count()
    except PySparkException:
        pass


if __name__ == "__main__":
    main(sys.argv[1])
