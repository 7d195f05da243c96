"""What is known by name: streams, tables, types, functions and the queries that write them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from barnabas.pipelines.sql.errors import SqlError, nearest
from barnabas.pipelines.sql.types import SqlType

KEY, VALUE, HEADERS = "KEY", "VALUE", "HEADERS"


@dataclass(frozen=True)
class SourceColumn:
    """`role` is KEY, VALUE or HEADERS; `header` names one header."""

    name: str
    kind: SqlType
    role: str = VALUE
    header: str | None = None


@dataclass(frozen=True)
class WindowInfo:
    """The window that keys of a topic are in."""

    kind: str  # TUMBLING, HOPPING or SESSION
    size_ms: int | None
    retention_ms: int | None = None


@dataclass(frozen=True)
class FormatInfo:
    name: str
    settings: tuple[tuple[str, Any], ...] = ()

    def get(self, name: str, default: Any = None) -> Any:
        return dict(self.settings).get(name, default)


@dataclass(frozen=True)
class DataSource:
    """A stream or a table. Columns of the key come first."""

    name: str
    table: bool
    columns: tuple[SourceColumn, ...]
    topic: str
    key_format: FormatInfo
    value_format: FormatInfo
    window: WindowInfo | None = None
    timestamp_column: str | None = None
    timestamp_format: str | None = None
    sql: str = ""
    read_only: bool = False
    query_id: str | None = None  # of CREATE ... AS
    partitions: int | None = None
    replicas: int | None = None

    @property
    def keys(self) -> tuple[SourceColumn, ...]:
        return tuple(one for one in self.columns if one.role == KEY)

    @property
    def values(self) -> tuple[SourceColumn, ...]:
        return tuple(one for one in self.columns if one.role == VALUE)

    @property
    def headers(self) -> tuple[SourceColumn, ...]:
        return tuple(one for one in self.columns if one.role == HEADERS)

    @property
    def kind(self) -> str:
        return "TABLE" if self.table else "STREAM"

    def column(self, name: str) -> SourceColumn | None:
        return next((one for one in self.columns if one.name == name), None)


@dataclass
class Metastore:
    sources: dict[str, DataSource] = field(default_factory=dict)
    types: dict[str, SqlType] = field(default_factory=dict)
    functions: dict[str, tuple[tuple[SqlType, ...], SqlType, str]] = field(default_factory=dict)
    readers: dict[str, set[str]] = field(default_factory=dict)  # source -> ids of queries that read it
    writers: dict[str, set[str]] = field(default_factory=dict)  # source -> ids of queries that write it

    def copy(self) -> Metastore:
        return Metastore(
            dict(self.sources),
            dict(self.types),
            dict(self.functions),
            {name: set(ids) for name, ids in self.readers.items()},
            {name: set(ids) for name, ids in self.writers.items()},
        )

    def source(self, name: str) -> DataSource:
        found = self.sources.get(name)
        if found is None:
            raise SqlError(f"{name} does not exist.{nearest(name, list(self.sources))}")
        return found

    def add(self, source: DataSource, *, replace_existing: bool = False) -> None:
        known = self.sources.get(source.name)
        if known is not None and not replace_existing:
            raise SqlError(
                f"Cannot add {source.kind.lower()} `{source.name}`: A {known.kind.lower()} with the same name already "
                "exists."
            )
        self.sources[source.name] = source

    def drop(self, name: str) -> DataSource:
        found = self.source(name)
        readers, writers = self.readers.get(name, set()), self.writers.get(name, set()) - {found.query_id}
        results = {one.query_id: one.name for one in self.sources.values() if one.query_id in readers}
        inserts = readers - set(results)
        if inserts or writers:
            raise SqlError(
                f"Cannot drop {name}.\nThe following queries read from this source: [{', '.join(sorted(inserts))}].\n"
                f"The following queries write into this source: [{', '.join(sorted(writers))}].\n"
                f"You need to terminate them before dropping {name}."
            )
        if results:
            raise SqlError(
                f"Cannot drop {name}.\nThe following streams and/or tables read from this source: "
                f"[{', '.join(sorted(results.values()))}].\nYou need to drop them before dropping {name}."
            )
        return self.sources.pop(name)

    def note_query(self, query_id: str, reads: list[str], writes: str | None) -> None:
        for name in reads:
            self.readers.setdefault(name, set()).add(query_id)
        if writes is not None:
            self.writers.setdefault(writes, set()).add(query_id)

    def forget_query(self, query_id: str) -> None:
        for ids in (*self.readers.values(), *self.writers.values()):
            ids.discard(query_id)

    def alter(self, name: str, columns: list[SourceColumn]) -> None:
        source = self.source(name)
        for column in columns:
            if source.column(column.name) is not None:
                raise SqlError(
                    f"Cannot add column `{column.name}` to schema. A column with the same name already exists."
                )
        self.sources[name] = replace(source, columns=(*source.columns, *columns))
