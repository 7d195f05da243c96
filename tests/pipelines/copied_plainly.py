"""A driver to be killed: a query of plain PySpark that copies what is in a topic exactly once, and ends.

python copied_plainly.py SERVERS CHECKPOINT INPUT OUTPUT
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession


def main(servers: str, checkpoint: str, read: str, written: str) -> None:
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    broker = {"kafka.bootstrap.servers": servers}
    rows = (
        spark.readStream.format("barnabas")
        .options(**broker, subscribe=read, startingOffsets="earliest", maxOffsetsPerTrigger=20_000)
        .load()
    )
    query = (
        rows.select("key", "value")
        .writeStream.format("barnabas")
        .options(**broker, topic=written, exactlyOnce=True, checkpointLocation=checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
