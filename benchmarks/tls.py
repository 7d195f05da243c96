"""TLS beside Apache Kafka with TLS: `python -m benchmarks.tls [--only produce|handshakes|half] [--ours]`.

Produce and consume of 1 KB records by one confluent-kafka client over TLS 1.3, both servers in turns; handshakes a
second from four processes; and the memory and the answers of a node while thousands of connections stop amid the
handshake. Beside each figure stands what the server's process used of a CPU.
"""

from __future__ import annotations

import argparse
import multiprocessing
import socket
import ssl
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from barnabas.client.certificates import make_certificates
from benchmarks import load
from benchmarks.registry import cpu_s, memory_mb
from benchmarks.sides import BarnabasSide, KafkaSide
from tests.support import reference

ROUNDS, RECORDS, RECORD_BYTES = 3, 150_000, 1_000
HANDSHAKE_S, HANDSHAKERS = 4.0, 4
HALF_CONNECTIONS = 2_000


class Secured:
    """A server with a listener SSL beside the plain one, which sets the topics up."""

    def __init__(self, side: Any, certificates: Path) -> None:
        self.side = side
        self.port = reference.free_port()
        plain, controller = reference.free_port(), reference.free_port()
        is_ours = isinstance(side, BarnabasSide)
        if not is_ours:
            plain, controller = side.port, side.controller_port
        names = f"PLAINTEXT://127.0.0.1:{plain},SSL://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}"
        settings = {
            "listeners": names,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
            "ssl.keystore.location": str(certificates / "server.p12"),
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.password": "changeit",
            "ssl.key.password": "changeit",
        }
        for name, value in settings.items():
            side.set(name, value)
        self.client = {"security.protocol": "SSL", "ssl.ca.location": str(certificates / "ca.pem")}

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def measured(self, work: Callable[[], float]) -> tuple[float, float]:
        """Seconds on the clock, and of the server's CPU."""
        before = cpu_s(self.side.pid)
        took = work()
        return took, cpu_s(self.side.pid) - before


def produce_and_consume(sides: list[Secured]) -> None:
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for number in range(ROUNDS):
        for each in sides:
            topic = f"tls-{number}"
            load.create_topic(each.side.bootstrap_servers, topic)
            works = {
                "produce": lambda: load.produce(each.servers, topic, RECORDS, RECORD_BYTES, **each.client),  # noqa: B023
                "consume": lambda: load.consume(each.servers, topic, RECORDS, **each.client),  # noqa: B023
            }
            for what, work in works.items():
                found.setdefault((what, each.side.name), []).append(each.measured(work))
    for (what, name), times in found.items():
        clock, cpu = (statistics.median(column) for column in zip(*times, strict=True))
        print(f"{what:8} {name:22} {RECORDS / clock / 1000:7.1f} MB/s, {cpu:.2f} s of CPU")
    for what in ("produce", "consume") if len(sides) == 2 else ():
        ours, theirs = (statistics.median(t[0] for t in found[what, each.side.name]) for each in sides)
        print(f"{what:8} ours to Kafka's: {theirs / ours:.2f}")


def handshakes(server: Secured, certificates: Path) -> None:
    context = multiprocessing.get_context("spawn")
    before = cpu_s(server.side.pid)
    with context.Pool(HANDSHAKERS) as pool:
        counts = pool.starmap(_shake, [(server.port, str(certificates / "ca.pem"))] * HANDSHAKERS)
    rate = sum(counts) / HANDSHAKE_S
    used = cpu_s(server.side.pid) - before
    print(f"handshakes {server.side.name:22} {rate:.0f} a second, {used / sum(counts) * 1e3:.2f} ms of CPU each")


def _shake(port: int, ca: str) -> int:
    context = ssl.create_default_context(cafile=ca)
    until, count = time.monotonic() + HANDSHAKE_S, 0
    while time.monotonic() < until:
        with (
            socket.create_connection(("127.0.0.1", port)) as plain,
            context.wrap_socket(plain, server_hostname="localhost"),
        ):
            count += 1
    return count


def half_handshakes(server: Secured, certificates: Path) -> None:
    """Half of them send the beginning of a ClientHello, half of them nothing."""
    pid, before = server.side.pid, memory_mb(server.side.pid)
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
    waiting = []
    for number in range(HALF_CONNECTIONS):
        made = socket.create_connection(("127.0.0.1", server.port))
        if number % 2:
            made.sendall(hello)
        waiting.append(made)
    time.sleep(1)
    began = time.perf_counter()
    context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
    with (
        socket.create_connection(("127.0.0.1", server.port), 30) as plain,
        context.wrap_socket(plain, server_hostname="localhost"),
    ):
        took_ms = (time.perf_counter() - began) * 1e3
    grown = memory_mb(pid) - before
    print(
        f"half handshakes {server.side.name}: {HALF_CONNECTIONS} wait, {grown:.0f} MB more "
        f"({grown * 1024 / HALF_CONNECTIONS:.0f} KB each), a client among them is in after {took_ms:.0f} ms"
    )
    for each in waiting:
        each.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("produce", "handshakes", "half"))
    parser.add_argument("--ours", action="store_true", help="without Apache Kafka")
    options = parser.parse_args()
    only = options.only
    with tempfile.TemporaryDirectory() as directory:
        certificates = Path(directory)
        make_certificates(certificates, ["localhost", "127.0.0.1"], [], password="changeit", days=2)
        sides = [Secured(BarnabasSide(), certificates)]
        if not options.ours:
            sides.append(Secured(KafkaSide(), certificates))
        try:
            for each in sides:
                each.side.start()
            if only in (None, "produce"):
                produce_and_consume(sides)
            for each in sides:
                if only in (None, "handshakes"):
                    handshakes(each, certificates)
            if only in (None, "half"):
                half_handshakes(sides[0], certificates)
        finally:
            for each in sides:
                each.side.close()


if __name__ == "__main__":
    main()
