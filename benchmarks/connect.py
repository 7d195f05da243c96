"""Connect: records a second of file source, Parquet sink, JDBC source and sink, and changes of databases.

    python -m benchmarks.connect [file-source parquet-sink jdbc-source jdbc-sink postgres-changes mariadb-changes
                                  apache-file-source debezium-postgres-changes] --records 300000

Turns run in one process without Spark, as one of its tasks does them: two tasks on two cores are at most twice that.
The rows with databases start a PostgreSQL or MariaDB of Debian's packages. The last two are Apache Connect 4.3.1,
standalone, on the same broker: from its first records in the topic to the last.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from barnabas.client.cluster import Cluster
from barnabas.client.producer import Producer
from barnabas.client.settings import ClientSettings
from barnabas.pipelines.connect.plane.orders import Job, Turn
from barnabas.pipelines.connect.plane.planner import Planner
from barnabas.pipelines.connect.plane.turns import run_turn
from barnabas.pipelines.connect.plugins import need
from barnabas.testing import Node

STRING = "org.apache.kafka.connect.storage.StringConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"
FIELDS = [
    {"type": "int64", "optional": False, "field": "id"},
    {"type": "string", "optional": True, "field": "name"},
    {"type": "double", "optional": True, "field": "price"},
]
SCHEMA = {"type": "struct", "optional": False, "fields": FIELDS}


def timed(
    servers: str, name: str, settings: dict[str, str], records: int, before: Callable[[], None] | None = None
) -> str:
    """Records a second until all have gone through, and records for a second of this process's CPU. `before` is called
    when the connector has started and has its first offset."""
    plugin = need(settings["connector.class"], "source", "sink", setting="connector.class")
    full = {"key.converter": STRING, "value.converter": STRING} | settings
    tasks = plugin.load().task_settings(full, 1)
    job = Job(name=name, kind=plugin.type, place=plugin.place, settings=full, tasks=tasks,
              client={"bootstrap.servers": servers}, group="bench", offsets_topic="bench-offsets")  # fmt: skip
    planner = Planner(lambda *_, **__: None, look_wait_s=60.0)
    planner.start(job)
    if before is not None:
        for turn in planner.due([name]):
            planner.done(run_turn(turn))
        before()
    done, spent, busy = 0, 0.0, 0.0
    while done < records:
        planner.running[name].tasks[0].due_at = 0.0
        turns: list[Turn] = planner.due([name])
        began, worked = time.perf_counter(), time.process_time()
        for turn in turns:
            outcome = run_turn(turn)
            if outcome.failed:
                raise SystemExit(outcome.trace)
            done += outcome.records
            planner.done(outcome)
        spent += time.perf_counter() - began
        busy += time.process_time() - worked
    planner.close()
    return f"{done / spent:,.0f} a second, {done / busy:,.0f} for a second of CPU"


def row(number: int) -> dict[str, object]:
    return {"id": number, "name": f"name {number % 100}", "price": number / 7}


def send(servers: str, topic: str, records: int, written: Callable[[int], str]) -> None:
    with Producer(ClientSettings.from_properties({}, bootstrap_servers=servers)) as producer:
        producer.send_many(topic, [written(number).encode() for number in range(records)], partition=0)
        producer.flush()


def lines_of(directory: Path, records: int) -> Path:
    path = directory / "lines.txt"
    path.write_text("".join(f"{number:0100}\n" for number in range(records)))
    return path


def file_source(servers: str, directory: Path, records: int) -> str:
    settings = {"connector.class": "FileStreamSource", "file": str(lines_of(directory, records)), "topic": "lines"}
    return timed(servers, "lines", settings, records)


def parquet_sink(servers: str, directory: Path, records: int) -> str:
    send(servers, "json", records, lambda number: json.dumps(row(number)))
    settings = {"connector.class": "S3Sink", "directory": str(directory), "format.class": "ParquetFormat",
                "flush.size": str(min(records, 50_000)), "topics": "json", "value.converter": JSON,
                "value.converter.schemas.enable": "false", "rotate.schedule.interval.ms": "1"}  # fmt: skip
    return timed(servers, "parquet", settings, records)


def jdbc_source(servers: str, directory: Path, records: int) -> str:
    from tests.support.databases import Postgres

    database = Postgres()
    try:
        database.execute(
            "create table things (id bigint primary key, name text, price double precision)",
            f"insert into things select n, 'name ' || n % 100, n / 7.0 from generate_series(1, {records}) n",
        )
        settings = {"connector.class": "JdbcSource", "connection.user": "tester", "mode": "incrementing",
                    "connection.url": f"jdbc:postgresql://127.0.0.1:{database.port}/postgres",
                    "incrementing.column.name": "id", "table.whitelist": "things", "topic.prefix": "jdbc-",
                    "value.converter": JSON}  # fmt: skip
        return timed(servers, "jdbc-in", settings, records)
    finally:
        database.close()


def jdbc_sink(servers: str, directory: Path, records: int) -> str:
    from tests.support.databases import Postgres

    database = Postgres()
    try:
        send(servers, "things", records, lambda number: json.dumps({"schema": SCHEMA, "payload": row(number)}))
        settings = {"connector.class": "JdbcSink", "connection.user": "tester", "insert.mode": "upsert",
                    "connection.url": f"jdbc:postgresql://127.0.0.1:{database.port}/postgres", "auto.create": "true",
                    "pk.mode": "record_value", "pk.fields": "id", "topics": "things",
                    "value.converter": JSON}  # fmt: skip
        return timed(servers, "jdbc-out", settings, records)
    finally:
        database.close()


def postgres_changes(servers: str, directory: Path, records: int) -> str:
    from tests.support.databases import Postgres

    database = Postgres()
    try:
        database.execute("create table things (id bigint primary key, name text, price double precision)")
        settings = {"connector.class": "PostgresConnector", "database.hostname": "127.0.0.1", "topic.prefix": "pg",
                    "database.port": str(database.port), "database.user": "tester", "database.dbname": "postgres",
                    "snapshot.mode": "no_data", "key.converter": JSON, "value.converter": JSON}  # fmt: skip
        return timed(servers, "pg", settings, records, before=lambda: insert_things(database, records))
    finally:
        database.close()


def insert_things(database: Any, records: int) -> None:
    """In transactions of 1,000 rows."""
    for first in range(1, records + 1, 1_000):
        rows = f"generate_series({first}, {min(first + 999, records)})"
        database.execute(f"insert into things select n, 'name ' || n % 100, n / 7.0 from {rows} n")


def mariadb_changes(servers: str, directory: Path, records: int) -> str:
    from tests.support.databases import MariaDb

    database = MariaDb()
    try:
        database.execute(
            "create database shop", "create table shop.things (id bigint primary key, name text, price double)"
        )
        settings = {"connector.class": "MariaDbConnector", "database.hostname": "127.0.0.1", "topic.prefix": "maria",
                    "database.port": str(database.port), "database.user": "tester", "snapshot.mode": "no_data",
                    "key.converter": JSON, "value.converter": JSON}  # fmt: skip

        def insert() -> None:
            for first in range(1, records + 1, 1_000):
                rows = f"seq_{first}_to_{min(first + 999, records)}"
                database.execute(f"insert into things select seq, concat('name ', seq % 100), seq / 7.0 from {rows}",
                                 database="shop")  # fmt: skip

        return timed(servers, "maria", settings, records, before=insert)
    finally:
        database.close()


def apache_file_source(servers: str, directory: Path, records: int) -> str:
    from tests.support import reference_libs

    settings = {"connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector", "topic": "apache",
                "file": str(lines_of(directory, records)), "value.converter": STRING}  # fmt: skip
    return apache(servers, directory, records, settings, "apache", f"{reference_libs.connect_libs()}/*")


def debezium_postgres_changes(servers: str, directory: Path, records: int) -> str:
    from tests.support import reference_libs
    from tests.support.databases import Postgres

    database = Postgres()
    try:
        database.execute("create table things (id bigint primary key, name text, price double precision)")
        settings = {"connector.class": "io.debezium.connector.postgresql.PostgresConnector", "topic.prefix": "dbz",
                    "database.hostname": "127.0.0.1", "database.port": str(database.port), "database.user": "tester",
                    "database.password": "x", "database.dbname": "postgres", "plugin.name": "pgoutput",
                    "snapshot.mode": "no_data", "key.converter": JSON, "value.converter": JSON}  # fmt: skip
        libs = f"{reference_libs.debezium_libs()}/*"  # with the Connect that Debezium asks for

        def streams() -> bool:
            return bool(database.execute("select 1 from pg_replication_slots where active"))

        def insert() -> None:
            while not streams():
                time.sleep(0.1)
            insert_things(database, records)

        return apache(servers, directory, records, settings, "dbz.public.things", libs, insert)
    finally:
        database.close()


def apache(
    servers: str,
    directory: Path,
    records: int,
    settings: dict[str, str],
    topic: str,
    libs: str,
    before: Callable[[], None] | None = None,
) -> str:
    """Apache Connect, standalone, on the same broker: from the first look at records in the topic to the last."""
    from tests.support import reference_libs
    from tests.support.reference import free_port

    (directory / "worker.properties").write_text(
        f"bootstrap.servers={servers}\nkey.converter={STRING}\nvalue.converter={STRING}\n"
        f"offset.storage.file.filename={directory}/offsets\nlisteners=http://127.0.0.1:{free_port()}\n"
    )
    text = "".join(f"{name}={value}\n" for name, value in ({"name": "source"} | settings).items())
    (directory / "source.properties").write_text(text)
    command = [reference_libs.java(), "-Xmx512m", "-cp", libs, "org.apache.kafka.connect.cli.ConnectStandalone",
               str(directory / "worker.properties"), str(directory / "source.properties")]  # fmt: skip
    with open(directory / "apache.log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        if before is not None:
            before()
        with Cluster(ClientSettings.from_properties({}, bootstrap_servers=servers)) as cluster:
            began, first, end = None, 0, 0
            while end < records:
                if process.poll() is not None:
                    raise SystemExit(
                        f"Apache Connect ended by itself:\n{(directory / 'apache.log').read_text()[-2000:]}"
                    )
                found = cluster.metadata([topic]).topics[topic]
                end = 0 if found.error else cluster.list_offsets({(topic, 0): -1})[topic, 0].offset
                if began is None and end:
                    began, first = time.perf_counter(), end
                time.sleep(0.005)
            assert began is not None
            return f"{(end - first) / (time.perf_counter() - began):,.0f} a second"
    finally:
        process.terminate()
        process.wait()


ROWS = {
    "file-source": (file_source, "lines of 100 bytes to a topic"),
    "parquet-sink": (parquet_sink, "JSON of 3 fields to Parquet"),
    "jdbc-source": (jdbc_source, "rows of 3 columns of PostgreSQL to JSON with schemas"),
    "jdbc-sink": (jdbc_sink, "JSON with schemas of 3 fields upserted into PostgreSQL"),
    "postgres-changes": (postgres_changes, "changes of 3 columns of PostgreSQL to JSON with schemas"),
    "mariadb-changes": (mariadb_changes, "changes of 3 columns of MariaDB to JSON with schemas"),
    "apache-file-source": (apache_file_source, "Apache Connect 4.3.1, lines of 100 bytes to a topic"),
    "debezium-postgres-changes": (debezium_postgres_changes, "Debezium, changes of 3 columns to JSON with schemas"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", choices=[*ROWS, []], metavar="row", help=", ".join(ROWS))
    parser.add_argument("--records", type=int, default=300_000)
    options = parser.parse_args()
    for name in options.rows or ROWS:
        run, what = ROWS[name]
        with tempfile.TemporaryDirectory() as directory, Node() as node:
            print(f"{name} ({what}): {run(node.bootstrap_servers, Path(directory), options.records)}", flush=True)


if __name__ == "__main__":
    main()
