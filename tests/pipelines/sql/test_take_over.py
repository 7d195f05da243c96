"""Several SQL servers of one service divide its queries. Processes are real; Spark finds no
Java, so a query that is run goes to ERROR, and one that is not is in STANDBY. The last test kills the first server.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.testing import Node
from tests.support.sql_server import SqlServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(400)  # processes and Spark start slowly on a busy machine
WAIT_S = 120.0
Starter = Callable[..., SqlServer]


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as started:
        yield started


@pytest.fixture(scope="module")
def start(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starter]:
    """Starts a server of the one service, with a name and a state directory."""
    root = tmp_path_factory.mktemp("sql")
    started: list[SqlServer] = []

    def one(name: str, state: str = "state") -> SqlServer:
        directory = root / name
        directory.mkdir()
        settings = {"ksql_service_id": "shared", "ksql_state_dir": str(root / state)}
        started.append(SqlServer(node.bootstrap_servers, directory, **settings))
        return started[-1].start()

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", str(root / "no-java"))
        yield one
    for server in started:
        server.kill()


@pytest.fixture(scope="module")
def first(start: Starter) -> SqlServer:
    server = start("first")
    has_role(server, "ACTIVE")
    return server


def status_of(server: SqlServer) -> dict[str, Any]:
    (found,) = json.loads(server.ask("/clusterStatus")[1])["clusterStatus"].values()
    assert isinstance(found, dict)
    return found


def has_role(server: SqlServer, role: str) -> None:
    wait_until(lambda: status_of(server)["role"] == role, f"role {role}", WAIT_S)


def query_states(server: SqlServer) -> list[str]:
    return [one["state"] for one in server.run("SHOW QUERIES;")[0]["queries"]]


def stream_names(server: SqlServer) -> set[str]:
    return {one["name"] for one in server.run("SHOW STREAMS;")[0]["streams"]}


def test_a_server_with_another_state_directory_does_not_take_over(first: SqlServer, start: Starter) -> None:
    other = start("other", "elsewhere")
    has_role(other, "APART")
    reason = status_of(other)["reason"]
    assert reason.startswith("This server cannot take over the queries of service shared, because their state is in")
    assert reason in other.log()
    assert [one["message"] for one in other.run("SHOW STREAMS;")[0]["warnings"]] == [reason]
    assert status_of(first)["role"] == "ACTIVE"
    other.kill()


def states_by_query(server: SqlServer) -> dict[str, str]:
    return {one["id"]: one["state"] for one in server.run("SHOW QUERIES;")[0]["queries"]}


def divided(*servers: SqlServer) -> bool:
    """Every query is tried by one server and stands by in all others, and every server has some."""
    found = [states_by_query(one) for one in servers]
    if any("ERROR" not in states.values() for states in found):
        return False
    return all(
        sorted(states[name] for states in found) == ["ERROR", *["STANDBY"] * (len(servers) - 1)] for name in found[0]
    )


def test_queries_are_divided_among_servers_and_taken_over_from_a_killed_one(first: SqlServer, start: Starter) -> None:
    second = start("second")
    has_role(second, "ACTIVE")
    for number in range(12):  # each of a topic of its own: queries of one topic belong together
        server, name = (first, second)[number % 2], f"s{number}"
        topic = f"(kafka_topic='{name}', value_format='JSON', partitions=1)"
        server.run(f"CREATE STREAM {name} (id STRING KEY, v INT) WITH {topic};")
        server.run(f"CREATE STREAM big{number} AS SELECT * FROM {name} WHERE v > {number};")
    second.run("INSERT INTO s0 VALUES ('a', 1);")
    wait_until(lambda: divided(first, second), "queries divided", WAIT_S)
    stores = status_of(second)["activeStandbyPerQuery"]
    for name, state in states_by_query(second).items():
        assert bool(stores[name]["activeStores"]) == (state == "ERROR")
    assert first.rows("SELECT * FROM s0;") == second.rows("SELECT * FROM s0;") == [["a", 1]]
    first.kill()
    wait_until(lambda: set(query_states(second)) == {"ERROR"}, "the survivor to try all", WAIT_S)
    first.start()
    wait_until(lambda: divided(first, second), "queries divided again", WAIT_S)
    second.stop()
    wait_until(lambda: set(query_states(first)) == {"ERROR"}, "the last one to try all", WAIT_S)
    first.run("TERMINATE ALL;")
    assert query_states(first) == []
