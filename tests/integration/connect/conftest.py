"""A node, connectors whose turns run here without Spark, and a worker as a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.cluster import Cluster
from barnabas.client.consumer import AssignedConsumer
from barnabas.client.consumer_settings import ConsumerSettings
from barnabas.client.records import ConsumerRecord
from barnabas.client.settings import ClientSettings
from barnabas.pipelines.connect.plane.orders import Job
from barnabas.pipelines.connect.plane.planner import Planner
from barnabas.pipelines.connect.plane.turns import run_turn
from barnabas.pipelines.connect.plugins import need
from barnabas.testing import Node

STRING = "org.apache.kafka.connect.storage.StringConverter"


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as running:
        yield running


class Bench:
    """Runs connectors: what the plane's driver does with Spark, in this process."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.events: list[dict[str, Any]] = []
        # A round is a turn of each, however slow the machine is.
        self.planner = Planner(lambda event, **rest: self.events.append({"event": event} | rest), look_wait_s=60.0)

    def start(self, name: str, settings: dict[str, str], **rest: Any) -> Job:
        plugin = need(settings["connector.class"], "source", "sink", setting="connector.class")
        full = {"key.converter": STRING, "value.converter": STRING} | settings
        tasks = plugin.load().task_settings(full, int(full.get("tasks.max", "1")))
        client = {"bootstrap.servers": self.servers}
        job = Job(name=name, kind=plugin.type, place=plugin.place, settings=full, tasks=tasks, client=client, group="g")
        job = Job.parse(job.encode() | rest)
        self.planner.start(job)
        return job

    def turns(self, *names: str, rounds: int = 3) -> int:
        """How many records went through."""
        count = 0
        for _ in range(rounds):
            for found in self.planner.running.values():
                for task in found.tasks:
                    task.due_at = 0.0
            for turn in self.planner.due(list(names)):
                outcome = run_turn(turn)
                count += outcome.records
                self.planner.done(type(outcome).parse(outcome.encode()))
        return count

    def states(self, name: str) -> list[tuple[str, str]]:
        return [
            (each["state"], each["trace"]) for each in self.events if each["event"] == "task" and each["name"] == name
        ]

    def read(self, topic: str) -> list[ConsumerRecord]:
        settings = ClientSettings.from_properties({}, bootstrap_servers=self.servers)
        found: list[ConsumerRecord] = []
        with Cluster(settings) as cluster:
            known = cluster.metadata([topic]).topics[topic]
            partitions = [(topic, each) for each in known.partitions]
            ends = cluster.list_offsets(dict.fromkeys(partitions, -1), isolation="read_committed")
        properties = {"isolation.level": "read_committed", "enable.auto.commit": "false"}
        with AssignedConsumer(settings, ConsumerSettings.from_properties(properties)) as consumer:
            consumer.assign(dict.fromkeys(partitions, -2))
            while any(consumer.positions[tp] < each.offset for tp, each in ends.items()):
                found += consumer.poll(200)
        return found

    def values(self, topic: str) -> list[str | None]:
        return [None if each.value is None else each.value.decode() for each in self.read(topic)]


@pytest.fixture
def bench(node: Node) -> Iterator[Bench]:
    made = Bench(node.bootstrap_servers)
    yield made
    made.planner.close()


class Worker:
    def __init__(self, directory: Path, servers: str, log: Path | None = None, **settings: str) -> None:
        properties = {
            "bootstrap.servers": servers,
            "group.id": "workers",
            "key.converter": STRING,
            "value.converter": STRING,
            "config.storage.topic": "docker-connect-configs",
            "offset.storage.topic": "docker-connect-offsets",
            "status.storage.topic": "docker-connect-status",
            "listeners": "http://127.0.0.1:0",
        } | {name.replace("_", "."): value for name, value in settings.items()}
        path = directory / "worker.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        reading, writing = os.pipe()
        command = [sys.executable, "-m", "barnabas", "connect", "start", str(path), "--ready-fd", str(writing)]
        environment = os.environ | {"BARNABAS_CONNECT_SPARK_LOG": str(directory / "spark.log")}
        with open(directory / "worker.log", "ab") as errors:
            self.process = subprocess.Popen(command, pass_fds=(writing,), stdout=errors, stderr=errors, env=environment)
        os.close(writing)
        with os.fdopen(reading) as ready:
            line = ready.readline()
        assert line, (directory / "worker.log").read_text()
        self.url = f"http://127.0.0.1:{json.loads(line)['port']}"

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def close(self) -> None:
        self.process.terminate()
        assert self.process.wait(60) == 0


@pytest.fixture(scope="module")
def worker(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """Connectors are created stopped here, so that it needs no Spark."""
    made = Worker(tmp_path_factory.mktemp("worker"), node.bootstrap_servers)
    yield made
    made.close()
