"""A query planned: from its tree and the metastore to a topology, in the order in which rows go through it.

Sources, joins, WHERE, table functions, PARTITION BY or GROUP BY, HAVING, SELECT, and the topic of the results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from barnabas.pipelines.sql.compute.aggregates import AGGREGATES, TABLE_FUNCTIONS
from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.language import tree
from barnabas.pipelines.sql.metastore import Metastore, SourceColumn, WindowInfo
from barnabas.pipelines.sql.operators import Condition, Exploded, PartitionKey
from barnabas.pipelines.sql.plan import outputs
from barnabas.pipelines.sql.plan.flows import Flow, Planning, columns_of, internal_key, source_flow
from barnabas.pipelines.sql.plan.groups import group, restored
from barnabas.pipelines.sql.plan.joins import join
from barnabas.pipelines.sql.relations import (
    WINDOWEND,
    WINDOWSTART,
    Relation,
    RelationColumn,
    calls_in,
    check_key,
    columns_in,
    rewritten,
)
from barnabas.pipelines.sql.types import INTEGER, SqlType
from barnabas.pipelines.streams.topology import Topology

EXACTLY_ONCE = "exactly_once_v2"
ROWS_TOPIC = "rows"


@dataclass(frozen=True)
class Planned:
    """A query that can run. `columns` are those of the result as a stream or table, keys first; `names` and `kinds`
    those of SELECT in its order."""

    topology: Topology
    table: bool
    window: WindowInfo | None
    names: tuple[str, ...]
    kinds: tuple[SqlType, ...]
    key_at: tuple[int, ...]
    columns: tuple[SourceColumn, ...]
    sources: tuple[str, ...]
    notes: tuple[str, ...]


Finish = Callable[[Flow, outputs.Selected], tuple[Flow, outputs.Selected]]


def plan(
    metastore: Metastore,
    query: tree.Query,
    *,
    name: str,
    finish: Finish | None = None,
    persistent: str | None = None,
    log_topic: str | None = None,
    exactly_once: bool = False,
    settings: Mapping[str, Any] | None = None,
) -> Planned:
    """`finish` says where results go; without it they are rows of the topic `rows`. `persistent` names the target."""
    if query.as_of is not None:
        raise SqlError("AS OF is for pull queries of one table: SELECT ... FROM table AS OF '2026-01-01T00:00:00';")
    if query.limit is not None and persistent is not None:
        raise SqlError("LIMIT is for SELECT alone: a query that writes a stream or a table has no last row.")
    guarantee = EXACTLY_ONCE if exactly_once else "at_least_once"
    planning = Planning(metastore, Topology(name, processing_guarantee=guarantee), log_topic, name)
    if persistent is None:
        query = _grouped_as_one(query)
    flow = _sources(planning, query)
    if query.where is not None:
        flow = _where(flow, query.where)
    query, flow = _explode(flow, query)
    if query.group_by:
        flow, items, expressions = _grouped(flow, query, settings or {}, persistent=persistent is not None)
    else:
        _refuse_aggregates(query)
        flow = _partition(flow, query)
        items = _items(flow, query, persistent=persistent is not None)
        expressions = [one.expression for one in items]
    selected = outputs.select(flow, items, expressions, persistent)
    flow, selected = (finish or _rows)(flow, selected)
    return Planned(
        planning.topology,
        flow.table,
        flow.window,
        selected.names,
        selected.kinds,
        selected.key_at,
        selected.columns(),
        flow.sources,
        flow.notes,
    )


def _grouped_as_one(query: tree.Query) -> tree.Query:
    """What is only shown may be aggregated without GROUP BY: all rows are one group."""
    expressions = [item.expression for item in query.items if item.expression is not None]
    if query.group_by or not any(calls_in(one, AGGREGATES) for one in expressions):
        return query
    return replace(query, group_by=(tree.Literal(1, INTEGER),))


def _rows(flow: Flow, selected: outputs.Selected) -> tuple[Flow, outputs.Selected]:
    return outputs.show(flow, selected, ROWS_TOPIC), selected


def _sources(planning: Planning, query: tree.Query) -> Flow:
    mentioned = _mentioned(query)
    wants_place = bool(mentioned & {"ROWPARTITION", "ROWOFFSET"})
    # What a store keeps is whole: a later version of the query may look at more.
    keeps_rows = any(one.before_ms is not None for one in query.joins)
    takes_all = keeps_rows or any(item.expression is None and item.struct is None for item in query.items)
    clauses = [query.source, *(one.source for one in query.joins)]
    aliases = [one.alias for one in clauses]
    for alias in aliases:
        if aliases.count(alias) > 1:
            raise SqlError(f"Each side of the join must have a unique alias: '{alias}' is there twice.")
    read = [one.name for one in clauses]
    for name in read:
        if read.count(name) > 1:
            raise SqlError(f"Can not join '{name}' to '{name}': self joins are not supported.")
    flows = [
        source_flow(
            planning,
            source,
            one.alias,
            wants_place=wants_place,
            looked_at=None if takes_all or source.table else mentioned,
        )
        for one in clauses
        for source in [planning.metastore.source(one.name)]
    ]
    flow = flows[0]
    for clause, other in zip(query.joins, flows[1:], strict=True):
        flow = join(flow, other, clause)
    return flow


def _mentioned(query: tree.Query) -> frozenset[str]:
    """The names of columns in a query's expressions."""
    expressions: list[Any] = [item.expression or item.struct for item in query.items]
    expressions += [query.where, query.having, *query.group_by, *query.partition_by, *(one.on for one in query.joins)]
    return frozenset(column.name for one in expressions if one is not None for column in columns_in(one))


