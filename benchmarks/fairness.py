"""What one client can do to the others: `python -m benchmarks.fairness`, ours beside Apache Kafka.

For each hostile request the longest wait of a second client that asks for next to nothing every two milliseconds, and
of our node also the processor time of its loop in such a wait, which other work on the machine does not lengthen.
"""

import argparse
import statistics
import sys

from barnabas.client.connection import Connection
from barnabas.client.settings import ClientSettings
from benchmarks.sides import BarnabasSide, KafkaSide, Side
from tests.support import reference
from tests.support.hostile_requests import hostile_requests, prepare
from tests.support.second_client import Disturbance, SecondClient, disturb

NODE_ID = 1
# An answer of 18 GB, with a heap of 1 GB.
FATAL_TO_KAFKA = {"a group with 900 KB of metadata 20,000 times (DescribeGroups)"}


def main() -> int:
    options = arguments()
    found: dict[str, dict[str, list[Disturbance]]] = {}
    factories: list[type[Side]] = [BarnabasSide]
    if options.only != "barnabas" and not (reason := reference.available()):
        factories.insert(0, KafkaSide)
    elif options.only != "barnabas":
        print(f"{reason}: ours alone", file=sys.stderr)
    for factory in factories:
        side = factory()
        try:
            side.start()
            found[side.name] = measure(side, options.rounds, options.partitions)
        finally:
            side.close()
    print("\n".join(table(found)))
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fairness", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=5_000, help="of the topic that is made and removed")
    parser.add_argument("--only", choices=["barnabas"], help="ours alone")
    return parser.parse_args()


def measure(side: Side, rounds: int, partitions: int) -> dict[str, list[Disturbance]]:
    host, _, text = side.bootstrap_servers.rpartition(":")
    port = int(text)
    with Connection((host, port), ClientSettings(bootstrap_servers=((host, port),))) as connection:
        prepare(connection)
    found: dict[str, list[Disturbance]] = {}
    with SecondClient(host, port, side.pid if isinstance(side, BarnabasSide) else None) as second:
        for _ in range(rounds):
            for name, make in hostile_requests(NODE_ID, partitions).items():
                if name in FATAL_TO_KAFKA and not isinstance(side, BarnabasSide):
                    continue
                seen = disturb(second, host, port, make())
                print(f"{side.name}: {seen.longest_wait_ms:8.1f} ms, {name}", file=sys.stderr)
                found.setdefault(name, []).append(seen)
    return found


def table(found: dict[str, dict[str, list[Disturbance]]]) -> list[str]:
    ours, kafkas = found[BarnabasSide.name], found.get(KafkaSide.name, {})
    lines = [
        f"| one client's request | others wait, {KafkaSide.name} | the same, Barnabas | of it, loop busy | answered |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, seen in ours.items():
        theirs = f"{median_wait(kafkas[name]):.0f} ms" if name in kafkas else ""
        busy_ms = statistics.median(each.longest_busy_ms for each in seen)
        answered = "no, closed" if seen[0].answer_bytes is None else "yes"
        lines.append(f"| {name} | {theirs} | {median_wait(seen):.0f} ms | {busy_ms:.0f} ms | {answered} |")
    return lines


def median_wait(seen: list[Disturbance]) -> float:
    return statistics.median(each.longest_wait_ms for each in seen)


if __name__ == "__main__":
    sys.exit(main())
