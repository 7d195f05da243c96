"""GROUP BY: rows by new keys, in windows, folded by aggregates. What is behind it sees keys and results alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from barnabas.pipelines.sql.compute.aggregates import AGGREGATES, TABLE_FUNCTIONS, Aggregate, CollectList
from barnabas.pipelines.sql.compute.compiler import LAMBDA_FUNCTIONS, Compiled
from barnabas.pipelines.sql.compute.registry import find
from barnabas.pipelines.sql.errors import SqlError, SqlSyntaxError
from barnabas.pipelines.sql.language import tree
from barnabas.pipelines.sql.metastore import WindowInfo
from barnabas.pipelines.sql.operators import AllAggregates, EveryChange, NewKey, Shown, WithKey
from barnabas.pipelines.sql.plan.flows import Flow, columns_of, internal_key
from barnabas.pipelines.sql.relations import (
    ROWTIME,
    WINDOWEND,
    WINDOWSTART,
    Relation,
    RelationColumn,
    calls_in,
    check_key,
    columns_in,
    rewritten,
)
from barnabas.pipelines.sql.types import BIGINT, SqlType
from barnabas.pipelines.streams.tables import Table
from barnabas.pipelines.streams.windows import SessionWindows, TimeWindows

DAY_MS = 86_400_000
GROUP, RESULT = "\0group", "\0result"  # names that no statement can write


@dataclass(frozen=True)
class Grouped:
    """The flow behind the aggregation, and how expressions of the query read there."""

    flow: Flow
    expressions: tuple[tree.Expression, ...]  # GROUP BY's
    calls: tuple[tree.Call, ...]
    before: Relation

    @property
    def alias(self) -> str | None:
        return alias_in(self.before)

    def rewrite(self, expression: tree.Expression) -> tree.Expression:
        """Groups and aggregates as columns; any other column is refused."""
        normal = self.before.normal(without_windows(expression, self.alias))

        def change(node: tree.Expression) -> tree.Expression | None:
            if node in self.expressions:
                return tree.Column(f"{GROUP}{self.expressions.index(node)}")
            if isinstance(node, tree.Call) and node in self.calls:
                return tree.Column(f"{RESULT}{self.calls.index(node)}")
            if isinstance(node, tree.Column) and node.name.startswith("\0"):
                return tree.Column(node.name[1:])
            return None

        found: tree.Expression = rewritten(normal, change)
        for column in columns_in(found):
            if not column.name.startswith("\0"):
                check_functions(found, self.before.functions)  # it may be an argument of a misspelt aggregate
            if not column.name.startswith("\0") and column.name not in (WINDOWSTART, WINDOWEND):
                shown = column.name if column.source is None else f"{column.source}.{column.name}"
                raise SqlError(
                    f"Non-aggregate SELECT expression(s) not part of GROUP BY: {shown}. Either add the column to the "
                    "GROUP BY or remove it from the SELECT."
                )
        return found


def alias_in(relation: Relation) -> str | None:
    """By which the source is named whose rows get windows; None if it has windows of its own, or there are several."""
    aliases = {one.source for one in relation.columns}
    windowed = any(one.name == WINDOWSTART for one in relation.columns)
    return None if windowed or len(aliases) != 1 else aliases.pop()


def check_functions(expression: tree.Expression, made: Mapping[str, Any] | None) -> None:
    """Refuses calls of functions that are not there."""

    def look(node: tree.Expression) -> tree.Expression | None:
        if isinstance(node, tree.Call) and node.name not in LAMBDA_FUNCTIONS and node.name not in (made or {}):
            find(node.name, [*LAMBDA_FUNCTIONS, *AGGREGATES, *TABLE_FUNCTIONS, *(made or {})])
        return None

    rewritten(expression, look)


def without_windows(expression: tree.Expression, source: str | None = None) -> tree.Expression:
    """WINDOWSTART and WINDOWEND are columns of the result, not of the source, even if the only source is named."""

    def change(node: tree.Expression) -> tree.Expression | None:
        if isinstance(node, tree.Column) and node.name in (WINDOWSTART, WINDOWEND) and node.source in (None, source):
            return tree.Literal(node.name, SqlType("WINDOW"))
        return None

    found: tree.Expression = rewritten(expression, change)
    return found


def restored(expression: tree.Expression) -> tree.Expression:
    def change(node: tree.Expression) -> tree.Expression | None:
        if isinstance(node, tree.Literal) and node.kind.base == "WINDOW":
            return tree.Column(str(node.value))
        return None

    found: tree.Expression = rewritten(expression, change)
    return found


def group(flow: Flow, query: tree.Query, expressions: list[tree.Expression], settings: Mapping[str, Any]) -> Grouped:
    """`expressions` are those of SELECT and HAVING, where aggregates are."""
    before = flow.relation
    by = tuple(before.normal(one) for one in aliased(query))
    for one in by:
        if found := calls_in(one, AGGREGATES):
            raise SqlError(f"GROUP BY does not support aggregate functions: {found[0].name} is an aggregate function.")
    calls = distinct_calls(before, expressions)
    aggregates, arguments = [], []
    for call in calls:
        aggregate, compiled = aggregate_of(before, call, settings)
        if flow.table and not aggregate.can_undo:
            raise SqlError(
                f"The aggregation function(s) ({call.name}) cannot be applied to a table source, only to a stream "
                "source."
            )
        aggregates.append(aggregate)
        arguments.append(compiled)
    folding = AllAggregates(aggregates, arguments)
    columns, kinds = columns_of(before, list(by))
    for one, kind in zip(by, kinds, strict=True):
        check_key(kind, one.name if isinstance(one, tree.Column) else "GROUP BY")
    handle, window = folded(flow, query, folding, NewKey(columns), by, tuple(kinds))
    handle = Table(handle._graph, handle._graph.add(EveryChange(), handle._node))
    if query.emit == "FINAL":
        if window is None:
            raise SqlError("EMIT FINAL is only supported for windowed aggregations.")
        handle = handle.suppress()
    with_key = WithKey(tuple(kinds), windowed=window is not None)
    states_are_values = all(type(one).show is Aggregate.show for one in aggregates)
    pending = (with_key,) if states_are_values else (Shown(aggregates), with_key)
    relation = relation_behind(by, kinds, aggregates, window, before)
    note = f"> [ AGGREGATE ] | {', '.join(call.name for call in calls) or 'no aggregates'}"
    return Grouped(
        flow.with_handle(
            handle, note, relation=relation, table=True, key_kinds=tuple(kinds), window=window, pending=pending
        ),
        by,
        calls,
        before,
    )


def aliased(query: tree.Query) -> list[tree.Expression]:
    """GROUP BY's expressions; an alias of SELECT is not known there, as in ksqlDB."""
    return list(query.group_by)


