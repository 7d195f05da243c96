"""A topic into a data lake: Parquet files by date and hour, each record exactly once.

    spark-submit examples/ingest_parquet.py TOPIC DIRECTORY
    barnabas pipeline run examples/ingest_parquet.py -- TOPIC DIRECTORY

    DIRECTORY/date=2026-03-01/hour=13/part-....parquet   key, value, partition, offset, time

This is plain PySpark: what Kafka Connect's sinks are for Kafka Streams, Spark's own file sink is for a topology. Spark
notes in DIRECTORY/_spark_metadata which files belong to which batch, so a batch that was begun twice is read once. Read
the directory with Spark, or with any reader of Parquet when the pipeline has never been killed.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from topics import Topic, brokers, create_topics

import barnabas.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

PARTITIONS = 6
EVERY = "10 seconds"  # fewer and larger files; who waits for a lake waits for minutes


def partitioned(records: DataFrame) -> DataFrame:
    """By the time of the record, not of the ingestion: what comes late still finds its hour. Bytes stay bytes."""
    columns = ("key", "value", "partition", "offset", "timestamp as time")
    return records.selectExpr(*columns, "date(timestamp) as date", "hour(timestamp) as hour")


def ingest(spark: SparkSession, topic: str, directory: str) -> StreamingQuery:
    source = spark.readStream.format("barnabas").option("kafka.bootstrap.servers", brokers())
    source = source.options(subscribe=topic, startingOffsets="earliest")
    source = source.option("kafka.isolation.level", "read_committed")  # nothing of transactions that are not to be
    writer = partitioned(source.load()).writeStream.queryName(f"ingest-{topic}").format("parquet")
    writer = writer.partitionBy("date", "hour").option("path", directory)
    return writer.trigger(processingTime=EVERY).start()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("A topic and a directory are wanted: ingest_parquet.py TOPIC DIRECTORY")
    create_topics([Topic(sys.argv[1], PARTITIONS)])
    spark = barnabas.spark.session("ingest", conf={"spark.sql.session.timeZone": "UTC"})  # hours that never repeat
    ingest(spark, sys.argv[1], sys.argv[2]).awaitTermination()
