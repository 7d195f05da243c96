"""A SQL server that is killed while records come, again and again, on Apache Kafka and on a node of ours.

Killed with SIGKILL: once the server with its driver (the process group), once the driver's JVM alone, and in a Spark
cluster one of two workers with its executor. Afterwards every record has given exactly one row, and every change of a
count is there once, in order. `make sql-kills` runs it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.consumer import AssignedConsumer, ConsumerSettings
from barnabas.client.fetcher import FetchSettings
from barnabas.client.producer import Producer
from barnabas.client.settings import ClientSettings
from barnabas.testing import Node
from tests.pipelines.kill_stage import descendants, kill
from tests.support.reference import ApacheKafka, available
from tests.support.spark_cluster import SparkCluster, class_path, java_options
from tests.support.sql_server import SqlServer
from tests.support.waiting import wait_until

KILLS = int(os.environ.get("BARNABAS_SQL_KILLS", "0"))
pytestmark = [
    pytest.mark.skipif(not KILLS, reason="minutes long: make sql-kills (BARNABAS_SQL_KILLS)"),
    pytest.mark.timeout(1200),
]
KEYS = 20
PACE_S = 0.01
STATEMENTS = """
CREATE STREAM s (id STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON', partitions=2);
CREATE STREAM doubled AS SELECT id, v * 2 AS w FROM s;
CREATE STREAM tripled AS SELECT id, v * 3 AS w FROM s;
CREATE STREAM twice AS SELECT id, w * 2 AS w FROM doubled;
CREATE TABLE counted AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;
"""


@pytest.fixture(params=["apache", "barnabas"])
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "barnabas":
        with Node() as node:
            yield node.bootstrap_servers
        return
    if (reason := available()) is not None:
        pytest.skip(reason)
    with ApacheKafka() as kafka:
        yield kafka.bootstrap_servers


def committed(servers: str, topic: str) -> list[tuple[str, dict[str, Any]]]:
    settings = ClientSettings.from_properties({}, bootstrap_servers=servers)
    with AssignedConsumer(settings, ConsumerSettings(fetch=FetchSettings(isolation="read_committed"))) as consumer:
        places = [(topic, 0), (topic, 1)]
        ends = consumer.offsets_at(dict.fromkeys(places, -1))
        consumer.assign(dict.fromkeys(places, -2))
        found = []
        while any(consumer.positions[place] < ends[place] for place in places):
            for record in consumer.poll(500):
                found.append(((record.key or b"").decode(), json.loads(record.value or b"{}")))
        return found


class Writer(threading.Thread):
    """Numbers 0, 1, 2 ..., until it is stopped."""

    def __init__(self, servers: str) -> None:
        super().__init__(daemon=True)
        self.stopped = threading.Event()
        self.count = 0
        self._producer = Producer(ClientSettings.from_properties({}, bootstrap_servers=servers))

    def run(self) -> None:
        while not self.stopped.wait(PACE_S):
            self._producer.send("s", b'{"v": %d}' % self.count, key=b"k%d" % (self.count % KEYS))
            self.count += 1
        self._producer.close(30)


def driver_of(server: SqlServer) -> int:
    """The JVM among the server's processes."""
    assert server._process is not None
    listed = subprocess.run(
        ["ps", "-o", "pid=,comm=", "-g", str(server._process.pid)], capture_output=True, text=True, check=False
    )
    found = [line.split(None, 1) for line in listed.stdout.splitlines()]
    (driver,) = [int(pid) for pid, name in found if name.strip() == "java"]
    return driver


def test_every_record_gives_one_row_though_servers_and_drivers_are_killed(servers: str, tmp_path: Path) -> None:
    settings = {"ksql_streams_session_timeout_ms": "6000"}
    server = SqlServer(servers, tmp_path, **settings).start()
    server.run(STATEMENTS, auto_offset_reset="earliest")
    writer = Writer(servers)
    writer.start()
    try:
        (tripled,) = [one["id"] for one in server.run("SHOW QUERIES;")[0]["queries"] if "TRIPLED" in one["id"]]
        for number in range(KILLS):
            if number % 3:  # who shares a Spark query changes, and the kill comes in the midst of that
                server.run(f"{'PAUSE' if number % 2 else 'RESUME'} {tripled};")
            before = len(committed(servers, "DOUBLED"))
            wait_until(lambda before=before: len(committed(servers, "DOUBLED")) > before, "rows", 240)  # type: ignore[misc]
            time.sleep(number * 0.37 % 1)
            if number % 2:
                os.kill(driver_of(server), signal.SIGKILL)
                print(f"kill {number}: the driver, after {writer.count} records")
            else:
                server.kill()
                print(f"kill {number}: the server, after {writer.count} records")
                server.start()
        server.run(f"RESUME {tripled};")
        ends_once(servers, writer)
    finally:
        writer.stopped.set()
        server.stop()


def test_every_record_gives_one_row_in_a_spark_cluster_that_loses_a_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the settings of the server's file, Spark's go to Spark; the Python of its workers is the environment's."""
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    cluster = SparkCluster(tmp_path)
    with Node() as node:
        servers = node.bootstrap_servers
        settings = {"spark.master": cluster.address, "spark.driver.host": "127.0.0.1", "spark.executor.memory": "512m"}
        settings |= {"spark.executor.cores": "1", "spark.executor.extraJavaOptions": java_options()}
        settings |= {"spark.executor.extraClassPath": class_path()}
        server = SqlServer(servers, tmp_path)
        server.settings |= settings
        server.start()
        writer = Writer(servers)
        try:
            server.run(STATEMENTS, auto_offset_reset="earliest")
            writer.start()
            wait_until(lambda: len(committed(servers, "COUNTED")) > 0, "counts", 240)
            victim = cluster.workers[0]
            for pid in [pid for pid, _ in descendants(victim.pid)] + [victim.pid]:
                kill(pid)
            ends_once(servers, writer)
        finally:
            writer.stopped.set()
            server.stop()
            cluster.close(kill, descendants)


def ends_once(servers: str, writer: Writer) -> None:
    """Rows still come, and in the end there is one for each record."""
    before = len(committed(servers, "DOUBLED"))
    wait_until(lambda: len(committed(servers, "DOUBLED")) > before, "rows after the last kill", 240)
    writer.stopped.set()
    writer.join(60)
    wait_until(lambda: len(committed(servers, "DOUBLED")) >= writer.count, "all rows", 240)
    wait_until(lambda: len(committed(servers, "COUNTED")) >= writer.count, "all counts", 240)
    for topic, factor in (("DOUBLED", 2), ("TRIPLED", 3), ("TWICE", 4)):
        wait_until(lambda topic=topic: len(committed(servers, topic)) >= writer.count, f"all of {topic}", 240)  # type: ignore[misc]
        found = [value["W"] for _, value in committed(servers, topic)]
        assert sorted(found) == [factor * number for number in range(writer.count)]
    counts: dict[str, list[int]] = {}
    for key, value in committed(servers, "COUNTED"):
        counts.setdefault(key, []).append(value["N"])
    assert all(found == list(range(1, len(found) + 1)) for found in counts.values())
    assert sum(map(len, counts.values())) == writer.count
