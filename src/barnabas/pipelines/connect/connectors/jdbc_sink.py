"""JDBC sink under Confluent's names: insert, upsert, update, delete, auto.create and auto.evolve.

Upserts, updates and deletes may be done again without harm. Inserts are exactly once: the rows and the positions behind
them are one transaction of the database, in the table barnabas_connect_offsets. A position there counts only if the
group's offset is still the one that the transaction began with, so reset tools work; and it is moved only from where
the turn found it, so two workers that run the connector at once do not insert a row twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    and_,
    exc,
    inspect,
    text,
)
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.schema import CreateColumn

from barnabas.pipelines.connect.config import Definition, Setting, one_of
from barnabas.pipelines.connect.connector import SinkConnector, TopicPartition, token_of
from barnabas.pipelines.connect.connectors.copying import COPY_ROWS, copy_rows
from barnabas.pipelines.connect.connectors.databases import CONNECTION, connect, sql_column, to_database, told
from barnabas.pipelines.connect.data.record import Record
from barnabas.pipelines.connect.data.schema import INT32, INT64, STRING, Schema, Struct
from barnabas.pipelines.connect.errors import ConfigError, ConnectError, RetriableError

KAFKA_COLUMNS = ("__connect_topic", "__connect_partition", "__connect_offset")
KAFKA_SCHEMAS = (STRING, INT32, INT64)
POSITIONS = "barnabas_connect_offsets"
MOVED = "another worker has moved, in this turn, the position of"


class Plan(NamedTuple):
    """What records with these schemas have in common."""

    table: str
    schemas: tuple[Schema | None, Schema | None]
    fields: list[tuple[str, Any, Schema | None]]  # with the default, and the schema if the value is to be changed


class JdbcSink(SinkConnector):
    doc = "Records as rows of a database's tables."
    fenced = True
    definition = Definition(
        [
            *CONNECTION,
            Setting("insert.mode", "STRING", "insert", doc="insert, upsert or update.",
                    check=one_of("insert", "upsert", "update", ignore_case=True), group="Writes"),
            Setting("batch.size", "INT", 3000, "MEDIUM", "Kept for configurations that have it.", group="Writes"),
            Setting("delete.enabled", "BOOLEAN", False, "MEDIUM", "Whether a null value deletes.", group="Writes"),
            Setting("table.name.format", "STRING", "${topic}", "MEDIUM", "The table's name.", group="Data Mapping"),
            Setting("pk.mode", "STRING", "none", doc="none, kafka, record_key or record_value.", group="Data Mapping",
                    check=one_of("none", "kafka", "record_key", "record_value", ignore_case=True)),
            Setting("pk.fields", "LIST", [], "MEDIUM", "The names of the key's columns.", group="Data Mapping"),
            Setting("fields.whitelist", "LIST", [], "MEDIUM", "The fields to write.", group="Data Mapping"),
            Setting("auto.create", "BOOLEAN", False, "MEDIUM", "Whether tables are created.", group="DDL Support"),
            Setting("auto.evolve", "BOOLEAN", False, "MEDIUM", "Whether columns are added.", group="DDL Support"),
        ]
    )  # fmt: skip

    def configure(self) -> None:
        self._mode = self.values["insert.mode"].lower()
        self.fenced = self._mode == "insert"
        self._pk = self.values["pk.mode"].lower()
        if self._mode in ("upsert", "update") and self._pk == "none":
            raise ConfigError(f"must not be none with insert.mode={self._mode}", "pk.mode", "none")
        if self.values["delete.enabled"] and self._pk != "record_key":
            raise ConfigError("must be record_key with delete.enabled", "pk.mode", self._pk)

    def open(self) -> None:
        self._engine: Engine = connect(self.values)
        self._tables: dict[str, Table] = {}
        self._plans: dict[tuple[str, int, int], Plan] = {}
        self._tokens: dict[TopicPartition, str] = {}
        self._found: dict[TopicPartition, tuple[str, int]] = {}  # positions in the database when the turn began
        with told():
            self._connection: Connection = self._engine.connect()

    def close(self) -> None:
        if hasattr(self, "_connection"):
            self._connection.close()
            self._engine.dispose()

    def put(self, records: Sequence[Record]) -> None:
        """Runs of records that are written alike go to the database together, in their order."""
        run: list[tuple[dict[str, Any], dict[str, Any]]] = []
        kind: tuple[str, bool, tuple[str, ...]] | None = None
        with told():
            for record in records:
                table, keys, values = self._row(record)
                now = (table, record.value is None, (*keys, *values))
                if now != kind and run and kind is not None:
                    self._write(kind[0], kind[1], run)
                    run = []
                kind = now
                run.append((keys, values))
            if run and kind is not None:
                self._write(kind[0], kind[1], run)

    def flush(self, positions: Mapping[TopicPartition, int]) -> None:
        with told():
            if self._mode == "insert":
                self._keep(positions)
            self._connection.commit()

    def _row(self, record: Record) -> tuple[str, dict[str, Any], dict[str, Any]]:
        """The table, the key's columns and the others. What records of one schema have in common is found out once."""
        known = self._plans.get((record.topic, id(record.key_schema), id(record.value_schema)))
        if known is None or known.schemas != (record.key_schema, record.value_schema) or record.value is None:
            return self._first_row(record)
        keys = {each: to_database(*pair) for each, pair in self._keys(record).items()}
        given = record.value.values
        values = {}
        for name, default, schema in known.fields:
            value = given.get(name)
            value = default if value is None else value
            values[name] = value if schema is None else to_database(schema, value)
        return known.table, keys, values

    def _first_row(self, record: Record) -> tuple[str, dict[str, Any], dict[str, Any]]:
        name = self.values["table.name.format"].replace("${topic}", record.topic)
        key_fields = self._keys(record)
        if record.value is None:
            if not self.values["delete.enabled"]:
                raise ConnectError(f"a record of {record.topic} has no value, and delete.enabled is false")
            self._table(name, key_fields, {})
            return name, {each: to_database(*pair) for each, pair in key_fields.items()}, {}
        value = record.value
        if not isinstance(value, Struct):
            raise ConnectError(
                f"a record of {record.topic} has no schema with fields: the sink needs structs, for instance of "
                "JsonConverter with schemas.enable=true"
            )
        wanted = self.values["fields.whitelist"]
        chosen = [
            each for each in value.schema.fields if each.name not in key_fields and (not wanted or each.name in wanted)
        ]
        fields = {each.name: (each.schema, value.get(each.name)) for each in chosen}
        self._table(name, key_fields, fields)
        if value.schema is record.value_schema:
            changed = [(each.name, each.schema.default, each.schema if each.schema.name else None) for each in chosen]
            plan = Plan(name, (record.key_schema, record.value_schema), changed)
            self._plans[record.topic, id(record.key_schema), id(record.value_schema)] = plan
        keys = {each: to_database(*pair) for each, pair in key_fields.items()}
        return name, keys, {each: to_database(*pair) for each, pair in fields.items()}

    def _keys(self, record: Record) -> dict[str, tuple[Schema | None, Any]]:
        names = self.values["pk.fields"]
        if self._pk == "none":
            return {}
        if self._pk == "kafka":
            found = record.original or (record.topic, record.partition or 0, record.offset or 0)
            return dict(zip(names or KAFKA_COLUMNS, zip(KAFKA_SCHEMAS, found, strict=True), strict=True))
        given = record.key if self._pk == "record_key" else record.value
        schema = record.key_schema if self._pk == "record_key" else record.value_schema
        if isinstance(given, Struct):
            return {name: (given.schema.by_name[name].schema, given.get(name)) for name in names or given.schema.by_name
                    if name in given.schema.by_name}  # fmt: skip
        if self._pk == "record_value":
            if record.value is None:
                return {}
            raise ConnectError("pk.mode=record_value needs values with fields")
        if given is None or len(names) != 1:
            raise ConnectError("pk.mode=record_key needs a key, and one pk.fields if the key has no fields")
        return {names[0]: (schema or STRING, given)}

    def _table(self, name: str, keys: Mapping[str, Any], fields: Mapping[str, Any]) -> Table:
        table = self._tables.get(name)
        if table is None:
            connection = self._connection
            bare, space = name.rpartition(".")[2], name.rpartition(".")[0] or None
            if not inspect(connection).has_table(bare, schema=space):
                if not self.values["auto.create"]:
                    raise ConnectError(f"table {name} is not there, and auto.create is false")
                columns = [sql_column(each, schema or STRING, primary=True) for each, (schema, _) in keys.items()]
                columns += [sql_column(each, schema or STRING, primary=False) for each, (schema, _) in fields.items()]
                Table(bare, MetaData(), *columns, schema=space).create(connection)
            table = self._tables[name] = Table(bare, MetaData(), autoload_with=connection, schema=space)
        missing = [each for each in (*keys, *fields) if each not in table.c]
        if missing:
            return self._evolve(name, table, missing, fields)
        return table

    def _evolve(self, name: str, table: Table, missing: list[str], fields: Mapping[str, Any]) -> Table:
        if not self.values["auto.evolve"]:
            raise ConnectError(f"table {name} has no column {', '.join(missing)}, and auto.evolve is false")
        for each in missing:
            schema = (fields[each][0] or STRING) if each in fields else STRING
            made = sql_column(each, schema.as_optional(), primary=False)
            described = CreateColumn(made).compile(dialect=self._connection.dialect)
            quoted = self._connection.dialect.identifier_preparer.format_table(table)
            self._connection.execute(text(f"ALTER TABLE {quoted} ADD COLUMN {described}"))
        fresh = Table(table.name, MetaData(), autoload_with=self._connection, schema=table.schema)
        self._tables[name] = fresh
        return fresh

    def _write(self, name: str, deletes: bool, run: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
        table, connection = self._tables[name], self._connection
        if deletes or self._mode == "update":
            for keys, values in run:
                where = and_(*(table.c[each] == value for each, value in keys.items()))
                connection.execute(
                    table.delete().where(where) if deletes else table.update().where(where).values(values)
                )
            return
        keys, values = run[0]
        if self._mode == "upsert":
            # A statement may not touch a row twice.
            rows = list({tuple(each.values()): each | rest for each, rest in run}.values())
            statement = self._upsert(table, list(keys), list(values))
        else:
            rows, statement = [each | rest for each, rest in run], table.insert()
        if len(rows) >= COPY_ROWS and connection.dialect.name == "postgresql":
            copy_rows(connection, table, rows, statement if self._mode == "upsert" else None)
        else:
            connection.execute(statement, rows)

    def _upsert(self, table: Table, keys: list[str], values: list[str]) -> Any:
        dialect = self._connection.dialect.name
        if dialect == "mysql":
            insert = mysql.insert(table)
            chosen = values or keys
            return insert.on_duplicate_key_update({each: insert.inserted[each] for each in chosen})
        made: Any = postgresql.insert(table) if dialect == "postgresql" else sqlite.insert(table)
        if not values:
            return made.on_conflict_do_nothing(index_elements=keys)
        return made.on_conflict_do_update(index_elements=keys, set_={each: made.excluded[each] for each in values})

    # Positions in the database.

    def _positions(self) -> Table:
        table = Table(
            POSITIONS,
            MetaData(),
            Column("connector", String(190), primary_key=True),
            Column("topic", String(249), primary_key=True),
            Column("kafka_partition", Integer, primary_key=True, autoincrement=False),
            Column("began_at", String(64), nullable=False),
            Column("next_offset", BigInteger, nullable=False),
        )
        table.create(self._connection, checkfirst=True)
        return table

    def positions(self, group: Mapping[TopicPartition, tuple[int, str]]) -> Mapping[TopicPartition, int]:
        if self._mode != "insert":
            return {}
        self._tokens = {tp: token_of(*each)[0] for tp, each in group.items()}
        with told():
            table = self._positions()
            rows = self._connection.execute(table.select().where(table.c.connector == self.name)).all()
            self._connection.commit()
        self._found = {(row.topic, row.kafka_partition): (row.began_at, row.next_offset) for row in rows}
        return {
            (row.topic, row.kafka_partition): row.next_offset
            for row in rows
            if row.began_at == self._tokens.get((row.topic, row.kafka_partition), "")
        }

    def _keep(self, positions: Mapping[TopicPartition, int]) -> None:
        """Only from where this turn began: of two workers that take each other for dead, one finds that the position
        has moved, and nothing of its turn is kept."""
        table = self._positions()
        for (topic, partition), at in positions.items():
            place = {"connector": self.name, "topic": topic, "kafka_partition": partition}
            new = {"began_at": self._tokens.get((topic, partition), ""), "next_offset": at}
            found = self._found.get((topic, partition))
            if found is None:
                try:
                    self._connection.execute(table.insert(), place | new)
                except exc.IntegrityError:
                    raise RetriableError(f"{MOVED} {topic}-{partition}") from None
                continue
            known = place | {"began_at": found[0], "next_offset": found[1]}
            same = and_(*(table.c[name] == value for name, value in known.items()))
            if self._connection.execute(table.update().where(same).values(new)).rowcount != 1:
                raise RetriableError(f"{MOVED} {topic}-{partition}")

    def forget(self) -> None:
        if self._mode != "insert":
            return
        self.open()
        try:
            with told():
                table = self._positions()
                self._connection.execute(table.delete().where(table.c.connector == self.name))
                self._connection.commit()
        finally:
            self.close()
