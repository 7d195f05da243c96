"""Debezium's ExtractNewRecordState: of a change only the row, as sinks and most readers want it.

What becomes of deletions is `delete.tombstone.handling.mode`, or the older `drop.tombstones` and
`delete.handling.mode`. Records that are no changes go through as they are.
"""

from __future__ import annotations

from typing import Any

from barnabas.pipelines.connect.config import Definition, Setting, one_of
from barnabas.pipelines.connect.data.record import Header, Record
from barnabas.pipelines.connect.data.schema import OPTIONAL_STRING, Schema, Struct, Type, struct
from barnabas.pipelines.connect.errors import ConfigError
from barnabas.pipelines.connect.transforms.transformation import Transformation, basics

MODES = ("drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone")
OF_ENVELOPE = ("op", "ts_ms", "ts_us", "ts_ns")
OF_TRANSACTION = ("id", "total_order", "data_collection_order")
DELETED = "__deleted"


class ExtractNewRecordState(Transformation):
    doc = "Of a change event of Debezium's only the row after it."
    definition = Definition(
        [
            Setting("delete.tombstone.handling.mode", "STRING", "tombstone", "MEDIUM", "What becomes of deletions.",
                    one_of(*MODES, ignore_case=True)),
            Setting("drop.tombstones", "BOOLEAN", None, "LOW", "Of older versions: whether tombstones are left out."),
            Setting("delete.handling.mode", "STRING", None, "LOW", "Of older versions: drop, rewrite or none.",
                    lambda name, value: None if value is None else one_of("drop", "rewrite", "none")(name, value)),
            Setting("add.fields", "LIST", [], "LOW", "Fields of the event to add to the row: op, table, source.ts_ms."),
            Setting("add.fields.prefix", "STRING", "__", "LOW", "What their names begin with."),
            Setting("add.headers", "LIST", [], "LOW", "Fields of the event to add as headers."),
            Setting("add.headers.prefix", "STRING", "__", "LOW", "What their names begin with."),
            Setting("route.by.field", "STRING", "", "LOW", "The field of the row that names the topic."),
        ]
    )  # fmt: skip

    def configure(self) -> None:
        values = self.values
        mode = values["delete.tombstone.handling.mode"].lower()
        self._tombstones = mode == "rewrite-with-tombstone"
        self._deletions = "rewrite" if self._tombstones else mode
        if values["drop.tombstones"] is not None or values["delete.handling.mode"] is not None:
            self._tombstones = values["drop.tombstones"] is False
            older = values["delete.handling.mode"] or "drop"
            self._deletions = "delete-to-tombstone" if older == "none" else older
        self._fields = [added(each, values["add.fields.prefix"], "add.fields") for each in values["add.fields"]]
        self._headers = [added(each, values["add.headers.prefix"], "add.headers") for each in values["add.headers"]]

    def apply(self, record: Record) -> Record | None:
        if record.value is None:
            return record if self._tombstones else None
        schema = record.value_schema
        if schema is None or not (schema.name or "").endswith(".Envelope") or not isinstance(record.value, Struct):
            return record
        event, after = record.value, record.value.get("after")
        headers = record.headers + tuple(Header(name, *reversed(found(event, place))) for place, name in self._headers)
        if after is None:
            if event.get("op") != "d" or self._deletions == "drop":  # a truncated table has no row either
                return None
            if self._deletions in ("tombstone", "delete-to-tombstone"):
                # The first, Debezium's default, keeps the schema: some converters write it beside the null.
                kept = schema.by_name["after"].schema if self._deletions == "tombstone" else None
                return record.but(value=None, value_schema=kept, headers=headers)
            after = event.get("before")
            if after is None:
                return None
        made = self._row(event, after, deleted=event.get("after") is None)
        field = self.values["route.by.field"]
        topic = str(after.get(field)) if field else record.topic
        return record.but(topic=topic, value=made, value_schema=made.schema, headers=headers)

    def _row(self, event: Struct, row: Struct, *, deleted: bool) -> Struct:
        mark = [(DELETED, OPTIONAL_STRING, str(deleted).lower())] if self._deletions == "rewrite" else []
        new = [*mark, *((name, *found(event, place)) for place, name in self._fields)]
        if not new:
            return row
        known = self._schemas.get(id(row.schema))
        if known is None:
            fields = [(each.name, each.schema) for each in row.schema.fields]
            wider = struct([*fields, *((name, schema) for name, schema, _ in new)], **basics(row.schema))
            known = self._schemas[id(row.schema)] = row.schema, wider
        return Struct.unchecked(known[1], row.values | {name: value for name, _, value in new})


def added(text: str, prefix: str, setting: str) -> tuple[tuple[str, str], str]:
    """Where a field is, and what it is called: `op`, `source.ts_ms`, `table:from`."""
    place, _, name = text.strip().partition(":")
    within, dot, field = place.rpartition(".")
    if not place or within not in ("", "source", "transaction"):
        raise ConfigError("must be fields of the event, of source or of transaction", setting, text)
    if not dot:
        within = "" if field in OF_ENVELOPE else "transaction" if field in OF_TRANSACTION else "source"
    return (within, field), prefix + (name or place.replace(".", "_"))


def found(event: Struct, place: tuple[str, str]) -> tuple[Schema, Any]:
    """Null where the event has no such block or field, so the schema is optional."""
    within, field = place
    known = event.schema.by_name.get(within or field)
    schema: Schema | None = None if known is None else known.schema
    block: Any = event
    if within and schema is not None:
        inner = schema.by_name.get(field) if schema.type is Type.STRUCT else None
        block, schema = event.values.get(within), None if inner is None else inner.schema
    if schema is None:
        return OPTIONAL_STRING, None
    return schema.as_optional(), None if block is None else block.get(field)
