"""JDBC source and sink on SQLite, and on a PostgreSQL that the test starts, where there is one."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from barnabas.client.producer import Producer
from barnabas.client.settings import ClientSettings
from barnabas.pipelines.connect.plane.turns import run_turn
from tests.support.databases import DatabaseUnavailable, Postgres

Bench = Any
JSON = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
}
SCHEMAS = {"value.converter": JSON["value.converter"], "value.converter.schemas.enable": "true"}


@pytest.fixture
def persons(tmp_path: Path) -> Path:
    path = tmp_path / "persons.db"
    with sqlite3.connect(path) as database:
        database.execute("create table persons (id integer primary key, name text not null, height real)")
        database.execute("insert into persons (name, height) values ('Anna', 1.7), ('Bert', null)")
    database.close()
    return path


def source(path: Path, mode: str, prefix: str, **rest: str) -> dict[str, str]:
    return {"connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector", "connection.url": f"jdbc:sqlite:{path}",
            "mode": mode, "topic.prefix": prefix, "table.whitelist": "persons"} | JSON | rest  # fmt: skip


def documents(bench: Bench, topic: str) -> list[Any]:
    return [json.loads(each) if each is not None else None for each in bench.values(topic)]


def send(bench: Bench, topic: str, *records: tuple[str | None, Any]) -> None:
    fields = [
        {"type": "int32", "optional": False, "field": "id"},
        {"type": "string", "optional": True, "field": "name"},
    ]
    schema = {"type": "struct", "fields": fields, "optional": False}
    with Producer(ClientSettings.from_properties({}, bootstrap_servers=bench.servers)) as producer:
        for key, value in records:
            data = None if value is None else json.dumps({"schema": schema, "payload": value}).encode()
            producer.send(topic, data, None if key is None else key.encode())
        producer.flush()


def test_the_lab_incrementing_then_keyed_by_transformations(bench: Bench, persons: Path) -> None:
    keyed = {
        "transforms": "key,extract",
        "transforms.key.type": "org.apache.kafka.connect.transforms.ValueToKey",
        "transforms.key.fields": "id",
        "transforms.extract.type": "org.apache.kafka.connect.transforms.ExtractField$Key",
        "transforms.extract.field": "id",
    }
    settings = source(persons, "incrementing", "lab-", **keyed, **{"incrementing.column.name": "id"})
    bench.start("lab", settings, offsets_topic="lab-offsets")
    assert bench.turns("lab") == 2
    assert documents(bench, "lab-persons") == [
        {"id": 1, "name": "Anna", "height": 1.7},
        {"id": 2, "name": "Bert", "height": None},
    ]
    assert [record.key for record in bench.read("lab-persons")] == [b"1", b"2"]
    with sqlite3.connect(persons) as database:
        database.execute("insert into persons (name) values ('Carl')")
    database.close()
    assert bench.turns("lab") == 1
    (last, *_) = reversed(bench.read("lab-offsets"))
    assert json.loads(last.key or b"") == ["lab", {"protocol": "1", "table": "persons"}]
    assert json.loads(last.value or b"") == {"incrementing": 3}


def test_bulk_reads_the_whole_table_at_every_interval(bench: Bench, persons: Path) -> None:
    bench.start("bulk", source(persons, "bulk", "bulk-"))
    assert bench.turns("bulk", rounds=2) == 4
    assert [each["id"] for each in documents(bench, "bulk-persons")] == [1, 2, 1, 2]


def test_upserts_and_deletes_may_be_done_again(bench: Bench, tmp_path: Path) -> None:
    send(bench, "upserts", ("1", {"id": 1, "name": "a"}), ("2", {"id": 2, "name": "b"}), ("1", {"id": 1, "name": "c"}))
    path = tmp_path / "sink.db"
    settings = {
        "connector.class": "JdbcSink", "connection.url": f"jdbc:sqlite:{path}", "topics": "upserts",
        "insert.mode": "upsert", "pk.mode": "record_key", "pk.fields": "key", "auto.create": "true",
        "auto.evolve": "true", "delete.enabled": "true",
    } | SCHEMAS  # fmt: skip
    bench.start("upserts", settings)
    bench.turns("upserts")
    send(bench, "upserts", ("2", None))
    bench.turns("upserts")
    with sqlite3.connect(path) as database:
        assert database.execute("select key, id, name from upserts").fetchall() == [("1", 1, "c")]
    database.close()


def test_an_insert_whose_commit_was_not_heard_of_is_not_done_twice(bench: Bench, tmp_path: Path) -> None:
    send(bench, "inserts", (None, {"id": 1, "name": "a"}), (None, {"id": 2, "name": "b"}))
    path = tmp_path / "sink.db"
    settings = {
        "connector.class": "JdbcSink", "connection.url": f"jdbc:sqlite:{path}", "topics": "inserts",
        "auto.create": "true",
    } | SCHEMAS  # fmt: skip
    job = bench.start("inserts", settings)
    (turn,) = bench.planner.due(["inserts"])
    import barnabas.pipelines.connect.plane.turns as turns

    def lost(*_: Any, **__: Any) -> None:
        raise ConnectionError("the worker died here")

    original, turns.commit_positions = turns.commit_positions, lost  # type: ignore[assignment]
    try:
        outcome = run_turn(turn)
    finally:
        turns.commit_positions = original
    assert outcome.failed
    assert outcome.retry
    assert not run_turn(turn).failed
    with sqlite3.connect(path) as database:
        assert database.execute("select id, name from inserts order by id").fetchall() == [(1, "a"), (2, "b")]
    database.close()
    assert job.consumer_group == "connect-inserts"


def test_a_database_that_is_away_is_tried_again(bench: Bench, tmp_path: Path) -> None:
    settings = source(tmp_path / "nowhere" / "x.db", "bulk", "away-")
    job_settings = settings | {"tables": "persons"}
    bench.planner.start(
        type(bench.start("away-template", source(tmp_path / "t.db", "bulk", "x-", query="select 1 as id",
                                                 **{"table.whitelist": ""})))(
            name="away", kind="source", place="barnabas.pipelines.connect.connectors.jdbc_source:JdbcSource",
            settings=job_settings, tasks=[job_settings], client={"bootstrap.servers": bench.servers}, group="g",
        )
    )  # fmt: skip
    bench.turns("away", rounds=1)
    state, trace = bench.states("away")[-1]
    assert state == "RUNNING"
    assert trace.startswith("trying again in 1 s: org.apache.kafka.connect.errors.RetriableException")


def test_a_table_that_changes_is_followed_or_told(bench: Bench, persons: Path) -> None:
    settings = source(persons, "incrementing", "changing-", **{"incrementing.column.name": "id"})
    bench.start("changing", settings, offsets_topic="changing-offsets")

    def change(*statements: str) -> tuple[str, str]:
        with sqlite3.connect(persons) as database:
            for each in statements:
                database.execute(each)
        database.close()
        bench.planner.restart_task("changing", 0)
        bench.turns("changing", rounds=1)
        state, trace = bench.states("changing")[-1]
        return state, trace.partition("\n")[0].partition(": ")[2]

    bench.turns("changing")
    added = change("alter table persons add column born text", "insert into persons (name, born) values ('Carl', '1')")
    assert added == ("RUNNING", "")
    removed = change("alter table persons drop column height", "insert into persons (name) values ('Dora')")
    assert removed == ("RUNNING", "")
    found = documents(bench, "changing-persons")
    assert [sorted(each) for each in found] == [
        *[["height", "id", "name"]] * 2, ["born", "height", "id", "name"], ["born", "id", "name"],
    ]  # fmt: skip
    text = "table persons has no column id any more, or never had one; it has number, name, born"
    assert change("alter table persons rename column id to number") == ("FAILED", text)
    assert change("drop table persons") == ("FAILED", "table persons is not there")


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    try:
        server = Postgres()
    except DatabaseUnavailable as reason:
        pytest.skip(str(reason))
    yield f"127.0.0.1:{server.port}/postgres?user=tester"
    server.close()


def test_no_row_is_lost_to_a_transaction_that_commits_late(bench: Bench, postgres: str) -> None:
    engine = sqlalchemy.create_engine(f"postgresql+psycopg://tester@{postgres.partition('?')[0]}")
    text = sqlalchemy.text
    with engine.begin() as setup:
        setup.execute(text("create table orders (id serial primary key, item text, price numeric(8,2), at timestamp)"))
    settings = {
        "connector.class": "JdbcSource", "connection.url": f"jdbc:postgresql://{postgres}", "mode": "incrementing",
        "incrementing.column.name": "id", "topic.prefix": "late-", "table.whitelist": "orders",
    } | JSON | {"value.converter.decimal.format": "NUMERIC"}  # fmt: skip
    bench.start("late", settings, offsets_topic="late-offsets")
    slow = engine.connect()
    slow.execute(text("insert into orders (item, price) values ('slow', 1.5)"))
    with engine.begin() as quick:
        quick.execute(text("insert into orders (item, price, at) values ('quick', 2, '2024-03-01 10:00:00')"))
    timer = threading.Timer(0.5, slow.commit)
    timer.start()
    assert bench.turns("late", rounds=2) == 2
    timer.join()
    slow.close()
    engine.dispose()
    found = documents(bench, "late-orders")
    assert [each["item"] for each in found] == ["slow", "quick"]
    assert found[1] == {"id": 2, "item": "quick", "price": 2.00, "at": 1_709_287_200_000}


def test_upserts_into_postgresql(bench: Bench, postgres: str) -> None:
    send(bench, "pg", *((str(number % 3), {"id": number, "name": "x"}) for number in range(9)))
    settings = {
        "connector.class": "JdbcSink", "connection.url": f"jdbc:postgresql://{postgres}", "topics": "pg",
        "insert.mode": "upsert", "pk.mode": "record_key", "pk.fields": "key", "auto.create": "true",
    } | SCHEMAS  # fmt: skip
    bench.start("pg", settings)
    bench.turns("pg")
    assert bench.states("pg")[-1][0] == "RUNNING", bench.states("pg")
    engine = sqlalchemy.create_engine(f"postgresql+psycopg://tester@{postgres.partition('?')[0]}")
    with engine.connect() as connection:
        found = connection.execute(sqlalchemy.text("select key, id from pg order by key")).all()
    engine.dispose()
    assert [tuple(row) for row in found] == [("0", 6), ("1", 7), ("2", 8)]


@pytest.mark.parametrize("first", [True, False])
def test_two_workers_that_run_a_sink_at_once_insert_a_row_once(postgres: str, first: bool) -> None:
    """Each takes the other for dead; in its first turn there is no position yet."""
    from barnabas.pipelines.connect.connectors.jdbc_sink import JdbcSink
    from barnabas.pipelines.connect.data.record import Record
    from barnabas.pipelines.connect.data.schema import INT32, Struct, struct
    from barnabas.pipelines.connect.errors import RetriableError

    name = f"twice_{first}".lower()
    settings = {"connection.url": f"jdbc:postgresql://{postgres}", "table.name.format": name, "auto.create": "true"}
    schema = struct([("id", INT32)])
    place = ("t", 0)

    def begin(offset: int, token: str) -> JdbcSink:
        made = JdbcSink(settings, name=name)
        made.open()
        made.positions({place: (offset, token)} if offset else {})
        return made

    def put(sink: JdbcSink, number: int) -> None:
        value = Struct.unchecked(schema, {"id": number})
        sink.put([Record("t", value, schema, offset=number, original=("t", 0, number))])

    setup = begin(0, "")
    put(setup, 0)
    if not first:
        setup.flush({place: 1})
    else:
        setup._connection.commit()  # the table is there, and no position
    setup.close()
    one, other = begin(1, "a"), begin(1, "a")
    put(one, 1)
    put(other, 1)
    one.flush({place: 2})
    with pytest.raises(RetriableError, match="another worker has moved, in this turn, the position of t-0"):
        other.flush({place: 2})
    one.close()
    other.close()
    engine = sqlalchemy.create_engine(f"postgresql+psycopg://tester@{postgres.partition('?')[0]}")
    with engine.connect() as connection:
        found = connection.execute(sqlalchemy.text(f"select id from {name} order by id")).scalars().all()
    engine.dispose()
    assert found == [0, 1]


@pytest.mark.parametrize("mode", ["upsert", "insert"])
def test_many_rows_go_into_postgresql_by_copy(bench: Bench, postgres: str, mode: str) -> None:
    name = f"copied-{mode}"
    key = {"upsert": "record_value", "insert": "none"}[mode]
    settings = {
        "connector.class": "JdbcSink", "connection.url": f"jdbc:postgresql://{postgres}", "topics": name,
        "insert.mode": mode, "pk.mode": key, "pk.fields": "id", "auto.create": "true",
    } | SCHEMAS  # fmt: skip
    send(bench, name, *((None, {"id": number % 200, "name": f"a\tb\\{number}"}) for number in range(300)))
    bench.start(name, settings)
    assert bench.turns(name, rounds=1) == 300
    send(bench, name, *((None, {"id": number, "name": None}) for number in range(100, 160)))
    assert bench.turns(name, rounds=1) == 60
    engine = sqlalchemy.create_engine(f"postgresql+psycopg://tester@{postgres.partition('?')[0]}")
    with engine.connect() as connection:
        found = connection.execute(sqlalchemy.text(f'select id, name from "{name}" order by id')).all()
    engine.dispose()
    rows = [(number % 200, f"a\tb\\{number}") for number in range(300)] + [(id_, None) for id_ in range(100, 160)]
    if mode == "upsert":
        rows = list(dict(rows).items())
    assert sorted(map(str, map(tuple, found))) == sorted(map(str, rows))


def test_datagen_gives_the_quickstarts_shapes(bench: Bench) -> None:
    settings = {"connector.class": "DatagenConnector", "kafka.topic": "made", "max.interval": "0", "iterations": "25"}
    for shape in ("users", "pageviews", "orders", "ratings", "stock_trades", "twitter"):
        bench.start(shape, settings | JSON | {"quickstart": shape, "kafka.topic": f"made-{shape}"})
        assert bench.turns(shape) == 25
        assert len({json.dumps(each) for each in documents(bench, f"made-{shape}")}) > 5
    assert set(documents(bench, "made-users")[0]) == {"registertime", "userid", "regionid", "gender"}
    assert {"UserMentionEntities", "MediaEntities"} <= set(documents(bench, "made-twitter")[0])
