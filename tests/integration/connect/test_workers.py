"""Several workers: they divide connectors, forward to the leader, and take over from one that was killed."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from barnabas.pipelines.connect.worker.membership import Assignment, Membership
from barnabas.pipelines.connect.worker.settings import WorkerSettings
from barnabas.testing import Node
from tests.support.waiting import wait_until

HERE = Path(__file__).parent
STRING = "org.apache.kafka.connect.storage.StringConverter"
QUICK = {"heartbeat_interval_ms": "300", "session_timeout_ms": "6000", "group_id": "several"}


def worker_class() -> Any:
    spec = importlib.util.spec_from_file_location("connect_stage", HERE / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Worker


def test_every_connector_has_one_owner_and_all_agree_on_it() -> None:
    workers = ("a:1", "b:2", "c:3")
    views = [Assignment(own, "a:1", workers, 1) for own in workers]
    for number in range(50):
        assert sum(view.owns(f"connector-{number}") for view in views) == 1
    assert {views[0].owner(f"connector-{number}") for number in range(50)} == set(workers)


def test_a_worker_joins_again_when_its_turns_are_over(node: Node) -> None:
    """So no turn of the former owner runs beside one of the next."""
    told: list[str] = []

    def member(name: str) -> Membership:
        properties = {"bootstrap.servers": node.bootstrap_servers, "group.id": "turns", "heartbeat.interval.ms": "100",
                      "session.timeout.ms": "6000", "rest.advertised.host.name": name, "offset.storage.topic": "o",
                      "config.storage.topic": "c", "status.storage.topic": "s", "key.converter": STRING,
                      "value.converter": STRING}  # fmt: skip
        settings = WorkerSettings.from_properties(properties, distributed=True)

        def assigned(found: Assignment | None) -> None:
            told.append(f"{name}: {0 if found is None else len(found.workers)} workers")

        def rebalance() -> None:
            told.append(f"{name}: turns end")

        made = Membership(settings, assigned, rebalance)
        made.start()
        return made

    first = member("first")
    wait_until(lambda: told == ["first: 1 workers"], "the first has a group")
    second = member("second")
    wait_until(lambda: len(told) == 4, "both are told")
    assert told[1] == "first: turns end"
    assert sorted(told[2:]) == ["first: 2 workers", "second: 2 workers"]
    first.close()
    second.close()


def test_a_change_asked_of_any_worker_reaches_the_leader_and_a_dead_one_is_replaced(node: Node, tmp_path: Path) -> None:
    made = worker_class()
    workers = []
    for number in range(2):
        directory = tmp_path / str(number)
        directory.mkdir()
        workers.append(made(directory, node.bootstrap_servers, **QUICK))
    config = {"connector.class": "FileStreamSource", "file": "/nowhere", "topic": "t"}

    def owner(name: str) -> str | None:
        status, found = workers[0].call("GET", f"/connectors/{name}/status")
        return found["connector"]["worker_id"] if status == 200 else None

    ids = {each.url.removeprefix("http://") for each in workers}
    names = [f"c{number}" for number in range(8)]
    for number, name in enumerate(names):
        body = {"name": name, "config": config, "initial_state": "STOPPED"}
        wait_until(lambda: workers[number % 2].call("POST", "/connectors", body)[0] in (201, 409))  # noqa: B023
    wait_until(lambda: {owner(name) for name in names} == ids, "both workers have connectors")
    workers[1].process.kill()
    workers[1].process.wait()
    left = workers[0].url.removeprefix("http://")
    wait_until(lambda: {owner(name) for name in names} == {left}, "the other worker has taken over")
    wait_until(lambda: workers[0].call("DELETE", "/connectors/c0")[0] == 204, "the leader is there")
    workers[0].close()
