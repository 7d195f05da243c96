"""Pull queries by key while their table changes: `python -m benchmarks.sql_pulls [seconds] [a second] [setting ...]`.

A node and a SQL server, each a process; a persistent query on Spark that counts 1,000 keys, whose stream gets 200
records a second; clients with open connections that ask for counts at a fixed pace. Latency counts from when a query
was due, so one that waits for its turn is late. Settings are the server's, as `ksql.spark.nice=15`; `writes=0` leaves
the table as it is while it is asked.
"""

from __future__ import annotations

import http.client
import json
import sys
import tempfile
import threading
import time
from pathlib import Path

from barnabas.client.producer import Producer
from barnabas.client.settings import ClientSettings
from barnabas.testing import Node
from tests.support.sql_server import SqlServer
from tests.support.waiting import wait_until

KEYS, CLIENTS, WRITES_A_SECOND, WARM_UP = 1000, 8, 200.0, 300
HEADERS = {"content-type": "application/json", "accept": "application/vnd.ksqlapi.delimited.v1"}


def ask(connection: http.client.HTTPConnection, number: int) -> None:
    body = json.dumps({"sql": f"SELECT * FROM t WHERE id = 'k{number * 7 % KEYS}';"})
    connection.request("POST", "/query-stream", body, HEADERS)
    answer = connection.getresponse()
    lines = answer.read().splitlines()
    assert (answer.status, len(lines)) == (200, 2), lines


def client(port: int, numbers: range, begun: float, pace: float, found: list[float]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for number in numbers:
        due = begun + number / pace
        time.sleep(max(due - time.perf_counter(), 0))
        ask(connection, number)
        found.append(time.perf_counter() - due)


def write(producer: Producer, a_second: float, stopped: threading.Event) -> None:
    number = 0
    while not stopped.wait(1 / a_second if a_second else None):
        number += 1
        producer.send("s", b'{"v": %d}' % number, key=b"k%d" % (number % KEYS))


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    pace = float(sys.argv[2]) if len(sys.argv) > 2 else 500.0
    settings = dict(one.split("=", 1) for one in sys.argv[3:])
    writes = float(settings.pop("writes", WRITES_A_SECOND))
    with Node() as node, tempfile.TemporaryDirectory() as directory:
        server = SqlServer(node.bootstrap_servers, Path(directory), **settings).start()
        server.run(
            "CREATE STREAM s (id STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON', partitions=2);"
            "CREATE TABLE t AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;",
            auto_offset_reset="earliest",
        )
        producer = Producer(ClientSettings.from_properties({}, bootstrap_servers=node.bootstrap_servers))
        for number in range(KEYS):
            producer.send("s", b'{"v": 0}', key=b"k%d" % number)
        wait_until(lambda: len(server.rows("SELECT id FROM t;")) == KEYS, "all keys are counted", 120)
        stopped = threading.Event()
        threading.Thread(target=write, args=(producer, writes, stopped), daemon=True).start()
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        for number in range(WARM_UP):
            ask(connection, number)
        found: list[float] = []
        total, begun = int(seconds * pace), time.perf_counter()
        ranges = [range(at, total, CLIENTS) for at in range(CLIENTS)]
        threads = [threading.Thread(target=client, args=(server.port, one, begun, pace, found)) for one in ranges]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        took_s = time.perf_counter() - begun
        stopped.set()
        found.sort()
        at = {name: found[int(len(found) * share)] * 1000 for name, share in (("p50", 0.5), ("p99", 0.99))}
        print(f"{len(found)} pulls, {len(found) / took_s:.0f} a second, p50 {at['p50']:.1f} ms, p99 {at['p99']:.1f} ms")
        server.stop()
        producer.close(5)


if __name__ == "__main__":
    main()
