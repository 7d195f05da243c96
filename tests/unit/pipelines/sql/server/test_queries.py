"""Persistent queries run in the active server only; topologies are made up, threads are real."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from barnabas.pipelines.sql.engine import PersistentQuery
from barnabas.pipelines.sql.server.queries import SparkQueries
from tests.support.waiting import wait_until


class Run:
    def __init__(self) -> None:
        self.is_active = True
        self.may_stop = threading.Event()
        self.may_stop.set()

    def stop(self) -> None:
        self.may_stop.wait(60)
        self.is_active = False


class Topology:
    def __init__(self) -> None:
        self.runs: list[Run] = []

    def start(self, session: Any, *, checkpoint: Path, **_: Any) -> Run:
        checkpoint.mkdir(parents=True, exist_ok=True)
        self.runs.append(Run())
        return self.runs[-1]


class Planned:
    def __init__(self) -> None:
        self.topology = Topology()


def query(query_id: str) -> tuple[PersistentQuery, Topology]:
    planned = Planned()
    return PersistentQuery(query_id, "", "SINK", "SINK", cast("Any", planned), ("S",)), planned.topology


@pytest.fixture
def queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkQueries]:
    monkeypatch.setattr(SparkQueries, "session", lambda self: None)
    made = SparkQueries("localhost:1", tmp_path, "test", None, {})
    made.begin()
    yield made
    made.end()


def becomes(queries: SparkQueries, query_id: str, state: str) -> None:
    wait_until(lambda: queries.entries[query_id].state == state, f"{query_id} in {state}", 60)


def test_queries_stand_by_until_the_server_is_active(queries: SparkQueries) -> None:
    (one, topology), (other, paused) = query("A"), query("B")
    queries.start(one, "earliest")
    queries.start(other, "earliest")
    queries.pause("B")
    assert (queries.entries["A"].state, queries.entries["B"].state) == ("STANDBY", "PAUSED")
    queries.deactivate()  # returns when all before it is done
    assert topology.runs == []
    queries.activate()
    becomes(queries, "A", "RUNNING")
    assert (len(topology.runs), paused.runs) == (1, [])
    assert queries.entries["B"].state == "PAUSED"


def test_a_server_that_is_no_longer_active_returns_when_its_queries_have_ended(queries: SparkQueries) -> None:
    one, topology = query("A")
    queries.activate()
    queries.start(one, "earliest")
    becomes(queries, "A", "RUNNING")
    (run,) = topology.runs
    run.may_stop.clear()
    ended = threading.Event()

    def leave() -> None:
        queries.deactivate()
        ended.set()

    threading.Thread(target=leave, daemon=True).start()
    assert not ended.wait(0.2)
    run.may_stop.set()
    assert ended.wait(60)
    assert (run.is_active, queries.entries["A"].state) == (False, "STANDBY")
    queries.activate()
    becomes(queries, "A", "RUNNING")
    assert len(topology.runs) == 2


def test_only_the_active_server_removes_a_checkpoint(queries: SparkQueries) -> None:
    one, _ = query("A")
    queries.activate()
    queries.start(one, "earliest")
    becomes(queries, "A", "RUNNING")
    queries.deactivate()
    queries.stop("A", forget=True)
    wait_until(lambda: "A" not in queries.entries, "the query forgotten", 60)
    assert queries.checkpoint("A").is_dir()
    queries.activate()
    queries.start(one, "earliest")
    becomes(queries, "A", "RUNNING")
    queries.stop("A", forget=True)
    wait_until(lambda: not queries.checkpoint("A").exists(), "the checkpoint gone", 60)


class Lost(Run):
    """Of a driver whose process is gone."""

    @property
    def is_active(self) -> bool:  # type: ignore[override]
        raise ConnectionError("the driver does not answer")

    @is_active.setter
    def is_active(self, value: bool) -> None:
        pass


def test_queries_go_on_when_the_driver_is_gone(queries: SparkQueries, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.pipelines.sql.server.queries.RETRY_FIRST_S", 0.1)
    (one, topology), (other, another) = query("A"), query("B")
    queries.activate()
    for each in (one, other):
        queries.start(each, "earliest")
        becomes(queries, each.id, "RUNNING")
        queries.entries[each.id].retry_s = 0.1
    queries.entries["A"].run = queries.entries["B"].run = Lost()
    wait_until(lambda: len(topology.runs) == len(another.runs) == 2, "both are started again", 60)
    becomes(queries, "A", "RUNNING")
    becomes(queries, "B", "RUNNING")
