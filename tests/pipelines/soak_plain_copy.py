"""A plain query that is killed again and again, and then left to finish: `make soak-plain RUNS=100`.

Each run has a node and a topic of its own. The driver, its JVM and its Python workers are killed by SIGKILL five times,
each 11 to 17 s after its start. The sixth is left alone, and must end by itself with every record copied once. The logs
of every run, of its drivers and of its node, stay in the directory that is given.

python tests/pipelines/soak_plain_copy.py --runs 100 --logs DIRECTORY [--seed N] [--records N]
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from kill_stage import descendants, kill, text

from barnabas.client.cluster import Cluster
from barnabas.client.fetcher import Fetcher, FetchSettings
from barnabas.client.producer import Producer
from barnabas.client.records import iterate_records
from barnabas.client.settings import ClientSettings
from barnabas.testing import Node

PIPELINE = Path(__file__).with_name("copied_plainly.py")
PARTITIONS = 4
KILLS = 5
LIFE_S = (11.0, 17.0)
FINISH_LIMIT_S = 600.0


class RunFailed(Exception):
    pass


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill a plain query five times and let it finish, many times over.")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--logs", type=Path, default=Path("soak-logs"))
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--life", type=float, nargs=2, default=LIFE_S, metavar="SECONDS", help="shortest and longest")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 1 << 30))
    options = parser.parse_args()
    failed = 0
    for number in range(options.runs):
        seed = options.seed + number
        directory = options.logs / f"run-{seed}"
        directory.mkdir(parents=True)
        began = time.monotonic()
        try:
            told = run(directory, random.Random(seed), options)
        except RunFailed as error:
            failed += 1
            told = f"FAILED: {error}"
        (directory / "result").write_text(f"{told}\n")
        print(f"run {number + 1} of {options.runs}, seed {seed}, {time.monotonic() - began:.0f} s: {told}", flush=True)
    print(f"{options.runs - failed} of {options.runs} runs finished; logs are in {options.logs}")
    return 1 if failed else 0


def run(directory: Path, chance: random.Random, options: argparse.Namespace) -> str:
    with Node() as node:
        try:
            return run_on(node, directory, chance, options)
        finally:
            (directory / "node.log").write_text(node.log())
            shutil.rmtree(directory / "checkpoint", ignore_errors=True)


def run_on(node: Node, directory: Path, chance: random.Random, options: argparse.Namespace) -> str:
    for topic in ("input", "output"):
        node.create_topic(topic, PARTITIONS)
    settings = ClientSettings.from_properties({"bootstrap.servers": node.bootstrap_servers})
    with Producer(settings) as producer:
        for at in range(options.records):
            producer.send("input", f"{at:0100d}".encode(), key=str(at).encode())
    ended: list[str] = []
    for life in range(KILLS):
        driver = started(node, directory, life)
        limit_s = chance.uniform(*options.life)
        try:
            code = driver.wait(limit_s)
        except subprocess.TimeoutExpired:
            kill_all(driver)
            ended.append(f"{limit_s:.1f} s with {committed_count(settings)}")
            continue
        if code != 0:
            raise RunFailed(f"driver {life} ended by itself with exit code {code}: {reason(directory, life)}")
        ended.append("finished")
    driver = started(node, directory, KILLS)
    try:
        code = driver.wait(FINISH_LIMIT_S)
    except subprocess.TimeoutExpired:
        count = committed_count(settings)
        take_stacks(driver, directory)
        kill_all(driver)
        raise RunFailed(f"the last driver did not finish within {FINISH_LIMIT_S:.0f} s; {count} are there") from None
    if code != 0:
        raise RunFailed(f"the last driver ended with exit code {code}: {reason(directory, KILLS)}")
    check(settings, options.records)
    return f"every record once; lives: {', '.join(ended)}"


def reason(directory: Path, life: int) -> str:
    """What its log says was the matter. On a busy machine, Python may take longer to start than a plain session waits
    ("Timed out while waiting for the Python worker to connect back", spark.python.authenticate.socketTimeout)."""
    lines = (directory / f"driver-{life}.log").read_text(errors="replace").splitlines()
    causes = [line for line in lines if line.startswith("Caused by: ")]
    return (causes or lines or ["it said nothing"])[-1]


def started(node: Node, directory: Path, life: int) -> subprocess.Popen[bytes]:
    words = [node.bootstrap_servers, str((directory / "checkpoint").absolute()), "input", "output"]
    with (directory / f"driver-{life}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, str(PIPELINE), *words],
            stdout=log,
            stderr=log,
            env=os.environ | {"PYSPARK_PYTHON": sys.executable},
            start_new_session=True,
        )


def kill_all(driver: subprocess.Popen[bytes]) -> None:
    for pid in [*(pid for pid, _ in descendants(driver.pid)), driver.pid]:
        kill(pid)
    driver.wait()


def take_stacks(driver: subprocess.Popen[bytes], directory: Path) -> None:
    """What the threads of a JVM that does not end wait for."""
    for pid, words in descendants(driver.pid):
        if "java" in words.split(" ")[0]:
            with (directory / f"stacks-{pid}").open("wb") as file:
                subprocess.run(["jstack", str(pid)], stdout=file, stderr=file, timeout=60, check=False)


def committed_count(settings: ClientSettings) -> int:
    """Offsets in use, those of markers too."""
    with Cluster(settings) as cluster:
        wanted = {("output", partition): -1 for partition in range(PARTITIONS)}
        return sum(found.offset for found in cluster.list_offsets(wanted, isolation="read_committed").values())


def check(settings: ClientSettings, records: int) -> None:
    found: Counter[str] = Counter()
    with Cluster(settings) as cluster:
        wanted = {("output", partition): -1 for partition in range(PARTITIONS)}
        ends = {at: one.offset for at, one in cluster.list_offsets(wanted, isolation="read_committed").items()}
        with Fetcher(cluster, FetchSettings(isolation="read_committed", max_wait_ms=100)) as fetcher:
            fetcher.assign(dict.fromkeys(ends, 0))
            while any(fetcher.positions[at] < end for at, end in ends.items()):
                for fetched in fetcher.poll(1_000):
                    found.update(text(record.key) for record in iterate_records(fetched))
    lost = records - len(found)
    doubled = sum(count > 1 for count in found.values())
    if lost or doubled:
        raise RunFailed(f"{lost} records are lost and {doubled} are there more than once")


if __name__ == "__main__":
    sys.exit(main())
