"""`python -m benchmarks.spark_sink_cases`: the Spark sink beside the JVM Kafka connector, and latencies of pipelines.

Both connectors write the same rows to the same broker, in turns. The JVM connector needs pyspark 4.2.0 in an
environment of its own with the connector's jars in its `jars` directory (--connector; without it our own figures are
taken alone).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from barnabas.client.cluster import Cluster
from barnabas.client.fetcher import Fetcher, FetchSettings
from barnabas.client.producer import Producer
from barnabas.client.records import iterate_records
from barnabas.client.settings import ClientSettings
from barnabas.testing import Node
from benchmarks import load
from tests.support import reference

DRIVER = Path(__file__).with_name("spark_sink_driver.py")
CONNECTOR = Path.home() / ".cache" / "barnabas" / "spark-4.2"
PARTITIONS = 4
RATE = 100  # records a second while latency is measured
WARM_UP_S, FIRST_LIMIT_S = 30.0, 120.0


class Driver:
    """A Spark session in a process of its own."""

    def __init__(self, python: str, jars: str = "") -> None:
        environment = os.environ | {"PYSPARK_PYTHON": python}
        self._process = subprocess.Popen(
            [python, str(DRIVER), *([jars] if jars else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        self._answer()

    def do(self, *command: Any) -> dict[str, float]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, float]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                found: dict[str, float] = json.loads(line)
                return found
        raise RuntimeError("the Spark driver went away")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def throughput(servers: str, drivers: dict[str, Driver], rows: int, rounds: int) -> dict[str, float]:
    sides = {name: {} for name in drivers} | {"exactly once": {"exactlyOnce": "true"}}
    for driver in drivers.values():
        driver.do("prepare", rows)
    took: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(rounds + 1):  # the first warms up
        for name, more in sides.items():
            topic = f"sink-{os.urandom(4).hex()}"
            load.create_topic(servers, topic, PARTITIONS)
            driver = drivers.get(name) or drivers["plain"]
            seconds = driver.do("write", {"kafka.bootstrap.servers": servers, "topic": topic, **more})["seconds"]
            load.delete_topic(servers, topic)
            if turn:
                took[name].append(seconds)
    return {name: rows / statistics.median(seconds) for name, seconds in took.items()}


class Arrivals(threading.Thread):
    """Reads a topic of times of production, and notes how long each has been under way."""

    def __init__(self, settings: ClientSettings, topic: str) -> None:
        super().__init__(daemon=True)
        self.found: list[tuple[float, float]] = []  # when produced, how long under way, in ms
        self._settings, self._topic = settings, topic
        self.stop_asked = threading.Event()

    def run(self) -> None:
        with (
            Cluster(self._settings) as cluster,
            Fetcher(cluster, FetchSettings(isolation="read_committed", max_wait_ms=100)) as fetcher,
        ):
            fetcher.assign({(self._topic, partition): 0 for partition in range(PARTITIONS)})
            while not self.stop_asked.is_set():
                for fetched in fetcher.poll(100):
                    now_ms = time.time() * 1000
                    produced = [float(record.value or 0) for record in iterate_records(fetched)]
                    self.found += [(at_ms, now_ms - at_ms) for at_ms in produced]


def latency(servers: str, driver: Driver, kind: str, exactly_once: bool, seconds: float) -> dict[str, float]:
    settings = ClientSettings.from_properties({"bootstrap.servers": servers})
    read, written = (f"{kind}-{os.urandom(4).hex()}" for _ in range(2))
    for topic in (read, written):
        load.create_topic(servers, topic, PARTITIONS)
    source = {"kafka.bootstrap.servers": servers, "subscribe": read, "startingOffsets": "earliest"}
    sink = {"kafka.bootstrap.servers": servers, "topic": written, "exactlyOnce": str(exactly_once).lower()}
    driver.do(kind, source, sink | {"checkpointLocation": tempfile.mkdtemp(prefix="barnabas-benchmark-")})
    arrivals = Arrivals(settings, written)
    arrivals.start()
    warm_at = 0.0
    with Producer(settings) as producer:
        began, sent = time.time(), 0
        while time.time() < (warm_at + WARM_UP_S + seconds if warm_at else began + FIRST_LIMIT_S):
            producer.send(read, repr(time.time() * 1000).encode(), key=b"%d" % (sent % 10))
            sent += 1
            warm_at = warm_at or (time.time() if arrivals.found else 0.0)
            time.sleep(max(sent / RATE - (time.time() - began), 0))
        producer.flush()
    time.sleep(1)
    arrivals.stop_asked.set()
    arrivals.join()
    driver.do("stop")
    settled = sorted(took for at_ms, took in arrivals.found if at_ms / 1000 > warm_at + WARM_UP_S)
    if not settled:
        return {"records": 0}
    return {"p50 ms": settled[len(settled) // 2], "p99 ms": settled[len(settled) * 99 // 100], "records": len(settled)}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20, help="how long each latency is measured")
    parser.add_argument("--broker", choices=["barnabas", "kafka"], default="barnabas")
    parser.add_argument("--connector", type=Path, default=CONNECTOR, help="environment of the JVM connector")
    parser.add_argument("--only", choices=["throughput", "latency"])
    options = parser.parse_args()
    server: Any = Node() if options.broker == "barnabas" else reference.ApacheKafka(jvm=reference.SHIPPED_JVM)
    with server:
        servers = server.bootstrap_servers
        drivers = {"plain": Driver(sys.executable)}
        if options.only != "latency":
            jars = ",".join(map(str, (options.connector / "jars").glob("*.jar")))
            if jars:
                drivers["JVM connector"] = Driver(str(options.connector / "bin" / "python"), jars)
            rates = throughput(servers, drivers, options.rows, options.rounds)
            for name, rate in rates.items():
                print(f"{name:16} {rate:12,.0f} rows/s   {rate / rates['plain']:.2f} of plain", flush=True)
            if "JVM connector" in drivers:
                drivers.pop("JVM connector").close()
        if options.only != "throughput":
            for kind in ("stateless", "windowed"):
                for exactly_once in (False, True):
                    found = latency(servers, drivers["plain"], kind, exactly_once, options.seconds)
                    how = "exactly once" if exactly_once else "plain"
                    print(
                        f"{kind:10} {how:13} " + "  ".join(f"{name} {value:,.0f}" for name, value in found.items()),
                        flush=True,
                    )
        drivers["plain"].close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
