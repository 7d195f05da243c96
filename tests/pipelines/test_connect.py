"""A Connect worker with Spark behind it: files to a topic to a file, a killed plane, and no duplicate in the topic."""

from __future__ import annotations

import importlib.util
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from barnabas.client.producer import Producer
from barnabas.client.settings import ClientSettings
from barnabas.pipelines.spark.startup.java import JavaMissing, find_java
from barnabas.testing import Node
from tests.support.waiting import wait_until

HERE = Path(__file__).parent
LIMIT_S = 180.0  # Spark starts within it, whatever else the machine does


def stage() -> Any:
    """The worker and the bench of the integration tests."""
    spec = importlib.util.spec_from_file_location("connect_stage", HERE.parent / "integration/connect/conftest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    try:
        find_java()
    except JavaMissing as reason:
        pytest.skip(str(reason))
    made = stage()
    with Node() as node:
        worker = made.Worker(tmp_path_factory.mktemp("worker"), node.bootstrap_servers)
        yield worker, made.Bench(node.bootstrap_servers)
        worker.close()


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def plane_of(worker: Any) -> int:
    """The process with Spark: the worker's child."""
    children = Path(f"/proc/{worker.process.pid}/task/{worker.process.pid}/children").read_text().split()
    found = [int(pid) for pid in children if b"plane.driver" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return found[0]


@pytest.mark.timeout(600)
def test_a_file_goes_through_a_topic_to_a_file_and_survives_a_kill(running: tuple[Any, Any], tmp_path: Path) -> None:
    worker, bench = running
    given, written = tmp_path / "in.txt", tmp_path / "out.txt"
    given.write_text("".join(f"line {number}\n" for number in range(1_000)))
    source = {"connector.class": "FileStreamSource", "file": str(given), "topic": "lines"}
    sink = {"connector.class": "FileStreamSink", "file": str(written), "topics": "lines"}
    assert worker.call("POST", "/connectors", {"name": "in", "config": source})[0] == 201
    assert worker.call("POST", "/connectors", {"name": "out", "config": sink})[0] == 201
    wait_until(lambda: len(lines(written)) == 1_000, "all lines are in the file", LIMIT_S)
    assert lines(written) == lines(given)

    wait_until(lambda: worker.call("GET", "/connectors/in/status")[1]["tasks"], "the task has a status", LIMIT_S)
    status = worker.call("GET", "/connectors/in/status")[1]
    assert (status["connector"]["state"], status["tasks"][0]["state"]) == ("RUNNING", "RUNNING")
    wait_until(lambda: worker.call("GET", "/connectors/in/topics")[1] == {"in": {"topics": ["lines"]}}, limit_s=LIMIT_S)

    os.kill(plane_of(worker), signal.SIGKILL)
    with open(given, "a") as file:
        file.writelines(f"line {number}\n" for number in range(1_000, 1_500))
    wait_until(lambda: len(set(lines(written))) == 1_500, "the new lines are in the file", LIMIT_S)
    assert bench.values("lines") == lines(given), "exactly once"

    assert worker.call("PUT", "/connectors/in/pause")[0] == 202
    wait_until(lambda: worker.call("GET", "/connectors/in/status")[1]["tasks"][0]["state"] == "PAUSED", limit_s=LIMIT_S)
    assert worker.call("PUT", "/connectors/in/stop")[0] == 204
    assert worker.call("GET", "/connectors/in/offsets")[1]["offsets"][0]["offset"] == {"position": given.stat().st_size}
    assert worker.call("DELETE", "/connectors/in")[0] == 204
    assert worker.call("DELETE", "/connectors/out")[0] == 204


def stored(directory: Path) -> list[int]:
    """The numbers in all Parquet files below a directory, in the order of offsets. Empty while files change: what a
    killed plane has left behind without a commit is removed."""
    paths = sorted(directory.rglob("*.parquet"), key=lambda path: path.name)
    try:
        return [row["n"] for path in paths for row in pq.read_table(path).to_pylist()]
    except FileNotFoundError:
        return []


@pytest.mark.timeout(600)
def test_records_go_to_parquet_files_once_though_the_plane_is_killed(running: tuple[Any, Any], tmp_path: Path) -> None:
    worker, bench = running
    sink = {
        "connector.class": "io.confluent.connect.s3.S3SinkConnector",
        "store.url": f"file:{tmp_path}",
        "s3.bucket.name": "lake",
        "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
        "flush.size": "1000",
        "rotate.schedule.interval.ms": "500",
        "topics": "numbers",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }

    def send(numbers: range) -> None:
        with Producer(ClientSettings.from_properties({}, bootstrap_servers=bench.servers)) as producer:
            for number in numbers:
                producer.send("numbers", b'{"n":%d}' % number, partition=0)
            producer.flush()

    send(range(20_500))
    assert worker.call("POST", "/connectors", {"name": "lake", "config": sink})[0] == 201
    wait_until(lambda: stored(tmp_path), "there is a file", LIMIT_S)
    os.kill(plane_of(worker), signal.SIGKILL)
    send(range(20_500, 22_000))
    wait_until(lambda: len(stored(tmp_path)) >= 22_000, "all records are in files", LIMIT_S)
    assert stored(tmp_path) == list(range(22_000))
    assert worker.call("DELETE", "/connectors/lake")[0] == 204
