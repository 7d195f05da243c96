"""`python -m benchmarks.sql [part ...]`: figures of the SQL server, a process beside a node of ours.

- `start`: from the command to an open port, without persistent queries, the median of five.
- `push`: from a push query's request to its first row, over a topic with records; the median and the worst of thirty.
- `pushes`: 200 push queries at once over one topic; the time until all of them have seen a record that was just sent.
- `first-result`: in a server whose Spark runs, from CREATE STREAM AS to its first result.
- `idle`: 50 persistent queries without records; CPU of the server and Spark in shares of two cores, and memory.

`python -m benchmarks.sql_pulls` measures pull queries, `python -m benchmarks.sql_throughput` persistent ones.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from barnabas.testing import Node
from benchmarks import process
from tests.support.sql_server import SqlServer

DELIMITED = {"content-type": "application/json", "accept": "application/vnd.ksqlapi.delimited.v1"}
SOURCE = "CREATE STREAM s (id STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON', partitions=2);"
PUSHES, IDLE_QUERIES, IDLE_S, CORES = 200, 50, 20.0, 2
WITHIN_S = 120.0
Figures = dict[str, float]


@contextmanager
def running(node: Node) -> Iterator[SqlServer]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        server = SqlServer(node.bootstrap_servers, Path(directory), ksql_service_id=f"b{time.time_ns()}").start()
        try:
            yield server
        finally:
            server.kill()


def pid_of(server: SqlServer) -> int:
    assert server._process is not None
    return server._process.pid


def rows_of(server: SqlServer, text: str, offset: str = "latest") -> tuple[Any, Any]:
    """The response of a push query after its header; its connection."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=WITHIN_S)
    body = json.dumps({"sql": text, "properties": {"auto.offset.reset": offset}})
    connection.request("POST", "/query-stream", body, DELIMITED)
    answer = connection.getresponse()
    header = answer.readline()
    assert answer.status == 200, header
    return answer, connection


def start(node: Node) -> Figures:
    found = []
    for _ in range(5):
        begun = time.perf_counter()
        with running(node):
            found.append((time.perf_counter() - begun) * 1000)
    return {"start, ms": statistics.median(found)}


def push(node: Node) -> Figures:
    found = []
    with running(node) as server:
        server.run(SOURCE + "INSERT INTO s VALUES ('a', 1);")
        for number in range(30):
            begun = time.perf_counter()
            answer, connection = rows_of(server, f"SELECT id, v + {number} FROM s EMIT CHANGES;", "earliest")
            assert json.loads(answer.readline()) == ["a", 1 + number]
            found.append((time.perf_counter() - begun) * 1000)
            connection.close()
    return {"push, first row, median ms": statistics.median(found), "push, first row, worst ms": max(found)}


def pushes(node: Node) -> Figures:
    seen: list[float] = []
    with running(node) as server:
        server.run(SOURCE)
        begun = time.perf_counter()
        opened = [rows_of(server, f"SELECT id, v + {one} FROM s EMIT CHANGES;") for one in range(PUSHES)]
        opened_s = time.perf_counter() - begun
        time.sleep(2)

        def read(answer: Any) -> None:
            answer.readline()
            seen.append(time.perf_counter())

        threads = [threading.Thread(target=read, args=(answer,), daemon=True) for answer, _ in opened]
        for one in threads:
            one.start()
        before_cpu, before = process.cpu_seconds(pid_of(server)), time.perf_counter()
        time.sleep(10)
        share = (process.cpu_seconds(pid_of(server)) - before_cpu) / (time.perf_counter() - before) / CORES * 100
        sent = time.perf_counter()
        server.run("INSERT INTO s VALUES ('a', 1);")
        for one in threads:
            one.join(WITHIN_S)
        assert len(seen) == PUSHES, f"{len(seen)} of {PUSHES} push queries have seen the record"
        memory = process.resident_mb(pid_of(server))
        for _, connection in opened:
            connection.close()
    return {
        f"{PUSHES} pushes, opened in s": opened_s,
        f"{PUSHES} pushes, record to the last of them, ms": (max(seen) - sent) * 1000,
        f"{PUSHES} pushes, idle, % of {CORES} cores": share,
        f"{PUSHES} pushes, resident MB": memory,
    }


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.01)


def first_result(node: Node) -> Figures:
    found = []
    with running(node) as server:
        server.run(SOURCE + "INSERT INTO s VALUES ('a', 1);")
        for number in range(6):
            begun = time.perf_counter()
            server.run(f"CREATE STREAM o{number} AS SELECT id, v + {number} AS w FROM s;", auto_offset_reset="earliest")
            until(lambda number=number: bool(server.rows(f"SELECT * FROM o{number};")), "a result")  # type: ignore[misc]
            found.append(time.perf_counter() - begun)
    return {"first result, Spark starts, s": found[0], "first result, median s": statistics.median(found[1:])}


def idle(node: Node) -> Figures:
    with running(node) as server:
        server.run(SOURCE)
        begun = time.perf_counter()
        for number in range(IDLE_QUERIES):
            if number % 2:
                server.run(f"CREATE TABLE c{number} AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;")
            else:
                server.run(f"CREATE STREAM f{number} AS SELECT * FROM s WHERE v > {number};")
        until(lambda: states(server) == ["RUNNING"] * IDLE_QUERIES, f"{IDLE_QUERIES} queries run")
        all_run_s = time.perf_counter() - begun
        time.sleep(10)
        before_cpu, before = process.cpu_seconds(pid_of(server)), time.perf_counter()
        time.sleep(IDLE_S)
        spent = process.cpu_seconds(pid_of(server)) - before_cpu
        share = spent / (time.perf_counter() - before) / CORES * 100
        return {
            f"{IDLE_QUERIES} queries, all run after s": all_run_s,
            f"{IDLE_QUERIES} queries, idle, % of {CORES} cores": share,
            f"{IDLE_QUERIES} queries, idle, resident MB": process.resident_mb(pid_of(server)),
            f"{IDLE_QUERIES} queries, idle, proportional MB": process.proportional_mb(pid_of(server)),
        }


def states(server: SqlServer) -> list[str]:
    found = server.run("SHOW QUERIES;")[0]["queries"]
    return [one["state"] for one in found]


PARTS: dict[str, Callable[[Node], Figures]] = {
    "start": start,
    "push": push,
    "pushes": pushes,
    "first-result": first_result,
    "idle": idle,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sql", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"some of {', '.join(PARTS)}; all if none")
    options = parser.parse_args()
    if unknown := [name for name in options.parts if name not in PARTS]:
        parser.error(f"there is no part {unknown[0]!r}; the parts are {', '.join(PARTS)}")
    for name in options.parts or PARTS:
        with Node() as node:
            for title, figure in PARTS[name](node).items():
                print(f"{title:52} {figure:>10,.1f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
