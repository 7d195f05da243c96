"""Asks Spark's JVM Kafka connector what it makes of a topic, in an environment of its own with pyspark 4.2.

python jvm_connector.py SERVERS TOPIC OUTPUT JAR,JAR      # see test_like_the_connector.py
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any


def rows_of(frame: Any) -> list[list[Any]]:
    ordered = frame.orderBy("partition", "offset").collect()
    return [[plain(value) for value in row] for row in ordered]


def plain(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode()
    if isinstance(value, list):
        return [[plain(part) for part in element] for element in value]
    return int(value.timestamp() * 1000) if hasattr(value, "timestamp") else value


def answers(spark: Any, name: str, servers: str, topic: str, questions: dict[str, dict[str, str]]) -> dict[str, Any]:
    """By question: schema and rows of a batch, or the offsets of every batch of a stream."""
    found: dict[str, Any] = {}
    for question, given in questions.items():
        options = {"kafka.bootstrap.servers": servers, "subscribe": topic} | given
        if question.startswith("stream"):
            found[question] = batches_of(spark.readStream.format(name).options(**options).load())
            continue
        frame = spark.read.format(name).options(**options).load()
        found[question] = {
            "schema": frame.schema.simpleString(),
            "rows": rows_of(frame),
            "tasks": frame.rdd.getNumPartitions(),
        }
    return found


def batches_of(frame: Any) -> list[Any]:
    with tempfile.TemporaryDirectory() as directory:
        query = (
            frame.writeStream.format("noop")
            .option("checkpointLocation", str(Path(directory) / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        progress = [one for one in query.recentProgress if one["numInputRows"]]
    return [[one["numInputRows"], offsets(one["sources"][0]["endOffset"])] for one in progress]


def offsets(value: Any) -> dict[str, dict[str, int]]:
    """Of topics: what has a $ is ours alone."""
    parsed = json.loads(value) if isinstance(value, str) else value
    return {name: numbers for name, numbers in parsed.items() if not name.startswith("$")}


def main(servers: str, topic: str, questions: str, output: str, jars: str) -> None:
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    found = answers(spark, "kafka", servers, topic, json.loads(Path(questions).read_text()))
    Path(output).write_text(json.dumps(found, indent=1) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
