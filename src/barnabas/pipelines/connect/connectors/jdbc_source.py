"""JDBC source under Confluent's names: bulk, incrementing, timestamp, timestamp+incrementing, tables or a query.

No row is lost to late commits. A poll notes how far the table reaches and who is writing to it at that moment, and
reads up to there when those writers have ended; later writers get greater ids and times. A timestamp's rows are read
whole.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, CursorResult, MetaData, Table, and_, column, inspect, literal, or_, select, text
from sqlalchemy.sql.elements import ColumnElement

from barnabas.pipelines.connect.config import Definition, Setting, at_least, one_of
from barnabas.pipelines.connect.connector import Settings, SourceConnector, offset_key
from barnabas.pipelines.connect.connectors.databases import (
    CONNECTION,
    as_utc,
    column_reader,
    column_schema,
    connect,
    guessed_schema,
    told,
)
from barnabas.pipelines.connect.data.record import Record
from barnabas.pipelines.connect.data.schema import Schema, Struct, from_ms, struct, to_ms
from barnabas.pipelines.connect.errors import ConfigError, ConnectError, RetriableError

MODES = ("bulk", "incrementing", "timestamp", "timestamp+incrementing")
ROWS = 10_000
WRITERS_WAIT_S = 2.0
WRITERS = {
    # Writers hold a lock on the table until they end.
    "postgresql": "select distinct l.virtualtransaction from pg_locks l join pg_class c on c.oid = l.relation "
    "where l.mode = 'RowExclusiveLock' and c.relname = :name and l.pid <> pg_backend_pid()",
    "mysql": "select trx_id from information_schema.innodb_trx where trx_rows_modified > 0 and :name = :name",
}
QUERY_PARTITION = {"query": "query"}
Row = Sequence[Any]
Rows = tuple[list[str], Sequence[Row]]  # with the names of the columns


class JdbcSource(SourceConnector):
    doc = "Rows of a database's tables, polled."
    definition = Definition(
        [
            *CONNECTION,
            Setting("mode", doc="How new rows are found.", check=one_of(*MODES), group="Mode"),
            Setting("incrementing.column.name", "STRING", "", "MEDIUM", "The column with growing ids.", group="Mode"),
            Setting("timestamp.column.name", "LIST", [], "MEDIUM", "The column with the time of the last change.",
                    group="Mode"),
            Setting("timestamp.delay.interval.ms", "LONG", 0, "HIGH", "How long to wait for late rows.", group="Mode"),
            Setting("query", "STRING", "", "MEDIUM", "A query instead of tables.", group="Mode"),
            Setting("table.whitelist", "LIST", [], "MEDIUM", "Tables to read.", group="Database"),
            Setting("table.include.list", "LIST", [], "MEDIUM", "Tables to read.", group="Database"),
            Setting("table.blacklist", "LIST", [], "MEDIUM", "Tables not to read.", group="Database"),
            Setting("table.exclude.list", "LIST", [], "MEDIUM", "Tables not to read.", group="Database"),
            Setting("schema.pattern", "STRING", None, "HIGH", "The schema of the tables.", group="Database"),
            Setting("topic.prefix", doc="What topics' names begin with.", group="Connector"),
            Setting("poll.interval.ms", "INT", 5_000, "HIGH", "How often to look.", at_least(0), "Connector"),
            Setting("batch.max.rows", "INT", 100, "LOW", "Kept for configurations that have it.", group="Connector"),
            Setting("validate.non.null", "BOOLEAN", True, "LOW", group="Mode"),
            Setting("tables", "LIST", [], "LOW", "Of a task."),
        ]
    )  # fmt: skip

    def configure(self) -> None:
        values = self.values
        self._id = values["incrementing.column.name"] if "incrementing" in values["mode"] else ""
        self._times = values["timestamp.column.name"] if "timestamp" in values["mode"] else []
        if "incrementing" in values["mode"] and not self._id:
            raise ConfigError("is needed in this mode", "incrementing.column.name", None)
        if "timestamp" in values["mode"] and not self._times:
            raise ConfigError("is needed in this mode", "timestamp.column.name", None)
        if values["query"] and (values["table.whitelist"] or values["table.include.list"]):
            raise ConfigError("may not be used together with a list of tables", "query", values["query"])
        self.more = values["mode"] != "bulk"
        self._engine = connect(values)
        self._schemas: dict[str, Schema] = {}
        self._tables: dict[str, Table] = {}
        self._finished: set[str] = set()

    @classmethod
    def task_settings(cls, settings: Settings, tasks_max: int) -> list[dict[str, str]]:
        made = cls(settings)
        if made.values["query"]:
            return [dict(settings)]
        with told():
            found = inspect(made._engine).get_table_names(schema=made.values["schema.pattern"])
        wanted = made.values["table.whitelist"] or made.values["table.include.list"]
        unwanted = made.values["table.blacklist"] + made.values["table.exclude.list"]
        names = wanted or [name for name in sorted(found) if name not in unwanted]
        groups = [names[number::tasks_max] for number in range(min(tasks_max, len(names)))]
        return [dict(settings) | {"tables": ",".join(group)} for group in groups]

    @property
    def pause_ms(self) -> int:
        return int(self.values["poll.interval.ms"])

    def open(self) -> None:
        with told():
            self._connection = self._engine.connect()

    def close(self) -> None:
        if hasattr(self, "_connection"):
            self._connection.close()
        self._engine.dispose()

    def poll(self) -> Sequence[Record]:
        with told():
            if self.values["query"]:
                return self._poll("", QUERY_PARTITION)
            for name in self.values["tables"]:
                found = self._poll(name, {"protocol": "1", "table": name})
                if found:
                    return found
        return []

    def _poll(self, name: str, partition: dict[str, str]) -> list[Record]:
        if name in self._finished:
            return []
        bulk = self.values["mode"] == "bulk"
        offset = self.offset(partition) or {}
        names, rows = self._read(name, offset, bulk)
        if bulk or not rows:
            self._finished.add(name)
        topic = self.values["topic.prefix"] + name
        if not rows:
            return []
        schema = self._schema(name, dict(zip(names, rows[0], strict=True)))
        place = {each: index for index, each in enumerate(names)}
        plan = [(field.name, place[field.name], column_reader(field.name, field.schema)) for field in schema.fields]
        records = []
        for row in rows:
            value = Struct.unchecked(schema, {field: read(row[index]) for field, index, read in plan})
            offset = {} if bulk else self._offset(row, place)
            records.append(Record(topic, value, schema, source_partition=partition, source_offset=offset))
        if not bulk:
            self.offsets[offset_key(partition)] = records[-1].source_offset or {}
        return records

    def _offset(self, row: Row, place: Mapping[str, int]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self._id:
            found["incrementing"] = int(row[place[self._id]])
        if self._times:
            found["timestamp"] = to_ms(as_utc(row[place[self._times[0]]]))
        return found

    def _schema(self, name: str, row: Mapping[str, Any]) -> Schema:
        if name not in self._schemas:
            if name:
                space, _, bare = name.rpartition(".")
                columns = inspect(self._connection).get_columns(bare, schema=space or self.values["schema.pattern"])
                fields = [(each["name"], column_schema(each)) for each in columns]
            else:
                fields = [(key, guessed_schema(value)) for key, value in row.items()]
            self._schemas[name] = struct(fields, name=name.rpartition(".")[2] or None)
        return self._schemas[name]

    def _read(self, name: str, offset: dict[str, Any], bulk: bool) -> Rows:
        connection = self._connection
        if name:
            table: Any = self._table(name)
        else:
            inner = text(self.values["query"]).columns(*(column(each) for each in [self._id, *self._times] if each))
            table = inner.subquery("rows_of_query")
        query = select(text("*")).select_from(table)
        if bulk:
            found = rows_of(connection.execute(query))
            connection.rollback()
            return found
        wanted = [each for each in [*self._times[:1], self._id] if each]
        if missing := [each for each in wanted if each not in table.c]:
            there = ", ".join(table.c.keys())
            raise ConnectError(f"table {name} has no column {missing[0]} any more, or never had one; it has {there}")
        key = [table.c[each] for each in wanted]
        bound = self._bound(connection, table, key, name)
        if bound is None:
            return [], []
        conditions = [key[0] <= literal(bound), *self._after(key, offset)]
        query = query.where(and_(*conditions)).order_by(*key).limit(ROWS)
        names, rows = rows_of(connection.execute(query))
        if len(rows) == ROWS and not self._id:
            rows = self._whole(connection, table, key[0], rows, names.index(key[0].name))
        connection.rollback()
        return names, rows

    def _table(self, name: str) -> Table:
        """As it is at the beginning of the turn."""
        if name not in self._tables:
            space = name.rpartition(".")[0] or self.values["schema.pattern"]
            bare = name.rpartition(".")[2]
            self._tables[name] = Table(bare, MetaData(), autoload_with=self._connection, schema=space)
        return self._tables[name]

    def _bound(self, connection: Connection, table: Any, key: list[Any], name: str) -> Any:
        """How far may be read; None if there is nothing, or a writer that does not end."""
        bound = connection.execute(select(key[0]).order_by(key[0].desc()).limit(1)).scalar()
        if bound is None:
            connection.rollback()
            return None
        if self._times and (delay := self.values["timestamp.delay.interval.ms"]):
            bound = bound - timedelta(milliseconds=delay)
        asked = WRITERS.get(connection.dialect.name)
        if asked is not None:
            bare = {"name": name.rpartition(".")[2]}
            writers = {row[0] for row in connection.execute(text(asked), bare)}
            until = time.monotonic() + WRITERS_WAIT_S
            while writers:
                connection.rollback()
                if time.monotonic() > until:
                    raise RetriableError(
                        f"{len(writers)} open transactions write to {name}: reading on could lose rows"
                    )
                time.sleep(0.05)
                writers &= {row[0] for row in connection.execute(text(asked), bare)}
        connection.rollback()
        return bound

    def _after(self, key: list[Any], offset: dict[str, Any]) -> list[ColumnElement[bool]]:
        if not offset:
            return []
        last_id = offset.get("incrementing")
        if not self._times:
            return [] if last_id is None else [key[0] > last_id]
        last = offset.get("timestamp")
        if last is None:
            return []
        moment: Any = from_ms(last).replace(tzinfo=None)
        next_ms = moment + timedelta(milliseconds=1)  # offsets are in milliseconds, columns finer
        if len(key) == 1:
            return [key[0] >= next_ms]
        return [or_(key[0] >= next_ms, and_(key[0] >= moment, key[1] > last_id))]

    @staticmethod
    def _whole(connection: Connection, table: Any, key: Any, rows: Sequence[Row], place: int) -> Sequence[Row]:
        """Not a part of a millisecond's rows."""
        last = to_ms(as_utc(rows[-1][place]))
        kept = [row for row in rows if to_ms(as_utc(row[place])) < last]
        if kept:
            return kept
        query = select(text("*")).select_from(table).where(key == rows[-1][place])
        return rows_of(connection.execute(query))[1]


def rows_of(found: CursorResult[Any]) -> Rows:
    return list(found.keys()), found.all()
