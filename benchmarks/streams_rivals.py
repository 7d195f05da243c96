"""`python -m benchmarks.streams_rivals [case ...]`: barnabas.streams beside Kafka Streams and Quix Streams.

All read the same records of one node of ours (four partitions, 1,000 keys, 80 bytes of JSON) and write their results to
a topic, by turns, each with two threads. A program is started, gives the results of the first 10,000 records and waits;
then a backlog appears, all of it at once, by the commit of its transaction. The rate is that of the records until the
last result is committed. What each wrote is compared with what must come out.

    filter        parse JSON, keep half of the records, write two fields of each
    count         running count by key
    average       average by key and minute
    join          each record with its row of a table of 1,000
    count-large   running count of 200,000 keys by turns, with a cache of a tenth of what that takes: the rest of the
                  state is in RocksDB on both sides (which has a cache of blocks of its own)
    latency-...   the same workload at 1,000 records a second: from a record to its committed result, after a while;
                  and memory, and the time from the start of the program to its first result
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from barnabas.client.cluster import Cluster
from barnabas.client.fetcher import Fetcher, FetchSettings
from barnabas.client.producer import Producer
from barnabas.client.producer_settings import ProducerSettings
from barnabas.client.records import iterate_records
from barnabas.client.settings import ClientSettings
from barnabas.testing import Node
from benchmarks import load, process, rival_report, rival_sides
from benchmarks.rival_load import KEYS, LARGE, LARGE_KEYS, PARTITIONS, Backlog, Results, amount, commit, until, value_of

WORKLOADS = ("filter", "count", "average", "join")
LATENCIES = tuple(f"latency-{name}" for name in WORKLOADS)
OF_LARGE = ("barnabas", "streams-alo", "streams-eos")
ROOT = Path(__file__).resolve().parent.parent
FIRST_RECORDS = 10_000
LIMIT_S = 240.0
QUIET_S = 2.0  # nothing new for so long: then what is there is read, to see whether it is all
Figures = dict[str, float]


class Stage:
    """A node, and topics on it."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.settings = ClientSettings.from_properties({"bootstrap.servers": servers})
        self.cluster = Cluster(self.settings)

    def order(self, workload: str) -> rival_sides.Order:
        name = os.urandom(4).hex()
        order = rival_sides.Order(workload, f"rival-{name}", self.servers, f"in-{name}", f"table-{name}", f"out-{name}")
        for topic in (order.read, order.table, order.written):
            load.create_topic(self.servers, topic, PARTITIONS)
        return order

    def clear(self, order: rival_sides.Order) -> None:
        """Topics that programs made for themselves, too."""
        own = {order.read, order.table, order.written}
        for topic in self.cluster.metadata(None).topics:
            if topic in own or order.name in topic:
                load.delete_topic(self.servers, topic)


def measure(stage: Stage, side: rival_sides.Side, workload: str, backlog: Backlog, *, closely: bool) -> Figures:
    order = stage.order(workload)
    backlog.write_table(stage.cluster, order.table)
    backlog.write_first(stage.cluster, order.read)
    prepared = backlog.write_open(stage.cluster, order.read)
    results = Results(stage.cluster, workload, order.written)
    try:
        side.start(order)

        def begun() -> bool:
            side.check()
            results.read(closely=closely)
            return results.complete(backlog, backlog.first, closely=closely)

        until(begun, f"{side.name} with the first records of {workload}", LIMIT_S)
        time.sleep(1)
        os.sync()
        cpu_before, began = process.cpu_seconds(side.pid), time.monotonic()
        commit(stage.cluster, prepared)
        took, cpu, memory = watched(side, results, workload, backlog, began, closely=closely)
        side.stop()
    finally:
        results.close()
    stage.clear(order)
    return {
        "rate": backlog.records / took,
        "cpu": (cpu - cpu_before) / backlog.records * 1e6,
        "memory": memory,
    }


def watched(
    side: rival_sides.Side, results: Results, workload: str, backlog: Backlog, began: float, *, closely: bool
) -> tuple[float, float, float]:
    """Seconds until the last result, CPU seconds by then, and the greatest memory on the way."""
    expected = backlog.expected(workload, backlog.total)
    ends, changed, costs_at, memory_at = results.ends(), began, began, began
    cpu = memory = 0.0
    while True:
        time.sleep(0.02)
        now = time.monotonic()
        if now - began > LIMIT_S:
            raise TimeoutError(f"{side.name} is not done with {workload} after {LIMIT_S:.0f} s")
        found = results.ends()
        if found != ends:
            ends, changed, cpu = found, now, 0.0
        if now >= costs_at:
            side.check()
            costs_at = now + 0.25
            cpu = cpu or (process.cpu_seconds(side.pid) if now - changed > 0.02 else 0.0)
        if now >= memory_at:
            memory_at = now + 1
            memory = max(memory, process.proportional_mb(side.pid))
        enough = expected is not None and sum(ends) >= expected
        if cpu and (now - changed > QUIET_S if expected is None else enough and now - changed > QUIET_S / 4):
            results.read(closely=closely)
            if results.complete(backlog, backlog.total, closely=closely):
                return changed - began, cpu, memory
            changed, cpu = changed + QUIET_S, 0.0


