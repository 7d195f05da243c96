"""REST bodies of our worker and of Apache Connect's, on the same node: the main paths, compared."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.testing import Node
from tests.support import reference_libs
from tests.support.reference import free_port
from tests.support.waiting import wait_until

LIMIT_S = 120.0
STRING = "org.apache.kafka.connect.storage.StringConverter"
FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
FILE_SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"


class ApacheConnect:
    """A distributed worker of Apache's, in topics of its own."""

    def __init__(self, directory: Path, servers: str) -> None:
        port = free_port()
        properties = {
            "bootstrap.servers": servers,
            "group.id": "apache-workers",
            "key.converter": STRING,
            "value.converter": STRING,
            "config.storage.topic": "apache-configs",
            "offset.storage.topic": "apache-offsets",
            "status.storage.topic": "apache-status",
            "config.storage.replication.factor": "1",
            "offset.storage.replication.factor": "1",
            "status.storage.replication.factor": "1",
            "listeners": f"http://127.0.0.1:{port}",
        }
        (directory / "apache.properties").write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        command = [reference_libs.java(), "-Xmx256m", "-cp", f"{reference_libs.connect_libs()}/*",
                   "org.apache.kafka.connect.cli.ConnectDistributed", str(directory / "apache.properties")]  # fmt: skip
        with open(directory / "apache.log", "wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        self.url = f"http://127.0.0.1:{port}"

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            with error:
                text = error.read()
                return error.code, json.loads(text) if text.startswith(b"{") else None  # Jetty's own pages

    def ready(self) -> bool:
        assert self.process.poll() is None
        try:
            return self.call("GET", "/connectors")[0] == 200
        except OSError:
            return False

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(60)


def stage() -> Any:
    place = Path(__file__).parent.parent / "integration/connect/conftest.py"
    spec = importlib.util.spec_from_file_location("connect_stage", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, ApacheConnect]]:
    if not os.environ.get("BARNABAS_CONNECT_REST"):
        pytest.skip("a minute of Apache Connect: set BARNABAS_CONNECT_REST=1")
    try:
        reference_libs.java()
        reference_libs.connect_libs()
    except reference_libs.ReferenceUnavailable as reason:
        pytest.skip(str(reason))
    directory = tmp_path_factory.mktemp("workers")
    with Node() as node:
        theirs = ApacheConnect(directory, node.bootstrap_servers)
        try:
            wait_until(theirs.ready, "Apache Connect answers", LIMIT_S)
            ours = stage().Worker(directory, node.bootstrap_servers)
            try:
                yield ours, theirs
            finally:
                ours.close()
        finally:
            theirs.close()


