"""Changes of PostgreSQL by logical replication with its own plugin pgoutput, in Debezium's events.

Reading is `pg_logical_slot_peek_binary_changes`, which gives the same changes again until the slot is advanced; the
slot is advanced to a position once the records up to it, and the offset, are committed in Kafka. A turn that is done
again begins at the offset: whole transactions by the end of their commit, and within one by the number of changes.

The snapshot is one transaction of the database and one of Kafka. Its visibility (`pg_current_snapshot`) is part of the
offset: a transaction that the snapshot has seen is left out of the stream, whenever the slot was made.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from barnabas.pipelines.connect.config import Definition, Setting, one_of
from barnabas.pipelines.connect.connectors.changes.catalog import CapturedTable, Catalog
from barnabas.pipelines.connect.connectors.changes.envelope import SOURCE_HEAD, source_values
from barnabas.pipelines.connect.connectors.changes.postgres_types import TIME_MODES
from barnabas.pipelines.connect.connectors.changes.settings import SHARED, Patterns
from barnabas.pipelines.connect.connectors.changes.source import BATCH, SNAPSHOT_TRANSACTION_MS, Batch, ChangeSource
from barnabas.pipelines.connect.connectors.changes.visibility import Visibility
from barnabas.pipelines.connect.data.record import Record
from barnabas.pipelines.connect.data.schema import (
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    STRING,
    Struct,
    struct,
)
from barnabas.pipelines.connect.errors import ConnectError, RetriableError

PLACE = "io.debezium.connector.postgresql"
SOURCE = struct(
    [
        *SOURCE_HEAD,
        ("schema", STRING),
        ("table", STRING),
        ("txId", OPTIONAL_INT64),
        ("lsn", OPTIONAL_INT64),
        ("xmin", OPTIONAL_INT64),
        ("origin", OPTIONAL_STRING),
        ("origin_lsn", OPTIONAL_INT64),
    ],
    name=f"{PLACE}.Source",
    version=1,
)
CHANGES_MAX = 50_000  # of a turn; the server goes on to the end of the transaction
SKIP_BYTES = 1 << 20  # of other tables' WAL until the slot is moved over it
SLOT_WAIT_MS = 30_000
PEEK: LiteralString = (
    "select lsn, data from pg_logical_slot_peek_binary_changes(%s, %s::pg_lsn, %s, 'proto_version', '1', "
    "'publication_names', %s"
)


@contextmanager
def told() -> Iterator[None]:
    """A server that is away may come back; what it refuses is the connector's failure."""
    try:
        yield
    except psycopg.errors.ObjectNotInPrerequisiteState as error:
        raise ConnectError(f"PostgreSQL refuses: {str(error).strip()}") from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise RetriableError(f"PostgreSQL answers: {str(error).strip()}") from error
    except psycopg.Error as error:
        raise ConnectError(f"PostgreSQL refuses: {str(error).strip()}") from error


