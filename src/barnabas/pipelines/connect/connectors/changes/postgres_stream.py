"""Messages of pgoutput become events: which transaction, what of it is in Kafka already, which table."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from barnabas.pipelines.connect.connectors.changes import pgoutput
from barnabas.pipelines.connect.connectors.changes.catalog import CapturedTable
from barnabas.pipelines.connect.connectors.changes.envelope import TRANSACTION_BLOCK
from barnabas.pipelines.connect.connectors.changes.pgoutput import Begin, Change, Commit, Message, Relation, Truncate
from barnabas.pipelines.connect.connectors.changes.source import BATCH, Batch
from barnabas.pipelines.connect.connectors.changes.visibility import Visibility
from barnabas.pipelines.connect.data.record import Record
from barnabas.pipelines.connect.data.schema import (
    OPTIONAL_BYTES,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    STRING,
    Schema,
    Struct,
    struct,
)

if TYPE_CHECKING:
    from barnabas.pipelines.connect.connectors.changes.postgres import PostgresChanges

PLACE = "io.debezium.connector.postgresql"
OPERATIONS = {"I": ("c", "INSERT"), "U": ("u", "UPDATE"), "D": ("d", "DELETE")}
MESSAGE_KEY = struct([("prefix", OPTIONAL_STRING)], name=f"{PLACE}.MessageKey", version=1)
MESSAGE = struct([("prefix", OPTIONAL_STRING), ("content", OPTIONAL_BYTES)], name=f"{PLACE}.Message", version=1)


def message_schema(source: Schema) -> Schema:
    fields = [
        ("op", STRING),
        ("ts_ms", OPTIONAL_INT64),
        ("source", source),
        ("transaction", TRANSACTION_BLOCK),
        ("message", MESSAGE),
    ]
    return struct(fields, name=f"{PLACE}.MessageValue", version=1)


class PostgresStream:
    """`records` wait for the next batch; `offset` is where they lead to."""

    def __init__(self, source: PostgresChanges, offset: dict[str, Any]) -> None:
        self._source = source
        self.offset = dict(offset)
        self.records: Batch = []
        self._begun_at = dict(offset)
        self._seen = Visibility.parse(offset["seen"]) if "seen" in offset else None
        self._tables: dict[int, CapturedTable | None] = {}
        self._relations: dict[int, Relation] = {}
        self._transaction: Begin | None = None
        self._skipping = False
        self._done_before = 0  # changes of the open transaction that are in Kafka already
        self._done_to = 0  # the same, told by a position
        self._changes = 0
        self._place: tuple[int, str, Begin, int] | None = None  # of the last change, not yet in the offset
        self._commit: int | None = offset.get("lsn_commit") if "seen" not in offset else None

    def take(self, lsn: int, data: bytes) -> Iterator[Batch]:
        """Batches that are full."""
        if self._skipping and data[0] not in b"BCR":
            return
        message = pgoutput.parse(data)
        if isinstance(message, Change):
            self._change(lsn, message)
            if message.kind == "I" and self._source.filters.signals:
                yield from self._signal(message)
        elif isinstance(message, Begin):
            self._begin(lsn, message)
        elif isinstance(message, Commit):
            self._end(message)
        elif isinstance(message, Relation):
            self._relations[message.oid] = message
            self._tables.pop(message.oid, None)
        elif isinstance(message, Truncate):
            self._truncate(lsn, message)
        elif isinstance(message, Message):
            self._message(lsn, message)
        if len(self.records) >= BATCH:
            yield self.flushed()

    def flushed(self) -> Batch:
        self._note_place()
        records, self.records = self.records, []
        records, offset = self._source.with_heartbeat(records, self.offset)
        self.offset = offset
        return self._source.placed(records, dict(offset))

    def _begin(self, lsn: int, begin: Begin) -> None:
        reached = self.offset.get("lsn_commit") or 0
        seen = self._seen is not None and self._seen.has_seen(begin.xid, begin.final_lsn)
        self._transaction, self._skipping, self._changes = begin, begin.final_lsn < reached or seen, 0
        given = self._begun_at
        same = given.get("txId") == begin.xid and not self._skipping and "messageType" in given
        self._done_before = int(given.get("tx_events", 0)) if same else 0
        self._done_to = int(given.get("lsn_proc") or 0) if same and "tx_events" not in given else 0
        if self._source.transactions is not None and not self._skipping:
            made = self._source.transactions.begin(f"{begin.xid}:{lsn}", begin.micros // 1_000)
            if not self._done_before:
                self.records.append(made)

    def _end(self, commit: Commit) -> None:
        self._note_place()
        begin = self._transaction
        if begin is not None and not self._skipping:
            if self._source.transactions is not None:
                made = self._source.transactions.end(f"{begin.xid}:{commit.end_lsn}", commit.micros // 1_000)
                self.records.append(made)
            self._commit = commit.end_lsn
        if commit.end_lsn > (self.offset.get("lsn_commit") or 0):
            self.offset["lsn_commit"] = commit.end_lsn
            self.offset.pop("tx_events", None)
            if self._seen is not None and commit.commit_lsn >= self._seen.lsn:
                self._seen = None
                self._leave_snapshot()
        self._transaction, self._skipping = None, False

    def _leave_snapshot(self) -> None:
        for name in ("seen", "snapshot", "last_snapshot_record", "snapshot_completed"):
            self.offset.pop(name, None)

    def _table(self, oid: int) -> CapturedTable | None:
        if oid not in self._tables:
            relation = self._relations[oid]
            wanted = self._source.filters.table(relation.schema, relation.name)
            self._tables[oid] = self._source.catalog.of_relation(relation) if wanted else None
        return self._tables[oid]

    def _counted(self, lsn: int) -> bool:
        """Whether the change is still to be told."""
        self._changes += 1
        return self._changes > self._done_before and lsn > self._done_to

    def _moved(self, lsn: int, kind: str) -> None:
        assert self._transaction is not None
        self._place = lsn, kind, self._transaction, self._changes

    def _note_place(self) -> None:
        """The offset gets the place of the last change before it is read, not at each change."""
        if self._place is not None:
            lsn, kind, begin, changes = self._place
            self.offset |= {"transaction_id": None, "lsn_proc": lsn, "messageType": kind, "lsn": lsn, "txId": begin.xid,
                            "ts_usec": begin.micros, "tx_events": changes}  # fmt: skip
            self._place = None

    def _change(self, lsn: int, change: Change) -> None:
        table = self._table(change.relation)
        begin = self._transaction
        assert begin is not None
        wanted = self._counted(lsn)
        if table is None:
            return
        block = self._source.block(f"{begin.xid}:{lsn}", table.collection)
        if not wanted:
            return
        op, kind = OPERATIONS[change.kind]
        before = None if change.old is None else table.row(change.old, key_only=change.old_is_key)
        whole = change.old if not change.old_is_key else None
        after = None if change.new is None else table.row(change.new, old=whole)
        source = self._source.source_of(table.full, lsn, begin.xid, begin.micros, self._commit, "false")
        self.records += table.events.records(op, before, after, source, block)
        self._moved(lsn, kind)

    def _truncate(self, lsn: int, message: Truncate) -> None:
        wanted = self._counted(lsn)
        begin = self._transaction
        assert begin is not None
        for oid in message.relations:
            table = self._table(oid)
            if table is None or not wanted or "t" in table.events.skipped:
                continue
            block = self._source.block(f"{begin.xid}:{lsn}", table.collection)
            source = self._source.source_of(table.full, lsn, begin.xid, begin.micros, self._commit, "false")
            self.records += table.events.records("t", None, None, source, block)
            self._moved(lsn, "TRUNCATE")

    def _message(self, lsn: int, message: Message) -> None:
        begin = self._transaction
        if begin is None or not self._counted(lsn) or not self._source.wants_message(message.prefix):
            return
        source = self._source.source_of(("", ""), lsn, begin.xid, begin.micros, self._commit, "false")
        schema = message_schema(source.schema)
        content = Struct.unchecked(MESSAGE, {"prefix": message.prefix, "content": message.content})
        block = self._source.block(f"{begin.xid}:{lsn}", message.prefix)
        value = {"op": "m", "ts_ms": time.time_ns() // 1_000_000, "source": source, "transaction": block}
        key = Struct.unchecked(MESSAGE_KEY, {"prefix": message.prefix})
        made = Struct.unchecked(schema, value | {"message": content})
        self.records.append(Record(f"{self._source.prefix}.message", made, schema, key, MESSAGE_KEY))
        self._moved(lsn, "MESSAGE")

    def _signal(self, change: Change) -> Iterator[Batch]:
        """`execute-snapshot` and `log`, as rows (id, type, data) of the table of signals."""
        relation = self._relations[change.relation]
        if f"{relation.schema}.{relation.name}" != self._source.filters.signals or change.new is None:
            return
        if self._skipping or self._changes <= self._done_before:
            return
        by_name = dict(zip((each.name for each in relation.columns), change.new, strict=True))
        try:
            data = json.loads(str(by_name.get("data") or "{}"))
        except ValueError:
            data = {}
        if by_name.get("type") == "log":
            self._source.notes.append(f"signal {by_name.get('id')}: {data.get('message', '')}")
        elif by_name.get("type") == "execute-snapshot" and data.get("data-collections"):
            self._note_place()
            self._moved(self.offset.get("lsn") or 0, "INSERT")
            for record in self._source.signalled([str(each) for each in data["data-collections"]]):
                self.records.append(record)
                if len(self.records) >= BATCH:
                    held, self.records = self.records, []
                    self._source.more = False  # the rest of the tables belongs to the same transaction
                    yield held
            self._source.more = True
            self._source.notes.append(f"signal {by_name.get('id')}: tables were read again")
        else:
            self._source.notes.append(f"signal {by_name.get('id')} of type {by_name.get('type')} is not known here")
