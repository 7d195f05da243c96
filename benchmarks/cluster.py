"""Three brokers beside Apache Kafka's three: replicated writes, brokers that die, leave and come back, idle followers.

    python -m benchmarks.cluster                         # all cases
    python -m benchmarks.cluster throughput latency --rounds 3

Three nodes with both roles on each side, all of them processes on this machine; replication factor 3,
min.insync.replicas 2, acks=all.
"""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks import cluster_load, load
from benchmarks.cluster_run import ClusterCase, Figures, Shape, main
from benchmarks.cluster_sides import (
    LIMIT_S,
    Side,
    cpu_seconds,
    create_spread,
    memory_mb,
    wait_in_sync,
)
from benchmarks.rows import Row, ratio_at_least, ratio_at_most, value_at_most

PARTITIONS = 6
MANY = 300
IDLE_TOPICS, IDLE_PARTITIONS = 5, 400


def fresh(cluster: Side) -> Figures:
    time.sleep(3)
    return {"memory.fresh": memory_mb(cluster, cluster.broker_ids)}


def new_topic(cluster: Side, partitions: int) -> str:
    topic = f"topic-{os.urandom(5).hex()}"
    create_spread(cluster, topic, partitions)
    return topic


def throughput(cluster: Side, quick: bool) -> Figures:
    figures: Figures = {}
    for record_bytes, records in ((1000, 100_000), (100, 600_000)):
        count = records // (20 if quick else 1)
        topic = new_topic(cluster, PARTITIONS)
        cluster_load.produce(cluster.bootstrap_servers, topic, PARTITIONS, count // 5, record_bytes)
        before = cpu_seconds(cluster, cluster.broker_ids)
        took = cluster_load.produce(cluster.bootstrap_servers, topic, PARTITIONS, count, record_bytes)
        spent = cpu_seconds(cluster, cluster.broker_ids) - before
        figures[f"produce.{record_bytes}"] = count / took
        figures[f"produce.{record_bytes}.cpu"] = spent / count * 1e6
        remove(cluster, topic)
    figures["memory.loaded"] = memory_mb(cluster, cluster.broker_ids)
    return figures


def remove(cluster: Side, topic: str) -> None:
    load.delete_topic(cluster.bootstrap_servers, topic)


def latency(cluster: Side, quick: bool) -> Figures:
    topic = new_topic(cluster, PARTITIONS)
    with cluster_load.Pacer(cluster.bootstrap_servers, topic, PARTITIONS, 500) as pacer:
        time.sleep(2)
        pacer.took()
        time.sleep(2 if quick else 15)
        took, errors = pacer.took()
    if errors:
        raise RuntimeError(f"{cluster.name}: {errors[:3]}")
    remove(cluster, topic)
    return {"latency.p50": load.percentile(took, 50) * 1e3, "latency.p99": load.percentile(took, 99) * 1e3}


def victim(cluster: Side) -> int:
    """A broker that is not the active controller: its fail-over is another case."""
    controller = cluster.controller_id()
    return next(each for each in cluster.broker_ids if each != controller)


def kill(cluster: Side, quick: bool) -> Figures:
    partitions = 30 if quick else MANY
    topic = new_topic(cluster, partitions)
    writer = cluster_load.Everywhere(cluster.bootstrap_servers, topic, partitions)
    broker = victim(cluster)
    time.sleep(2)
    quiet = writer.write_all()
    began = time.perf_counter()
    cluster.kill(broker)
    writer.write_all()
    took = time.perf_counter() - began
    cluster.start(broker)
    wait_in_sync(cluster, topic)
    remove(cluster, topic)
    return {"kill": took, "kill.quiet": quiet}


def stop(cluster: Side, quick: bool) -> Figures:
    """The longest that a record to any partition took while a broker left in order."""
    partitions = 30
    topic = new_topic(cluster, partitions)
    broker = victim(cluster)
    with cluster_load.Pacer(cluster.bootstrap_servers, topic, partitions, 300) as pacer:
        time.sleep(2)
        pacer.took()
        began = time.perf_counter()
        cluster.stop(broker)
        stopped = time.perf_counter() - began
        time.sleep(2)
        took, errors = pacer.took()
    cluster.start(broker)
    wait_in_sync(cluster, topic)
    remove(cluster, topic)
    return {"stop.worst": max(took) * 1e3, "stop.took": stopped, "stop.errors": len(errors)}


def roll(cluster: Side, quick: bool) -> Figures:
    """Each broker is stopped in order and started again; the next one when all replicas are in sync."""
    topic = new_topic(cluster, 30)
    with cluster_load.Pacer(cluster.bootstrap_servers, topic, 30, 300) as pacer:
        time.sleep(1)
        pacer.took()
        began = time.perf_counter()
        last = cluster.controller_id()
        for broker in sorted(cluster.broker_ids, key=lambda each: each == last):
            cluster.restart(broker)
            wait_in_sync(cluster, topic)
        took = time.perf_counter() - began
        records, errors = pacer.took()
    remove(cluster, topic)
    return {"roll": took, "roll.errors": len(errors), "roll.worst": max(records) * 1e3}


def catch_up(cluster: Side, quick: bool) -> Figures:
    """A follower that has missed so much: the rate from its first copied byte until it is in sync everywhere."""
    megabytes = 30 if quick else 600
    topic = new_topic(cluster, PARTITIONS)
    broker = victim(cluster)
    cluster.stop(broker)
    cluster_load.produce(cluster.bootstrap_servers, topic, PARTITIONS, megabytes * 1000, 1000)
    os.sync()
    directory = cluster.nodes[broker].data_dir
    missing = copied_bytes(directory, topic)
    with ThreadPoolExecutor(1) as threads:
        first_byte = threads.submit(when_it_grows, directory, topic, missing)
        cluster.start(broker)
        wait_in_sync(cluster, topic)
        took = time.perf_counter() - first_byte.result()
    copied = copied_bytes(directory, topic) - missing
    remove(cluster, topic)
    return {"catch.rate": copied / 1e6 / took}


def copied_bytes(directory: Path, topic: str) -> int:
    return sum(path.stat().st_size for path in directory.glob(f"{topic}-*/*.log"))


def when_it_grows(directory: Path, topic: str, size: int) -> float:
    limit = time.monotonic() + LIMIT_S
    while copied_bytes(directory, topic) <= size:
        if time.monotonic() > limit:
            raise TimeoutError(f"{directory}: nothing of {topic} was copied")
        time.sleep(0.005)
    return time.perf_counter()


def idle_followers(cluster: Side, quick: bool) -> Figures:
    topics = [f"idle-{os.urandom(4).hex()}" for _ in range(1 if quick else IDLE_TOPICS)]
    for topic in topics:
        create_spread(cluster, topic, IDLE_PARTITIONS)
    time.sleep(1 if quick else 8)
    seconds = 3.0 if quick else 15.0
    before = cpu_seconds(cluster, cluster.broker_ids)
    time.sleep(seconds)
    spent = cpu_seconds(cluster, cluster.broker_ids) - before
    memory = memory_mb(cluster, cluster.broker_ids)
    for topic in topics:
        remove(cluster, topic)
    return {"idle.cpu": 100 * spent / seconds / len(cluster.broker_ids), "idle.memory": memory}


CASES = [
    ClusterCase("throughput", "records of 1 KB and 100 B as fast as they go", throughput),
    ClusterCase("latency", "500 records/s", latency),
    ClusterCase("kill", "kill -9 of a broker that leads 100 of 300 partitions", kill),
    ClusterCase("stop", "a broker stops in order", stop),
    ClusterCase("roll", "rolling restart under load", roll),
    ClusterCase("catch-up", "a follower that was away", catch_up),
    ClusterCase("idle", "2,000 idle partitions", idle_followers),
]
ROWS = [
    Row("produce.1000", "produce 1 KB, acks=all", "records/s", ratio_at_least(1.0)),
    Row("produce.1000.cpu", "CPU of the three brokers per million of them", "s"),
    Row("produce.100", "produce 100 B, acks=all", "records/s", ratio_at_least(1.0)),
    Row("produce.100.cpu", "CPU of the three brokers per million of them", "s"),
    Row("latency.p50", "500 records/s, p50", "ms", ratio_at_most(1.0)),
    Row("latency.p99", "500 records/s, p99", "ms", ratio_at_most(1.0)),
    Row("kill", "`kill -9` of the leader of 100 of 300 partitions until all take records", "s", ratio_at_most(1.0)),
    Row("kill.quiet", "one record to each of the 300 partitions before that", "s"),
    Row("stop.worst", "orderly stop: longest time of a record", "ms", value_at_most(1000)),
    Row("stop.took", "orderly stop: until the process is gone", "s"),
    Row("stop.errors", "orderly stop: errors of the client", "", value_at_most(0)),
    Row("roll", "rolling restart of three brokers under load", "s", ratio_at_most(0.3)),
    Row("roll.errors", "rolling restart: errors of the client", "", value_at_most(0)),
    Row("roll.worst", "rolling restart: longest time of a record", "ms"),
    Row("catch.rate", "catch-up of a follower", "MB/s"),
    Row("idle.cpu", "2,000 idle partitions: CPU a broker", "%", value_at_most(2)),
    Row("idle.memory", "2,000 idle partitions: memory of three brokers", "MB"),
    Row("memory.fresh", "memory of three brokers, fresh", "MB", ratio_at_most(0.15)),
    Row("memory.loaded", "memory of three brokers, after load", "MB", ratio_at_most(0.15)),
]

if __name__ == "__main__":
    shape = Shape(3, config=(("min.insync.replicas", "2"), ("group.initial.rebalance.delay.ms", "0")))
    sys.exit(main("benchmarks.cluster", __doc__, CASES, ROWS, shape, first=fresh))