def distinct_calls(before: Relation, expressions: list[tree.Expression]) -> tuple[tree.Call, ...]:
    found: dict[tree.Call, None] = {}
    for expression in expressions:
        for call in calls_in(before.normal(without_windows(expression, alias_in(before))), AGGREGATES):
            for argument in call.arguments:
                if inner := calls_in(argument, AGGREGATES):
                    raise SqlError(f"Aggregate functions can not be nested: {call.name}({inner[0].name}()).")
            found[call] = None
    return tuple(found)


def aggregate_of(relation: Relation, call: tree.Call, given: Mapping[str, Any]) -> tuple[Aggregate, list[Compiled]]:
    columns = list(call.arguments)
    settings: list[Any] = []
    if call.name == "TOPK" and columns and isinstance(last := columns[-1], tree.Literal):
        settings.append(last.value)
        columns.pop()
    elif call.name != "CORRELATION":
        for one in columns[1:]:
            if not isinstance(one, tree.Literal):
                raise SqlSyntaxError(f"Parameter 2 passed to function {call.name} must be a literal constant", *call.at)
            settings.append(one.value)
        columns = columns[:1]
    if call.name == "COUNT" and columns and isinstance(columns[0], tree.Literal):
        columns = []
    if not columns and call.name != "COUNT":
        raise SqlSyntaxError(f"Function '{call.name}' needs a column.", *call.at)
    kind = AGGREGATES[call.name]
    if issubclass(kind, CollectList):
        settings = [limit_of(kind.limit_setting, given)]
    compiled = [relation.compiled(one) for one in columns]
    return kind([kind for _, kind in compiled], settings), [one for one, _ in compiled]