class PostgresChanges(ChangeSource):
    doc = "Changes of PostgreSQL's tables, as Debezium tells them."
    definition = Definition(
        [
            *SHARED,
            Setting("database.port", "INT", 5432, doc="Its port.", group="Database"),
            Setting("database.dbname", doc="The database to capture.", group="Database"),
            Setting("database.sslmode", "STRING", "prefer", "MEDIUM", "As libpq's sslmode.", group="Database"),
            Setting("plugin.name", "STRING", "pgoutput", "MEDIUM", "Only pgoutput, which is in every server.",
                    one_of("pgoutput"), "Connector"),
            Setting("slot.name", "STRING", "debezium", "MEDIUM", "The replication slot.", group="Connector"),
            Setting("slot.drop.on.stop", "BOOLEAN", False, "MEDIUM", "Kept for configurations with it: slots stay.",
                    group="Connector"),
            Setting("slot.max.retained.bytes", "LONG", 1 << 30, "MEDIUM",
                    "The log warns when the slot holds back more WAL than this.", group="Connector"),
            Setting("publication.name", "STRING", "dbz_publication", "LOW", "The publication.", group="Connector"),
            Setting("publication.autocreate.mode", "STRING", "all_tables", "MEDIUM",
                    "all_tables, filtered, disabled or no_tables.",
                    one_of("all_tables", "filtered", "disabled", "no_tables", ignore_case=True), "Connector"),
            Setting("schema.include.list", "LIST", [], "MEDIUM", "Schemas to capture.", group="Filters"),
            Setting("schema.exclude.list", "LIST", [], "MEDIUM", "Schemas to leave.", group="Filters"),
            Setting("message.prefix.include.list", "LIST", [], "MEDIUM", "Of logical messages.", group="Filters"),
            Setting("message.prefix.exclude.list", "LIST", [], "MEDIUM", "Of logical messages.", group="Filters"),
            Setting("time.precision.mode", "STRING", "adaptive", "MEDIUM", "How times are told.",
                    one_of(*TIME_MODES, ignore_case=True), "Types"),
            Setting("interval.handling.mode", "STRING", "numeric", "LOW", "numeric or string.",
                    one_of("numeric", "string", ignore_case=True), "Types"),
            Setting("hstore.handling.mode", "STRING", "json", "LOW", "json or map.",
                    one_of("json", "map", ignore_case=True), "Types"),
            Setting("include.unknown.datatypes", "BOOLEAN", False, "MEDIUM", "Whether unknown types are bytes.",
                    group="Types"),
            Setting("snapshot.select.statement.overrides", "LIST", [], "MEDIUM", "Tables with a query of their own.",
                    group="Snapshot"),
        ]
    )  # fmt: skip

    def configure(self) -> None:
        super().configure()
        self._connections: list[psycopg.Connection[Any]] = []
        self._looking: psycopg.Connection[Any] | None = None
        self._looked_at = 0
        self._source_head: tuple[int, str, dict[str, Any]] = 0, "", {}
        self._slot = self.values["slot.name"]
        self._prefixes = tuple(
            Patterns(name, self.values[name]) for name in ("message.prefix.include.list", "message.prefix.exclude.list")
        )

    # Connections.

    def _connect(self) -> psycopg.Connection[Any]:
        values = self.values
        made: psycopg.Connection[Any] = psycopg.connect(
            host=values["database.hostname"],
            port=values["database.port"],
            dbname=values["database.dbname"],
            user=values["database.user"],
            password=values["database.password"],
            sslmode=values["database.sslmode"],
            application_name=f"connect {self.name}",
            connect_timeout=10,
            autocommit=True,
            options="-c DateStyle=ISO -c IntervalStyle=postgres -c TimeZone=UTC -c extra_float_digits=1"
            " -c bytea_output=hex -c lc_monetary=C",
        )
        self._connections.append(made)
        return made

    def open(self) -> None:
        with told():
            self._connection = self._connect()
            self.catalog = Catalog(self._connection, self.values, self.filters, self.prefix, self.made_table, SOURCE)

    def close(self) -> None:
        self._work = None
        while self._connections:
            self._connections.pop().close()
        self._looking = None

    def has_news(self, offsets: Mapping[str, dict[str, Any]]) -> bool:
        """Whether WAL was written since the last look."""
        offset = offsets.get(json.dumps(self.partition, separators=(",", ":")))
        if offset is None or (offset.get("snapshot") == "INITIAL" and not offset.get("snapshot_completed")):
            return True
        if self.mode == "initial_only":
            return False
        if self.heartbeat_is_due(offset):
            return True
        with told():
            if self._looking is None:
                self._looking = self._connect()
            (now,) = self._ask(self._looking, "select pg_current_wal_flush_lsn() - '0/0'::pg_lsn")
        if int(now) <= self._looked_at:
            return False
        self._looked_at = int(now)
        return True

    @staticmethod
    def _ask(connection: psycopg.Connection[Any], query: LiteralString, *values: Any) -> Any:
        return connection.execute(query, values or None).fetchone()

    # The slot and the publication.

    def _prepare(self) -> int:
        """Makes what is missing; the position where the slot begins."""
        self._publish()
        found = self._ask(
            self._connection, "select confirmed_flush_lsn - '0/0' from pg_replication_slots where slot_name = %s",
            self._slot,
        )  # fmt: skip
        if found is None:
            self._connection.execute(f"set statement_timeout = {SLOT_WAIT_MS}".encode())
            try:
                found = self._ask(
                    self._connection, "select lsn - '0/0' from pg_create_logical_replication_slot(%s, 'pgoutput')",
                    self._slot,
                )  # fmt: skip
            except psycopg.errors.QueryCanceled:
                raise RetriableError(
                    f"replication slot {self._slot} could not be made within {SLOT_WAIT_MS // 1000} s: it waits for "
                    "open transactions to end"
                ) from None
            finally:
                self._connection.execute("set statement_timeout = 0")
        return int(found[0])

    def _publish(self) -> None:
        name, mode = self.values["publication.name"], self.values["publication.autocreate.mode"].lower()
        there = self._ask(self._connection, "select puballtables from pg_publication where pubname = %s", name)
        quoted = sql.Identifier(name)
        if mode == "filtered":
            tables = [sql.Identifier(*each) for each in self.catalog.names(signals=True)]
            if not tables:
                raise ConnectError("no table matches table.include.list and the other filters: nothing to publish")
            listed = sql.SQL(", ").join(tables)
            if there is None:
                self._connection.execute(sql.SQL("create publication {} for table {}").format(quoted, listed))
            elif not there[0]:
                self._connection.execute(sql.SQL("alter publication {} set table {}").format(quoted, listed))
            return
        if there is not None:
            return
        if mode == "disabled":
            raise ConnectError(f"publication {name} is not there, and publication.autocreate.mode is disabled")
        every = sql.SQL("create publication {} for all tables" if mode == "all_tables" else "create publication {}")
        self._connection.execute(every.format(quoted))

    def _guard(self, offset: Mapping[str, Any]) -> None:
        """A slot that cannot give what follows the offset is never made anew behind the user's back."""
        found = self._ask(
            self._connection,
            "select plugin, database, coalesce(wal_status, ''), confirmed_flush_lsn - '0/0', "
            "pg_current_wal_lsn() - restart_lsn from pg_replication_slots where slot_name = %s",
            self._slot,
        )
        reached = position_of(offset)
        remedy = "reset the connector's offsets for a new snapshot"
        if found is None:
            raise ConnectError(
                f"replication slot {self._slot} is gone: changes after {lsn_text(reached)} are lost; {remedy}"
            )
        plugin, database, status, confirmed, retained = found
        if plugin != "pgoutput" or database != self.values["database.dbname"]:
            raise ConnectError(
                f"replication slot {self._slot} is one of plugin {plugin} and database {database}, not of pgoutput and "
                f"{self.values['database.dbname']}"
            )
        if status == "lost":
            raise ConnectError(
                f"replication slot {self._slot} has lost its WAL (max_slot_wal_keep_size): changes after "
                f"{lsn_text(reached)} are gone; drop the slot and {remedy}"
            )
        if reached and int(confirmed) > reached:
            raise ConnectError(
                f"replication slot {self._slot} stands at {lsn_text(int(confirmed))}, behind it is {lsn_text(reached)} "
                f"where the offset is: it was made anew or moved, and the changes in between are lost; {remedy}"
            )
        if int(confirmed) < reached:  # after a crash of the server: what is in Kafka need not be decoded again
            self._advance(reached)
        if retained is not None and int(retained) > self.values["slot.max.retained.bytes"]:
            self.notes.append(
                f"replication slot {self._slot} holds back {int(retained) >> 20} MB of WAL on the server's disk"
                + (": it may be dropped soon" if status == "unreserved" else "")
            )

    # Work.

    def work(self, offset: dict[str, Any] | None) -> Iterator[Batch]:
        with told():
            if offset is None:
                position = self._prepare()
                if self.mode in ("no_data", "never", "schema_only"):
                    yield self.placed([], {"lsn": position, "lsn_commit": position, "lsn_proc": position})
                    return
                yield from self._snapshot(position)
            elif self.mode != "initial_only":
                yield from self._stream(offset)

    def committed(self, offsets: Mapping[str, dict[str, Any]]) -> None:
        """The server may drop what is committed; if this fails, the next turn skips it."""
        for each in offsets.values():
            position = each.get("lsn_commit")
            if position:
                self._work = None
                try:
                    self._advance(position)
                except psycopg.Error as error:
                    self.notes.append(f"replication slot {self._slot} could not be advanced: {error}")

    def _advance(self, position: int) -> None:
        self._connection.execute("select pg_replication_slot_advance(%s, %s::pg_lsn)", (self._slot, lsn_text(position)))

    def source_of(
        self, table: tuple[str, str], lsn: int, xid: int, micros: int, commit: int | None, mark: str
    ) -> Struct:
        if self._source_head[:2] != (micros, mark):  # changes of a transaction have it in common
            head = source_values("postgresql", self.prefix, micros, mark, self.values["database.dbname"])
            self._source_head = micros, mark, head
        values = self._source_head[2].copy()
        before = "null" if commit is None else f'"{commit}"'
        values["sequence"] = f'[{before},"{lsn}"]'
        values["schema"], values["table"], values["txId"], values["lsn"] = *table, xid, lsn
        return Struct.unchecked(SOURCE, values)

    def _snapshot(self, position: int) -> Iterator[Batch]:
        """All rows in one transaction, which ends the turn; then the stream begins at the slot."""
        self.more, self.transaction_timeout_ms = False, SNAPSHOT_TRANSACTION_MS
        connection = self._connection
        connection.execute("begin isolation level repeatable read read only")
        text, lsn, micros = self._ask(
            connection,
            "select pg_current_snapshot()::text, pg_current_wal_insert_lsn() - '0/0'::pg_lsn, "
            "(extract(epoch from clock_timestamp()) * 1000000)::bigint",
        )
        seen = Visibility.parse(text, int(lsn))
        wanted = [each for each in self.catalog.names() if self.filters.snapshot(*each)]
        records: Batch = []
        for row, mark in self._rows(connection, wanted):
            table, after = row
            source = self.source_of(table.full, int(lsn), seen.last_xid, micros, None, mark)
            records += table.events.records("r", None, after, source, None)
            if len(records) >= BATCH:
                yield records
                records = []
        connection.execute("commit")
        offset = {"snapshot": "INITIAL", "snapshot_completed": True, "last_snapshot_record": True, "lsn": int(lsn),
                  "lsn_commit": position, "txId": seen.last_xid, "ts_usec": micros, "seen": str(seen)}  # fmt: skip
        yield self.placed(records, offset)

    def _rows(
        self, connection: psycopg.Connection[Any], names: list[tuple[str, str]], mark: str | None = None
    ) -> Iterator[tuple[tuple[CapturedTable, Struct], str]]:
        """Rows of tables, each with its mark."""
        for number, name in enumerate(names):
            table = self.catalog.table(*name)
            held: Struct | None = None
            first = True
            edges = number == 0, number == len(names) - 1
            for row in self._copied(connection, table):
                if held is not None:
                    yield (table, held), mark or self.mark(*edges, first, False)
                    first = False
                held = row
            if held is not None:
                yield (table, held), mark or self.mark(*edges, first, True)

    def _copied(self, connection: psycopg.Connection[Any], table: CapturedTable) -> Iterator[Struct]:
        overrides = [each.strip() for each in self.values["snapshot.select.statement.overrides"]]
        full = ".".join(table.full)
        if full in overrides:
            given = self.given.get(f"snapshot.select.statement.overrides.{full}", "")
            inner: sql.Composable = sql.SQL(given.strip().rstrip(";"))
        else:
            inner = sql.SQL("select * from only {}").format(sql.Identifier(*table.full))
        columns = sql.SQL(", ").join(map(sql.Identifier, table.names))
        query = sql.SQL("copy (select {} from ({}) as rows) to stdout").format(columns, inner)
        with connection.cursor() as cursor, cursor.copy(query) as copy:
            for row in copy.rows():
                yield table.row(list(row))

    # The stream.

    def _stream(self, offset: dict[str, Any]) -> Iterator[Batch]:
        from barnabas.pipelines.connect.connectors.changes.postgres_stream import PostgresStream

        self._guard(offset)
        (upto,) = self._ask(self._connection, "select pg_current_wal_flush_lsn() - '0/0'::pg_lsn")
        stream = PostgresStream(self, offset)
        (server,) = self._ask(self._connection, "select current_setting('server_version_num')::int")
        query: LiteralString = PEEK + (", 'messages', 'true')" if server >= 140_000 else ")")
        asked = (self._slot, lsn_text(int(upto)), CHANGES_MAX, self.values["publication.name"])
        count = 0
        with self._connection.transaction(), self._connection.cursor("changes", binary=True) as cursor:
            cursor.execute(query, asked)
            while rows := cursor.fetchmany(BATCH):
                count += len(rows)
                for lsn, data in rows:
                    yield from stream.take(int.from_bytes(lsn, "big"), data)
                if stream.records:
                    yield stream.flushed()
        if count >= CHANGES_MAX:  # they may all be of tables that nobody wants: the next turn begins behind them
            self.unfinished = True
            yield self._beat(stream.offset)
        elif int(upto) - position_of(stream.offset) > SKIP_BYTES:
            stream.offset["lsn_commit"] = stream.offset["lsn"] = int(upto)
            yield self._beat(stream.offset)
        elif self.heartbeat_is_due(stream.offset):
            yield self._beat(stream.offset)

    def _beat(self, offset: dict[str, Any]) -> Batch:
        if (query := self.values["heartbeat.action.query"]) and self.heartbeat_is_due(offset):
            self._connection.execute(query.encode())
        records, offset = self.with_heartbeat([], offset)
        return self.placed(records, offset)

    def wants_message(self, prefix: str) -> bool:
        wanted, unwanted = self._prefixes
        return wanted.match(prefix) if wanted else not unwanted.match(prefix)

    def signalled(self, names: list[str]) -> Iterator[Record]:
        """Rows of the tables that a signal names, as they are now."""
        wanted = [each for each in self.catalog.names() if Patterns("data-collections", names).match(".".join(each))]
        other = self._connect()
        other.execute("begin isolation level repeatable read read only")
        lsn, xid, micros = self._ask(
            other,
            "select pg_current_wal_insert_lsn() - '0/0'::pg_lsn, "
            "pg_snapshot_xmax(pg_current_snapshot())::text::bigint, "
            "(extract(epoch from clock_timestamp()) * 1000000)::bigint",
        )
        for (table, after), mark in self._rows(other, wanted, "incremental"):
            source = self.source_of(table.full, int(lsn), int(xid), micros, None, mark)
            yield from table.events.records("r", None, after, source, None)
        self._connections.remove(other)
        other.close()


def position_of(offset: Mapping[str, Any]) -> int:
    return int(offset.get("lsn_commit") or 0)


def lsn_text(position: int) -> str:
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"
