"""Changes of MariaDB and MySQL by their binlog, in Debezium's events.

An offset is the file and the position where a transaction begins, and how many of its changes are in Kafka already:
the binlog gives the same events again for the same position. The names of columns are in the binlog
(binlog_row_metadata=FULL), so there is no topic with a history of schemas; types are those of the table as it is now.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pymysql

from barnabas.pipelines.connect.config import Definition, Setting, one_of
from barnabas.pipelines.connect.connector import offset_key
from barnabas.pipelines.connect.connectors.changes.envelope import (
    SCHEMA_CHANGE,
    SOURCE_HEAD,
    ChangeColumn,
    ChangeTable,
    source_values,
)
from barnabas.pipelines.connect.connectors.changes.mysql_types import ColumnFacts, MySqlTypes, text_of
from barnabas.pipelines.connect.connectors.changes.settings import SHARED
from barnabas.pipelines.connect.connectors.changes.source import BATCH, SNAPSHOT_TRANSACTION_MS, Batch, ChangeSource
from barnabas.pipelines.connect.connectors.mysql_client import MySqlConnection
from barnabas.pipelines.connect.data.record import Record
from barnabas.pipelines.connect.data.schema import (
    INT32,
    INT64,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    STRING,
    Struct,
    array,
    struct,
)
from barnabas.pipelines.connect.errors import ConnectError, RetriableError

OWN_DATABASES = ("mysql", "information_schema", "performance_schema", "sys")
NEEDED = {"log_bin": ("ON", "1"), "binlog_format": ("ROW",), "binlog_row_image": ("FULL",),
          "binlog_row_metadata": ("FULL",)}  # fmt: skip
GONE = 1236  # the server cannot read the binlog from there
REFUSED = (1044, 1045, 1049, 1227)
COLUMNS = """select column_name, data_type, column_type, is_nullable, column_default, numeric_precision, numeric_scale,
datetime_precision, character_maximum_length from information_schema.columns
where table_schema = %s and table_name = %s order by ordinal_position"""
KEY = """select column_name from information_schema.key_column_usage
where table_schema = %s and table_name = %s and constraint_name = 'PRIMARY' order by ordinal_position"""
TABLES = "select table_schema, table_name from information_schema.tables where table_type = 'BASE TABLE' order by 1, 2"


@contextmanager
def told() -> Iterator[None]:
    try:
        yield
    except (pymysql.err.OperationalError, pymysql.err.InterfaceError) as error:
        code = error.args[0] if error.args else 0
        text = error.args[1] if len(error.args) > 1 else error
        kind = ConnectError if code in (GONE, *REFUSED) else RetriableError
        raise kind(f"the database answers: {text}") from error
    except pymysql.err.MySQLError as error:
        raise ConnectError(f"the database refuses: {error}") from error


class MySqlTable:
    """A captured table: its columns by name, and its events."""

    def __init__(
        self, full: tuple[str, str], columns: list[ChangeColumn], events: ChangeTable, clocks: list[str]
    ) -> None:
        self.full, self.columns, self.events, self.clocks = full, columns, events, clocks
        self.collection = ".".join(full)

    def row(self, given: Mapping[str, Any]) -> Struct:
        values = {}
        for each in self.columns:
            value = given.get(each.name)
            values[each.name] = None if value is None else each.convert(value)
        return Struct.unchecked(self.events.value, values)


class MySqlChanges(ChangeSource):
    doc = "Changes of MariaDB's or MySQL's tables, as Debezium tells them."
    space = "database"
    kind = "mysql"
    definition = Definition(
        [
            *SHARED,
            Setting("database.port", "INT", 3306, doc="Its port.", group="Database"),
            Setting("database.server.id", "LONG", None, doc="A number that no other replica has.", group="Database"),
            Setting("database.include.list", "LIST", [], "MEDIUM", "Databases to capture.", group="Filters"),
            Setting("database.exclude.list", "LIST", [], "MEDIUM", "Databases to leave.", group="Filters"),
            Setting("include.schema.changes", "BOOLEAN", True, "MEDIUM", "Whether statements that change tables are "
                    "told in the topic named as the prefix.", group="Events"),
            Setting("time.precision.mode", "STRING", "adaptive_time_microseconds", "MEDIUM", "How times are told.",
                    one_of("adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds",
                           "nanoseconds", ignore_case=True), "Types"),
            Setting("bigint.unsigned.handling.mode", "STRING", "long", "MEDIUM", "long or precise.",
                    one_of("long", "precise", ignore_case=True), "Types"),
        ]
    )  # fmt: skip

    def configure(self) -> None:
        super().configure()
        self._connections: list[Any] = []
        self._looking: Any = None
        self._looked_at: Any = None
        self.types = MySqlTypes(self.values)
        place = f"io.debezium.connector.{self.kind}"
        fields = [
            *SOURCE_HEAD,
            ("table", OPTIONAL_STRING),
            ("server_id", INT64),
            ("gtid", OPTIONAL_STRING),
            ("file", STRING),
            ("pos", INT64),
            ("row", INT32),
            ("thread", OPTIONAL_INT64),
            ("query", OPTIONAL_STRING),
        ]
        self.source_schema = struct(fields, name=f"{place}.Source", version=1)
        self.schema_key = struct([("databaseName", STRING)], name=f"{place}.SchemaChangeKey", version=1)
        self.schema_value = struct(
            [("source", self.source_schema), ("ts_ms", INT64), ("databaseName", OPTIONAL_STRING),
             ("schemaName", OPTIONAL_STRING), ("ddl", OPTIONAL_STRING), ("tableChanges", array(SCHEMA_CHANGE))],
            name=f"{place}.SchemaChangeValue", version=1,
        )  # fmt: skip

    def login(self) -> dict[str, Any]:
        values = self.values
        return {
            "host": values["database.hostname"],
            "port": values["database.port"],
            "user": values["database.user"],
            "password": values["database.password"] or "",
            "connect_timeout": 10,
        }

    def _connect(self) -> Any:
        made = MySqlConnection(
            **self.login(),
            charset="utf8mb4",
            autocommit=True,
            cursorclass=pymysql.cursors.Cursor,
            init_command="set time_zone = '+00:00'",
        )
        self._connections.append(made)
        return made

    def open(self) -> None:
        with told():
            self._connection = self._connect()

    def close(self) -> None:
        self._work = None
        while self._connections:
            self._connections.pop().close()
        self._looking = None

    @staticmethod
    def ask(connection: Any, query: str, *values: Any) -> list[Any]:
        with connection.cursor() as cursor:
            cursor.execute(query, values or None)
            return list(cursor.fetchall())

    def _end(self, connection: Any) -> tuple[str, int]:
        try:
            found = self.ask(connection, "show master status")
        except pymysql.err.ProgrammingError:
            found = self.ask(connection, "show binary log status")
        if not found:
            raise ConnectError("the server writes no binlog: set log_bin")
        return str(found[0][0]), int(found[0][1])

    def has_news(self, offsets: Mapping[str, dict[str, Any]]) -> bool:
        offset = offsets.get(offset_key(self.partition))
        if offset is None:
            return True
        if self.mode == "initial_only":
            return False
        if self.heartbeat_is_due(offset):
            return True
        with told():
            if self._looking is None:
                self._looking = self._connect()
            end = self._end(self._looking)
        if end == self._looked_at:
            return False
        self._looked_at = end
        return True

    def work(self, offset: dict[str, Any] | None) -> Iterator[Batch]:
        with told():
            self._check()
            if offset is None:
                if self.mode in ("no_data", "never", "schema_only"):
                    file, position = self._end(self._connection)
                    yield self.placed([], {"file": file, "pos": position})
                    return
                yield from self._snapshot()
            elif self.mode != "initial_only":
                yield from self._stream(offset)

    def _check(self) -> None:
        wanted = ", ".join(f"'{each}'" for each in NEEDED)
        found = {name.lower(): str(value) for name, value in self.ask(
            self._connection, f"show global variables where variable_name in ({wanted})")}  # fmt: skip
        for name, allowed in NEEDED.items():
            if found.get(name, "").upper() not in allowed:
                value = found.get(name) or "not known"
                raise ConnectError(f"the server's {name} is {value}: changes can be read with {allowed[0]} only")

    def _names(self) -> list[tuple[str, str]]:
        rows = self.ask(self._connection, TABLES)
        return [(space, name) for space, name in rows if self.wants(space, name)]

    def wants(self, space: str, name: str) -> bool:
        return space not in OWN_DATABASES and self.filters.table(space, name)

    def table(self, space: str, name: str, names: list[str] | None = None) -> MySqlTable:
        """As it is now; with `names`, the columns that an event has, in their order."""
        facts = {
            row[0]: ColumnFacts(row[0], row[1].lower(), text_of(row[2]), row[3] == "YES",
                                None if row[4] is None else text_of(row[4]), row[5], row[6], row[7] or 0, row[8])
            for row in self.ask(self._connection, COLUMNS, space, name)
        }  # fmt: skip
        unknown = ColumnFacts("", "varchar", "varchar", True, None, None, None, 0, None)
        listed = [each for each in names or facts if self.filters.column(space, name, each)]
        columns = [
            self.types.column(facts[each])
            if each in facts
            else ChangeColumn(each, STRING.as_optional(), self.types.column(unknown).convert)
            for each in listed
        ]
        key = self.filters.key(space, name) or [row[0] for row in self.ask(self._connection, KEY, space, name)]
        events = self.made_table(f"{self.prefix}.{space}.{name}", columns, key, self.source_schema)
        clocks = [each for each in listed if each in facts and facts[each].data_type == "time" and facts[each].fraction]
        return MySqlTable((space, name), columns, events, clocks)

    def source_of(self, table: tuple[str, str], micros: int, mark: str, **rest: Any) -> Struct:
        values = source_values(self.kind, self.prefix, micros, mark, table[0])
        values |= {"table": table[1] or None, "server_id": 0, "gtid": None, "row": 0, "thread": None, "query": None}
        return Struct.unchecked(self.source_schema, values | rest)

    # The snapshot.

    def _snapshot(self) -> Iterator[Batch]:
        self.more, self.transaction_timeout_ms = False, SNAPSHOT_TRANSACTION_MS
        file, position = self._consistent()
        micros = time.time_ns() // 1_000
        wanted = [each for each in self._names() if self.filters.snapshot(*each)]
        records: Batch = []
        for number, name in enumerate(wanted):
            table = self.table(*name)
            edges = number == 0, number == len(wanted) - 1
            for row, first, last in self._rows(table):
                source = self.source_of(name, micros, self.mark(*edges, first, last), file=file, pos=position)
                records += table.events.records("r", None, row, source, None)
                if len(records) >= BATCH:
                    yield records
                    records = []
        self.ask(self._connection, "commit")
        yield self.placed(records, {"file": file, "pos": position, "ts_sec": micros // 1_000_000})

    def _consistent(self) -> tuple[str, int]:
        """A transaction that sees one moment, and the place of that moment in the binlog."""
        connection = self._connection
        self.ask(connection, "set session transaction isolation level repeatable read")
        if "mariadb" in str(self.ask(connection, "select version()")[0][0]).lower():
            self.ask(connection, "start transaction with consistent snapshot")
            found = dict(self.ask(connection, "show status like 'binlog_snapshot_%'"))
            return str(found["Binlog_snapshot_file"]), int(found["Binlog_snapshot_position"])
        self.ask(connection, "flush tables with read lock")
        self.ask(connection, "start transaction with consistent snapshot")
        place = self._end(connection)
        self.ask(connection, "unlock tables")
        return place

    def _rows(self, table: MySqlTable) -> Iterator[tuple[Struct, bool, bool]]:
        names = ", ".join(quoted(each.name) for each in table.columns)
        place = ".".join(map(quoted, table.full))
        held, first = None, True
        with self._connection.cursor(pymysql.cursors.SSCursor) as cursor:
            cursor.execute(f"select {names} from {place}")
            columns = [each.name for each in table.columns]
            while row := cursor.fetchone():
                if held is not None:
                    yield table.row(held), first, False
                    first = False
                held = dict(zip(columns, row, strict=True))
        if held is not None:
            yield table.row(held), first, True

    # The stream.

    def _stream(self, offset: dict[str, Any]) -> Iterator[Batch]:
        from barnabas.pipelines.connect.connectors.changes.binlog import BinlogStream

        known = [str(row[0]) for row in self.ask(self._connection, "show binary logs")]
        if offset["file"] not in known:
            raise ConnectError(
                f"{offset['file']} is no longer among the server's binlogs, which begin with {known[0]}: changes are "
                "lost; reset the connector's offsets for a new snapshot"
            )
        stream = BinlogStream(self, offset)
        yield from stream.batches(self.values["database.server.id"] or random.randint(5_400, 2_000_000_000))
        if self.heartbeat_is_due(stream.offset):
            if query := self.values["heartbeat.action.query"]:
                self.ask(self._connection, query)
            records, moved = self.with_heartbeat([], stream.offset)
            yield self.placed(records, moved)

    def schema_change(self, database: str, ddl: str, source: Struct) -> Record:
        key = Struct.unchecked(self.schema_key, {"databaseName": database})
        value = Struct.unchecked(
            self.schema_value,
            {"source": source, "ts_ms": time.time_ns() // 1_000_000, "databaseName": database, "schemaName": None,
             "ddl": ddl, "tableChanges": []},
        )  # fmt: skip
        return Record(self.prefix, value, self.schema_value, key, self.schema_key)


class MariaDbChanges(MySqlChanges):
    kind = "mariadb"


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