def limit_of(name: str, settings: Mapping[str, Any]) -> int | None:
    """How many values a list may have; None if the setting is not given."""
    given = settings.get(name)
    try:
        return None if given is None else int(given)
    except (TypeError, ValueError):
        raise SqlError(f"Invalid value {given} for property '{name}': a whole number is needed.") from None


def folded(
    flow: Flow,
    query: tree.Query,
    folding: AllAggregates,
    selector: NewKey,
    by: tuple[tree.Expression, ...],
    kinds: tuple[SqlType, ...],
) -> tuple[Any, WindowInfo | None]:
    handle, window = flow.handle, query.window
    if flow.table:
        if window is not None:
            raise SqlError("WINDOW clause is only supported for aggregations of streams.")
        grouped = handle.group_by(selector, key=internal_key(kinds))
        return grouped.aggregate(folding.first, folding.add, folding.undo), None
    same = len(by) == len(flow.relation.keys) and all(
        one in keys for one, keys in zip(by, flow.relation.keys, strict=False)
    )
    if same and flow.window is None:
        grouped = handle.group_by_key()
    else:
        grouped = handle.group_by(selector, key=internal_key(kinds))
    if window is None:
        return grouped._aggregated("aggregate", [folding], None, None), None
    windows, info = windows_of(window, final=query.emit == "FINAL")
    grouped = grouped.windowed_by(windows)
    return grouped._aggregated("aggregate", [folding], None, None), info


def windows_of(window: tree.Window, *, final: bool) -> tuple[Any, WindowInfo]:
    """Without a GRACE PERIOD late records are waited for a day, but not where only the last result is wanted."""
    grace_ms = (0 if final else DAY_MS) if window.grace_ms is None else window.grace_ms
    least = window.size_ms + (window.grace_ms or 0)
    if window.retention_ms is not None and window.retention_ms < least:
        raise SqlError(
            f"The window retention of {window.retention_ms} milliseconds must be greater than or equal to the window "
            f"size plus the grace period: {least} milliseconds."
        )
    info = WindowInfo(window.kind, None if window.kind == "SESSION" else window.size_ms, window.retention_ms)
    if window.kind == "SESSION":
        return SessionWindows(window.size_ms, grace_ms), info
    if not window.size_ms:
        raise SqlError("The size of a window must be positive.")
    advance_ms = window.size_ms if window.advance_ms is None else window.advance_ms
    if not 0 < advance_ms <= window.size_ms:
        raise SqlError("ADVANCE BY must be positive and not greater than the SIZE of the window.")
    return TimeWindows(window.size_ms, advance_ms, grace_ms), info


def relation_behind(
    by: tuple[tree.Expression, ...],
    kinds: list[SqlType],
    aggregates: list[Aggregate],
    window: WindowInfo | None,
    before: Relation,
) -> Relation:
    columns = [RelationColumn(None, f"{GROUP}{at}", kind, key=True) for at, kind in enumerate(kinds)]
    if window is not None:
        columns += [RelationColumn(None, name, BIGINT, pseudo=True) for name in (WINDOWSTART, WINDOWEND)]
    columns += [RelationColumn(None, f"{RESULT}{at}", one.returns) for at, one in enumerate(aggregates)]
    keys = tuple((tree.Column(f"{GROUP}{at}", None),) for at in range(len(by)))
    return Relation(tuple(columns), keys, before.functions, 1)


__all__ = ["ROWTIME", "Grouped", "group", "restored", "windows_of"]
