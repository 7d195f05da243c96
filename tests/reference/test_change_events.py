"""Debezium's events beside ours, of the same changes of the same server. It runs with BARNABAS_DEBEZIUM=1.

Schemas, keys and payloads are compared, but for times, positions and versions, which differ by nature.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from barnabas.pipelines.connect.connectors.changes.mysql import MariaDbChanges
from barnabas.pipelines.connect.connectors.changes.postgres import PostgresChanges
from barnabas.pipelines.connect.connectors.changes.source import ChangeSource
from barnabas.pipelines.connect.converters.json import JsonConverter
from barnabas.pipelines.connect.data.record import Record
from barnabas.pipelines.connect.transforms.chain import make_chain
from tests.support.databases import DatabaseUnavailable, MariaDb, Postgres
from tests.support.reference_libs import ReferenceUnavailable, debezium_libs, java
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.skipif(not os.environ.get("BARNABAS_DEBEZIUM"), reason="BARNABAS_DEBEZIUM is not set"),
    pytest.mark.timeout(600),
]
Event = tuple[str, Any, Any]
MAIN = Path(__file__).parent / "java" / "ChangeEvents.java"
BY_NATURE = {"version", "ts_ms", "ts_us", "ts_ns", "lsn", "txId", "sequence", "name", "pos", "gtid", "file"}
LIMIT_S = 120.0


class Debezium:
    def __init__(self, directory: Path, settings: dict[str, str]) -> None:
        try:
            libs = debezium_libs()
            program = java()
        except ReferenceUnavailable as reason:
            pytest.skip(str(reason))
        path = directory / "debezium.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        command = [program, "-Xmx256m", "-cp", f"{libs}/*", str(MAIN), str(path)]
        self.found: list[Event] = []
        with open(directory / "debezium.log", "wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        def decoded(text: str) -> Any:
            return None if text == "-" else json.loads(base64.b64decode(text))

        assert self._process.stdout is not None
        for line in self._process.stdout:
            topic, key, value = line.decode().split()
            self.found.append((topic, decoded(key), decoded(value)))

    def of(self, part: str) -> list[Event]:
        return [each for each in self.found if part in each[0]]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._thread.join(60)
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextmanager
def debezium(directory: Path, settings: dict[str, str]) -> Iterator[Debezium]:
    made = Debezium(directory, settings)
    try:
        yield made
    finally:
        made.close()


class Ours:
    """A source without a worker: what its turns give, through the converter."""

    def __init__(self, make: Callable[[], ChangeSource], settings: dict[str, str] | None = None) -> None:
        self._make = make
        self._chain = make_chain(settings or {})
        self._offsets: dict[str, dict[str, Any]] = {}
        self._converters = [JsonConverter({}, is_key=each) for each in (True, False)]
        self.found: list[Event] = []

    def turn(self) -> None:
        source = self._make()
        try:
            source.start(self._offsets)
            while records := source.poll():
                for record in records:
                    each: Record | None = record if record.topic else None
                    for link in self._chain:
                        each = None if each is None else link.apply(each)
                    if each is not None:
                        self.found.append((each.topic, self._json(0, each.topic, each.key_schema, each.key),
                                           self._json(1, each.topic, each.value_schema, each.value)))  # fmt: skip
            self._offsets = dict(source.offsets)
            source.committed(self._offsets)
        finally:
            source.close()

    def _json(self, side: int, topic: str, schema: Any, value: Any) -> Any:
        data = self._converters[side].to_bytes(topic, schema, value)
        return None if data is None else json.loads(data)

    def of(self, part: str) -> list[Event]:
        return [each for each in self.found if part in each[0]]


def plain(event: Event) -> Any:
    topic, key, value = json.loads(json.dumps(event))
    if value is not None and value["payload"] is not None:
        payload = value["payload"]
        payload.pop("__source_ts_ms", None)
        for name in BY_NATURE:
            payload.pop(name, None)
            if isinstance(payload.get("source"), dict):
                payload["source"].pop(name, None)
    return topic, key, value


def differences(ours: Any, theirs: Any, where: str = "") -> Iterator[str]:
    if isinstance(ours, dict) and isinstance(theirs, dict) and ours.keys() == theirs.keys():
        for name in ours:
            yield from differences(ours[name], theirs[name], f"{where}/{name}")
    elif isinstance(ours, list | tuple) and isinstance(theirs, list | tuple) and len(ours) == len(theirs):
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(one, other, f"{where}/{number}")
    elif ours != theirs or type(ours) is not type(theirs):
        yield f"{where}: {ours} is {theirs} there"


def same(ours: list[Event], theirs: list[Event]) -> None:
    found = list(differences([plain(each) for each in ours], [plain(each) for each in theirs]))
    assert not found, "\n".join(found)


POSTGRES_TABLE = """create table types (id bigserial primary key, b boolean, s smallint not null default 7, i int,
f4 real, f8 double precision, n numeric(10,2), n0 numeric, t text, c char(5), v varchar(10) default 'dv', d date,
tm time(3), tm6 time, ts timestamp(3), ts6 timestamp, tstz timestamptz, ttz timetz, iv interval, u uuid, j json,
jb jsonb, x xml, by bytea, bit1 bit(1), bit5 bit(5), vb varbit(9), ip inet, ci cidr, ma macaddr, m mood, ia int[],
ta text[], na numeric(5,1)[], money money, r int4range, pt point, o oid, dd date default current_date,
nn text not null, created timestamptz default now())"""
POSTGRES_ROW = """insert into types values (default, true, 2, 3, 1.5, 2.25, 12.30, 1.2345, 'täxt', 'abc', 'vv',
'2024-03-01', '10:11:12.345', '10:11:12.345678', '2024-03-01 10:11:12.123', '2024-03-01 10:11:12.123456',
'2024-03-01 10:11:12.120000+02', '10:11:12.5+02', '1 year 2 mons 3 days 04:05:06.789',
'5f0c9a3c-8a52-4d14-a7b5-8f5d4e3b2a10', '{"a": 1}', '{"b":  [1,2]}', '<a/>', '\\x01ff', B'1', B'10110', B'1011',
'10.0.0.1', '10.0.0.0/8', '08:00:2b:01:02:03', 'ok', '{1,null,3}', '{a,"b c"}', '{1.5,2}', 12.34, '[1,5)', '(1,2)',
77, '2020-01-01', 'n', '2024-03-01 10:11:12+00')"""
POSTGRES_CHANGES = (
    "insert into types (i, nn, dd) values (5, 'q', '2020-01-02')",
    "update types set i = 6, t = 'new' where id = 2",
    "update types set id = 9 where id = 2",
    "delete from types where id = 9",
    "insert into nokey values (2, 'y')",
    "alter table nokey replica identity full",
    "update nokey set a = 3 where a = 2",
    "delete from nokey where a = 3",
    "alter table types add column extra int default 4",
    "insert into types (i, nn) values (1, 'z')",
)


def test_postgresql(tmp_path: Path) -> None:
    try:
        server = Postgres()
    except DatabaseUnavailable as reason:
        pytest.skip(str(reason))
    shared = {"database.hostname": "127.0.0.1", "database.port": str(server.port), "database.user": "tester",
              "database.password": "x", "database.dbname": "postgres", "topic.prefix": "p",
              "plugin.name": "pgoutput"}  # fmt: skip
    theirs = shared | {
        "name": "theirs", "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore", "slot.name": "theirs",
    }  # fmt: skip
    try:
        server.execute("create type mood as enum ('sad','ok','happy')", POSTGRES_TABLE, POSTGRES_ROW,
                       "create table nokey (a int, b text)", "insert into nokey values (1, 'x')")  # fmt: skip
        ours = Ours(lambda: PostgresChanges(shared | {"slot.name": "ours"}))
        with debezium(tmp_path, theirs) as reference:
            wait_until(lambda: len(reference.of("public")) >= 2, "Debezium's snapshot", LIMIT_S)
            ours.turn()
            slots = "select count(*) from pg_replication_slots where slot_name = 'theirs' and active"
            wait_until(lambda: server.execute(slots) == [(1,)], "Debezium streams", LIMIT_S)
            server.execute(*POSTGRES_CHANGES)
            ours.turn()
            wait_until(lambda: len(reference.of("public")) >= len(ours.of("public")), "Debezium's events", LIMIT_S)
        assert len(ours.of("public")) == 14
        same(ours.of("public"), reference.of("public"))
    finally:
        server.close()


@pytest.mark.parametrize("mode", ["tombstone", "drop", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone"])
def test_rows_alone(tmp_path: Path, mode: str) -> None:
    """ExtractNewRecordState, ours and Debezium's."""
    try:
        server = Postgres()
    except DatabaseUnavailable as reason:
        pytest.skip(str(reason))
    kind = "io.debezium.transforms.ExtractNewRecordState"
    shared = {"database.hostname": "127.0.0.1", "database.port": str(server.port), "database.user": "tester",
              "database.password": "x", "database.dbname": "postgres", "topic.prefix": "p", "plugin.name": "pgoutput",
              "transforms": "row", "transforms.row.type": kind, "transforms.row.add.fields": "op,table:of,source.ts_ms",
              "transforms.row.delete.tombstone.handling.mode": mode}  # fmt: skip
    theirs = shared | {
        "name": "theirs", "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore", "slot.name": "theirs",
    }  # fmt: skip
    try:
        server.execute("create table t (id int primary key, name text default 'x')", "insert into t values (1, 'a')")
        ours = Ours(lambda: PostgresChanges(shared | {"slot.name": "ours"}), shared)
        with debezium(tmp_path, theirs) as reference:
            wait_until(lambda: len(reference.of("public")) >= 1, "Debezium's snapshot", LIMIT_S)
            ours.turn()
            slots = "select count(*) from pg_replication_slots where slot_name = 'theirs' and active"
            wait_until(lambda: server.execute(slots) == [(1,)], "Debezium streams", LIMIT_S)
            server.execute("insert into t values (2, null)", "update t set name = 'b' where id = 1",
                           "update t set id = 7 where id = 2", "delete from t where id = 1", "truncate t",
                           "insert into t values (9, 'last')")  # fmt: skip
            ours.turn()
            last = ours.of("public")[-1][1]
            wait_until(lambda: reference.of("public")[-1][1] == last, "Debezium's last row", LIMIT_S)
        same(ours.of("public"), reference.of("public"))
    finally:
        server.close()


