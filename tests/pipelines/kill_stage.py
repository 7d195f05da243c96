"""What the kill tests share: a driver in a process of its own, its children found and killed, its output judged."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from barnabas.client.cluster import Cluster
from barnabas.client.fetcher import Fetcher, FetchSettings
from barnabas.client.producer import Producer
from barnabas.client.records import ConsumerRecord, iterate_records
from barnabas.client.settings import ClientSettings
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

PIPELINE = Path(__file__).with_name("killed_pipeline.py")
KEYS = 20
TOPICS = {"input": 3, "copies": 3, "totals": 2}


class Load(threading.Thread):
    """Numbers under a few keys, until it is stopped; what was written is known here without reading it back."""

    def __init__(self, settings: ClientSettings, topic: str, rate: int) -> None:
        super().__init__(daemon=True)
        self.written: list[tuple[str, int]] = []
        self._settings, self._topic, self._rate = settings, topic, rate
        self._stop_asked = threading.Event()

    def run(self) -> None:
        chooser = random.Random(7)
        with Producer(self._settings) as producer:
            began = time.monotonic()
            while not self._stop_asked.is_set():
                while len(self.written) < (time.monotonic() - began) * self._rate:
                    key, number = f"key-{chooser.randrange(KEYS)}", len(self.written)
                    producer.send(self._topic, str(number).encode(), key=key.encode())
                    self.written.append((key, number))
                time.sleep(0.01)
            producer.flush()

    def stop(self) -> None:
        self._stop_asked.set()
        self.join()


class KillStage:
    def __init__(self, servers: str, directory: Path, prefix: str, rate: int = 300) -> None:
        self.servers, self.directory = servers, directory
        self.settings = ClientSettings.from_properties({"bootstrap.servers": servers})
        self.cluster = Cluster(self.settings)
        self.topics = {name: f"{prefix}-{name}" for name in TOPICS}
        topics = [
            CreatableTopic(name=self.topics[name], num_partitions=partitions, replication_factor=1)
            for name, partitions in TOPICS.items()
        ]
        answer = self.cluster.ask_controller(CreateTopicsRequest(topics=topics, timeout_ms=30_000))
        assert not any(topic.error_code for topic in answer.topics), answer
        self.load = Load(self.settings, self.topics["input"], rate)
        self.driver: subprocess.Popen[bytes] | None = None
        self.command: list[str] | None = None
        self.environment: dict[str, str] = {}
        self.log = directory / "driver.log"

    def arguments(self) -> list[str]:
        return [self.servers, str(self.directory / "checkpoints"), *self.topics.values()]

    def start_driver(self, command: list[str] | None = None, **environment: str) -> None:
        self.command = command or [sys.executable, str(PIPELINE), *self.arguments(), "local[2,4]"]
        self.environment = environment
        env = os.environ | {"PYSPARK_PYTHON": sys.executable} | environment
        with self.log.open("ab") as log:
            self.driver = subprocess.Popen(self.command, stdout=log, stderr=log, env=env, start_new_session=True)

    def ends(self, name: str) -> int:
        topic = self.topics[name]
        wanted = {(topic, partition): -1 for partition in range(TOPICS[name])}
        return sum(found.offset for found in self.cluster.list_offsets(wanted, isolation="read_committed").values())

    def wait(
        self, what: str, holds: Callable[[], bool], limit_s: float, restart: bool = False, pause_s: float = 0.1
    ) -> None:
        deadline = time.monotonic() + limit_s
        while not holds():
            died = self.driver is not None and self.driver.poll() is not None
            if died and restart:
                self.start_driver(self.command, **self.environment)
            said = self.log.read_text(errors="replace")[-4000:] if self.log.exists() else ""
            assert restart or not died, f"the driver ended by itself while waiting for {what}:\n{said}"
            assert time.monotonic() < deadline, f"{what} did not come within {limit_s} s:\n{said}"
            time.sleep(pause_s)

    def kill_driver(self) -> None:
        """The JVM and its Python driver, both as if the machine had lost power."""
        assert self.driver is not None
        victims = [pid for pid, name in descendants(self.driver.pid) if "java" in name]
        for pid in [*victims, self.driver.pid]:
            kill(pid)
        self.driver.wait()

    def kill_worker(self) -> bool:
        """One of the Python processes that run tasks, if there is one."""
        assert self.driver is not None
        found = dict(descendants(self.driver.pid))
        forked = {pid for pid, name in found.items() if "barnabas.pipelines.spark.startup.forked_workers" in name}
        daemons = {pid for pid in forked if parent(pid) in forked}  # and what answers for a source or a sink
        workers = [pid for pid in forked if parent(pid) in daemons]
        if workers:
            kill(random.choice(workers))
        return bool(workers)

    def close(self) -> None:
        if self.load.is_alive():
            self.load.stop()
        if self.driver is not None and self.driver.poll() is None:
            self.kill_driver()
        self.cluster.close()

    def finish(self, limit_s: float) -> None:
        """Stops the load, waits until everything is through, and compares with what a batch job would compute."""
        self.load.stop()
        written = self.load.written
        due = Counter((key, str(number)) for key, number in written)
        self.wait("all copies", lambda: len(self.committed("copies")) >= len(written), limit_s, True, pause_s=1.0)
        totals = {key: (0, 0) for key, _ in written}
        for key, number in written:
            count, total = totals[key]
            totals[key] = count + 1, total + number
        self.wait("all totals", lambda: last_by_key(self.committed("totals")) == totals, limit_s, True, pause_s=1.0)
        copies = Counter((text(record.key), text(record.value)) for record in self.committed("copies"))
        assert copies == due
        for key, counts in counts_by_key(self.committed("totals")).items():
            assert counts == sorted(set(counts)), f"a total of {key} was written twice, or out of order"

    def committed(self, name: str) -> list[ConsumerRecord]:
        topic = self.topics[name]
        wanted = {(topic, partition): -1 for partition in range(TOPICS[name])}
        ends = {at: found.offset for at, found in self.cluster.list_offsets(wanted, isolation="read_committed").items()}
        found: list[ConsumerRecord] = []
        with Fetcher(self.cluster, FetchSettings(isolation="read_committed", max_wait_ms=100)) as fetcher:
            fetcher.assign(dict.fromkeys(ends, 0))
            while any(fetcher.positions[at] < end for at, end in ends.items()):
                for fetched in fetcher.poll(1_000):
                    found += iterate_records(fetched)
        return found


def text(content: bytes | None) -> str:
    return (content or b"").decode()


def counts_by_key(records: list[ConsumerRecord]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for record in records:
        found.setdefault(text(record.key), []).append(int(text(record.value).split()[0]))
    return found


def last_by_key(records: list[ConsumerRecord]) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for record in records:
        count, total = text(record.value).split()
        found[text(record.key)] = int(count), int(total)
    return found


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def descendants(root: int) -> list[tuple[int, str]]:
    """Pid and command line of everything below a process."""
    parents: dict[int, int] = {
        int(entry.name): parent(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit()
    }
    found: list[tuple[int, str]] = []
    for pid in parents:
        above: Any = pid
        while above and above != root:
            above = parents.get(above, 0)
        if above == root and pid != root:
            with contextlib.suppress(OSError):
                found.append(
                    (pid, Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
                )
    return found
