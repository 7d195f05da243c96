"""The worker's REST API, as a process; connectors are created stopped, so nothing runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import wait_until

Worker = Any


def config(tmp_path: Path, **rest: str) -> dict[str, str]:
    return {"connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector", "topic": "t",
            "file": str(tmp_path / "f")} | rest  # fmt: skip


def test_a_connectors_life(worker: Worker, tmp_path: Path) -> None:
    settings = config(tmp_path)
    body = {"name": "life", "config": settings | {"tasks.max": 1}, "initial_state": "STOPPED"}
    status, made = worker.call("POST", "/connectors", body)
    assert status == 201
    assert made["config"] == settings | {"name": "life", "tasks.max": "1"}
    assert made["type"] == "source"
    assert worker.call("POST", "/connectors", body) == (
        409,
        {"error_code": 409, "message": "Connector life already exists"},
    )
    assert worker.call("GET", "/connectors")[1] == ["life"]
    changed = settings | {"name": "life", "batch.size": "5"}
    assert worker.call("PUT", "/connectors/life/config", changed)[0] == 200
    assert worker.call("PATCH", "/connectors/life/config", {"batch.size": None, "topic": "u"})[0] == 200
    assert worker.call("GET", "/connectors/life/config")[1] == settings | {"name": "life", "topic": "u"}
    partition = {"filename": settings["file"]}
    change = {"offsets": [{"partition": partition, "offset": {"position": 20}}]}
    assert worker.call("PATCH", "/connectors/life/offsets", change)[0] == 200
    assert worker.call("GET", "/connectors/life/offsets")[1] == change
    assert worker.call("DELETE", "/connectors/life/offsets")[0] == 200
    assert worker.call("GET", "/connectors/life/offsets")[1] == {"offsets": []}
    assert worker.call("GET", "/connectors/life/topics")[1] == {"life": {"topics": []}}
    assert worker.call("DELETE", "/connectors/life") == (204, None)
    assert worker.call("GET", "/connectors/life/status") == (
        404,
        {"error_code": 404, "message": "No status found for connector life"},
    )


def test_plugins_and_their_validation(worker: Worker, tmp_path: Path) -> None:
    listed = worker.call("GET", "/connector-plugins")[1]
    source = "org.apache.kafka.connect.file.FileStreamSourceConnector"
    assert {"class": source, "type": "source", "version": "4.3.1"} in listed
    everything = worker.call("GET", "/connector-plugins?connectorsOnly=false")[1]
    assert {"converter", "transformation", "predicate", "source", "sink"} <= {each["type"] for each in everything}
    wrong = {"connector.class": "FileStreamSource", "name": "x", "topic": "t", "file": "/f", "tasks.max": "zero"}
    status, found = worker.call("PUT", "/connector-plugins/FileStreamSource/config/validate", wrong)
    assert (status, found["error_count"]) == (200, 2)
    (bad,) = [each for each in found["configs"] if each["value"]["errors"]]
    assert bad["definition"]["name"] == "tasks.max"
    assert bad["value"]["errors"] == [  # as Connect tells them
        "Invalid value zero for configuration tasks.max: Not a number of type INT",
        "Invalid value null for configuration tasks.max: Value must be non-null",
    ]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"name": "x", "config": {}}, "contains no connector type"),
        ({"name": "x", "config": {"connector.class": "FileStreamSorce", "topic": "t"}}, "is FileStreamSource"),
        ({"name": "x", "config": {"connector.class": "FileStreamSource", "file": "/f"}}, 'configuration "topic"'),
        ({"name": "x"}, "The body must be"),
        (b"{", "The body is no JSON"),
        ({"name": "x", "config": {"connector.class": "FileStreamSink"}}, "Must configure one of topics"),
        (
            {"name": "x", "config": {"connector.class": "FileStreamSource", "file": "/f", "topic": "t",
                                     "transforms": "a", "transforms.a.type": "ExtractFeld$Value"}},
            "could not be found, is ExtractField$Value meant?",
        ),
    ],
)  # fmt: skip
def test_bad_bodies_are_refused_with_a_sentence(worker: Worker, body: Any, message: str) -> None:
    status, answer = worker.call("POST", "/connectors", body)
    assert status == 400
    assert message in answer["message"]
    assert "x" not in worker.call("GET", "/connectors")[1]


def test_a_wrapped_body_where_a_flat_one_belongs(worker: Worker, tmp_path: Path) -> None:
    wrapped = {"name": "wrapped", "config": config(tmp_path)}
    status, answer = worker.call("PUT", "/connectors/wrapped/config", wrapped)
    assert status == 400
    assert "settings alone" in answer["message"]


def test_what_is_not_there(worker: Worker) -> None:
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/offsets")):
        status, answer = worker.call(method, f"/connectors/nope{path}")
        assert (status, answer["message"]) == (404, "Connector nope not found"), path
    for method, path, text in (("PUT", "/pause", " nope"), ("PUT", "/stop", " nope"), ("POST", "/restart", ": nope")):
        status, answer = worker.call(method, f"/connectors/nope{path}")
        assert (status, answer["message"]) == (404, f"Unknown connector{text}"), path
    assert worker.call("GET", "/connectors/nope/topics") == (200, {"nope": {"topics": []}})
    assert worker.call("GET", "/nope") == (404, {"error_code": 404, "message": "HTTP 404 Not Found"})
    assert worker.call("PATCH", "/connectors")[0] == 405


def test_offsets_change_only_while_stopped(worker: Worker, tmp_path: Path) -> None:
    body = {"name": "paused", "config": config(tmp_path), "initial_state": "STOPPED"}
    worker.call("POST", "/connectors", body)
    status, answer = worker.call("PATCH", "/connectors/paused/offsets", {"offsets": []})
    assert status == 400
    assert "need to be provided" in answer["message"]
    worker.call("DELETE", "/connectors/paused")


def test_health_metrics_and_loggers(worker: Worker) -> None:
    assert worker.call("GET", "/health")[1]["status"] == "healthy"
    assert worker.call("GET", "/")[1]["version"] == "4.3.1"
    assert worker.call("PUT", "/admin/loggers/barnabas.connect", {"level": "DEBUG"}) == (200, ["barnabas.connect"])
    assert worker.call("GET", "/admin/loggers/barnabas.connect")[1]["level"] == "DEBUG"
    assert worker.call("PUT", "/admin/loggers/barnabas.connect", {"level": "LOUD"})[0] == 404


def test_a_connector_whose_database_is_away_is_tried_again(worker: Worker, tmp_path: Path) -> None:
    """Its tables tell its tasks, so it has none yet."""
    away = {
        "connector.class": "JdbcSource", "connection.url": f"jdbc:sqlite:{tmp_path}/nowhere/x.db", "mode": "bulk",
        "topic.prefix": "away-",
    }  # fmt: skip
    assert worker.call("POST", "/connectors", {"name": "away", "config": away})[0] == 201

    def trace() -> str:
        status, found = worker.call("GET", "/connectors/away/status")
        assert found.get("connector", {}).get("state", "RUNNING") == "RUNNING"
        return str(found["connector"].get("trace", "")) if status == 200 else ""

    text = "trying again in 2 s: the database answers: unable to open database file"
    wait_until(lambda: trace() == text, "the second time", 30)
    assert worker.call("DELETE", "/connectors/away")[0] == 204