def latency(stage: Stage, side: rival_sides.Side, workload: str, options: argparse.Namespace) -> Figures:
    """Every record from `send` until a committed result has it."""
    backlog = Backlog(1, 0)
    order = stage.order(workload)
    backlog.write_table(stage.cluster, order.table)
    watch = Watch(stage, workload, order.written)

    def begun() -> bool:
        side.check()
        return watch.seen > 0

    try:
        with Producer(stage.settings, ProducerSettings.from_properties({"linger.ms": "0"})) as producer:
            watch.send(producer, order.read, 99)  # passes the filter
            producer.flush()
            launched = time.time()
            side.start(order, paced=True)
            until(begun, f"{side.name} with its first record", LIMIT_S)
            first_s = watch.first_at - launched
            began, sent, memory, memory_at = time.time(), 0, 0.0, 0.0
            costs: list[tuple[float, float]] = []  # when, and CPU seconds by then
            while (passed := time.time() - began) < options.settle + options.seconds:
                watch.send(producer, order.read, 100 + sent)
                sent += 1
                if passed > memory_at:
                    side.check()
                    memory_at = passed + 5
                    if passed > options.settle:
                        memory = max(memory, process.proportional_mb(side.pid))
                        costs.append((time.time(), process.cpu_seconds(side.pid)))
                time.sleep(max(sent / options.rate - (time.time() - began), 0))
            costs.append((time.time(), process.cpu_seconds(side.pid)))
            producer.flush()
            until(watch.all_seen, f"the last results of {side.name}", 60)
    finally:
        watch.close()
        side.close()
    stage.clear(order)
    delays = sorted(delay * 1000 for at, delay in watch.delays() if at > began + options.settle)
    return {
        "p50": delays[len(delays) // 2],
        "p99": delays[len(delays) * 99 // 100],
        "memory": memory,
        "cores": (costs[-1][1] - costs[0][1]) / (costs[-1][0] - costs[0][0]),
        "first": first_s,
    }


class Watch:
    """Who sent what when, and when it was seen; a thread reads results."""

    def __init__(self, stage: Stage, workload: str, topic: str) -> None:
        self._stage, self._workload, self._topic = stage, workload, topic
        self._sent: list[tuple[int, float]] = []  # number and time, by mark
        self._of_key: dict[int, list[int]] = {}  # marks by key, in order
        self._of_window: dict[tuple[int, int], list[int]] = {}
        self._seen_at: dict[int, float] = {}
        self._reached: dict[Any, int] = {}
        self._wanted = 0
        self.first_at = 0.0
        self._ended = threading.Event()
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @property
    def seen(self) -> int:
        if self._failed:
            raise self._failed[0]
        return len(self._seen_at)

    def send(self, producer: Producer, topic: str, number: int) -> None:
        mark, key = len(self._sent), number % KEYS
        self._wanted += self._workload != "filter" or amount(number) > 25
        at = time.time()
        self._sent.append((number, at))
        self._of_key.setdefault(key, []).append(mark)
        at_ms = int(at * 1000)
        self._of_window.setdefault((key, at_ms // 60_000 * 60_000), []).append(mark)
        producer.send(topic, value_of(number, mark), key=b"key-%d" % key, timestamp=at_ms)

    def all_seen(self) -> bool:
        return self.seen >= self._wanted

    def delays(self) -> list[tuple[float, float]]:
        return [(self._sent[mark][1], at - self._sent[mark][1]) for mark, at in self._seen_at.items()]

    def close(self) -> None:
        self._ended.set()
        self._thread.join()

    def _read(self) -> None:
        fetching = FetchSettings(isolation="read_committed", max_wait_ms=100)
        try:
            with Cluster(self._stage.settings) as cluster, Fetcher(cluster, fetching) as fetcher:
                fetcher.assign({(self._topic, partition): 0 for partition in range(PARTITIONS)})
                while not self._ended.is_set():
                    for fetched in fetcher.poll(100):
                        now = time.time()
                        self.first_at = self.first_at or now
                        for record in iterate_records(fetched):
                            for mark in self._marks(record.key or b"", record.value or b""):
                                self._seen_at.setdefault(mark, now)
        except BaseException as error:
            self._failed.append(error)

    def _marks(self, key: bytes, value: bytes) -> list[int]:
        """Which records a result is the first to show."""
        found = json.loads(value)
        if self._workload in ("filter", "join"):
            return [found["id"]]
        if self._workload == "count":
            place, reached = int(key[4:]), found
            marks = self._of_key[place]
        else:
            name, start = (key, found["start"]) if "start" in found else (key[:-8], int.from_bytes(key[-8:], "big"))
            place, reached = (int(name[4:]), start), found["n"]  # type: ignore[assignment]
            marks = self._of_window[place]  # type: ignore[index]
        before = self._reached.get(place, 0)
        self._reached[place] = max(before, reached)
        return marks[before:reached]


def available(wanted: list[rival_sides.Side]) -> list[rival_sides.Side]:
    found = []
    for side in wanted:
        try:
            side.prepare()
            found.append(side)
        except rival_sides.Unavailable as reason:
            print(f"{side.name} is left out: {reason}", file=sys.stderr)
    return found


def taking_part(sides: list[rival_sides.Side], case: str) -> list[rival_sides.Side]:
    if case == LARGE:
        return [side for side in sides if side.key in OF_LARGE]
    return [side for side in sides if case.removeprefix("latency-") == "filter" or side.key != "functions"]


def run_rates(stage: Stage, sides: list[rival_sides.Side], case: str, options: argparse.Namespace) -> None:
    backlogs: dict[int, Backlog] = {}
    for share in {side.share for side in sides}:
        backlogs[share] = Backlog(FIRST_RECORDS, options.records // share, LARGE_KEYS if case == LARGE else KEYS)
    found: dict[str, dict[str, list[float]]] = {}
    for turn in range(options.rounds + 1):
        for side in sides if turn % 2 else sides[::-1]:
            figures = measure(stage, side, case, backlogs[side.share], closely=turn == 0)
            told = f"{figures['rate']:,.0f} records/s, {figures['cpu']:.1f} us of CPU each, {figures['memory']:.0f} MB"
            print(f"{case}, round {turn}, {side.name}: {told}", file=sys.stderr, flush=True)
            if turn:
                for name, figure in figures.items():
                    found.setdefault(side.key, {}).setdefault(name, []).append(figure)
                rival_report.remember(options.json, case, found)


def run_latencies(stage: Stage, sides: list[rival_sides.Side], case: str, options: argparse.Namespace) -> None:
    found: dict[str, dict[str, list[float]]] = {}
    for side in sides:
        figures = latency(stage, side, case.removeprefix("latency-"), options)
        told = ", ".join(f"{name} {rival_report.number(figure)}" for name, figure in figures.items())
        print(f"{case}, {side.name}: {told}", file=sys.stderr, flush=True)
        found[side.key] = {name: [figure] for name, figure in figures.items()}
        rival_report.remember(options.json, case, found)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.streams_rivals", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    cases, keys = [*WORKLOADS, LARGE, *LATENCIES], [side.key for side in rival_sides.sides()]
    default = [*WORKLOADS, LARGE, *LATENCIES[:2]]
    parser.add_argument(
        "cases", nargs="*", metavar="case", help=f"some of {', '.join(cases)};\n{' '.join(default)} if none"
    )
    parser.add_argument("--only", action="append", default=[], choices=keys, help="this side; may be repeated")
    parser.add_argument("--records", type=int, default=2_000_000, help="Quix Streams gets a tenth")
    parser.add_argument("--rounds", type=int, default=3, help="after one that is not counted")
    parser.add_argument("--rate", type=int, default=1_000, help="records a second while latency is measured")
    parser.add_argument("--settle", type=float, default=60, help="seconds before latency counts")
    parser.add_argument("--seconds", type=float, default=20, help="for which latency counts")
    parser.add_argument("--quick", action="store_true", help="few records, one round: tries the harness")
    parser.add_argument(
        "--json", type=Path, default=ROOT / "build" / "streams_rivals.json", help="what is known so far"
    )
    parser.add_argument("--document", action="store_true", help="rewrite the table in docs/benchmarks.md")
    options = parser.parse_args()
    if unknown := [name for name in options.cases if name not in cases]:
        parser.error(f"there is no case {unknown[0]!r}; the cases are {', '.join(cases)}")
    options.cases = options.cases or default
    if options.quick:
        options.records, options.rounds, options.settle, options.seconds = 200_000, 1, 5, 5
        options.json = options.json.with_name("streams_rivals_quick.json")
    return options


def main() -> int:
    options = arguments()
    sides = available(rival_sides.of(options.only))
    try:
        with Node() as node:
            stage = Stage(node.bootstrap_servers)
            for case in options.cases:
                run = run_latencies if case.startswith("latency-") else run_rates
                if case.startswith("latency-"):
                    for side in sides:
                        side.close()
                run(stage, taking_part(sides, case), case, options)
            stage.cluster.close()
    finally:
        for side in sides:
            side.close()
    known = rival_report.known(options.json)
    print(rival_report.text(known))
    if options.document:
        rival_report.write_document(ROOT / "docs" / "benchmarks.md", known, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
