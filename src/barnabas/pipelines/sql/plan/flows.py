"""A flow is a query on its way to a topology: the stream or table so far, and what its rows and keys are."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from operator import methodcaller
from typing import Any

from barnabas.pipelines.sql.formats.codecs import REGISTRY_FORMATS, Codec, codec_of
from barnabas.pipelines.sql.metastore import DataSource, FormatInfo, Metastore, SourceColumn, WindowInfo
from barnabas.pipelines.sql.operators import Chain, Columns, ReadSource, key_serde
from barnabas.pipelines.sql.relations import Relation, relation_of
from barnabas.pipelines.sql.types import SqlType
from barnabas.pipelines.streams.operators.stateless import BranchOutput
from barnabas.pipelines.streams.operators.tables import TableSource
from barnabas.pipelines.streams.serdes import AUTO, BYTES, Serde
from barnabas.pipelines.streams.streams import Stream
from barnabas.pipelines.streams.tables import Table, tabled
from barnabas.pipelines.streams.topology import Topology
from barnabas.pipelines.streams.windows import session_windowed, time_windowed

AS_THEY_ARE = replace(BYTES, decode_all=methodcaller("to_pylist"))
KAFKA_KINDS = ("INTEGER", "BIGINT", "DOUBLE", "STRING", "BYTES")


@dataclass(frozen=True)
class Flow:
    handle: Any  # Stream or Table
    relation: Relation
    table: bool
    key_kinds: tuple[SqlType, ...]
    window: WindowInfo | None = None
    sources: tuple[str, ...] = ()
    pending: tuple[Any, ...] = ()  # functions of key and row that are still to be applied
    notes: tuple[str, ...] = ()  # what EXPLAIN shows, from the last step to the first

    def settled(self) -> Flow:
        """With nothing pending: for who looks at rows."""
        if not self.pending:
            return self
        return replace(self, handle=self.handle.map_values(Chain(self.pending)), pending=())

    def changes(self, *functions: Any) -> Any:
        """The rows as a stream, with functions applied: what was before a change is asked of nobody any more."""
        handle = self.handle.to_stream() if self.table else self.handle
        return handle.map_values(Chain((*self.pending, *functions)))

    def with_handle(self, handle: Any, note: str, **changes: Any) -> Flow:
        return replace(self, handle=handle, notes=(note, *self.notes), **changes)


@dataclass
class Planning:
    """What planning one query shares."""

    metastore: Metastore
    topology: Topology
    log_topic: str | None = None
    query_id: str = ""
    settings: dict[str, Any] = field(default_factory=dict)


def source_flow(
    planning: Planning, source: DataSource, alias: str, *, wants_place: bool, looked_at: frozenset[str] | None = None
) -> Flow:
    """`looked_at` are the names of the columns that the query looks at; all of them if it is None."""
    graph = planning.topology.graph
    idle = [] if looked_at is None else [at for at, one in enumerate(source.values) if one.name not in looked_at]
    key_codec = codec_of(source.key_format, source.keys, key=True, topic=source.topic)
    value_codec = codec_of(source.value_format, source.values, key=False, topic=source.topic, idle=idle)
    names = [one.name for one in (*source.keys, *source.values)]
    reading = ReadSource(
        (),
        key_codec,
        value_codec,
        tuple(one.header for one in source.headers),
        source.window.kind if source.window else None,
        source.window.size_ms if source.window else None,
        names.index(source.timestamp_column) if source.timestamp_column else None,
        source.timestamp_format,
        source.table,
        wants_place,
        planning.query_id,
    )
    records = planning.topology.stream(source.topic, key=AS_THEY_ARE, value=AS_THEY_ARE)
    inside = source.key_format.name in REGISTRY_FORMATS  # a subject gets the schemas of its topic, not of steps between
    own = internal_key(tuple(one.kind for one in source.keys)) if inside and source.keys else key_serde(key_codec)
    serde = windowed(own, source.window)
    # A source whose reader is a table's comes first among records of one time.
    read = graph.add(
        reading, records._node, key_serde=serde, value_serde=AUTO, keyed=bool(source.keys), table=source.table
    )
    rows: Any = Stream(graph, graph.add(BranchOutput(0), read, table=False))
    if planning.log_topic is not None:
        unread: Any = Stream(graph, graph.add(BranchOutput(1), read, table=False))
        unread.to(planning.log_topic, key=BYTES, value=BYTES)
    if source.table:
        rows = Table(graph, tabled(graph, rows._node, TableSource, None))
    relation = relation_of(source, alias, planning.metastore.functions)
    note = f"> [ SOURCE ] | {source.kind} {source.name} | topic {source.topic}"
    kinds = tuple(one.kind for one in source.keys)
    return Flow(rows, relation, source.table, kinds, source.window, (source.name,), notes=(note,))


def windowed(serde: Serde[Any], window: WindowInfo | None) -> Serde[Any]:
    if window is None:
        return serde
    if window.kind == "SESSION":
        return session_windowed(serde)
    return time_windowed(serde, window.size_ms or 0)


def internal_key(kinds: tuple[SqlType, ...], topic: str = "") -> Serde[Any]:
    """Of keys that are nowhere but between two steps."""
    columns = [SourceColumn(f"K{at}", kind) for at, kind in enumerate(kinds)]
    name = "KAFKA" if len(kinds) == 1 and kinds[0].base in KAFKA_KINDS else "JSON"
    codec: Codec = codec_of(FormatInfo(name), columns, key=True, topic=topic)
    return key_serde(codec)


def columns_of(relation: Relation, expressions: list[Any]) -> tuple[Columns, list[SqlType]]:
    each, whole, kinds = relation.compiled_all(expressions)
    return Columns(whole, each), kinds
