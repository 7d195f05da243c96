"""Change data capture of a real PostgreSQL: snapshot, stream, restarts, and what is told when the slot is gone."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.cluster import Cluster
from barnabas.client.settings import ClientSettings
from barnabas.pipelines.connect.plane.turns import run_turn
from barnabas.streams import TopologyTestDriver
from tests.support.databases import DatabaseUnavailable, Postgres
from tests.support.waiting import wait_until

Bench = Any
EXAMPLES = Path(__file__).parents[3] / "examples"
JSON = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
}
ONE_TURN = """
import sys
from barnabas.pipelines.connect.plane.orders import Turn
from barnabas.pipelines.connect.plane.turns import run_turn
run_turn(Turn.parse(sys.stdin.read()))
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    try:
        made = Postgres()
    except DatabaseUnavailable as reason:
        pytest.skip(str(reason))
    yield made
    made.close()


@pytest.fixture
def database(server: Postgres, request: pytest.FixtureRequest) -> Iterator[str]:
    """A database of the test's own; its slots go with it."""
    name = f"db{abs(hash(request.node.name)) % 10**9}"
    server.execute(f"create database {name}")
    yield name
    server.execute(f"select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = '{name}'")
    server.execute(f"drop database {name} with (force)")


def capture(server: Postgres, database: str, **rest: str) -> dict[str, str]:
    """Slots belong to the server: each test has one of its own."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector", "database.hostname": "127.0.0.1",
        "database.port": str(server.port), "database.user": "tester", "database.dbname": database,
        "topic.prefix": database, "slot.name": f"slot_{database}",
    } | JSON | {name.replace("_", "."): value for name, value in rest.items()}  # fmt: skip


def events(bench: Bench, topic: str) -> list[Any]:
    return [None if each is None else json.loads(each) for each in bench.values(topic)]


def brief(found: list[Any]) -> list[Any]:
    return [None if each is None else (each["op"], each["before"], each["after"]) for each in found]


def test_rows_are_read_then_changes_follow(bench: Bench, server: Postgres, database: str) -> None:
    server.execute(
        "create table persons (id serial primary key, name text not null, born date)",
        "insert into persons (name, born) values ('Anna', '1990-05-17'), ('Bert', null)",
        database=database,
    )
    bench.start("rows", capture(server, database), offsets_topic="rows-offsets")
    bench.turns("rows", rounds=2)
    assert bench.states("rows")[-1] == ("RUNNING", "")
    topic = f"{database}.public.persons"
    found = events(bench, topic)
    assert brief(found) == [
        ("r", None, {"id": 1, "name": "Anna", "born": 7441}),
        ("r", None, {"id": 2, "name": "Bert", "born": None}),
    ]
    assert [each["source"]["snapshot"] for each in found] == ["first", "last"]
    server.execute(
        "insert into persons (name) values ('Carl')",
        "update persons set name = 'Bart' where id = 2",
        "update persons set id = 9 where id = 3",
        "delete from persons where id = 1",
        database=database,
    )
    bench.turns("rows", rounds=3)
    found = events(bench, topic)[2:]
    assert brief(found) == [
        ("c", None, {"id": 3, "name": "Carl", "born": None}),
        ("u", None, {"id": 2, "name": "Bart", "born": None}),
        ("d", {"id": 3, "name": "", "born": None}, None),
        None,
        ("c", None, {"id": 9, "name": "Carl", "born": None}),
        ("d", {"id": 1, "name": "", "born": None}, None),
        None,
    ]
    keys = [json.loads(each.key) for each in bench.read(topic)][2:]
    assert keys == [{"id": 3}, {"id": 2}, {"id": 3}, {"id": 3}, {"id": 9}, {"id": 1}, {"id": 1}]
    renamed = [each.headers for each in bench.read(topic) if each.headers]
    assert [headers[0][0] for headers in renamed] == ["__debezium.newkey", "__debezium.oldkey"]
    assert found[0]["source"]["txId"] < found[1]["source"]["txId"]
    (last, *_) = reversed(bench.read("rows-offsets"))
    assert json.loads(last.key) == ["rows", {"server": database}]
    assert {"lsn", "lsn_commit", "lsn_proc", "txId", "ts_usec"} <= set(json.loads(last.value))


def test_a_transaction_that_was_open_during_the_snapshot_is_told_once(
    bench: Bench, server: Postgres, database: str
) -> None:
    """Its slot was made before: what the snapshot has seen is in the slot too."""
    import psycopg

    slot = f"slot_{database}"
    server.execute(
        "create table t (id int primary key)",
        "create publication dbz_publication for all tables",
        f"select pg_create_logical_replication_slot('{slot}', 'pgoutput')",
        "insert into t values (1)",
        database=database,
    )
    with psycopg.connect(server.dsn(database)) as slow:
        slow.execute("insert into t values (2)")
        server.execute("insert into t values (3)", database=database)
        bench.start("once", capture(server, database), offsets_topic="once-offsets")
        bench.turns("once", rounds=1)
        slow.commit()
    server.execute("insert into t values (4)", database=database)
    bench.turns("once")
    found = events(bench, f"{database}.public.t")
    assert [(each["op"], each["after"]["id"]) for each in found] == [("r", 1), ("r", 3), ("c", 2), ("c", 4)]


def test_a_turn_that_is_done_again_tells_nothing_twice_even_in_a_large_transaction(
    bench: Bench, server: Postgres, database: str
) -> None:
    """The first turns end in the middle of the transaction; one is lost after its commit in Kafka."""
    server.execute("create table t (id int primary key)", database=database)
    bench.start("large", capture(server, database, snapshot_mode="no_data"), offsets_topic="large-offsets")
    bench.turns("large", rounds=1)
    server.execute("insert into t select generate_series(1, 7000)", "insert into t values (7001)", database=database)
    for _ in range(5):
        for found in bench.planner.running.values():
            found.tasks[0].due_at = 0.0
        for turn in bench.planner.due(["large"]):
            small = type(turn).parse(turn.encode().replace('"limit_records": 100000', '"limit_records": 3000'))
            assert small.limit_records == 3000
            outcome = run_turn(small)
            assert not outcome.failed, outcome.trace
            outcome.failed, outcome.retry, outcome.trace = True, True, "the worker died here"
            bench.planner.done(outcome)
    ids = [each["after"]["id"] for each in events(bench, f"{database}.public.t")]
    assert ids == list(range(1, 7002))


def test_the_server_is_restarted_in_the_middle(bench: Bench, server: Postgres, database: str) -> None:
    server.execute("create table t (id int primary key)", "insert into t values (0)", database=database)
    bench.start("restarted", capture(server, database), offsets_topic="restarted-offsets")
    bench.turns("restarted", rounds=1)
    server.execute("insert into t select generate_series(1, 500)", database=database)
    bench.turns("restarted", rounds=1)
    server.stop()
    bench.turns("restarted", rounds=1)
    state, trace = bench.states("restarted")[-1]
    assert (state, trace[:60]) == ("RUNNING", "trying again in 1 s: org.apache.kafka.connect.errors.Retriab")
    server.start()
    server.execute("insert into t select generate_series(501, 900)", database=database)
    server.restart()
    bench.turns("restarted")
    ids = [each["after"]["id"] for each in events(bench, f"{database}.public.t")]
    assert ids == list(range(901))


def kill_in_a_turn(bench: Bench, name: str, topic: str) -> None:
    """A process that does the next turn is killed when the first records of it are in the log, uncommitted."""
    settings = ClientSettings.from_properties({}, bootstrap_servers=bench.servers)
    with Cluster(settings) as cluster:
        found = cluster.metadata([topic]).topics[topic]
        before = 0 if found.error else cluster.list_offsets({(topic, 0): -1})[topic, 0].offset
        bench.planner.running[name].tasks[0].due_at = 0.0
        (turn,) = bench.planner.due([name])
        process = subprocess.Popen([sys.executable, "-c", ONE_TURN], stdin=subprocess.PIPE, text=True)
        assert process.stdin is not None
        process.stdin.write(turn.encode())
        process.stdin.close()

        def written() -> bool:
            known = not cluster.metadata([topic]).topics[topic].error
            return known and cluster.list_offsets({(topic, 0): -1})[topic, 0].offset > before

        try:
            wait_until(written, f"records of {name} in the log", 30)
        finally:
            process.kill()
            process.wait()


def test_killed_in_the_middle_of_turns_with_the_server_restarted_no_change_is_lost_or_told_twice(
    bench: Bench, server: Postgres, database: str
) -> None:
    server.execute("create table t (id int primary key, pad text)", database=database)
    bench.start("killed", capture(server, database), offsets_topic="killed-offsets")
    bench.turns("killed", rounds=1)
    topic = f"{database}.public.t"
    for time in range(2):
        first = time * 10_000
        server.execute(
            f"insert into t select n, repeat('x', 100) from generate_series({first + 1}, {first + 10_000}) n",
            database=database,
        )
        worker = type(bench)(bench.servers)
        worker.start("killed", capture(server, database), offsets_topic="killed-offsets")
        kill_in_a_turn(worker, "killed", topic)
        worker.planner.close()
        if time == 0:
            server.restart()
    last = type(bench)(bench.servers)
    last.start("killed", capture(server, database), offsets_topic="killed-offsets")
    wait_until(lambda: last.turns("killed", rounds=2) == 0, "all changes are told", 60)
    last.planner.close()
    assert last.states("killed")[-1] == ("RUNNING", "")
    assert [each["after"]["id"] for each in events(bench, topic)] == list(range(1, 20_001))


def test_columns_that_come_and_go(bench: Bench, server: Postgres, database: str) -> None:
    server.execute("create table t (id int primary key, a text)", database=database)
    bench.start("altered", capture(server, database), offsets_topic="altered-offsets")
    bench.turns("altered", rounds=1)
    server.execute(
        "insert into t values (1, 'x')",
        "alter table t add column b int default 4",
        "insert into t values (2, 'y')",
        "alter table t drop column a",
        "insert into t values (3)",
        database=database,
    )
    bench.turns("altered")
    rows = [each["after"] for each in events(bench, f"{database}.public.t")]
    assert rows == [{"id": 1, "a": "x"}, {"id": 2, "a": "y", "b": 4}, {"id": 3, "b": 4}]


def test_only_what_is_wanted(bench: Bench, server: Postgres, database: str) -> None:
    """Filters of tables and columns, keys of one's own, deletions without tombstones, and the older names."""
    server.execute(
        "create table wanted (id int, secret text, name text)", "create table other (id int)",
        "insert into wanted values (1, 's', 'n')", "insert into other values (1)",
        "alter table wanted replica identity full", database=database,
    )  # fmt: skip
    settings = capture(
        server, database, table_whitelist="public.wan.*", column_exclude_list="public.wanted.secret",
        message_key_columns="public.wanted:name", tombstones_on_delete="false", publication_autocreate_mode="filtered",
    )  # fmt: skip
    settings["database.server.name"] = settings.pop("topic.prefix")
    bench.start("wanted", settings, offsets_topic="wanted-offsets")
    bench.turns("wanted", rounds=1)
    server.execute("delete from wanted", "insert into other values (2)", database=database)
    bench.turns("wanted")
    topic = f"{database}.public.wanted"
    assert brief(events(bench, topic)) == [
        ("r", None, {"id": 1, "name": "n"}),
        ("d", {"id": 1, "name": "n"}, None),
    ]
    assert {each.key for each in bench.read(topic)} == {b'{"name":"n"}'}
    published = server.execute("select tablename from pg_publication_tables", database=database)
    assert published == [("wanted",)]


