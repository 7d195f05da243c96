"""The REST proxy over a node: `python -m benchmarks.rest`.

Produce by v2 in batches of 100, 200 consumers that read at once, and 1,000 connections that do nothing. Beside the time
on the clock stands what the proxy's process used of a CPU, which says more on a busy machine.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from typing import Any

from barnabas.testing import Node
from barnabas.testing.rest import Rest
from benchmarks.registry import cpu_s, memory_mb

WRITERS, BATCHES, BATCH = 8, 400, 100
CONSUMERS, IDLE = 200, 1_000
JSON_V2 = {"Content-Type": "application/vnd.kafka.json.v2+json"}
V2 = {"Content-Type": "application/vnd.kafka.v2+json"}


def ask(connection: http.client.HTTPConnection, method: str, path: str, body: Any = None, kind: Any = V2) -> Any:
    connection.request(method, path, None if body is None else json.dumps(body), kind)
    answer = connection.getresponse()
    text = answer.read()
    assert answer.status < 300, text
    return json.loads(text) if text else None


def connect(rest: Rest) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", rest.port, timeout=120)


def together(count: int, work: Any) -> float:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    began = time.perf_counter()
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return time.perf_counter() - began


def produce(rest: Rest) -> None:
    body = json.dumps({"records": [{"value": {"id": number, "celsius": 21.5}} for number in range(BATCH)]})

    def write(_: int) -> None:
        connection = connect(rest)
        for _ in range(BATCHES // WRITERS):
            connection.request("POST", "/topics/load", body, JSON_V2)
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            answer.read()
        connection.close()

    write(0)
    before = cpu_s(rest.pid)
    took_s = together(WRITERS, write)
    used_s = cpu_s(rest.pid) - before
    records = BATCHES * BATCH
    by_clock, by_cpu = records / took_s, records / used_s
    print(f"produce by v2, batches of {BATCH}: {by_clock:,.0f} records/s, {by_cpu:,.0f} for a second of CPU")


def consume(rest: Rest) -> None:
    read = [0] * CONSUMERS

    def work(number: int) -> None:
        connection = connect(rest)
        group = f"group-{number}"
        given = {"name": "i", "format": "json", "auto.offset.reset": "earliest"}
        ask(connection, "POST", f"/consumers/{group}", given)
        path = f"/consumers/{group}/instances/i"
        ask(connection, "POST", f"{path}/subscription", {"topics": ["small"]})
        while read[number] < 10:
            read[number] += len(ask(connection, "GET", f"{path}/records?timeout=5000"))
        ask(connection, "DELETE", path)
        connection.close()

    before = cpu_s(rest.pid)
    took_s = together(CONSUMERS, work)
    print(
        f"{CONSUMERS} consumers, each made, subscribed, read to 10 records and deleted: {took_s:.1f} s, "
        f"{cpu_s(rest.pid) - before:.1f} s of CPU, {memory_mb(rest.pid):.0f} MB; records read {sum(read)}"
    )


def idle(rest: Rest) -> None:
    before = memory_mb(rest.pid)
    kept = [socket.create_connection(("127.0.0.1", rest.port)) for _ in range(IDLE)]
    connection = connect(rest)
    began = time.perf_counter()
    for _ in range(50):
        ask(connection, "GET", "/brokers")
    took_ms = (time.perf_counter() - began) * 20
    print(f"{IDLE} idle connections: {memory_mb(rest.pid) - before:.0f} MB more, /brokers in {took_ms:.1f} ms")
    for each in kept:
        each.close()
    connection.close()


def main() -> None:
    with Node({"group.initial.rebalance.delay.ms": "0"}) as node:
        began = time.perf_counter()
        with Rest(node.bootstrap_servers) as rest:
            print(f"start: {time.perf_counter() - began:.2f} s, {memory_mb(rest.pid):.0f} MB")
            connection = connect(rest)
            ask(connection, "POST", "/topics/small", {"records": [{"value": number} for number in range(10)]}, JSON_V2)
            connection.close()
            produce(rest)
            idle(rest)
            consume(rest)


if __name__ == "__main__":
    main()
