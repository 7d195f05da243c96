"""From `barnabas pipeline run` to the first committed result of a topology: seconds, and seconds of CPU.

    python -m benchmarks.streams_start --turns 5 --beside ../other-tree

Every turn is a pipeline of its own on one node. With `--beside` each turn starts this tree and another one, so that
both see the same machine. CPU is user and system time of all processes of the pipeline when the result is there.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from barnabas.client.cluster import Cluster
from barnabas.client.producer import Producer
from barnabas.client.settings import ClientSettings
from barnabas.testing import Node
from benchmarks.process import cpu_seconds

HERE = Path(__file__).resolve().parents[1]
RECORDS = 1_000
PARTITIONS = 4
LIMIT_S = 300
ORDER = {"kind": "new", "amount": 50.0, "note": "as it came"}
Turn = tuple[float, float]  # seconds, and of CPU


def first_result(tree: Path, workload: str, node: Node, settings: ClientSettings, name: str) -> Turn:
    node.create_topic(name, PARTITIONS)
    path = os.pathsep.join([str(tree), str(tree / "src")])
    with tempfile.TemporaryDirectory(prefix="barnabas-start-") as state, Cluster(settings) as cluster:
        command = [
            sys.executable,
            "-m",
            "barnabas",
            "pipeline",
            "run",
            str(tree / "benchmarks" / "rival_topologies.py"),
        ]
        command += ["--name", name, "--bootstrap-server", node.bootstrap_servers, "--master", "local[2]"]
        command += ["--", workload, "orders", "orders", name]
        began = time.monotonic()
        pipeline = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=None if os.environ.get("BENCHMARK_VERBOSE") else subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": path, "BARNABAS_STATE": state},
        )
        try:
            while not written(cluster, name):
                if pipeline.poll() is not None or time.monotonic() - began > LIMIT_S:
                    raise RuntimeError(f"{tree} gave no result; set BENCHMARK_VERBOSE=1 to see why")
                time.sleep(0.01)
            return time.monotonic() - began, cpu_seconds(pipeline.pid)
        finally:
            pipeline.terminate()
            pipeline.wait(60)


def written(cluster: Cluster, topic: str) -> bool:
    wanted = {(topic, partition): -1 for partition in range(PARTITIONS)}
    return any(found.offset for found in cluster.list_offsets(wanted, isolation="read_committed").values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--workload", default="filter")
    parser.add_argument("--beside", type=Path, help="another tree of the product")
    given = parser.parse_args()
    trees = [HERE, *([given.beside.resolve()] if given.beside else [])]
    found: dict[Path, list[Turn]] = {tree: [] for tree in trees}
    with Node() as node:
        settings = ClientSettings.from_properties({"bootstrap.servers": node.bootstrap_servers})
        node.create_topic("orders", PARTITIONS)
        with Producer(settings) as producer:
            for number in range(RECORDS):
                producer.send("orders", json.dumps(ORDER | {"id": number}).encode(), key=str(number).encode())
        for turn in range(given.turns):
            for place, tree in enumerate(trees):
                taken_s, cpu_s = first_result(tree, given.workload, node, settings, f"start-{turn}-{place}")
                found[tree].append((taken_s, cpu_s))
                print(f"{tree}: {taken_s:.2f} s, {cpu_s:.2f} s of CPU", flush=True)
    for tree, turns in found.items():
        for what, column in zip(("s", "s of CPU"), zip(*turns, strict=True), strict=True):
            print(f"{tree}: {what}: least {min(column):.2f}, median {statistics.median(column):.2f}")


if __name__ == "__main__":
    main()
