"""A cluster of Apache Connect is taken over by a worker of ours, with configurations and offsets, and handed back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.testing import Node
from tests.reference.test_connect_rest import FILE_SINK, FILE_SOURCE, ApacheConnect, stage
from tests.support import reference_libs
from tests.support.waiting import wait_until

LIMIT_S = 180.0
TOPICS = {f"{kind}.storage.topic": f"apache-{kind}{'s' if kind != 'status' else ''}" for kind in
          ("config", "offset", "status")}  # fmt: skip


@pytest.fixture
def node() -> Iterator[Node]:
    if not os.environ.get("BARNABAS_CONNECT_REST"):
        pytest.skip("a minute of Apache Connect and of Spark: set BARNABAS_CONNECT_REST=1")
    try:
        reference_libs.java()
        reference_libs.connect_libs()
    except reference_libs.ReferenceUnavailable as reason:
        pytest.skip(str(reason))
    with Node() as running:
        yield running


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def states(worker: Any, name: str) -> list[str]:
    status, found = worker.call("GET", f"/connectors/{name}/status")
    return [found["connector"]["state"], *(each["state"] for each in found["tasks"])] if status == 200 else []


def apache(directory: Path, node: Node) -> ApacheConnect:
    made = ApacheConnect(directory, node.bootstrap_servers)
    wait_until(made.ready, "Apache Connect answers", LIMIT_S)
    return made


@pytest.mark.timeout(900)
def test_connectors_go_on_where_the_other_worker_stopped_both_ways(node: Node, tmp_path: Path) -> None:
    given, written, made = tmp_path / "in.txt", tmp_path / "out.txt", stage()
    configs = {
        "lines-in": {"connector.class": FILE_SOURCE, "topic": "lines", "file": str(given), "tasks.max": "1"},
        "lines-out": {"connector.class": FILE_SINK, "topics": "lines", "file": str(written), "tasks.max": "1"},
        "idle": {"connector.class": FILE_SINK, "topics": "lines", "file": str(tmp_path / "no.txt"), "tasks.max": "1"},
    }

    def append(first: int) -> None:
        with open(given, "a") as file:
            file.writelines(f"line {number}\n" for number in range(first, first + 500))

    def check(worker: Any, count: int) -> None:
        """All are there, with what they were told, and every line is in the topic and the file once."""
        for name, config in configs.items():
            assert worker.call("GET", f"/connectors/{name}/config")[1] == config | {"name": name}
        wait_until(lambda: len(lines(written)) >= count, f"{count} lines are written", LIMIT_S)
        wait_until(lambda: states(worker, "lines-in") == ["RUNNING", "RUNNING"], "the source runs", LIMIT_S)
        assert states(worker, "lines-out") == ["RUNNING", "RUNNING"]
        assert states(worker, "idle") == ["STOPPED"]
        wanted = [f"line {number}" for number in range(count)]
        assert made.Bench(node.bootstrap_servers).values("lines") == wanted
        assert lines(written) == wanted
        position = {"partition": {"filename": str(given)}, "offset": {"position": given.stat().st_size}}
        offsets = {"offsets": [position]}
        wait_until(lambda: worker.call("GET", "/connectors/lines-in/offsets")[1] == offsets, "the offset is told", 90)

    append(0)
    theirs = apache(tmp_path, node)
    try:
        for name, config in configs.items():
            body = {"name": name, "config": config} | ({"initial_state": "STOPPED"} if name == "idle" else {})
            assert theirs.call("POST", "/connectors", body)[0] == 201
        check(theirs, 500)
    finally:
        theirs.close()

    append(500)
    ours = made.Worker(tmp_path, node.bootstrap_servers, group_id="apache-workers",
                       **{name.replace(".", "_"): topic for name, topic in TOPICS.items()})  # fmt: skip
    try:
        check(ours, 1_000)
    finally:
        ours.close()

    append(1_000)
    theirs = apache(tmp_path, node)
    try:
        check(theirs, 1_500)
    finally:
        theirs.close()
