"""The process with Spark: `python -m barnabas.pipelines.connect.plane.driver DIRECTORY`, a child of the worker.

Orders come on stdin, one JSON object a line; events go to the descriptor that BARNABAS_CONNECT_EVENTS names. The end of
stdin ends the process. Connectors are divided among a few queries: each of the first has one of its own, later ones
join the query with the fewest. A query that fails is started anew; it needs no checkpoint: offsets are in Kafka.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.pipelines.connect.plane.data_source import NAME, PLAN, ConnectSource, write_plan
from barnabas.pipelines.connect.plane.orders import EVENTS, Job, Outcome
from barnabas.pipelines.connect.plane.planner import Planner
from barnabas.pipelines.spark.session import active_here, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TICK_S = 0.05
TRIGGER = "50 milliseconds"
QUERIES_MAX = 4
RESTART_S = 1.0
ONCE = {"spark.task.maxFailures": "1", "spark.speculation": "false"}  # a turn is planned anew, never repeated


class TurnQuery:
    """A query and the connectors in it. `under_way` is set from the writing of a plan until its outcomes are there."""

    def __init__(self, number: int, directory: Path, driver: Driver) -> None:
        self.number, self.directory = number, directory / f"query-{number}"
        self.names: list[str] = []
        self.under_way = False
        self._driver, self._turn = driver, 0
        self._query: StreamingQuery | None = None
        self._started_at = 0.0

    def start(self, spark: SparkSession) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        self._turn, self.under_way = 0, False
        write_plan(self.directory / "plan.json", 0, [])
        self._started_at = time.monotonic()
        rows = spark.readStream.format(NAME).option(PLAN, str(self.directory / "plan.json")).load()
        writer = rows.writeStream.queryName(f"connect-{self.number}").trigger(processingTime=TRIGGER)
        writer = writer.option("checkpointLocation", str(self.directory / "checkpoint"))
        self._query = writer.foreachBatch(self._outcomes).start()

    def _outcomes(self, batch: DataFrame, _: int) -> None:
        rows = [Outcome.parse(row[0]) for row in batch.collect()]
        with self._driver.lock:
            for outcome in rows:
                self._driver.planner.done(outcome)
            if rows:
                self.under_way = False

    def step(self, spark: SparkSession) -> None:
        """Called with the driver's lock."""
        if self._query is None or not self._query.isActive:
            if self._query is not None:
                self._driver.tell("trouble", text=f"query {self.number} ended: {self._query.exception()}")
                self._driver.planner.lost(self.names)
            if self.names and time.monotonic() - self._started_at > RESTART_S:
                self.start(spark)
            return
        if self.under_way:
            return
        turns = self._driver.planner.due(self.names)
        if turns:
            self._turn += 1
            self.under_way = True
            write_plan(self.directory / "plan.json", self._turn, [turn.encode() for turn in turns])

    def stop(self) -> None:
        if self._query is not None:
            self._query.stop()


class Driver:
    def __init__(self, directory: Path) -> None:
        self.lock = threading.RLock()
        self._events = os.fdopen(int(os.environ[EVENTS]), "w", buffering=1)
        self.planner = Planner(self.tell)
        self._queries: list[TurnQuery] = []
        self._directory = directory
        self._closing = threading.Event()

    def tell(self, event: str, **rest: Any) -> None:
        self._events.write(json.dumps({"event": event} | rest) + "\n")

    def run(self) -> None:
        threading.Thread(target=self._listen, name="orders", daemon=True).start()
        conf = {"spark.driver.memory": os.environ.get("BARNABAS_CONNECT_MEMORY", "512m"), **ONCE}
        master = os.environ.get("BARNABAS_CONNECT_MASTER")
        spark = session("barnabas connect", master=master, conf=conf)
        active_here(spark)
        spark.dataSource.register(ConnectSource)
        self.tell("ready")
        while not self._closing.wait(TICK_S):
            with self.lock:
                for query in self._queries:
                    query.step(spark)
        for query in self._queries:
            query.stop()
        self.planner.close()
        spark.stop()

    def _listen(self) -> None:
        for line in sys.stdin:
            order = json.loads(line)
            with self.lock:
                self._obey(order)
        self._closing.set()

    def _obey(self, order: dict[str, Any]) -> None:
        name = order.get("name", "")
        if order["do"] == "start":
            job = Job.parse(order["job"])
            self.planner.start(job)
            if not any(job.name in query.names for query in self._queries):
                self._place(job.name)
        elif order["do"] in ("pause", "resume"):
            self.planner.pause(name, order["do"] == "pause")
        elif order["do"] == "stop":
            for query in self._queries:
                if name in query.names:
                    query.names.remove(name)
            self.planner.remove(name, order["id"])
        elif order["do"] == "hold":
            self.planner.hold(order["id"])
        elif order["do"] == "release":
            self.planner.release()
        elif order["do"] == "restart":
            self.planner.restart_task(name, order["task"])

    def _place(self, name: str) -> None:
        free = min(self._queries, key=lambda each: len(each.names), default=None)
        if free is None or (free.names and len(self._queries) < QUERIES_MAX):
            free = TurnQuery(len(self._queries), self._directory, self)
            self._queries.append(free)
        free.names.append(name)


def main() -> None:
    Driver(Path(sys.argv[1])).run()


if __name__ == "__main__":
    main()
