"""The schema registry over a node: `python -m benchmarks.registry`.

Lookups by id from 100 connections, registrations of new schemas from 8, and starts on topics with many schemas. Beside
the time on the clock stands what the registry's process used of a CPU, which says more on a busy machine.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from barnabas.client.producer import Producer
from barnabas.client.settings import ClientSettings
from barnabas.services.registry.records import StoredSchema
from barnabas.testing import Node
from barnabas.testing.registry import Registry

CONNECTIONS, LOOKUP_S = 100, 5.0
WRITERS, REGISTRATIONS = 8, 2_000
SIZES = (10, 10_000, 100_000)
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory_mb(pid: int) -> float:
    line = next(each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if each.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def schema(number: int) -> str:
    fields = [{"name": f"field{each}", "type": "string"} for each in range(6)]
    tree = {"type": "record", "name": f"Record{number}", "namespace": "com.example", "fields": fields}
    return json.dumps(tree, separators=(",", ":"))


class Asker(asyncio.Protocol):
    def __init__(self, request: bytes, until: float, took_s: list[float]) -> None:
        self._request, self._until, self._took_s = request, until, took_s
        self._data = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._ask()

    def _ask(self) -> None:
        self._began = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, end, body = self._data.partition(b"\r\n\r\n")
        if not end or len(body) < int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]):
            return
        assert head.startswith(b"HTTP/1.1 200"), head
        self._data = b""
        self._took_s.append(time.perf_counter() - self._began)
        if time.perf_counter() < self._until:
            self._ask()
        else:
            self._transport.close()


async def look_up(port: int, path: str) -> list[float]:
    accept = "application/vnd.schemaregistry.v1+json, application/vnd.schemaregistry+json, application/json"
    request = f"GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nAccept: {accept}\r\n\r\n".encode()
    took_s: list[float] = []
    loop, until = asyncio.get_running_loop(), time.perf_counter() + LOOKUP_S
    for _ in range(CONNECTIONS):
        await loop.create_connection(lambda: Asker(request, until, took_s), "127.0.0.1", port)
    await asyncio.sleep(LOOKUP_S + 0.5)
    return sorted(took_s)


def report_lookups(registry: Registry, path: str) -> None:
    import uvloop

    used = cpu_s(registry.pid)
    took_s = uvloop.run(look_up(registry.port, path))
    used = cpu_s(registry.pid) - used
    rate, p99_ms = len(took_s) / LOOKUP_S, took_s[int(len(took_s) * 0.99)] * 1000
    print(f"{path}: {rate:.0f}/s, p99 {p99_ms:.1f} ms, {len(took_s) / used:.0f} for a second of CPU")


def report_registrations(registry: Registry) -> None:
    def write(first: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", registry.port)
        for number in range(first, REGISTRATIONS, WRITERS):
            body = json.dumps({"schema": schema(number)})
            connection.request("POST", f"/subjects/s{number}/versions", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            answer.read()
        connection.close()

    used, began = cpu_s(registry.pid), time.perf_counter()
    threads = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took_s, used = time.perf_counter() - began, cpu_s(registry.pid) - used
    print(f"register: {REGISTRATIONS / took_s:.0f}/s, {REGISTRATIONS / used:.0f} for a second of CPU")


def report_start(node: Node, schemas: int) -> None:
    topic = f"_schemas_{schemas}"
    node.create_topic(topic, config={"cleanup.policy": "compact"})
    with Producer(ClientSettings.from_properties({}, bootstrap_servers=node.bootstrap_servers)) as producer:
        for number in range(1, schemas + 1):
            stored = StoredSchema(f"subject-{number}-value", 1, number, "AVRO", schema(number))
            key, value = stored.record().encode()
            producer.send(topic, value, key, partition=0)
    own = {"kafkastore.topic": topic, "schema.registry.group.id": topic}
    began = time.perf_counter()
    with Registry(node.bootstrap_servers, own, timeout_s=120) as registry:
        took_s = time.perf_counter() - began
        print(
            f"start on {schemas} schemas: {took_s:.1f} s, {cpu_s(registry.pid):.1f} s of CPU, "
            f"{memory_mb(registry.pid):.0f} MB"
        )


def main() -> None:
    with Node({"group.initial.rebalance.delay.ms": 0}) as node:
        with Registry(node.bootstrap_servers) as registry:
            report_registrations(registry)
            for path in ("/schemas/ids/1", "/schemas/ids/1", "/subjects/s1/versions/latest"):
                report_lookups(registry, path)
        for schemas in SIZES:
            report_start(node, schemas)


if __name__ == "__main__":
    main()
