"""Debezium's events as Connect's schemas and structs: keys, envelopes, transactions, heartbeats and schema changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from barnabas import __version__ as VERSION
from barnabas.pipelines.connect.data.record import Header, Record
from barnabas.pipelines.connect.data.schema import (
    BOOLEAN,
    INT32,
    INT64,
    OPTIONAL_INT32,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    STRING,
    Schema,
    Struct,
    Type,
    array,
    struct,
)

COMMON = "io.debezium.connector.common"
Convert = Callable[[Any], Any]

SNAPSHOT_MARK = Schema(
    type=Type.STRING,
    optional=True,
    name="io.debezium.data.Enum",
    version=1,
    parameters={"allowed": "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"},
    default="false",
)
SOURCE_HEAD = [
    ("version", STRING),
    ("connector", STRING),
    ("name", STRING),
    ("ts_ms", INT64),
    ("snapshot", SNAPSHOT_MARK),
    ("db", STRING),
    ("sequence", OPTIONAL_STRING),
    ("ts_us", OPTIONAL_INT64),
    ("ts_ns", OPTIONAL_INT64),
]
TRANSACTION_BLOCK = struct(
    [("id", STRING), ("total_order", INT64), ("data_collection_order", INT64)],
    name="event.block",
    version=1,
    optional=True,
)
TRANSACTION_KEY = struct([("id", STRING)], name=f"{COMMON}.TransactionMetadataKey", version=1)
TRANSACTION_COLLECTION = struct(
    [("data_collection", STRING), ("event_count", INT64)], name="event.collection", version=1, optional=True
)
TRANSACTION_VALUE = struct(
    [
        ("status", STRING),
        ("id", STRING),
        ("event_count", OPTIONAL_INT64),
        ("data_collections", array(TRANSACTION_COLLECTION, optional=True)),
        ("ts_ms", INT64),
    ],
    name=f"{COMMON}.TransactionMetadataValue",
    version=1,
)
HEARTBEAT_KEY = struct([("serverName", STRING)], name=f"{COMMON}.ServerNameKey", version=1)
HEARTBEAT_VALUE = struct([("ts_ms", INT64)], name=f"{COMMON}.Heartbeat", version=1)

SCHEMA_COLUMN = struct(
    [
        ("name", STRING),
        ("jdbcType", INT32),
        ("nativeType", OPTIONAL_INT32),
        ("typeName", STRING),
        ("typeExpression", OPTIONAL_STRING),
        ("charsetName", OPTIONAL_STRING),
        ("length", OPTIONAL_INT32),
        ("scale", OPTIONAL_INT32),
        ("position", INT32),
        ("optional", BOOLEAN.as_optional()),
        ("autoIncremented", BOOLEAN.as_optional()),
        ("generated", BOOLEAN.as_optional()),
        ("comment", OPTIONAL_STRING),
        ("defaultValueExpression", OPTIONAL_STRING),
        ("enumValues", array(STRING, optional=True)),
    ],
    name="io.debezium.connector.schema.Column",
    version=1,
)
SCHEMA_TABLE = struct(
    [
        ("defaultCharsetName", OPTIONAL_STRING),
        ("primaryKeyColumnNames", array(STRING, optional=True)),
        ("columns", array(SCHEMA_COLUMN)),
        ("comment", OPTIONAL_STRING),
    ],
    name="io.debezium.connector.schema.Table",
    version=1,
    optional=True,
)
SCHEMA_CHANGE = struct(
    [("type", STRING), ("id", STRING), ("table", SCHEMA_TABLE)], name="io.debezium.connector.schema.Change", version=1
)


@dataclass(frozen=True, slots=True)
class ChangeColumn:
    """A column of a table: how a field of an event is made of what the database sends."""

    name: str
    schema: Schema
    convert: Convert
    placeholder: Any = None  # what an event holds if the database did not send the value
    fallback: Any = None  # of a column that may not be null, where the database sent none


class ChangeTable:
    """The events of one table in one form. `source` is the schema of the source block."""

    def __init__(
        self,
        topic: str,
        columns: Sequence[ChangeColumn],
        key: Sequence[str],
        source: Schema,
        *,
        tombstones: bool = True,
        skipped: frozenset[str] = frozenset("t"),
    ) -> None:
        self.topic, self.columns = topic, tuple(columns)
        self.tombstones, self.skipped = tombstones, skipped
        by_name = {each.name: each.schema for each in columns}
        self.key_names = tuple(name for name in key if name in by_name)
        self.value = struct([(each.name, each.schema) for each in columns], name=f"{topic}.Value", optional=True)
        self.key = (
            struct([(name, by_name[name]) for name in self.key_names], name=f"{topic}.Key") if self.key_names else None
        )
        self.envelope = struct(
            [
                ("before", self.value),
                ("after", self.value),
                ("source", source),
                ("transaction", TRANSACTION_BLOCK),
                ("op", STRING),
                ("ts_ms", OPTIONAL_INT64),
                ("ts_us", OPTIONAL_INT64),
                ("ts_ns", OPTIONAL_INT64),
            ],
            name=f"{topic}.Envelope",
            version=2,
        )

    def key_of(self, row: Struct | None) -> Struct | None:
        if self.key is None or row is None:
            return None
        return Struct.unchecked(self.key, {name: row.values.get(name) for name in self.key_names})

    def records(
        self, op: str, before: Struct | None, after: Struct | None, source: Struct, transaction: Struct | None
    ) -> list[Record]:
        """What a change becomes: one record, and a tombstone behind a deletion; a changed key is a deletion and a
        creation."""
        if op in self.skipped:
            return []
        key = self.key_of(after if after is not None else before)
        if op == "u" and before is not None and key is not None:
            old = self.key_of(before)
            assert old is not None
            if old.values != key.values:
                gone = (Header("__debezium.newkey", key, self.key),)
                made = (Header("__debezium.oldkey", old, self.key),)
                found = [self._record(old, "d", before, None, source, transaction, gone)]
                if self.tombstones:
                    found.append(Record(self.topic, None, None, old, self.key))
                return [*found, self._record(key, "c", None, after, source, transaction, made)]
        found = [self._record(key, op, before, after, source, transaction)]
        if op == "d" and self.tombstones:
            found.append(Record(self.topic, None, None, key, self.key))
        return found

    def _record(
        self,
        key: Struct | None,
        op: str,
        before: Struct | None,
        after: Struct | None,
        source: Struct,
        transaction: Struct | None,
        headers: tuple[Header, ...] = (),
    ) -> Record:
        now_ns = time.time_ns()
        value = Struct.unchecked(
            self.envelope,
            {"before": before, "after": after, "source": source, "transaction": transaction, "op": op,
             "ts_ms": now_ns // 1_000_000, "ts_us": now_ns // 1_000, "ts_ns": now_ns},
        )  # fmt: skip
        return Record(self.topic, value, self.envelope, key, self.key if key is not None else None, headers=headers)


def times_of(micros: int) -> dict[str, int]:
    return {"ts_ms": micros // 1_000, "ts_us": micros, "ts_ns": micros * 1_000}


def heartbeat(prefix: str, name: str) -> Record:
    key = Struct.unchecked(HEARTBEAT_KEY, {"serverName": name})
    value = Struct.unchecked(HEARTBEAT_VALUE, {"ts_ms": time.time_ns() // 1_000_000})
    return Record(f"{prefix}.{name}", value, HEARTBEAT_VALUE, key, HEARTBEAT_KEY)


class TransactionEvents:
    """`provide.transaction.metadata`: BEGIN and END in a topic of their own, and the order of changes in between.

    An event stands in the transaction's order even if its records are left out.
    """

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self.counts: dict[str, int] = {}
        self.total = 0

    def begin(self, transaction_id: str, ts_ms: int) -> Record:
        self.counts, self.total = {}, 0
        return self._record("BEGIN", transaction_id, ts_ms, None, None)

    def block(self, transaction_id: str, collection: str) -> Struct:
        self.total += 1
        order = self.counts[collection] = self.counts.get(collection, 0) + 1
        return Struct.unchecked(
            TRANSACTION_BLOCK, {"id": transaction_id, "total_order": self.total, "data_collection_order": order}
        )

    def end(self, transaction_id: str, ts_ms: int) -> Record:
        collections = [
            Struct.unchecked(TRANSACTION_COLLECTION, {"data_collection": name, "event_count": count})
            for name, count in self.counts.items()
        ]
        return self._record("END", transaction_id, ts_ms, self.total, collections)

    def _record(
        self, status: str, transaction_id: str, ts_ms: int, count: int | None, collections: list[Struct] | None
    ) -> Record:
        key = Struct.unchecked(TRANSACTION_KEY, {"id": transaction_id})
        value = Struct.unchecked(
            TRANSACTION_VALUE,
            {"status": status, "id": transaction_id, "event_count": count, "data_collections": collections,
             "ts_ms": ts_ms},
        )  # fmt: skip
        return Record(self._topic, value, TRANSACTION_VALUE, key, TRANSACTION_KEY)


def source_values(connector: str, name: str, micros: int, snapshot: str, database: str) -> dict[str, Any]:
    return {
        "version": VERSION,
        "connector": connector,
        "name": name,
        **times_of(micros),
        "snapshot": snapshot,
        "db": database,
        "sequence": None,
    }


def placed(records: Sequence[Record], partition: Mapping[str, Any], offset: dict[str, Any]) -> None:
    for each in records:
        each.source_partition, each.source_offset = dict(partition), offset