MARIADB_TABLE = """create table types (id bigint auto_increment primary key, b boolean, t1 tinyint(1) default 1,
t tinyint, tu tinyint unsigned, s smallint not null default 7, su smallint unsigned, mi mediumint, i int,
iu int unsigned, bu bigint unsigned, f4 float, f8 double, n decimal(10,2), tx text, c char(5),
v varchar(10) default 'dv', d date, tm time, tm3 time(3), tm6 time(6), dt datetime, dt3 datetime(3), dt6 datetime(6),
ts timestamp null, ts6 timestamp(6) null, y year, j json, bi binary(4), vb varbinary(9), bl blob, bit1 bit(1),
bit9 bit(9), e enum('sad','ok'), st set('x','y','z'), pt point, dnow datetime default current_timestamp,
nn varchar(5) not null)"""
MARIADB_ROW = """insert into types values (default, true, 0, -3, 250, 2, 65000, -5, 3, 4000000000,
18446744073709551615, 1.5, 2.25, 12.30, 'täxt', 'abc', 'vv', '2024-03-01', '10:11:12', '10:11:12.345',
'-10:11:12.345678', '2024-03-01 10:11:12', '2024-03-01 10:11:12.123', '2024-03-01 10:11:12.123456',
'2024-03-01 10:11:12', '2024-03-01 10:11:12.123456', 2024, '{"a": 1}', 'ab', 'xyz', 'blob', b'1', b'100000011', 'ok',
'x,z', point(1,2), '2020-01-01', 'nn')"""
MARIADB_CHANGES = (
    MARIADB_ROW,
    "insert into types (i, nn) values (5, 'q')",
    "update types set i = 6, tx = 'new' where id = 3",
    "update types set id = 9 where id = 3",
    "delete from types where id = 9",
    "insert into nokey values (2, 'y')",
    "update nokey set a = 3 where a = 2",
    "delete from nokey where a = 3",
    "alter table types add column extra int default 4",
    "insert into types (i, nn) values (1, 'z')",
    "insert into nokey values (4, '1'), (5, '2')",
)


