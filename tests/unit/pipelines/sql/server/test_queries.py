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


class Driver:
    """Of Spark, whose process may be gone."""

    def __init__(self) -> None:
        self.lives = True

    def stop(self) -> None:
        self.lives = False


class Run:
    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.active = True
        self.may_stop = threading.Event()
        self.may_stop.set()

    @property
    def is_active(self) -> bool:
        if not self.driver.lives:
            raise ConnectionError("the driver does not answer")
        return self.active

    @property
    def queries(self) -> list[Any]:
        raise ConnectionError("the driver does not answer any more")

    def stop(self) -> None:
        self.may_stop.wait(60)
        self.active = False


class Topology:
    def __init__(self) -> None:
        self.runs: list[Run] = []

    def start(self, session: Driver, *, checkpoint: Path, **_: Any) -> Run:
        checkpoint.mkdir(parents=True, exist_ok=True)
        self.runs.append(Run(session))
        return self.runs[-1]


class Planned:
    def __init__(self) -> None:
        self.topology = Topology()


def query(query_id: str) -> tuple[PersistentQuery, Topology]:
    planned = Planned()
    return PersistentQuery(query_id, "", "SINK", "SINK", cast("Any", planned), ("S",)), planned.topology


@pytest.fixture
def drivers(monkeypatch: pytest.MonkeyPatch) -> list[Driver]:
    """Those that were started; the session of other tests in this process is none of ours."""
    place, made = "barnabas.pipelines.sql.server.queries", list[Driver]()

    def start(name: str, master: str | None, conf: Any, nice: int) -> Driver:
        made.append(Driver())
        return made[-1]

    monkeypatch.setattr(f"{place}.start_driver", start)
    monkeypatch.setattr(f"{place}.is_gone", lambda driver: not driver.lives)
    monkeypatch.setattr(f"{place}.abandon", lambda driver: driver.stop())
    monkeypatch.setattr(f"{place}.LOOK_S", 0.1)
    monkeypatch.setattr(f"{place}.RETRY_FIRST_S", 0.02)
    return made


@pytest.fixture
def queries(tmp_path: Path, drivers: list[Driver]) -> Iterator[SparkQueries]:
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
    assert (run.active, queries.entries["A"].state) == (False, "STANDBY")
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


def test_queries_go_on_when_the_driver_is_gone(queries: SparkQueries, drivers: list[Driver]) -> None:
    (one, topology), (other, another) = query("A"), query("B")
    queries.activate()
    for each in (one, other):
        queries.start(each, "earliest")
        becomes(queries, each.id, "RUNNING")
    drivers[0].lives = False
    wait_until(lambda: len(topology.runs) == len(another.runs) == 2, "both are started again", 60)
    becomes(queries, "A", "RUNNING")
    becomes(queries, "B", "RUNNING")
    assert topology.runs[1].driver is another.runs[1].driver is drivers[1]


def test_a_driver_that_somebody_else_has_started_anew_is_not_ended(
    queries: SparkQueries, drivers: list[Driver]
) -> None:
    one, topology = query("A")
    queries.activate()
    queries.start(one, "earliest")
    becomes(queries, "A", "RUNNING")
    drivers[0].lives = False
    assert queries.session() is drivers[1]  # a SELECT in batch, mostly before the thread of the queries has looked
    wait_until(lambda: len(topology.runs) == 2, "the query is started again", 60)
    becomes(queries, "A", "RUNNING")
    assert (len(drivers), drivers[1].lives) == (2, True)


def test_a_driver_that_goes_while_it_is_asked_does_not_end_the_thread(
    queries: SparkQueries, drivers: list[Driver]
) -> None:
    one, topology = query("A")
    queries.activate()
    queries.start(one, "earliest")
    becomes(queries, "A", "RUNNING")
    topology.runs[0].active = False  # and why it ended is asked of a driver that does not answer
    wait_until(lambda: len(topology.runs) == 2, "the query is started again", 60)
    becomes(queries, "A", "RUNNING")


def slowly(topology: Topology) -> tuple[threading.Event, threading.Event]:
    """Whether a query is being started, and whether it may be."""
    starting, may_start = threading.Event(), threading.Event()
    begin = topology.start

    def start_slowly(session: Driver, *, checkpoint: Path, **rest: Any) -> Run:
        starting.set()
        may_start.wait(60)
        return begin(session, checkpoint=checkpoint, **rest)

    topology.start = start_slowly  # type: ignore[method-assign]
    return starting, may_start


def test_a_query_replaced_while_it_starts_runs_once(queries: SparkQueries) -> None:
    (one, topology), (new, replaced) = query("A"), query("A")
    starting, may_start = slowly(topology)
    queries.activate()
    queries.start(one, "earliest")
    assert starting.wait(60)
    queries.start(new, "earliest")
    may_start.set()
    wait_until(lambda: len(replaced.runs) == 1, "the new one runs", 60)
    becomes(queries, "A", "RUNNING")
    assert ([run.active for run in topology.runs], [run.active for run in replaced.runs]) == ([False], [True])


def test_a_query_paused_while_it_starts_is_paused_until_it_is_resumed(queries: SparkQueries) -> None:
    one, topology = query("A")
    starting, may_start = slowly(topology)
    queries.activate()
    queries.start(one, "earliest")
    assert starting.wait(60)
    queries.pause("A")
    may_start.set()
    wait_until(lambda: [run.active for run in topology.runs] == [False], "the query has ended", 60)
    becomes(queries, "A", "PAUSED")
    queries.resume("A")
    becomes(queries, "A", "RUNNING")
    assert [run.active for run in topology.runs] == [False, True]
