"""A pull query: the rows of a table that satisfy a condition, as they are now."""

from __future__ import annotations

from typing import Any

from barnabas.pipelines.sql.compute.aggregates import AGGREGATES
from barnabas.pipelines.sql.compute.casts import cast_between
from barnabas.pipelines.sql.compute.java import EvaluationError, frozen
from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.language import tree
from barnabas.pipelines.sql.metastore import Metastore
from barnabas.pipelines.sql.operators import Columns, Condition
from barnabas.pipelines.sql.plan import outputs
from barnabas.pipelines.sql.relations import Relation, calls_in, relation_of
from barnabas.pipelines.sql.server.views import TableRows, View, Views
from barnabas.pipelines.sql.types import STRING, TIMESTAMP, SqlType

Rows = list[tuple[Any, ...]]


def pull(metastore: Metastore, query: tree.Query, views: Views) -> tuple[tuple[str, ...], list[SqlType], Rows]:
    """Names, types and rows."""
    source = metastore.source(query.source.name)
    check_pull(query)
    relation = relation_of(source, query.source.alias, metastore.functions)
    items = outputs.expanded(relation, query.items)
    each, whole, kinds = relation.compiled_all([one.expression for one in items])
    columns = Columns(whole, each)
    condition = None
    if query.where is not None:
        test, kind = relation.compiled(query.where)
        if kind.base != "BOOLEAN":
            raise SqlError(f"Type error in WHERE expression: Should evaluate to boolean but is {kind} instead.")
        condition = Condition(test)
    view = views.of(source) if query.as_of is None else views.past(source, moment(query.as_of))
    rows: Rows = []
    for row in candidates(view, relation, query.where):
        if condition is None or condition(None, row):
            rows.append(columns(None, row))
            if query.limit is not None and len(rows) >= query.limit:
                break
    return tuple(one.name for one in items), kinds, rows


def moment(as_of: int | str) -> int:
    """A time in milliseconds."""
    if isinstance(as_of, int):
        return as_of
    try:
        return int(cast_between(STRING, TIMESTAMP)(as_of))
    except EvaluationError:
        raise SqlError(f"AS OF '{as_of}' is no time: '2026-01-31T12:00:00' or milliseconds are expected.") from None


def check_pull(query: tree.Query) -> None:
    for clause, given in (
        ("JOIN", query.joins),
        ("GROUP BY", query.group_by),
        ("PARTITION BY", query.partition_by),
        ("WINDOW", query.window),
        ("HAVING", query.having),
    ):
        if given:
            raise SqlError(
                f"Pull queries don't support {clause} clauses. Add EMIT CHANGES for a push query, or create a table."
            )
    for item in query.items:
        if item.expression is not None and calls_in(item.expression, AGGREGATES):
            raise SqlError("Pull queries don't support aggregates. Add EMIT CHANGES for a push query.")


def candidates(view: View | TableRows, relation: Relation, where: tree.Expression | None) -> Rows:
    """Rows of the keys that a condition names, or all of them."""
    keys = key_values(relation, where) if len(relation.keys) == 1 else None
    if keys is None:
        return view.all()
    return [row for key in dict.fromkeys(keys) for row in view.get(key)]


def key_values(relation: Relation, where: tree.Expression | None) -> list[Any] | None:
    """What a condition says the key is: `key = value AND ...`, `key IN (...)`."""
    if isinstance(where, tree.Binary) and where.operator == "AND":
        found = key_values(relation, where.left)
        return found if found is not None else key_values(relation, where.right)
    if isinstance(where, tree.Binary) and where.operator == "=":
        for column, value in ((where.left, where.right), (where.right, where.left)):
            if is_key(relation, column):
                return constants(relation, [value])
    if isinstance(where, tree.InList) and not where.negated and is_key(relation, where.operand):
        return constants(relation, list(where.values))
    return None


def is_key(relation: Relation, node: tree.Expression) -> bool:
    return isinstance(node, tree.Column) and relation.normal(node) in relation.keys[0]


def constants(relation: Relation, values: list[tree.Expression]) -> list[Any] | None:
    found: list[Any] = []
    for one in values:
        try:
            compiled, _ = Relation((), (), relation.functions).compiled(one)
            found.append(frozen(compiled.call(())))
        except (SqlError, EvaluationError):
            return None
    return found
