"""Events of the binlog become Debezium's: where transactions begin and end, and what is in Kafka already."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from barnabas.pipelines.connect.connectors.changes.source import BATCH, Batch
from barnabas.pipelines.connect.data.schema import Struct
from barnabas.pipelines.connect.errors import ConnectError

if TYPE_CHECKING:
    from barnabas.pipelines.connect.connectors.changes.mysql import MySqlChanges, MySqlTable

CHANGES_MAX = 50_000  # of a turn
SKIP_BYTES = 1 << 20  # of other tables' changes until the offset moves over them
NOTHING, SECOND = timedelta(), timedelta(seconds=1)
TABLES = re.compile(r"\s*(/\*.*?\*/\s*)?(create|alter|drop|rename|truncate)\s", re.IGNORECASE | re.DOTALL)


def connected(db: str | None = None, **rest: Any) -> Any:
    """The reader calls the database by its older name."""
    from barnabas.pipelines.connect.connectors.mysql_client import MySqlConnection

    return MySqlConnection(database=db, **rest)


def mended(row: dict[str, Any], clocks: list[str]) -> dict[str, Any]:
    """The reader takes the fraction of a negative time from the wrong end of its second."""
    for name in clocks:
        value = row.get(name)
        if value is not None and value < NOTHING and value.microseconds:
            row = row | {name: -timedelta(seconds=2 * -(value // SECOND) - 1) - value}
    return row


class BinlogStream:
    """`records` wait for the next batch; `offset` is where they lead to."""

    def __init__(self, source: MySqlChanges, offset: dict[str, Any]) -> None:
        self._source = source
        self.offset = dict(offset)
        self._begun_at = offset["file"], offset["pos"]
        self.records: Batch = []
        self._done_before = int(offset.get("event", 0))
        self._changes = 0
        self._count = 0
        self._gtid: str | None = None
        self._begun = False
        self._tables: dict[tuple[str, str, tuple[str, ...]], MySqlTable | None] = {}

    def batches(self, server_id: int) -> Iterator[Batch]:
        try:
            from pymysqlreplication import BinLogStreamReader
            from pymysqlreplication.event import (
                GtidEvent,
                MariadbGtidEvent,
                QueryEvent,
                RotateEvent,
                XidEvent,
            )
            from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent
        except ImportError:
            raise ConnectError("the binlog is read with mysql-replication: pip install 'barnabas[mysql]'") from None
        operations = {WriteRowsEvent: "c", UpdateRowsEvent: "u", DeleteRowsEvent: "d"}
        # Not `is_mariadb`: with it the reader starts at a GTID and ignores the position.
        reader = BinLogStreamReader(
            self._source.login(), server_id=server_id, resume_stream=True, log_file=self.offset["file"],
            log_pos=self.offset["pos"], blocking=False, enable_logging=False,
            pymysql_wrapper=connected,
            only_events=[*operations, GtidEvent, MariadbGtidEvent, QueryEvent, RotateEvent, XidEvent],
        )  # fmt: skip
        try:
            for event in reader:
                if type(event) in operations:
                    yield from self._rows(event, operations[type(event)], reader)
                elif isinstance(event, XidEvent):
                    self._end(event, reader)
                elif isinstance(event, QueryEvent):
                    self._query(event, reader)
                elif isinstance(event, MariadbGtidEvent | GtidEvent):
                    self._gtid, self._begun = str(event.gtid), False
                if len(self.records) >= BATCH:
                    yield self.flushed()
                if self._count >= CHANGES_MAX and not self._changes:
                    self._source.unfinished = True
                    break
        finally:
            reader.close()
        if self.records or self._skipped_much():
            yield self.flushed()

    def _skipped_much(self) -> bool:
        """What nobody wants is not read again and again."""
        file, position = self._begun_at
        return bool(self.offset["file"] != file or self.offset["pos"] - position > SKIP_BYTES)

    def flushed(self) -> Batch:
        self._begun_at = self.offset["file"], self.offset["pos"]
        records, self.records = self.records, []
        records, self.offset = self._source.with_heartbeat(records, self.offset)
        return self._source.placed(records, dict(self.offset))

    @property
    def _transaction_id(self) -> str:
        return self._gtid or f"file={self.offset['file']},pos={self.offset['pos']}"

    def _begin(self, seconds: int) -> None:
        if self._begun or self._source.transactions is None:
            return
        self._begun = True
        made = self._source.transactions.begin(self._transaction_id, seconds * 1_000)
        if not self._done_before:
            self.records.append(made)

    def _end(self, event: Any, reader: Any) -> None:
        if self._begun and self._source.transactions is not None:
            self.records.append(self._source.transactions.end(self._transaction_id, event.timestamp * 1_000))
        self._moved(event, reader)

    def _moved(self, event: Any, reader: Any) -> None:
        """A transaction has ended: the next turn begins behind it."""
        self.offset |= {"file": reader.log_file, "pos": reader.log_pos, "ts_sec": event.timestamp}
        self.offset.pop("event", None)
        if self._gtid is not None:
            self.offset["gtids"] = self._gtid
        self._changes, self._done_before, self._begun = 0, 0, False

    def _query(self, event: Any, reader: Any) -> None:
        text = event.query if isinstance(event.query, str) else event.query.decode("utf-8", "replace")
        word = text.strip().upper()
        if word == "BEGIN" or word.startswith("SAVEPOINT"):
            return
        if word == "COMMIT":
            self._end(event, reader)
            return
        database = event.schema.decode() if isinstance(event.schema, bytes) else str(event.schema)
        if TABLES.match(text):
            self._tables.clear()
            if self._source.values["include.schema.changes"] and self._source.filters.space(database):
                place = {"file": reader.log_file, "pos": self.offset["pos"], "gtid": self._gtid}
                source = self._source.source_of(
                    (database, ""), event.timestamp * 1_000_000, "false", server_id=event.packet.server_id, **place
                )
                self.records.append(self._source.schema_change(database, text, source))
        self._moved(event, reader)

    def _rows(self, event: Any, op: str, reader: Any) -> Iterator[Batch]:
        from barnabas.pipelines.connect.connectors.changes.row_images import row_images

        table, images = self._table(event), 2 if op == "u" else 1
        if table is None:
            self._changes += sum(1 for _ in row_images(event, images))  # offsets count all changes of a transaction
            return
        self._begin(event.timestamp)
        packet, source_schema = event.packet, self._source.source_schema
        place = {"server_id": packet.server_id, "gtid": self._gtid, "file": reader.log_file,
                 "pos": packet.log_pos - packet.event_size}  # fmt: skip
        head = self._source.source_of(table.full, event.timestamp * 1_000_000, "false", **place).values
        clocks, blocks = table.clocks, self._source.transactions is not None
        for number, given in enumerate(row_images(event, images)):
            self._changes += 1
            block = self._source.block(self._transaction_id, table.collection) if blocks else None
            if self._changes <= self._done_before:
                continue
            self._count += 1
            rows = [table.row(mended(each, clocks) if clocks else each) for each in given]
            before, after = None if op == "c" else rows[0], None if op == "d" else rows[-1]
            source = Struct.unchecked(source_schema, head | {"row": number})
            self.records += table.events.records(op, before, after, source, block)
            if len(self.records) >= BATCH:
                self._note_place(packet.server_id)
                yield self.flushed()
        self._note_place(packet.server_id)

    def _note_place(self, server_id: int) -> None:
        """How far the open transaction is in Kafka."""
        if self._changes > self._done_before:
            self.offset |= {"event": self._changes, "server_id": server_id}

    def _table(self, event: Any) -> MySqlTable | None:
        """By the columns that the event itself names."""
        names = tuple(each.name for each in event.columns)
        key = event.schema, event.table, names
        if key not in self._tables:
            wanted = self._source.wants(event.schema, event.table)
            self._tables[key] = self._source.table(event.schema, event.table, list(names)) if wanted else None
        return self._tables[key]