def test_mariadb(tmp_path: Path) -> None:
    try:
        server = MariaDb()
    except DatabaseUnavailable as reason:
        pytest.skip(str(reason))
    shared = {"database.hostname": "127.0.0.1", "database.port": str(server.port), "database.user": "tester",
              "database.password": "", "topic.prefix": "p", "database.include.list": "shop"}  # fmt: skip
    theirs = shared | {
        "name": "theirs", "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore", "database.server.id": "5555",
        "schema.history.internal": "io.debezium.relational.history.MemorySchemaHistory",
    }  # fmt: skip
    try:
        server.execute("create database shop")
        server.execute(MARIADB_TABLE, MARIADB_ROW, "create table nokey (a int, b text)",
                       "insert into nokey values (1, 'x')", database="shop")  # fmt: skip
        ours = Ours(lambda: MariaDbChanges(shared))
        with debezium(tmp_path, theirs) as reference:
            wait_until(lambda: len(reference.of("shop")) >= 2, "Debezium's snapshot", LIMIT_S)
            ours.turn()
            server.execute(*MARIADB_CHANGES, database="shop")
            ours.turn()
            wait_until(lambda: len(reference.of("shop")) >= len(ours.of("shop")), "Debezium's events", LIMIT_S)
        assert len(ours.of("shop")) == 17
        same(ours.of("shop"), reference.of("shop"))
    finally:
        server.close()
