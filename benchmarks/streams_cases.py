"""`python -m benchmarks.streams_cases [case ...]`: topologies beside the same queries written by hand in PySpark.

Both read the same topic of our node and write back to a topic, exactly once, by turns in one session on two cores.
Rates are records per second of the batches alone, the median of the rounds after one that is not counted. By hand,
`columns` parses, filters and writes with Spark's functions, `lambdas` does so in one mapInArrow, `count` is groupBy and
count with RocksDB, written in foreachBatch, `join` meets a static frame of the table's topic, and `streams-join` is
Spark's join of two streams with watermarks. Both must write the same number of results. CPU is that of the session's
processes, without the node's. `latency` is the time from a record to its result at a fixed rate (`--rate`), of
topologies only.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from barnabas.client.cluster import Cluster
from barnabas.client.fetcher import Fetcher, FetchSettings
from barnabas.client.partitioning import murmur2
from barnabas.client.producer import Producer
from barnabas.client.records import iterate_records, visible_batches
from barnabas.client.settings import ClientSettings
from barnabas.testing import Node
from benchmarks import load, process, rival_load

PARTITIONS = 4
SCHEMA = "id long, kind string, amount double, note string"
Query = Callable[[Any, str, str, str], Any]  # session, servers, input, output -> progress of its batches


def fill(servers: str, topic: str, records: int, keys: int) -> None:
    """Records of 80 bytes of JSON; keys in turn."""
    client = load.producer(servers, **{"linger.ms": 20, "batch.size": 64 * 1024})
    for first in range(0, records, 10_000):
        chunk = []
        for number in range(first, min(first + 10_000, records)):
            value = {"id": number, "kind": "ab"[number % 2], "amount": number % 100 / 2, "note": "x" * 28}
            chunk.append({"key": b"key-%d" % (number % keys), "value": json.dumps(value).encode()})
        client.produce_batch(topic, chunk)
        while len(client) > load.QUEUED_RECORDS_MAX:
            client.poll(0.001)
    client.flush()


def fill_pairs(servers: str, topics: list[str], records: int) -> None:
    """Half of the records to each topic, a key for each pair and the same time, a millisecond for ten pairs."""
    base_ms = time.time_ns() // 1_000_000 - records
    with Cluster(ClientSettings.from_properties({"bootstrap.servers": servers})) as cluster:
        for topic in topics:
            waiting: list[list[Any]] = [[] for _ in range(PARTITIONS)]
            for number in range(records // 2):
                key = b"key-%d" % number
                rows = waiting[partition := (murmur2(key) & 0x7FFFFFFF) % PARTITIONS]
                rows.append((base_ms + number // 10, key, rival_load.value_of(number, number)))
                if len(rows) == rival_load.BATCH_RECORDS:
                    rival_load.produce(cluster, topic, partition, rival_load.batch_of(rows))
                    rows.clear()
            for partition, rows in enumerate(waiting):
                if rows:
                    rival_load.produce(cluster, topic, partition, rival_load.batch_of(rows))


def committed(servers: str, topic: str) -> int:
    """How many records of a topic are committed."""
    count = 0
    with Cluster(ClientSettings.from_properties({"bootstrap.servers": servers})) as cluster:
        ends = cluster.list_offsets(
            {(topic, partition): -1 for partition in range(PARTITIONS)}, isolation="read_committed"
        )
        with Fetcher(cluster, FetchSettings(isolation="read_committed", max_wait_ms=100)) as fetcher:
            fetcher.assign(dict.fromkeys(ends, 0))
            while any(fetcher.positions[place] < end.offset for place, end in ends.items()):
                for fetched in fetcher.poll(1_000):
                    count += sum(batch.header.records_count for batch in visible_batches(fetched))
    return count


def finished(query: Any) -> float:
    """Seconds that the batches took."""
    query.awaitTermination()
    return sum(one["durationMs"]["triggerExecution"] for one in query.recentProgress if one["numInputRows"]) / 1000


def topology(build: Callable[[Any, str, str], None], batch_records: int | None) -> Query:
    def run(spark: Any, servers: str, read: str, written: str) -> float:
        from barnabas.streams import Topology

        made = Topology("benchmark", processing_guarantee="exactly_once_v2")
        build(made, read, written)
        started = made.start(
            spark,
            bootstrap_servers=servers,
            checkpoint=tempfile.mkdtemp(prefix="barnabas-streams-"),
            trigger={"availableNow": True},
            max_batch_records=batch_records,
        )
        return finished(started.queries[0])

    return run


BATCH = 500_000


def frame(spark: Any, servers: str, read: str) -> Any:
    reader = spark.readStream.format("barnabas").option("kafka.bootstrap.servers", servers).option("subscribe", read)
    return (
        reader.option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", BATCH)
        .option("columns", "key,value")
        .load()
    )


def sink(rows: Any, servers: str, written: str) -> float:
    writer = rows.writeStream.format("barnabas").option("kafka.bootstrap.servers", servers).option("topic", written)
    writer = writer.option("exactlyOnce", "true").trigger(availableNow=True)
    return finished(writer.option("checkpointLocation", tempfile.mkdtemp(prefix="barnabas-streams-")).start())


def columns_by_hand(spark: Any, servers: str, read: str, written: str) -> float:
    from pyspark.sql import functions as f

    rows = frame(spark, servers, read).withColumn("v", f.from_json(f.col("value").cast("string"), SCHEMA))
    kept = rows.where("v.amount > 25").select(
        "key", f.to_json(f.struct(f.col("v.id").alias("id"), (f.col("v.amount") * 2).alias("twice"))).alias("value")
    )
    return sink(kept, servers, written)


def columns(made: Any, read: str, written: str) -> None:
    from barnabas.streams import col
    from barnabas.streams import json as json_serde

    stream = made.stream(read, value=json_serde(SCHEMA)).filter(col("value.amount") > 25)
    stream.map_values(id=col("value.id"), twice=col("value.amount") * 2).to(written)


def lambdas_by_hand(spark: Any, servers: str, read: str, written: str) -> float:
    def kept(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            keys, values = [], []
            for key, data in zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True):
                value = json.loads(data)
                if value["amount"] > 25:
                    keys.append(key)
                    values.append(json.dumps({"id": value["id"], "twice": value["amount"] * 2}).encode())
            yield pa.RecordBatch.from_arrays(
                [pa.array(keys, pa.binary()), pa.array(values, pa.binary())], ["key", "value"]
            )

    return sink(frame(spark, servers, read).mapInArrow(kept, "key binary, value binary"), servers, written)


def lambdas(made: Any, read: str, written: str) -> None:
    stream = made.stream(read).filter(lambda key, value: value["amount"] > 25)
    stream.map_values(lambda value: {"id": value["id"], "twice": value["amount"] * 2}).to(written)


def count_by_hand(spark: Any, servers: str, read: str, written: str) -> float:
    from pyspark.sql import functions as f

    counted = (
        frame(spark, servers, read).groupBy("key").count().select("key", f.col("count").cast("string").alias("value"))
    )

    def write(rows: Any, batch: int) -> None:
        writer = rows.write.format("barnabas").mode("append").option("kafka.bootstrap.servers", servers)
        writer.option("topic", written).option("exactlyOnce", "true").option("sinkName", "counts").save()

    writer = counted.writeStream.outputMode("update").foreachBatch(write).trigger(availableNow=True)
    return finished(writer.option("checkpointLocation", tempfile.mkdtemp(prefix="barnabas-streams-")).start())


def count(made: Any, read: str, written: str) -> None:
    made.stream(read).group_by_key().count().to(written)


def join_by_hand(spark: Any, servers: str, read: str, written: str) -> float:
    from pyspark.sql import functions as f

    table = (
        spark.read.format("barnabas").option("kafka.bootstrap.servers", servers).option("subscribe", f"{read}-table")
    )
    rows = (
        table.option("columns", "key,value").load().select("key", f.col("value").cast("string").alias("name")).cache()
    )
    parsed = f.from_json(f.col("value").cast("string"), SCHEMA).alias("value")
    joined = frame(spark, servers, read).select("key", parsed).join(rows, "key")
    return sink(joined.select("key", f.to_json(f.struct("value", "name")).alias("value")), servers, written)


def join(made: Any, read: str, written: str) -> None:
    made.stream(read).join(made.table(f"{read}-table"), lambda value, name: [value, name]).to(written)


def streams_join_by_hand(spark: Any, servers: str, read: str, written: str) -> float:
    from pyspark.sql import functions as f

    def side(topic: str, name: str) -> Any:
        reader = spark.readStream.format("barnabas").option("kafka.bootstrap.servers", servers)
        reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
        rows = reader.option("maxOffsetsPerTrigger", BATCH // 2).option("columns", "key,value,timestamp").load()
        number = f.from_json(f.col("value").cast("string"), SCHEMA).getField("id").alias(name)
        chosen = rows.select(f.col("key").alias(f"{name}_key"), number, f.col("timestamp").alias(f"{name}_at"))
        return chosen.withWatermark(f"{name}_at", "5 seconds")

    near = f.expr("one_key = two_key and two_at between one_at - interval 1 second and one_at + interval 1 second")
    joined = side(read, "one").join(side(f"{read}-table", "two"), near)
    value = f.to_json(f.struct("one", "two")).alias("value")
    return sink(joined.select(f.col("one_key").alias("key"), value), servers, written)


def streams_join(made: Any, read: str, written: str) -> None:
    from barnabas.streams import within

    one, two = made.stream(read), made.stream(f"{read}-table")
    one.join(two, lambda one, two: {"one": one["id"], "two": two["id"]}, within(1_000, grace=5_000)).to(written)


PAIRS: dict[str, tuple[Callable[[Any, str, str], None], Query, int]] = {
    "columns": (columns, columns_by_hand, 1_000),
    "lambdas": (lambdas, lambdas_by_hand, 1_000),
    "count-100": (count, count_by_hand, 100),
    "count-100000": (count, count_by_hand, 100_000),
    "join": (join, join_by_hand, 100_000),
    "streams-join": (streams_join, streams_join_by_hand, 0),
}


def compare(node: Node, spark: Any, name: str, options: argparse.Namespace) -> dict[str, float]:
    servers = node.bootstrap_servers
    build, by_hand, keys = PAIRS[name]
    read = f"in-{name}"
    load.create_topic(servers, read, PARTITIONS)
    load.create_topic(servers, f"{read}-table", PARTITIONS)
    if name == "join":  # the table first: its rows are older than the records that look for them
        client = load.producer(servers)
        client.produce_batch(f"{read}-table", [{"key": b"key-%d" % n, "value": b'"n%d"' % n} for n in range(keys)])
        client.flush()
    if name == "streams-join":
        fill_pairs(servers, [read, f"{read}-table"], options.records)
    else:
        fill(servers, read, options.records, keys)
    took: dict[str, list[float]] = {"topology": [], "by hand": []}
    cpu: dict[str, list[float]] = {"topology": [], "by hand": []}
    results: dict[str, int] = {}
    batch_records = None if name == "join" else BATCH  # what comes of a table in a later batch is later
    sides = {"topology": topology(build, batch_records), "by hand": by_hand}
    for turn in range(options.rounds + 1):
        for side in list(sides) if turn % 2 else list(sides)[::-1]:
            written = f"out-{os.urandom(4).hex()}"
            load.create_topic(servers, written, PARTITIONS)
            before = process.cpu_seconds(os.getpid()) - process.cpu_seconds(node.pid)
            seconds = sides[side](spark, servers, read, written)
            spent = process.cpu_seconds(os.getpid()) - process.cpu_seconds(node.pid) - before
            results[side] = committed(servers, written)
            load.delete_topic(servers, written)
            told = f"{options.records / seconds:,.0f} records/s, {spent / options.records * 1e6:.1f} us of CPU each"
            print(f"round {turn}, {name}, {side}: {told}", file=sys.stderr, flush=True)
            if turn:
                took[side].append(seconds)
                cpu[side].append(spent)
        if not name.startswith("count") and results["topology"] != results["by hand"]:
            raise RuntimeError(f"{name}: the numbers of results differ: {results}")
    rates = {side: options.records / statistics.median(seconds) for side, seconds in took.items()}
    load.delete_topic(servers, read)
    return {
        f"{name}, topology, records/s": round(rates["topology"]),
        f"{name}, by hand, records/s": round(rates["by hand"]),
        f"{name}, ratio": round(rates["topology"] / rates["by hand"], 2),
        **{
            f"{name}, {side}, us of CPU": round(statistics.median(spent) / options.records * 1e6, 1)
            for side, spent in cpu.items()
        },
    }


def latency(servers: str, spark: Any, options: argparse.Namespace) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, build in (("stateless", lambdas_of_times), ("count", counted_times)):
        delays = sorted(delays_of(servers, spark, build, options))
        found[f"latency, {name}, p50 ms"] = round(delays[len(delays) // 2], 1)
        found[f"latency, {name}, p99 ms"] = round(delays[len(delays) * 99 // 100], 1)
    return found


def lambdas_of_times(made: Any, read: str, written: str) -> None:
    made.stream(read).filter(lambda key, value: value > 0).to(written)


def counted_times(made: Any, read: str, written: str) -> None:
    """The count, and the time of the last record that is in it."""
    counts = made.stream(read).group_by_key().aggregate(lambda: [0, 0], lambda key, value, found: [found[0] + 1, value])
    counts.map_values(lambda found: found[1]).to(written)


def delays_of(
    servers: str, spark: Any, build: Callable[[Any, str, str], None], options: argparse.Namespace
) -> list[float]:
    from barnabas.streams import Topology

    read, written = (f"{kind}-{os.urandom(4).hex()}" for kind in ("in", "out"))
    for topic in (read, written):
        load.create_topic(servers, topic, PARTITIONS)
    made = Topology("latency", processing_guarantee="exactly_once_v2")
    build(made, read, written)
    run = made.start(spark, bootstrap_servers=servers, checkpoint=tempfile.mkdtemp(prefix="barnabas-streams-"))
    settings = ClientSettings.from_properties({"bootstrap.servers": servers})
    found: list[tuple[float, float]] = []
    ended = threading.Event()

    def arrive() -> None:
        fetching = FetchSettings(isolation="read_committed", max_wait_ms=100)
        with Cluster(settings) as cluster, Fetcher(cluster, fetching) as fetcher:
            fetcher.assign({(written, partition): 0 for partition in range(PARTITIONS)})
            while not ended.is_set():
                for fetched in fetcher.poll(100):
                    now_ms = time.time() * 1000
                    found.extend((float(one.value or 0), now_ms) for one in iterate_records(fetched))

    reader = threading.Thread(target=arrive, daemon=True)
    reader.start()
    with Producer(settings) as producer:
        began, sent = time.time(), 0
        while time.time() - began < options.settle + options.seconds:
            producer.send(read, repr(time.time() * 1000).encode(), key=b"key-%d" % (sent % 1_000))
            sent += 1
            time.sleep(max(sent / options.rate - (time.time() - began), 0))
        producer.flush()
    time.sleep(2)
    ended.set()
    reader.join()
    run.stop()
    return [now_ms - at_ms for at_ms, now_ms in found if at_ms / 1000 > began + options.settle]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.streams_cases", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="case", help=f"some of {', '.join(PAIRS)}, latency; all if none")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=int, default=1_000, help="records a second while latency is measured")
    parser.add_argument("--settle", type=float, default=60, help="seconds before latency counts")
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    known = [*PAIRS, "latency"]
    if unknown := [name for name in options.cases if name not in known]:
        parser.error(f"there is no case {unknown[0]!r}; the cases are {', '.join(known)}")
    import barnabas.spark

    spark = barnabas.spark.session("benchmark", master="local[2]", conf={"spark.log.level": "ERROR"})
    with Node() as node:
        for name in options.cases or known:
            if name == "latency":
                figures = latency(node.bootstrap_servers, spark, options)
            else:
                figures = compare(node, spark, name, options)
            for title, figure in figures.items():
                print(f"{title:50} {figure:>14,}", flush=True)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
