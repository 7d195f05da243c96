"""`python -m benchmarks.spark_cases [case ...]`: our Spark source beside Spark's JVM Kafka connector.

Both read the same topic of one Apache Kafka (of our node where there is none), by turns, each in a driver of its own
on two cores: ours with the Spark of this environment, the connector with pyspark 4.2 in ~/.cache/barnabas/spark-4.2
(--prepare makes it). Rates are rows per second of the median round, after a round that is not counted.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from barnabas.testing import Node
from benchmarks import load
from tests.support import reference

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = Path.home() / ".cache" / "barnabas" / "spark-4.2"
# The token provider of 4.2.0 is not in Maven Central; that of 4.0.0 does.
JARS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)
MASTER = "local[2]"
QUIET = {"spark.log.level": "ERROR"}


class Driver:
    """A Spark that reads when it is told to. `started_s` is what its session took."""

    def __init__(self, name: str, python: str, settings: dict[str, Any]) -> None:
        self.name = name
        self.format = "barnabas" if settings["ours"] else "kafka"
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PYSPARK")}
        environment["PYSPARK_PYTHON"] = python
        if not settings["ours"]:
            environment.pop("PYTHONPATH", None)
        script = str(Path(__file__).parent / "spark_driver.py")
        self._process = subprocess.Popen(
            [python, script, json.dumps({"master": MASTER, **settings})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get("BENCHMARK_VERBOSE") else subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        self.started_s = self._answer()

    def ask(self, order: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"format": self.format, **order}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the driver of {self.name} ended; set BENCHMARK_VERBOSE=1 to see why")
        return json.loads(line)


def ours(**conf: str) -> Driver:
    return Driver("Barnabas", sys.executable, {"ours": True, "conf": QUIET | conf})


def connector() -> Driver:
    jars = ",".join(str(jar) for jar in sorted((ENVIRONMENT / "jars").glob("*.jar")))
    conf = QUIET | {"spark.jars": jars, "spark.ui.enabled": "false"}
    return Driver("JVM connector", str(ENVIRONMENT / "bin" / "python"), {"ours": False, "conf": conf})


@contextlib.contextmanager
def server() -> Iterator[str]:
    if reference.available() is None:
        with reference.ApacheKafka(jvm=reference.SHIPPED_JVM) as kafka:
            yield kafka.bootstrap_servers
    else:
        with Node() as node:
            yield node.bootstrap_servers


def fill(servers: str, topic: str, partitions: int, records: int) -> None:
    """Keys of 8 bytes and values of 92, spread evenly."""
    client = load.producer(servers, **{"linger.ms": 20, "batch.size": 64 * 1024})
    chunk = [{"key": os.urandom(8), "value": os.urandom(92)} for _ in range(10_000)]
    for number in range(records // len(chunk)):
        if client.produce_batch(topic, chunk, partition=number % partitions) != len(chunk):
            raise RuntimeError("the client's queue is full")
        while len(client) > load.QUEUED_RECORDS_MAX:
            client.poll(0.001)
    client.flush()


def source(options: argparse.Namespace) -> dict[str, Any]:
    """Rows per second, all columns and one, 100 B records in four partitions."""
    figures: dict[str, list[float]] = {}
    with server() as servers, contextlib.ExitStack() as closing:
        load.create_topic(servers, "benchmark", 4)
        fill(servers, "benchmark", 4, options.records)
        given = {"kafka.bootstrap.servers": servers, "subscribe": "benchmark"}
        drivers = [ours()]
        closing.callback(drivers[0].close)
        if (ENVIRONMENT / "bin" / "python").exists():
            drivers.append(connector())
            closing.callback(drivers[-1].close)
        for number in range(options.rounds + 1):
            for driver in drivers if number % 2 else drivers[::-1]:
                for title, columns in (("all columns", []), ("value alone", ["value"])):
                    pruned = {"columns": "value"} if columns and driver.format == "barnabas" else {}
                    took, cpu = driver.ask({"do": "read", "options": given | pruned, "select": columns})
                    rate, cost = options.records / took, cpu / options.records * 1e6
                    name = f"{driver.name}, {title}"
                    print(f"round {number}, {name}: {rate:,.0f} rows/s, {cost:.2f} us of CPU a row", file=sys.stderr)
                    if number:
                        figures.setdefault(f"{name}, rows/s", []).append(round(rate))
                        figures.setdefault(f"{name}, us of CPU a row", []).append(round(cost, 2))
    return {name: statistics.median(rates) for name, rates in figures.items()}


def start(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds from nothing to the first job done, with the archive and without."""
    taken: dict[str, list[float]] = {}
    for number in range(options.rounds + 1):
        for name, archive in (("with the archive", "on"), ("without", "off")):
            os.environ["BARNABAS_SPARK_ARCHIVE"] = archive
            driver = ours()
            driver.close()
            if number:
                taken.setdefault(f"session start {name}, s", []).append(driver.started_s)
    os.environ.pop("BARNABAS_SPARK_ARCHIVE")
    return {name: round(statistics.median(seconds), 2) for name, seconds in taken.items()}


def idle(options: argparse.Namespace) -> dict[str, Any]:
    """Share of the machine that ten queries take that have nothing to do."""
    found: dict[str, Any] = {}
    with server() as servers:
        load.create_topic(servers, "idle", 4)
        driver = ours()
        try:
            for title, wait in (("waiting at the broker", "100ms"), ("polling", "0ms")):
                given = {"kafka.bootstrap.servers": servers, "subscribe": "idle", "idleWait": wait}
                order = {"do": "idle", "options": given, "queries": 10, "settle_s": 20, "seconds": 20}
                share = driver.ask(order) / order["seconds"] / (os.cpu_count() or 1)
                found[f"ten idle queries, {title}, % of the machine"] = round(100 * share, 1)
        finally:
            driver.close()
    return found


def prepare() -> None:
    """pyspark 4.2 and the connector's jars, in an environment of their own, unless they are there."""
    missing = [jar for jar in JARS if not (ENVIRONMENT / "jars" / ("-".join(jar.split(":")[1:]) + ".jar")).exists()]
    if not missing:
        return
    subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
    pip = [str(ENVIRONMENT / "bin" / "python"), "-m", "pip", "install", "-q"]
    subprocess.run([*pip, "pyspark==4.2.0", "pandas<3", "pyarrow", "numpy"], check=True)
    (ENVIRONMENT / "jars").mkdir(exist_ok=True)
    for jar in missing:
        into = f"-DoutputDirectory={ENVIRONMENT / 'jars'}"
        subprocess.run(["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={jar}", into], check=True)


CASES = {"source": source, "start": start, "idle": idle}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_cases", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="case", help=f"some of {', '.join(CASES)}; all if none")
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prepare", action="store_true", help="fetch the JVM connector and its Spark first")
    options = parser.parse_args()
    if unknown := [name for name in options.cases if name not in CASES]:
        parser.error(f"there is no case {unknown[0]!r}; the cases are {', '.join(CASES)}")
    if options.prepare:
        prepare()
    for name in options.cases or CASES:
        for title, figure in CASES[name](options).items():
            print(f"{title:60} {figure:>14,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
