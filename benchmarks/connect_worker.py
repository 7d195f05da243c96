"""Connect with its worker and Spark: how soon it is up, what idle connectors cost, how soon a change is in its topic.

    python -m benchmarks.connect_worker [start idle many latency] [--connectors 20] [--seconds 30]

`idle` has as many sources as sinks, all at their ends, and tells the CPU of two cores and the memory (PSS) of worker
and Spark. `many` gives each of 50 sources a line when 100 connectors are there. `latency` is from the commit in
PostgreSQL to the record's timestamp in the topic, at 20 changes a second.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from barnabas.testing import Node
from benchmarks.process import cpu_seconds, proportional_mb
from tests.support.waiting import wait_until

CORES = 2
LIMIT_S = 300.0
WARM_S = 20.0
JSON = "org.apache.kafka.connect.json.JsonConverter"


def stage() -> Any:
    """The worker and the bench of the tests."""
    place = Path(__file__).parents[1] / "tests/integration/connect/conftest.py"
    spec = importlib.util.spec_from_file_location("connect_stage", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def create(worker: Any, name: str, config: dict[str, str]) -> None:
    status, body = worker.call("POST", "/connectors", {"name": name, "config": config})
    assert status == 201, body


def file_source(directory: Path, number: int) -> dict[str, str]:
    path = directory / f"in-{number}.txt"
    path.write_text(f"first {number}\n")
    return {"connector.class": "FileStreamSource", "file": str(path), "topic": f"lines-{number}"}


def file_sink(directory: Path, number: int) -> dict[str, str]:
    return {"connector.class": "FileStreamSink", "file": str(directory / f"out-{number}.txt"),
            "topics": f"lines-{number}"}  # fmt: skip


def written(directory: Path, number: int) -> list[str]:
    path = directory / f"out-{number}.txt"
    return path.read_text().splitlines() if path.exists() else []


def start(node: Node, directory: Path, options: argparse.Namespace) -> str:
    found = []
    for number in range(5):
        place = directory / str(number)
        place.mkdir()
        began = time.perf_counter()
        worker = stage().Worker(place, node.bootstrap_servers, group_id=f"g{number}")
        found.append(time.perf_counter() - began)
        worker.close()
    return f"{statistics.median(found):.2f} s until the worker answers, median of 5"


def pairs(node: Node, directory: Path, count: int) -> Any:
    worker = stage().Worker(directory, node.bootstrap_servers)
    for number in range(count // 2):
        create(worker, f"in-{number}", file_source(directory, number))
        create(worker, f"out-{number}", file_sink(directory, number))
    wait_until(lambda: all(written(directory, each) for each in range(count // 2)), "all lines are through", LIMIT_S)
    return worker


def idle(node: Node, directory: Path, options: argparse.Namespace) -> str:
    worker = pairs(node, directory, options.connectors)
    time.sleep(WARM_S)
    pid = worker.process.pid
    before = cpu_seconds(pid)
    time.sleep(options.seconds)
    used = (cpu_seconds(pid) - before) / options.seconds / CORES
    memory = proportional_mb(pid)
    worker.close()
    return f"{options.connectors} idle connectors: {used:.1%} of {CORES} cores, {memory:,.0f} MB"


def many(node: Node, directory: Path, options: argparse.Namespace) -> str:
    began = time.perf_counter()
    count = 100
    worker = pairs(node, directory, count)
    ready = time.perf_counter()
    for number in range(count // 2):
        with open(directory / f"in-{number}.txt", "a") as file:
            file.write(f"second {number}\n")
    wait_until(lambda: all(len(written(directory, each)) >= 2 for each in range(count // 2)), "all are told", LIMIT_S)
    done = time.perf_counter()
    wrong = [each for each in range(count // 2) if written(directory, each) != [f"first {each}", f"second {each}"]]
    restarted = [name for name in worker.call("GET", "/connectors")[1]
                 if len(worker.call("GET", f"/connectors/{name}/logs")[1][name]) > 1]  # fmt: skip
    assert not wrong, wrong
    assert not restarted, f"connectors that did not simply run: {restarted}"
    worker.close()
    return (
        f"{count} connectors run after {ready - began:.1f} s; 50 new lines are in 50 files after {done - ready:.1f} s"
    )


def latency(node: Node, directory: Path, options: argparse.Namespace) -> str:
    from tests.support.databases import Postgres

    database, made = Postgres(), stage()
    worker = made.Worker(directory, node.bootstrap_servers)
    node.create_topic("p.public.things")
    try:
        database.execute("create table things (id bigint primary key)", "insert into things values (0)")
        create(worker, "changes", {
            "connector.class": "PostgresConnector", "database.hostname": "127.0.0.1", "database.user": "tester",
            "database.port": str(database.port), "database.dbname": "postgres", "topic.prefix": "p",
            "key.converter": JSON, "value.converter": JSON, "value.converter.schemas.enable": "false",
        })  # fmt: skip
        bench = made.Bench(node.bootstrap_servers)

        def there(count: int) -> bool:
            return len(bench.values("p.public.things")) >= count

        wait_until(lambda: there(1), "the snapshot is read", LIMIT_S)
        until, number = time.monotonic() + options.seconds, 0
        while time.monotonic() < until:
            number += 1
            database.execute(f"insert into things values ({number})")
            time.sleep(0.05)
        wait_until(lambda: there(number + 1), "all changes are there", LIMIT_S)
        waits = []
        for each in bench.read("p.public.things"):
            value = json.loads(each.value)
            if value["op"] == "c":
                waits.append(each.timestamp - value["source"]["ts_ms"])
        waits = sorted(waits[len(waits) // 4 :])
        p50, p99 = waits[len(waits) // 2], waits[len(waits) * 99 // 100]
        return f"from the commit to the topic: p50 {p50} ms, p99 {p99} ms of {len(waits)} changes"
    finally:
        worker.close()
        database.close()


ROWS: dict[str, Callable[[Node, Path, argparse.Namespace], str]] = {
    "start": start, "idle": idle, "many": many, "latency": latency
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", choices=[*ROWS, []], metavar="row", help=", ".join(ROWS))
    parser.add_argument("--connectors", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    for name in options.rows or ROWS:
        with tempfile.TemporaryDirectory() as directory, Node() as node:
            print(f"{name}: {ROWS[name](node, Path(directory), options)}", flush=True)


if __name__ == "__main__":
    main()
