"""A Spark driver that does what it is told, a line of JSON at a time; it runs in our environment and in the JVM
connector's, which has neither Barnabas nor this repository on its path.

    python spark_driver.py '{"conf": {...}, "ours": true}'
"""

import json
import sys
import time


def session(settings):
    if settings["ours"]:
        import barnabas.spark

        return barnabas.spark.session("benchmark", master=settings["master"], conf=settings["conf"])
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(settings["master"]).appName("benchmark")
    for name, value in settings["conf"].items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def read(spark, order):
    """Seconds to read a topic and throw the rows away, and seconds of CPU."""
    frame = spark.read.format(order["format"]).options(**order["options"]).load()
    if order.get("select"):
        frame = frame.select(*order["select"])
    began, cpu_began = time.perf_counter(), cpu_s()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began, cpu_s() - cpu_began


def idle(spark, order):
    """Seconds of CPU, of the driver and all its children, that queries without data take in some seconds."""
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        queries = []
        for number in range(order["queries"]):
            frame = spark.readStream.format(order["format"]).options(**order["options"]).load()
            writer = frame.writeStream.format("noop").option("checkpointLocation", f"{directory}/{number}")
            if order.get("trigger"):
                writer = writer.trigger(processingTime=order["trigger"])
            queries.append(writer.start())
        time.sleep(order["settle_s"])
        before = cpu_s()
        time.sleep(order["seconds"])
        took = cpu_s() - before
        for query in queries:
            query.stop()
    return took


def cpu_s():
    """Of this process and all that descend from it."""
    import os
    from pathlib import Path

    parents, times = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(stat.parent.name)
        parents[pid], times[pid] = int(fields[1]), int(fields[11]) + int(fields[12])
    mine = {os.getpid()}
    while found := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= found
    return sum(times.get(pid, 0) for pid in mine) / os.sysconf("SC_CLK_TCK")


def main():
    began = time.perf_counter()
    spark = session(json.loads(sys.argv[1]))
    spark.range(1).count()
    print(json.dumps(time.perf_counter() - began), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        print(json.dumps({"read": read, "idle": idle}[order["do"]](spark, order)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