def _where(flow: Flow, condition: tree.Expression) -> Flow:
    if found := calls_in(condition, AGGREGATES):
        raise SqlError(f"Aggregate functions are not allowed in the WHERE clause: {found[0].name}.")
    test, kind = flow.relation.compiled(condition)
    if kind.base != "BOOLEAN":
        raise SqlError(f"Type error in WHERE expression: Should evaluate to boolean but is {kind} instead.")
    return flow.with_handle(flow.handle.filter(Condition(test)), "> [ FILTER ]")


def _explode(flow: Flow, query: tree.Query) -> tuple[tree.Query, Flow]:
    """Table functions become columns of rows that are there once for each of their values."""
    expressions = [item.expression for item in query.items if item.expression is not None]
    calls = list(dict.fromkeys(call for one in expressions for call in calls_in(one, TABLE_FUNCTIONS)))
    if not calls:
        return query, flow
    if flow.table:
        raise SqlError("Table source is not supported with table functions")
    relation, arguments, columns = flow.relation, [], []
    for number, call in enumerate(calls):
        if len(call.arguments) != 1:
            raise SqlError(f"{call.name} takes one array.")
        compiled, kind = relation.compiled(call.arguments[0])
        if kind.base != "ARRAY":
            raise SqlError(f"{call.name} takes an ARRAY, not {kind}.")
        arguments.append(compiled)
        given = TABLE_FUNCTIONS[call.name].returns(kind)
        assert given is not None
        columns.append(RelationColumn(None, f"\0explode{number}", given, pseudo=True))
    handle = flow.handle.flat_map_values(Exploded(arguments, [call.name for call in calls]))
    behind = Relation((*relation.columns, *columns), relation.keys, relation.functions, relation.sources)

    def change(node: tree.Expression) -> tree.Expression | None:
        if isinstance(node, tree.Call) and node in calls:
            return tree.Column(f"\0explode{calls.index(node)}")
        return None

    items = tuple(
        item if item.expression is None else replace(item, expression=rewritten(item.expression, change), alias=alias)
        for item, alias in zip(query.items, _exploded_names(query.items, calls), strict=True)
    )
    return replace(query, items=items), flow.with_handle(handle, "> [ FLAT MAP ]", relation=behind)


def _exploded_names(items: tuple[tree.SelectItem, ...], calls: list[tree.Call]) -> list[str | None]:
    """Items that are a table function have no name of their own: it would be that of the column behind it."""
    found: list[str | None] = []
    number = 0
    for item in items:
        alias = item.alias
        if alias is None and item.expression is not None and not isinstance(item.expression, (tree.Column, tree.Field)):
            alias = f"KSQL_COL_{number}" if item.expression in calls else None
            number += 1
        found.append(alias)
    return found


