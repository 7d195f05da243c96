"""SELECT's items: their names, their types, which of them are the key; and where results go."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from typing import Any

from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.formats.codecs import codec_of
from barnabas.pipelines.sql.language import tree
from barnabas.pipelines.sql.metastore import KEY, VALUE, FormatInfo, SourceColumn
from barnabas.pipelines.sql.operators import OwnTime, key_serde, value_serde
from barnabas.pipelines.sql.plan.flows import Flow, columns_of, windowed
from barnabas.pipelines.sql.relations import ROWTIME, WINDOWEND, WINDOWSTART, Relation
from barnabas.pipelines.sql.types import SqlType, fits
from barnabas.pipelines.streams.serdes import Serde
from barnabas.pipelines.streams.streams import Stream

PICKLED: Serde[Any] = Serde("pickled", pickle.dumps, pickle.loads)


@dataclass(frozen=True)
class Item:
    name: str
    expression: tree.Expression


@dataclass(frozen=True)
class Selected:
    """What SELECT gives, in its order; `key_at` says which items are the key."""

    names: tuple[str, ...]
    kinds: tuple[SqlType, ...]
    expressions: tuple[tree.Expression, ...]
    key_at: tuple[int, ...]

    @property
    def value_at(self) -> tuple[int, ...]:
        return tuple(at for at in range(len(self.names)) if at not in self.key_at)

    def columns(self) -> tuple[SourceColumn, ...]:
        keys = [SourceColumn(self.names[at], self.kinds[at], KEY) for at in self.key_at]
        return (*keys, *(SourceColumn(self.names[at], self.kinds[at], VALUE) for at in self.value_at))


@dataclass(frozen=True)
class SinkInfo:
    """The topic that results are written to. `columns` are given where the target is there already."""

    topic: str
    key_format: FormatInfo
    value_format: FormatInfo
    timestamp_column: str | None = None
    timestamp_format: str | None = None


def expanded(relation: Relation, items: tuple[tree.SelectItem, ...]) -> list[Item]:
    """Stars as columns, and a name for each item."""
    found: list[Item] = []
    taken: set[str] = set()
    clashing = clashes(relation)
    columns = {one.name for one in relation.columns}

    def named(wanted: str, *, numbered: bool = False, of_field: bool = False) -> str:
        name, count = (f"{wanted}_0" if numbered else wanted), 0
        while name in taken or ((numbered or of_field) and name in columns):
            count += 1
            name = f"{wanted}_{count}"
        taken.add(name)
        return name

    for item in items:
        if item.alias is not None:
            if item.alias in taken:
                raise SqlError(f"The projection contains a repeated name: `{item.alias}`.")
            taken.add(item.alias)
    for item in items:
        if item.struct is not None:
            kind = relation.compiled(item.struct)[1]
            if kind.base != "STRUCT":
                raise SqlError(f"->* is for a STRUCT, not for {kind}.")
            found += [Item(named(name), tree.Field(item.struct, name)) for name, _ in kind.fields]
        elif item.expression is None:
            named_before = [relation.normal(one.expression) for one in items if one.expression is not None]
            for name, expression in relation.star(item.source):
                if isinstance(expression, tree.Column) or expression not in named_before:
                    found.append(Item(named(name), expression))
        else:
            found.append(Item(item.alias or _own_name(relation, item.expression, clashing, named), item.expression))
    return found


def clashes(relation: Relation) -> set[str]:
    names = [one.name for one in relation.columns]
    return {name for name in names if names.count(name) > 1}


def _own_name(relation: Relation, expression: tree.Expression, clashing: set[str], named: Any) -> str:
    if isinstance(expression, tree.Column):
        if expression.name in clashing and expression.source is not None:
            return str(named(f"{expression.source}_{expression.name}"))
        return str(named(expression.name))
    if isinstance(expression, tree.Field):
        return str(named(expression.name, of_field=True))
    return str(named("KSQL_COL", numbered=True))


def select(flow: Flow, items: list[Item], expressions: list[tree.Expression], persistent: str | None) -> Selected:
    """`persistent` names the target, whose key must be among the items."""
    relation = flow.relation
    _, kinds = columns_of(relation, expressions)
    key_at: list[int] = []
    normal = [relation.normal(one) for one in expressions]
    for position, keys in enumerate(relation.keys):
        found = [at for key in keys for at, one in enumerate(normal) if one == key]
        same = [at for at in found if normal[at] == normal[found[0]]] if found else []
        if persistent is not None and not found:
            shown = " or ".join(_column_name(one) for one in keys)
            raise SqlError(
                f"Key missing from projection. The query used to build `{persistent}` must include the key column "
                f"{shown} in its projection (eg, SELECT {shown}...)."
            )
        if persistent is not None and len(same) > 1:
            raise SqlError(
                f"The projection contains a key column (`{items[same[0]].name}`) more than once, aliased as: "
                f"{' and '.join(items[at].name for at in same)}. Only one can be the key: "
                "wrap the others in AS_VALUE()."
            )
        if found:
            key_at.append(found[0])
        elif position < len(relation.keys):
            continue
    names = [one.name for one in items]
    for name in names:
        if names.count(name) > 1:
            raise SqlError(f"The projection contains a repeated name: `{name}`.")
    if persistent is not None:
        _check_names([names[at] for at in range(len(names))])
        for name, kind in zip(names, kinds, strict=True):
            if kind.base == "NULL":
                raise SqlError(f"Column {name} is null and has no type: CAST it to one.")
    return Selected(tuple(names), tuple(kinds), tuple(expressions), tuple(key_at))


def _column_name(expression: tree.Expression) -> str:
    return f"`{expression.name.strip(chr(0))}`" if isinstance(expression, tree.Column) else "of the key"


def _check_names(names: list[str]) -> None:
    for name in names:
        if name in (ROWTIME, "ROWPARTITION", "ROWOFFSET", WINDOWSTART, WINDOWEND):
            raise SqlError(f"`{name}` is a reserved column name. You cannot use it as an alias for a column.")


def write(flow: Flow, selected: Selected, sink: SinkInfo) -> Flow:
    """Results to a topic, in its formats."""
    value_columns, _ = columns_of(flow.relation, [selected.expressions[at] for at in selected.value_at])
    handle = flow.changes(value_columns)
    columns = selected.columns()
    if sink.timestamp_column is not None:
        own = next(one for one in columns if one.name == sink.timestamp_column)
        beside = [one.name for one in columns if one.role == own.role]
        of_key = len(beside) if own.role == KEY else 0
        operator = OwnTime(beside.index(own.name), sink.timestamp_format, of_key)
        handle = Stream(handle._graph, handle._graph.add(operator, handle._node))
    keys = [one for one in columns if one.role == KEY]
    values = [one for one in columns if one.role == VALUE]
    serde = windowed(key_serde(codec_of(sink.key_format, keys, key=True, topic=sink.topic)), flow.window)
    writes = value_serde(codec_of(sink.value_format, values, key=False, topic=sink.topic))
    handle.to(sink.topic, key=serde, value=writes)
    return flow.with_handle(handle, f"> [ SINK ] | topic {sink.topic}")


def show(flow: Flow, selected: Selected, topic: str) -> Flow:
    """Whole rows as objects to a topic that is none: for who asked."""
    columns, _ = columns_of(flow.relation, list(selected.expressions))
    handle = flow.changes(columns)
    handle.to(topic, key=PICKLED, value=PICKLED)
    return flow.with_handle(handle, "> [ ROWS ]")


def reordered(selected: Selected, target: tuple[SourceColumn, ...], name: str) -> Selected:
    """SELECT's items in the order of a target that is there already, widened to its types."""
    wanted = [(one.name, one.kind, one.role) for one in target]
    given = {one.name: one for one in selected.columns()}
    have = [(one.name, one.kind, one.role) for one in selected.columns()]
    matching = {one.name: given.get(one.name) for one in target}
    if len(have) != len(wanted) or any(
        other is None
        or other.role != one.role
        or not (other.kind == one.kind or (one.role == VALUE and _widens(other.kind, one.kind)))
        for one, other in zip(target, matching.values(), strict=False)
    ):
        raise SqlError(
            f"Incompatible schema between results and sink.\nResult schema is {_schema(have)}\nSink schema of {name} "
            f"is {_schema(wanted)}"
        )
    positions = [selected.names.index(one.name) for one in target if one.name in given]
    return replace(
        selected,
        names=tuple(selected.names[at] for at in positions),
        kinds=tuple(one.kind for one in target),
        expressions=tuple(
            given if selected.kinds[at] == one.kind else tree.Cast(given, one.kind)
            for at, one in zip(positions, target, strict=True)
            for given in selected.expressions[at : at + 1]
        ),
        key_at=tuple(positions.index(at) for at in selected.key_at),
    )


def _widens(given: SqlType, wanted: SqlType) -> bool:
    """A whole number goes into every DECIMAL, and is null where it is too large."""
    return fits(given, wanted) or (given.base in ("INTEGER", "BIGINT") and wanted.base == "DECIMAL")


def _schema(columns: list[tuple[str, SqlType, str]]) -> str:
    return ", ".join(f"`{name}` {kind}{' KEY' if role == KEY else ''}" for name, kind, role in columns)
