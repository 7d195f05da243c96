"""Starts Spark, runs what loads the classes of most pipelines, and ends the JVM so that it writes its archive.

The command by which it ran is written beside the archive, where it can be read, and a class of our own.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from barnabas.pipelines.spark.session import START_UP_OPTIONS, session
from barnabas.pipelines.spark.startup.archive import command_path_of, files_jar_of
from barnabas.pipelines.spark.startup.jvm import CLASS_PATH, JAVA_OPTIONS, command_of, end
from barnabas.pipelines.spark.startup.local_files import compile_into

QUICK = "-XX:TieredStopAtLevel=1"


def main(made: str, class_path: str) -> None:
    from pyspark.sql import SparkSession, functions

    options = f"{START_UP_OPTIONS} {QUICK} -XX:ArchiveClassesAtExit={made}"
    spark: SparkSession = session(
        "start-up archive",
        master="local[1]",
        conf={JAVA_OPTIONS: options, CLASS_PATH: class_path, "spark.log.level": "ERROR"},
        quick_start=False,
    )
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    jvm: subprocess.Popen[bytes] = gateway.proc
    with contextlib.suppress(OSError, ValueError):  # where there is no /proc, Spark is started by spark-submit
        command_path_of(Path(made)).write_text(json.dumps(command_of(jvm.pid, options), indent=1))
    compile_into(files_jar_of(Path(made)), gateway.jvm)
    with tempfile.TemporaryDirectory() as directory:
        rows = spark.range(100).withColumn("even", functions.col("id") % 2).groupBy("even").count()
        rows.write.parquet(str(Path(directory) / "rows"))
        ticks = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
        parsed = ticks.select("timestamp", functions.from_json(functions.lit('{"a":1}'), "a int").alias("json"))
        counted = (
            parsed.withWatermark("timestamp", "1 second")
            .groupBy(functions.window("timestamp", "1 second"), "json.a")
            .count()
            .select(functions.upper(functions.to_json(functions.struct("count"))).alias("value"))
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
    end(spark)


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
    main(sys.argv[1], sys.argv[2])
