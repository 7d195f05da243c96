"""A pipeline for `barnabas pipeline run`: adds up numbers by key, exactly once, and fails on the word of a file.

The same file runs under plain python and spark-submit. Its argument is a file that makes a batch fail once.
"""

import sys
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import barnabas.spark

trouble = Path(sys.argv[1])
spark = barnabas.spark.session("numbers")
records = spark.readStream.format("barnabas").options(subscribe="numbers", startingOffsets="earliest").load()
totals = records.groupBy(F.col("key").cast("string")).agg(
    F.sum(F.col("value").cast("string").cast("bigint")).alias("value")
)


def write(rows: DataFrame, batch: int) -> None:
    if trouble.exists():
        trouble.unlink()
        raise RuntimeError("there is trouble")
    rows.select("key", F.col("value").cast("string")).write.format("barnabas").mode("append").options(
        topic="totals", exactlyOnce="true", sinkName="totals"
    ).save()


totals.writeStream.queryName("totals").outputMode("update").foreachBatch(write).start()
print("the file has started its query", flush=True)
spark.streams.awaitAnyTermination()
