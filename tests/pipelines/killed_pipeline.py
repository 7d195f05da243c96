"""A driver to be killed: reads a topic, copies its records and counts them by key, both through exactly-once sinks.

python killed_pipeline.py SERVERS CHECKPOINTS INPUT COPIES TOTALS [MASTER]; it runs until it is killed. Without MASTER
it is run by spark-submit.
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from barnabas.spark import session


def main(servers: str, checkpoints: str, read: str, copies: str, totals: str, master: str | None = None) -> None:
    spark = session("killed", master=master, conf={"spark.sql.shuffle.partitions": 2})
    spark.sparkContext.setLogLevel("ERROR")
    broker = {"kafka.bootstrap.servers": servers}
    source = spark.readStream.format("barnabas").options(**broker, subscribe=read, startingOffsets="earliest")
    source = source.option("maxOffsetsPerTrigger", 5_000)
    records = source.load().select(F.col("key").cast("string"), F.col("value").cast("string"))

    copied = records.select("key", "value")
    counted = records.groupBy("key").agg(F.count("*").alias("count"), F.sum(F.col("value").cast("bigint")).alias("sum"))
    counted = counted.select("key", F.concat_ws(" ", F.col("count"), F.col("sum")).alias("value"))
    copier = copied.writeStream.format("barnabas").options(**broker, topic=copies, exactlyOnce="true")
    copier.option("checkpointLocation", f"{checkpoints}/copies").trigger(processingTime="200 milliseconds").start()

    def write_totals(rows: DataFrame, batch: int) -> None:
        """Spark lets sinks in Python take updates only so."""
        sink = rows.write.format("barnabas").mode("append")
        sink.options(**broker, topic=totals, exactlyOnce="true", sinkName="totals").save()

    counter = counted.writeStream.outputMode("update").foreachBatch(write_totals)
    counter.option("checkpointLocation", f"{checkpoints}/totals").trigger(processingTime="200 milliseconds").start()
    print("running", flush=True)
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