def _refuse_aggregates(query: tree.Query) -> None:
    expressions = [item.expression for item in query.items if item.expression is not None]
    for one in expressions:
        if found := calls_in(one, AGGREGATES):
            raise SqlError(f"Use of aggregate function {found[0].name} requires a GROUP BY clause.")
    if query.window is not None:
        raise SqlError("WINDOW clause requires a GROUP BY clause.")
    if query.having is not None:
        raise SqlError("HAVING requires a GROUP BY clause.")
    if query.emit == "FINAL":
        raise SqlError("EMIT FINAL is only supported for windowed aggregations.")


def _partition(flow: Flow, query: tree.Query) -> Flow:
    if not query.partition_by:
        return flow
    if flow.table:
        raise SqlError("PARTITION BY is not supported for tables: their key is their identity.")
    by = [flow.relation.normal(one) for one in query.partition_by]
    if len(by) == 1 and isinstance(by[0], tree.Literal) and by[0].value is None:
        by = []
    columns, kinds = columns_of(flow.relation, by)
    names = tuple(_key_names(flow.relation, by))
    for kind, name in zip(kinds, names, strict=True):
        if kind.base == "NULL":
            raise SqlError("PARTITION BY NULL is for streams without a key: it can't be one of several.")
        check_key(kind, name)
    before = tuple(flow.key_kinds)
    width, windowed = len(flow.relation.columns), flow.window is not None
    in_key = len(before) + 2 * windowed
    of_values = tuple(any(flow.relation.index(each) >= in_key for each in columns_in(one)) for one in by)
    keyed = flow.handle.select_key(
        PartitionKey(columns, kinds=before, width=width, windowed=windowed, of_values=of_values)
    )
    handle = keyed.repartition(key=internal_key(tuple(kinds))) if by else keyed
    keys = tuple((one,) for one in by)
    relation = replace(flow.relation, keys=keys, same_as_key=(), key_names=names)
    return flow.with_handle(handle, "> [ PARTITION BY ]", relation=relation, key_kinds=tuple(kinds), window=None)


def _key_names(relation: Relation, by: list[tree.Expression]) -> list[str]:
    """What the parts of a new key are called where a star names them."""
    taken = {one.name for one in relation.columns}
    found: list[str] = []
    number = 0
    for one in by:
        if isinstance(one, (tree.Column, tree.Field)):
            found.append(one.name)
            continue
        while (name := f"KSQL_COL_{number}") in taken:
            number += 1
        taken.add(name)
        found.append(name)
    return found


def _items(flow: Flow, query: tree.Query, *, persistent: bool) -> list[outputs.Item]:
    """SELECT's items. The bounds of a source's windows are in its keys: a star shows them, but keeps none."""
    relation = flow.relation
    if persistent and relation.sources == 1:
        bounds = (WINDOWSTART, WINDOWEND)
        columns = tuple(replace(one, pseudo=one.pseudo or one.name in bounds) for one in relation.columns)
        relation = replace(relation, columns=columns)
    return outputs.expanded(relation, query.items)


def _grouped(
    flow: Flow, query: tree.Query, settings: Mapping[str, Any], *, persistent: bool
) -> tuple[Flow, list[outputs.Item], list[tree.Expression]]:
    if query.partition_by:
        raise SqlError("PARTITION BY is not supported with GROUP BY.")
    items = _items(flow, query, persistent=persistent)
    expressions = [one.expression for one in items]
    having = [] if query.having is None else [query.having]
    grouped = group(flow, query, [*expressions, *having], settings)
    flow = grouped.flow
    if query.having is not None:
        test, kind = flow.relation.compiled(restored(grouped.rewrite(query.having)))
        if kind.base != "BOOLEAN":
            raise SqlError(f"Type error in HAVING expression: Should evaluate to boolean but is {kind} instead.")
        flow = flow.settled()
        flow = flow.with_handle(flow.handle.filter(Condition(test)), "> [ HAVING ]")
    return flow, items, [restored(grouped.rewrite(one)) for one in expressions]