SOURCE = {"connector.class": FILE_SOURCE, "topic": "t", "file": "/tmp/none", "tasks.max": 1}
SINK = {"connector.class": FILE_SINK, "topics": "t", "file": "/tmp/none"}
# Each call in turn at both; connectors are stopped, so that nothing depends on time.
STORY: list[tuple[str, str, Any]] = [
    ("GET", "/connectors", None),
    ("POST", "/connectors", {"name": "a", "config": SOURCE, "initial_state": "STOPPED"}),
    ("POST", "/connectors", {"name": "a", "config": SOURCE}),
    ("POST", "/connectors", {"name": "b", "config": SINK, "initial_state": "STOPPED"}),
    ("POST", "/connectors", {"name": "c", "config": {"topic": "t"}}),
    ("POST", "/connectors", {"name": "c", "config": SOURCE | {"name": "d"}}),
    ("POST", "/connectors", {"name": "c", "config": SINK | {"topics.regex": "x"}}),
    ("GET", "/connectors", None),
    ("GET", "/connectors?expand=info", None),
    ("GET", "/connectors/a", None),
    ("GET", "/connectors/a/config", None),
    ("GET", "/connectors/a/tasks", None),
    ("GET", "/connectors/a/topics", None),
    ("GET", "/connectors/a/offsets", None),
    ("GET", "/connectors/b/offsets", None),
    ("GET", "/connectors/a/status", None),
    ("GET", "/connectors/nope", None),
    ("GET", "/connectors/nope/config", None),
    ("GET", "/connectors/nope/status", None),
    ("GET", "/connectors/nope/tasks", None),
    ("GET", "/connectors/nope/topics", None),
    ("GET", "/connectors/nope/offsets", None),
    ("PUT", "/connectors/nope/pause", None),
    ("PUT", "/connectors/nope/stop", None),
    ("POST", "/connectors/nope/restart", None),
    ("DELETE", "/connectors/nope", None),
    ("GET", "/connectors/a/tasks/0/status", None),
    ("POST", "/connectors/a/tasks/7/restart", None),
    ("PATCH", "/connectors/a/config", {"topic": "u", "tasks.max": None}),
    ("PUT", "/connectors/a/config", {"connector.class": FILE_SOURCE, "topic": "t", "file": "/tmp/none"}),
    ("PATCH", "/connectors/a/offsets",
     {"offsets": [{"partition": {"filename": "/tmp/none"}, "offset": {"position": 5}}]}),
    ("GET", "/connectors/a/offsets", None),
    ("PATCH", "/connectors/a/offsets", {"offsets": []}),
    ("DELETE", "/connectors/a/offsets", None),
    ("GET", "/connectors/a/offsets", None),
    ("PUT", "/connectors/a/topics/reset", None),
    ("GET", "/nope", None),
    ("PUT", "/connectors", {}),
    ("GET", "/admin/loggers/root", None),
    ("PUT", f"/connector-plugins/{FILE_SINK}/config/validate", {"connector.class": FILE_SOURCE}),
    ("PUT", "/connector-plugins/Nope/config/validate", {"connector.class": "Nope"}),
    ("GET", "/connector-plugins/Nope/config", None),
    ("DELETE", "/connectors/b", None),
    ("DELETE", "/connectors/a", None),
]  # fmt: skip


def leveled(found: tuple[int, Any]) -> tuple[int, Any]:
    """Without what differs by nature: the worker's address."""
    status, body = found
    if isinstance(body, dict) and isinstance(body.get("connector"), dict):
        body["connector"].pop("worker_id", None)
    return status, body


@pytest.mark.timeout(300)
def test_the_story_of_two_connectors_is_the_same(both: tuple[Any, ApacheConnect]) -> None:
    ours, theirs = both
    different = []
    for method, path, body in STORY:
        mine, wanted = leveled(ours.call(method, path, body)), leveled(theirs.call(method, path, body))
        if mine != wanted and (method, path) not in DELIBERATE:
            different.append(f"{method} {path} {json.dumps(body)}\n  theirs {wanted}\n  ours   {mine}")
    assert not different, "\n".join(different)


DELIBERATE = {
    ("GET", "/admin/loggers/root"): "their level is that of a log that is off here",
    ("PUT", "/connector-plugins/Nope/config/validate"): "a mistake of the user's is no 500, and the nearest name helps",
}


@pytest.mark.timeout(300)
def test_validation_has_the_same_settings_and_errors(both: tuple[Any, ApacheConnect]) -> None:
    ours, theirs = both
    path = f"/connector-plugins/{FILE_SOURCE}/config/validate"
    body = {"connector.class": FILE_SOURCE, "name": "x", "tasks.max": "zero"}
    (status, mine), (wanted_status, wanted) = ours.call("PUT", path, body), theirs.call("PUT", path, body)
    assert (status, mine["name"], mine["error_count"]) == (wanted_status, wanted["name"], wanted["error_count"])

    def errors(found: Any) -> dict[str, list[str]]:
        return {each["value"]["name"]: each["value"]["errors"] for each in found["configs"] if each["value"]["errors"]}

    assert errors(mine) == errors(wanted)
    names = {each["definition"]["name"] for each in wanted["configs"]}
    assert names <= {each["definition"]["name"] for each in mine["configs"]}
