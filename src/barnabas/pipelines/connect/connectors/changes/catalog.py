"""What PostgreSQL's catalog knows of tables: columns, keys, defaults and types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import psycopg

from barnabas.pipelines.connect.connectors.changes.envelope import ChangeColumn, ChangeTable
from barnabas.pipelines.connect.connectors.changes.pgoutput import UNSENT, Relation, Row
from barnabas.pipelines.connect.connectors.changes.postgres_types import PostgresType, PostgresTypes
from barnabas.pipelines.connect.connectors.changes.settings import Filters
from barnabas.pipelines.connect.data.schema import Schema, Struct
from barnabas.pipelines.connect.errors import ConnectError

TABLES = """select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'r' and c.relpersistence = 'p' and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
order by 1, 2"""
TYPES = """select t.oid, t.typname, t.typtype, case when t.typcategory = 'A' then t.typelem else 0 end, t.typbasetype,
t.typtypmod, coalesce((select array_agg(e.enumlabel::text order by e.enumsortorder) from pg_enum e
where e.enumtypid = t.oid), '{}') from pg_type t where t.oid = any(%s) or t.oid in
(select typelem from pg_type where oid = any(%s) union select typbasetype from pg_type where oid = any(%s))"""
COLUMNS = """select a.attname, a.atttypid, a.atttypmod, a.attnotnull,
case when a.attgenerated = '' then pg_get_expr(d.adbin, d.adrelid) end
from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = %s::regclass and a.attnum > 0 and not a.attisdropped order by a.attnum"""
KEY = """select a.attname from pg_index i join unnest(i.indkey) with ordinality as k (number, place) on true
join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.number
where i.indrelid = %s::regclass and i.indisprimary order by k.place"""
MakeTable = Callable[[str, Sequence[ChangeColumn], Sequence[str], Schema], ChangeTable]


class CapturedTable:
    """A table with the order in which its columns come; None for those that are left out."""

    def __init__(self, full: tuple[str, str], names: list[str], layout: list[ChangeColumn | None], events: ChangeTable):
        self.full, self.names, self.events = full, names, events
        self.collection = ".".join(full)
        self._layout = layout
        self._plain = [(each.name, each.convert) for each in layout if each is not None]

    def row(self, given: Row, *, key_only: bool = False, old: Row | None = None) -> Struct:
        """`old` is the row before, where the database has sent it whole."""
        values: dict[str, Any] = {}
        if len(self._plain) == len(given) and not key_only and UNSENT not in given:
            for (name, convert), text in zip(self._plain, given, strict=True):
                values[name] = None if text is None else convert(text)
            return Struct.unchecked(self.events.value, values)
        for index, (column, value) in enumerate(zip(self._layout, given, strict=True)):
            if column is None:
                continue
            if value is UNSENT and old is not None:
                value = old[index]
            if value is None:
                values[column.name] = column.fallback if key_only else None
            else:
                values[column.name] = column.placeholder if value is UNSENT else column.convert(value)
        return Struct.unchecked(self.events.value, values)


class Catalog:
    def __init__(
        self,
        connection: psycopg.Connection[Any],
        values: Mapping[str, Any],
        filters: Filters,
        prefix: str,
        make: MakeTable,
        source: Schema,
    ) -> None:
        self._connection, self._values, self._filters = connection, values, filters
        self._prefix, self._make, self._source = prefix, make, source

    def names(self, *, signals: bool = False) -> list[tuple[str, str]]:
        """Of all tables that are captured, and of that of signals if wanted."""
        rows = self._connection.execute(TABLES).fetchall()
        return [
            (space, name)
            for space, name in rows
            if self._filters.table(space, name) or (signals and f"{space}.{name}" == self._filters.signals)
        ]

    def table(self, space: str, name: str) -> CapturedTable:
        """As it is now."""
        place = self._place(space, name)
        rows = self._connection.execute(COLUMNS, (place,)).fetchall()
        columns = [(column, oid, modifier) for column, oid, modifier, _, _ in rows]
        return self._made(space, name, place, columns, rows)

    def of_relation(self, relation: Relation) -> CapturedTable:
        """As it was when the change was made, with what the catalog still knows of its columns."""
        place = self._place(relation.schema, relation.name)
        try:
            with self._connection.transaction():
                rows = self._connection.execute(COLUMNS, (place,)).fetchall()
        except psycopg.errors.UndefinedTable:
            place, rows = "", []
        columns = [(each.name, each.type_oid, each.modifier) for each in relation.columns]
        keys = [each.name for each in relation.columns if each.is_key] if relation.identity == "d" else []
        return self._made(relation.schema, relation.name, place, columns, rows, keys)

    @staticmethod
    def _place(space: str, name: str) -> str:
        return ".".join('"' + each.replace('"', '""') + '"' for each in (space, name))

    def _made(
        self,
        space: str,
        name: str,
        place: str,
        columns: Iterable[tuple[str, int, int]],
        known: Sequence[tuple[Any, ...]],
        keys: Sequence[str] = (),
    ) -> CapturedTable:
        columns = list(columns)
        types = PostgresTypes(self._values, self._types([oid for _, oid, _ in columns]))
        notes = {row[0]: (row[3], row[4]) for row in known}
        names, layout = [], []
        for column, oid, modifier in columns:
            not_null, default = notes.get(column, (column in keys, None))
            wanted = self._filters.column(space, name, column)
            made = types.column(column, oid, modifier, not_null=not_null, default=default) if wanted else None
            names.append(column)
            layout.append(made)
        found = [each for each in layout if each is not None]
        key = self._filters.key(space, name)
        if key is None:
            key = list(keys)
            if place:
                key = [row[0] for row in self._connection.execute(KEY, (place,)).fetchall()] or key
        elif missing := [each for each in key if each not in names]:
            raise ConnectError(f"message.key.columns names {missing[0]}, and {space}.{name} has no such column")
        events = self._make(f"{self._prefix}.{space}.{name}", found, key, self._source)
        return CapturedTable((space, name), names, layout, events)

    def _types(self, oids: list[int]) -> dict[int, PostgresType]:
        rows = self._connection.execute(TYPES, (oids, oids, oids)).fetchall()
        return {
            oid: PostgresType(oid, name, kind, element, base, modifier, tuple(labels))
            for oid, name, kind, element, base, modifier, labels in rows
        }