def test_a_slot_that_is_gone_is_told_and_never_made_anew(bench: Bench, server: Postgres, database: str) -> None:
    slot = f"slot_{database}"
    server.execute("create table t (id int primary key)", "insert into t values (1)", database=database)
    bench.start("guard", capture(server, database), offsets_topic="guard-offsets")
    bench.turns("guard", rounds=1)
    server.execute(f"select pg_drop_replication_slot('{slot}')", "insert into t values (2)", database=database)
    bench.turns("guard", rounds=1)
    state, trace = bench.states("guard")[-1]
    assert state == "FAILED"
    assert f"replication slot {slot} is gone: changes after" in trace
    server.execute(f"select pg_create_logical_replication_slot('{slot}', 'pgoutput')", database=database)
    bench.planner.restart_task("guard", 0)
    bench.turns("guard", rounds=1)
    state, trace = bench.states("guard")[-1]
    assert state == "FAILED"
    assert "it was made anew or moved, and the changes in between are lost" in trace


def test_heartbeats_transactions_messages_and_signals(bench: Bench, server: Postgres, database: str) -> None:
    server.execute(
        "create table t (id int primary key)", "create table signals (id text, type text, data text)",
        "insert into t values (1)", database=database,
    )  # fmt: skip
    settings = capture(
        server, database, heartbeat_interval_ms="1", provide_transaction_metadata="true",
        signal_data_collection="public.signals", table_include_list="public.t",
    )  # fmt: skip
    bench.start("signs", settings, offsets_topic="signs-offsets")
    bench.turns("signs", rounds=2)
    server.execute(
        "begin; insert into t values (2), (3); commit",
        "insert into signals values ('s1', 'execute-snapshot', '{\"data-collections\": [\"public.t\"]}')",
        "select pg_logical_emit_message(true, 'greeting', 'hello')",
        "insert into t values (4)",
        database=database,
    )
    bench.turns("signs")
    found = events(bench, f"{database}.public.t")
    assert [(each["op"], each["after"]["id"]) for each in found] == [
        ("r", 1), ("c", 2), ("c", 3), ("r", 1), ("r", 2), ("r", 3), ("r", 4), ("c", 4),
    ]  # fmt: skip
    assert {each["source"]["snapshot"] for each in found if each["op"] == "r"} == {"last", "incremental"}
    orders = [each["transaction"]["total_order"] for each in found if each["op"] == "c"]
    assert orders == [1, 2, 1]
    ends = [each for each in events(bench, f"{database}.transaction") if each["status"] == "END"]
    assert ends[0]["data_collections"] == [{"data_collection": "public.t", "event_count": 2}]
    assert events(bench, f"__debezium-heartbeat.{database}")[0]["ts_ms"] > 0
    (message,) = events(bench, f"{database}.message")
    assert message["message"] == {"prefix": "greeting", "content": "aGVsbG8="}
    assert any(
        "tables were read again" in line for each in bench.events if each["event"] == "log" for line in each["lines"]
    )


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"table.include.list": "("}, "is no regular expression"),
        ({"topic.prefix": ""}, "must not be empty"),
        ({"message.key.columns": "nothing"}, "must look like table:column,column"),
        ({"plugin.name": "decoderbufs"}, "String must be one of: pgoutput"),
        ({"skipped.operations": "x"}, "may hold c, u, d and t"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, str], sentence: str) -> None:
    from barnabas.pipelines.connect.connectors.changes.postgres import PostgresChanges
    from barnabas.pipelines.connect.errors import ConfigError

    with pytest.raises(ConfigError, match=sentence.replace("(", r"\(")):
        PostgresChanges({"topic.prefix": "p", "database.hostname": "h", "database.dbname": "d"} | settings)


