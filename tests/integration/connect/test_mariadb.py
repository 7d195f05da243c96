"""JDBC source and sink and change data capture on a real MariaDB."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.client.producer import Producer
from barnabas.client.settings import ClientSettings
from barnabas.pipelines.connect.plane.turns import run_turn
from barnabas.streams import Topology, TopologyTestDriver, col
from barnabas.testing import Node
from tests.support.databases import DatabaseUnavailable, MariaDb
from tests.support.waiting import wait_until

Bench = Any
JSON = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
}
SCHEMAS = {"value.converter": JSON["value.converter"], "value.converter.schemas.enable": "true"}


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDb]:
    try:
        made = MariaDb()
    except DatabaseUnavailable as reason:
        pytest.skip(str(reason))
    yield made
    made.close()


@pytest.fixture
def database(server: MariaDb, request: pytest.FixtureRequest) -> Iterator[str]:
    name = f"db{abs(hash(request.node.name)) % 10**9}"
    server.execute(f"create database {name}")
    yield name
    server.execute(f"drop database {name}")


def events(bench: Bench, topic: str) -> list[Any]:
    return [None if each is None else json.loads(each) for each in bench.values(topic)]


def brief(found: list[Any]) -> list[Any]:
    return [None if each is None else (each["op"], each["before"], each["after"]) for each in found]


def source(server: MariaDb, database: str, mode: str, **rest: str) -> dict[str, str]:
    return {
        "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
        "connection.url": f"jdbc:mariadb://127.0.0.1:{server.port}/{database}?user=tester", "mode": mode,
        "topic.prefix": f"{database}-", "table.whitelist": "persons",
    } | JSON | {name.replace("_", "."): value for name, value in rest.items()}  # fmt: skip


def capture(server: MariaDb, database: str, **rest: str) -> dict[str, str]:
    return {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector", "database.hostname": "127.0.0.1",
        "database.port": str(server.port), "database.user": "tester", "topic.prefix": f"c{database}",
        "database.include.list": database,
    } | JSON | {name.replace("_", "."): value for name, value in rest.items()}  # fmt: skip


PERSONS = """create table persons (id int auto_increment primary key, name varchar(50) not null, height decimal(4,2),
    born date, active boolean, changed timestamp(3) not null default current_timestamp(3)
    on update current_timestamp(3))"""


def test_the_lab_bulk_then_incrementing_then_keyed(bench: Bench, server: MariaDb, database: str) -> None:
    server.execute(
        PERSONS, "insert into persons values (1, 'Anna', 1.70, '1990-05-17', true, '2024-03-01 10:00:00.5')",
        "insert into persons (name) values ('Bert')", database=database,
    )  # fmt: skip
    bench.start("bulk", source(server, database, "bulk"))
    assert bench.turns("bulk", rounds=1) == 2
    keyed = {
        "transforms": "key,extract",
        "transforms.key.type": "org.apache.kafka.connect.transforms.ValueToKey",
        "transforms.key.fields": "id",
        "transforms.extract.type": "org.apache.kafka.connect.transforms.ExtractField$Key",
        "transforms.extract.field": "id",
        "value.converter.decimal.format": "NUMERIC",
    }
    settings = source(server, database, "incrementing", incrementing_column_name="id") | keyed
    bench.start("lab", settings | {"topic.prefix": f"{database}-lab-"}, offsets_topic="lab-offsets")
    assert bench.turns("lab") == 2
    server.execute("insert into persons (name) values ('Carl')", database=database)
    assert bench.turns("lab") == 1
    found = events(bench, f"{database}-lab-persons")
    assert found[0] == {"id": 1, "name": "Anna", "height": 1.70, "born": 7441, "active": True,
                        "changed": 1_709_287_200_500}  # fmt: skip
    assert [each["name"] for each in found] == ["Anna", "Bert", "Carl"]
    assert [each.key for each in bench.read(f"{database}-lab-persons")] == [b"1", b"2", b"3"]


def test_rows_that_change_are_found_by_their_timestamp(bench: Bench, server: MariaDb, database: str) -> None:
    server.execute(PERSONS, "insert into persons (name) values ('Anna'), ('Bert')", database=database)
    settings = source(
        server, database, "timestamp+incrementing", timestamp_column_name="changed", incrementing_column_name="id"
    )
    bench.start("times", settings, offsets_topic="times-offsets")
    assert bench.turns("times") == 2
    server.execute("update persons set name = 'Bart' where id = 2", database=database)
    assert bench.turns("times") == 1
    assert [each["name"] for each in events(bench, f"{database}-persons")] == ["Anna", "Bert", "Bart"]


def send(bench: Bench, topic: str, fields: list[tuple[str, str]], *records: tuple[str, dict[str, Any] | None]) -> None:
    schema = {"type": "struct", "optional": False,
              "fields": [{"field": name, "type": kind, "optional": True} for name, kind in fields]}  # fmt: skip
    with Producer(ClientSettings.from_properties({}, bootstrap_servers=bench.servers)) as producer:
        for key, value in records:
            data = None if value is None else json.dumps({"schema": schema, "payload": value}).encode()
            producer.send(topic, data, key.encode())
        producer.flush()


def test_upserts_deletes_and_new_columns(bench: Bench, server: MariaDb, database: str) -> None:
    topic = f"{database}-sink"
    fields = [("name", "string"), ("size", "double")]
    send(bench, topic, fields, ("1", {"name": "a", "size": 1.5}), ("2", {"name": "b", "size": None}),
         ("1", {"name": "c", "size": 2.5}))  # fmt: skip
    settings = {
        "connector.class": "JdbcSink", "connection.url": f"jdbc:mysql://127.0.0.1:{server.port}/{database}?user=tester",
        "topics": topic, "table.name.format": "things", "insert.mode": "upsert", "pk.mode": "record_key",
        "pk.fields": "id", "auto.create": "true", "auto.evolve": "true", "delete.enabled": "true",
    } | SCHEMAS  # fmt: skip
    bench.start("sink", settings)
    bench.turns("sink")
    assert bench.states("sink")[-1] == ("RUNNING", "")
    assert server.execute("select * from things order by id", database=database) == [
        ("1", "c", 2.5),
        ("2", "b", None),
    ]
    send(bench, topic, [*fields, ("born", "int32")], ("3", {"name": "d", "size": None, "born": 7}), ("2", None))
    bench.turns("sink")
    assert server.execute("select * from things order by id", database=database) == [
        ("1", "c", 2.5, None),
        ("3", "d", None, 7),
    ]


def test_inserts_are_exactly_once(bench: Bench, server: MariaDb, database: str) -> None:
    import barnabas.pipelines.connect.plane.turns as turns

    topic = f"{database}-once"
    send(bench, topic, [("name", "string")], ("1", {"name": "a"}), ("2", {"name": "b"}))
    settings = {
        "connector.class": "JdbcSink", "connection.url": f"jdbc:mysql://127.0.0.1:{server.port}/{database}?user=tester",
        "topics": topic, "table.name.format": "things", "auto.create": "true",
    } | SCHEMAS  # fmt: skip
    bench.start("once", settings)
    (turn,) = bench.planner.due(["once"])

    def lost(*_: Any, **__: Any) -> None:
        raise ConnectionError("the worker died here")

    original, turns.commit_positions = turns.commit_positions, lost
    try:
        assert run_turn(turn).failed
    finally:
        turns.commit_positions = original
    outcome = run_turn(turn)
    assert not outcome.failed, outcome.trace
    assert server.execute("select name from things order by name", database=database) == [("a",), ("b",)]


def test_rows_are_read_then_changes_follow(bench: Bench, server: MariaDb, database: str) -> None:
    server.execute(
        "create table persons (id int auto_increment primary key, name varchar(20) not null, born date)",
        "insert into persons (name, born) values ('Anna', '1990-05-17'), ('Bert', null)",
        database=database,
    )
    bench.start("changes", capture(server, database), offsets_topic="changes-offsets")
    bench.turns("changes", rounds=1)
    assert bench.states("changes")[-1] == ("RUNNING", "")
    server.execute(
        "insert into persons (name) values ('Carl')",
        "update persons set name = 'Bart' where id = 2",
        "alter table persons add column size int default 4",
        "update persons set id = 9 where id = 3",
        "delete from persons where id = 1",
        database=database,
    )
    bench.turns("changes")
    topic = f"c{database}.{database}.persons"
    found = events(bench, topic)
    assert brief(found) == [
        ("r", None, {"id": 1, "name": "Anna", "born": 7441}),
        ("r", None, {"id": 2, "name": "Bert", "born": None}),
        ("c", None, {"id": 3, "name": "Carl", "born": None}),
        ("u", {"id": 2, "name": "Bert", "born": None}, {"id": 2, "name": "Bart", "born": None}),
        ("d", {"id": 3, "name": "Carl", "born": None, "size": 4}, None),
        None,
        ("c", None, {"id": 9, "name": "Carl", "born": None, "size": 4}),
        ("d", {"id": 1, "name": "Anna", "born": 7441, "size": 4}, None),
        None,
    ]
    assert [each["source"]["snapshot"] for each in found[:3]] == ["first", "last", "false"]
    assert found[2]["source"]["gtid"].startswith("0-7-")
    assert [each["ddl"] for each in events(bench, f"c{database}")] == [
        "alter table persons add column size int default 4"
    ]
    (last, *_) = reversed(bench.read("changes-offsets"))
    assert {"file", "pos", "gtids", "server_id", "ts_sec"} <= set(json.loads(last.value))


def test_nothing_is_told_twice_when_turns_are_lost_and_the_server_restarts(
    bench: Bench, server: MariaDb, database: str
) -> None:
    server.execute("create table t (id int primary key)", database=database)
    bench.start("again", capture(server, database, snapshot_mode="no_data"), offsets_topic="again-offsets")
    bench.turns("again", rounds=1)
    server.execute("insert into t select seq from seq_1_to_5000", database=database)
    for round_number in range(6):
        if round_number == 2:
            server.restart()
            server.execute("insert into t select seq from seq_5001_to_5100", database=database)
        bench.planner.running["again"].tasks[0].due_at = 0.0
        for turn in bench.planner.due(["again"]):
            small = type(turn).parse(turn.encode().replace('"limit_records": 100000', '"limit_records": 3000'))
            outcome = run_turn(small)
            assert not outcome.failed, outcome.trace
            outcome.failed, outcome.retry, outcome.trace = True, True, "the worker died here"
            bench.planner.done(outcome)
    ids = [each["after"]["id"] for each in events(bench, f"c{database}.{database}.t")]
    assert ids == list(range(1, 5101))


def test_values_of_the_binlog_are_those_of_the_snapshot(bench: Bench, server: MariaDb, database: str) -> None:
    """Also what the reader of the binlog gets wrong: fractions of negative times."""
    row = "('-10:11:12.345678', '-00:00:00.5', '-10:11:12', '10:11:12.25', 18446744073709551615, 'x,z', b'101', "
    row += "point(1, 2))"
    server.execute(
        "create table t (a time(6), b time(1), c time(2), d time(2), e bigint unsigned, f set('x','y','z'), g bit(3), "
        "h point)",
        f"insert into t values {row}",
        database=database,
    )
    bench.start("values", capture(server, database), offsets_topic="values-offsets")
    bench.turns("values", rounds=1)
    server.execute(f"insert into t values {row}", database=database)
    bench.turns("values")
    read, streamed = (each["after"] for each in events(bench, f"c{database}.{database}.t"))
    assert streamed == read
    assert [read[name] for name in "abcd"] == [-36_672_345_678, -500_000, -36_672_000_000, 36_672_250_000]


def test_a_binlog_that_is_gone_is_told(bench: Bench, server: MariaDb, database: str) -> None:
    server.execute("create table t (id int primary key)", database=database)
    bench.start("purged", capture(server, database), offsets_topic="purged-offsets")
    bench.turns("purged", rounds=1)
    (now, *_) = server.execute("show master status")
    server.execute("flush binary logs", "flush binary logs")
    (then, *_) = server.execute("show master status")

    def purged() -> bool:
        """The server keeps files from which it was just reading for somebody."""
        server.execute(f"purge binary logs to '{then[0]}'")
        return now[0] not in [row[0] for row in server.execute("show binary logs")]

    wait_until(purged, "the binlog is purged")
    bench.turns("purged", rounds=1)
    state, trace = bench.states("purged")[-1]
    assert state == "FAILED"
    assert f"{now[0]} is no longer among the server's binlogs" in trace


CLEANER = {"log.cleaner.backoff.ms": 20, "log.initial.task.delay.ms": 100, "log.cleaner.min.cleanable.ratio": 0.001}


def test_the_lab_a_person_is_filtered_kept_compacted_and_forgotten(
    bench: Bench, server: MariaDb, database: str
) -> None:
    """Rows keyed by transformations, a topology that leaves some out, a compacted topic, and a tombstone."""
    server.execute(
        PERSONS,
        "insert into persons (name, active) values ('Anna', true), ('Bert', true), ('Carl', false)",
        database=database,
    )
    key = "org.apache.kafka.connect.transforms"
    settings = source(server, database, "timestamp", timestamp_column_name="changed") | {
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "transforms": "key,id,text",
        "transforms.key.type": f"{key}.ValueToKey",
        "transforms.key.fields": "id",
        "transforms.id.type": f"{key}.ExtractField$Key",
        "transforms.id.field": "id",
        "transforms.text.type": f"{key}.Cast$Key",
        "transforms.text.spec": "string",
    }
    topology = Topology("witnesses")
    topology.stream("persons").filter(col("value.active") == True).to("witnesses")  # noqa: E712
    with Node(CLEANER) as node, TopologyTestDriver(topology) as filtering:
        node.create_topic(
            "witnesses", config={"cleanup.policy": "compact", "segment.ms": 100, "delete.retention.ms": 0}
        )
        other = type(bench)(node.bootstrap_servers)
        properties = ClientSettings.from_properties({}, bootstrap_servers=node.bootstrap_servers)
        with Producer(properties) as producer:

            def pass_on() -> None:
                """What the topology makes of the rows that came."""
                other.turns("lab")
                rows = [(each.key.decode(), each.value) for each in other.read(f"{database}-persons")]
                for person, value in rows[len(passed) :]:
                    passed.append(person)
                    filtering.pipe_input("persons", person, json.loads(value))
                for person, value in filtering.read_output("witnesses"):
                    producer.send("witnesses", json.dumps(value).encode(), person.encode())
                producer.flush()

            passed: list[str] = []
            other.start("lab", settings, offsets_topic="lab-offsets")
            pass_on()
            server.execute("update persons set name = 'Anne' where name = 'Anna'", database=database)
            pass_on()
            assert passed == ["1", "2", "3", "1"]
            names = [(each.key, json.loads(each.value)["name"]) for each in other.read("witnesses")]
            assert names == [(b"1", "Anna"), (b"2", "Bert"), (b"1", "Anne")]
            producer.send("witnesses", None, b"2")

            def kept() -> dict[bytes, set[str | None]]:
                """Names in the log by key. A record more closes the segment: open ones are not cleaned."""
                producer.send("witnesses", b"{}", b"other")
                producer.flush()
                found: dict[bytes, set[str | None]] = {}
                for each in other.read("witnesses"):
                    found.setdefault(each.key, set()).add(each.value and json.loads(each.value).get("name"))
                return found

            wait_until(lambda: kept() == {b"1": {"Anne"}, b"other": {None}}, "Bert is forgotten", 60)
        other.planner.close()


def test_what_a_turn_could_not_take_follows_without_news_and_what_nobody_wants_is_passed(
    bench: Bench, server: MariaDb, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from barnabas.pipelines.connect.connectors.changes import binlog

    monkeypatch.setattr(binlog, "CHANGES_MAX", 100)
    monkeypatch.setattr(binlog, "SKIP_BYTES", 1_000)
    server.execute("create table t (id int primary key)", "create table noise (id int primary key)", database=database)
    settings = capture(server, database, snapshot_mode="no_data", table_include_list=f"{database}.t")
    bench.start("rest", settings, offsets_topic="rest-offsets")
    bench.turns("rest", rounds=1)
    for first in (1, 201, 401):
        server.execute(f"insert into t select seq from seq_{first}_to_{first + 199}", database=database)
    bench.turns("rest", rounds=5)
    assert [each["after"]["id"] for each in events(bench, f"c{database}.{database}.t")] == list(range(1, 601))
    (before,) = bench.planner.running["rest"].offsets.values()
    server.execute("insert into noise select seq from seq_1_to_2000", database=database)
    bench.turns("rest", rounds=2)
    (after,) = bench.planner.running["rest"].offsets.values()
    assert after["pos"] > before["pos"]


def test_rows_are_decoded_as_the_library_does_it(server: MariaDb, database: str) -> None:
    from pymysqlreplication import BinLogStreamReader
    from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

    from barnabas.pipelines.connect.connectors.changes.binlog import connected
    from barnabas.pipelines.connect.connectors.changes.row_images import given_by_library, row_images

    columns = {
        "tiny": ("tinyint", "-128"), "utiny": ("tinyint unsigned", "255"), "small": ("smallint", "-32768"),
        "medium": ("mediumint", "-8388608"), "umedium": ("mediumint unsigned", "16777215"),
        "i": ("int", "-2147483648"), "ui": ("int unsigned", "4294967295"), "big": ("bigint", "-9223372036854775808"),
        "ubig": ("bigint unsigned", "18446744073709551615"), "f": ("float", "1.5"), "d": ("double", "-0.1"),
        "n": ("decimal(20,5)", "-12345678901.00042"), "short": ("varchar(20)", "'äß€'"),
        "wide": ("varchar(300)", "repeat('ü', 260)"), "c": ("char(5)", "'ab'"), "t": ("text", "'Text'"),
        "latin": ("varchar(9) character set latin1", "'äöü'"), "bytes": ("varbinary(9)", "x'00ff'"),
        "blob1": ("blob", "x'ff00'"), "long_blob": ("longblob", "repeat('x', 70000)"), "day": ("date", "'2024-02-29'"),
        "at": ("datetime(6)", "'2024-02-29 12:34:56.789012'"), "ts": ("timestamp(3) null", "'2024-02-29 01:02:03.4'"),
        "clock": ("time(2)", "'-12:34:56.78'"), "y": ("year", "2024"), "e": ("enum('a','b')", "'b'"),
        "s": ("set('x','y','z')", "'x,z'"), "bits": ("bit(11)", "b'10000000011'"), "j": ("json", "'{\"a\": 1}'"),
    }  # fmt: skip
    listed = ", ".join(f"{name} {kind}" for name, (kind, _) in columns.items())
    values = ", ".join(value for _, value in columns.values())
    (file, start, *_) = server.execute("show master status")[0]
    server.execute(
        f"create table kinds (id int primary key, {listed}) character set utf8mb4",
        f"insert into kinds values (1, {values})",
        "insert into kinds (id) values (2), (3)",
        "update kinds set tiny = 5, short = null, wide = 'w', day = null where id < 3",
        "delete from kinds where id = 2",
        database=database,
    )  # fmt: skip

    def read(rows: Any) -> list[Any]:
        reader = BinLogStreamReader(
            {"host": "127.0.0.1", "port": server.port, "user": "tester"}, server_id=4_711, log_file=file, log_pos=start,
            resume_stream=True, only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
            pymysql_wrapper=connected,
        )  # fmt: skip
        try:
            return [list(rows(event)) for event in reader]
        finally:
            reader.close()

    fast = read(lambda event: row_images(event, 2 if isinstance(event, UpdateRowsEvent) else 1))
    assert fast == read(given_by_library)
    assert sum(len(event) for event in fast) == 6
    assert fast[0][0][0]["short"] == "äß€"