def test_transactions_of_the_bank_feed_its_alerts(
    bench: Bench, server: Postgres, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example's connector as its file has it, but for where the database is."""
    given = json.loads((EXAMPLES / "bank_capture.json").read_text())["config"]
    place = {"database.port": str(server.port), "database.user": "tester", "database.dbname": database}
    server.execute(
        "create table transactions (id text primary key, user_name text not null, amount numeric(10, 2) not null)",
        "insert into transactions values ('t1', 'anna', 5000)",
        database=database,
    )
    settings = given | place | {"slot.name": f"slot_{database}", "database.hostname": "127.0.0.1"}
    bench.start("bank", settings, offsets_topic="bank-offsets")
    bench.turns("bank", rounds=1)
    server.execute(
        "insert into transactions values ('t2', 'anna', 1200.5), ('t3', 'bert', 9000)",
        "update transactions set amount = 1 where id = 't1'",
        "delete from transactions where id = 't1'",
        database=database,
    )
    bench.turns("bank")
    assert bench.states("bank")[-1] == ("RUNNING", "")
    found = [(each.key.decode(), json.loads(each.value)) for each in bench.read("bank_transactions")]
    assert found == [
        ("anna", {"id": "t1", "amount": 5000.0}),
        ("anna", {"id": "t2", "amount": 1200.5}),
        ("bert", {"id": "t3", "amount": 9000.0}),
    ]
    monkeypatch.syspath_prepend(str(EXAMPLES))
    with TopologyTestDriver(importlib.import_module("bank_alerts").build()) as bank:
        bank.pipe_input("bank_transactions", *found[0], timestamp_ms=10)
        threshold = {"event": "threshold_enabled", "amount": 1000}
        bank.pipe_input("user_thresholds", "anna", threshold, timestamp_ms=20)
        for user, transaction in found[1:]:
            bank.pipe_input("bank_transactions", user, transaction, timestamp_ms=30)
        alert = {"id": "t2", "amount": 1200.5, "threshold": 1000}
        assert bank.read_output("user_alerts") == [("anna", alert)]


def test_changes_behind_many_of_another_table_are_read_and_the_slot_moves_over_them(
    bench: Bench, server: Postgres, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's answer has a limit, and what nobody wants counts too: the connector once stood still there."""
    from barnabas.pipelines.connect.connectors.changes import postgres

    monkeypatch.setattr(postgres, "CHANGES_MAX", 100)
    for table in ("wanted", "noise"):
        server.execute(f"create table {table} (id int primary key)", database=database)
    settings = capture(server, database, snapshot_mode="no_data", table_include_list="public.wanted")
    bench.start("noisy", settings, offsets_topic="noisy-offsets")
    bench.turns("noisy", rounds=1)
    for first in (1, 201, 401):
        server.execute(f"insert into noise select generate_series({first}, {first + 199})", database=database)
    server.execute("insert into wanted values (1)", database=database)
    (before,) = server.execute(f"select confirmed_flush_lsn from pg_replication_slots where database = '{database}'")
    bench.turns("noisy", rounds=6)
    assert brief(events(bench, f"{database}.public.wanted")) == [("c", None, {"id": 1})]
    assert server.execute(f"select confirmed_flush_lsn > '{before[0]}' from pg_replication_slots where database = "
                          f"'{database}'") == [(True,)]  # fmt: skip


def test_what_a_turn_could_not_take_follows_without_news(
    bench: Bench, server: Postgres, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from barnabas.pipelines.connect.connectors.changes import postgres

    monkeypatch.setattr(postgres, "CHANGES_MAX", 100)
    server.execute("create table t (id int primary key)", database=database)
    bench.start("rest", capture(server, database, snapshot_mode="no_data"), offsets_topic="rest-offsets")
    bench.turns("rest", rounds=1)
    for first in (1, 201, 401):
        server.execute(f"insert into t select generate_series({first}, {first + 199})", database=database)
    bench.turns("rest", rounds=5)
    assert [each["after"]["id"] for each in events(bench, f"{database}.public.t")] == list(range(1, 601))
