"""Rows on their way through a query: what their columns are called, and where they lie in a row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from barnabas.pipelines.sql.compute.compiler import Compiled, Compiler
from barnabas.pipelines.sql.errors import SqlError, SqlSyntaxError, nearest
from barnabas.pipelines.sql.language import tree
from barnabas.pipelines.sql.metastore import DataSource
from barnabas.pipelines.sql.types import BIGINT, INTEGER, SqlType

ROWTIME, ROWPARTITION, ROWOFFSET, WINDOWSTART, WINDOWEND = (
    "ROWTIME",
    "ROWPARTITION",
    "ROWOFFSET",
    "WINDOWSTART",
    "WINDOWEND",
)
PSEUDO = (ROWTIME, ROWPARTITION, ROWOFFSET)


@dataclass(frozen=True)
class RelationColumn:
    """`pseudo` ones are not part of a star."""

    source: str | None
    name: str
    kind: SqlType
    pseudo: bool = False
    key: bool = False


@dataclass(frozen=True)
class Relation:
    """Columns in the order of a row's values. `keys` are the expressions that make the record's key; for each there may
    be several that are always equal."""

    columns: tuple[RelationColumn, ...]
    keys: tuple[tuple[tree.Expression, ...], ...] = ()
    functions: Any = None  # CREATE FUNCTION's
    sources: int = 1
    same_as_key: tuple[tree.Expression, ...] = ()  # what else always equals the only key, but can't stand for it
    only_shown: tuple[tree.Expression, ...] = ()  # keys that are null where the other side of a join is missing
    key_names: tuple[str, ...] = ()  # of keys that PARTITION BY computes, in a star

    def index(self, column: tree.Column) -> int:
        found = [
            number
            for number, one in enumerate(self.columns)
            if one.name == column.name and column.source in (None, one.source)
        ]
        if len(found) == 1:
            return found[0]
        if found:
            shown = " or ".join(f"{self.columns[at].source}.{column.name}" for at in found)
            raise SqlSyntaxError(f"Column '{column.name}' is ambiguous. Could be {shown}.", *column.at)
        known_sources = [one.source for one in self.columns if one.source is not None]
        if column.source is not None and column.source not in known_sources:
            hint = nearest(column.source, list(dict.fromkeys(known_sources)))
            raise SqlSyntaxError(f"'{column.source}' is not a valid stream/table name or alias.{hint}", *column.at)
        shown = column.name if column.source is None else f"{column.source}.{column.name}"
        hint = nearest(column.name, [one.name for one in self.columns])
        raise SqlSyntaxError(f"Column '{shown}' cannot be resolved.{hint}", *column.at)

    def scope(self, column: tree.Column) -> tuple[str, SqlType]:
        at = self.index(column)
        return f"r[{at}]", self.columns[at].kind

    def compiler(self) -> Compiler:
        return Compiler(self.scope, self.functions)

    def compiled(self, expression: tree.Expression) -> tuple[Compiled, SqlType]:
        compiler = self.compiler()
        code = compiler.compile(expression)
        return compiler.function(code.source), code.kind

    def compiled_all(self, expressions: list[tree.Expression]) -> tuple[list[Compiled], Compiled, list[SqlType]]:
        """Each for itself, and all in one function that gives a tuple."""
        found = [self.compiled(one) for one in expressions]
        compiler = self.compiler()
        whole = compiler.function("(" + "".join(f"{compiler.compile(one).source}, " for one in expressions) + ")")
        return [one for one, _ in found], whole, [kind for _, kind in found]

    def normal(self, expression: tree.Expression, parameters: frozenset[str] = frozenset()) -> tree.Expression:
        """With every column named by its source too, so that equal expressions are equal. `parameters` are those of the
        lambdas around it."""

        def resolved(node: tree.Expression) -> tree.Expression | None:
            if isinstance(node, tree.Lambda):
                return replace(node, body=self.normal(node.body, parameters | set(node.parameters)))
            if isinstance(node, tree.Column):
                if node.source is None and node.name in parameters:
                    return node
                one = self.columns[self.index(node)]
                return tree.Column(one.name, one.source)
            return None

        found: tree.Expression = rewritten(expression, resolved)
        return found

    def star(self, source: str | None = None) -> list[tuple[str, tree.Expression]]:
        """Names and expressions. Behind PARTITION BY the new key comes first, and what was the key last."""
        found = [one for one in self.columns if not one.pseudo and source in (None, one.source)]
        if source is not None and not found:
            raise SqlError(f"'{source}' is not a valid stream/table name or alias.")
        if self.key_names:
            sources = list(dict.fromkeys(one.source for one in found))
            found = sorted(found, key=lambda one: (sources.index(one.source), one.key))
        named: list[tuple[str, tree.Expression]] = []
        for one in found:
            prefix = f"{one.source}_" if self.sources > 1 and one.source else ""
            named.append((prefix + one.name, tree.Column(one.name, one.source)))
        keys = [(one, key[0]) for one, key in zip(self.key_names, self.keys, strict=False)]
        if source is not None:
            keys = [(name, one) for name, one in keys if isinstance(one, tree.Column) and one.source == source]
        first = [next((each for each in named if each[1] == key), (name, key)) for name, key in keys]
        return [*first, *(one for one in named if one[1] not in [key for _, key in first])]


def check_key(kind: SqlType, name: str) -> None:
    """Entries of a map have no order, so equal maps may be unequal bytes."""
    if holds_map(kind):
        raise SqlError(f"A key can't be a MAP, nor hold one: `{name}` is {kind}.")


def holds_map(kind: SqlType) -> bool:
    inner = [kind.element] if kind.element is not None else [one for _, one in kind.fields]
    return kind.base == "MAP" or any(map(holds_map, inner))


def relation_of(source: DataSource, alias: str, functions: Any) -> Relation:
    columns = [RelationColumn(alias, one.name, one.kind, key=True) for one in source.keys]
    if source.window is not None:
        columns += [RelationColumn(alias, name, BIGINT) for name in (WINDOWSTART, WINDOWEND)]
    columns += [RelationColumn(alias, one.name, one.kind) for one in (*source.values, *source.headers)]
    columns += [
        RelationColumn(alias, ROWTIME, BIGINT, pseudo=True),
        RelationColumn(alias, ROWPARTITION, INTEGER, pseudo=True),
        RelationColumn(alias, ROWOFFSET, BIGINT, pseudo=True),
    ]
    keys = tuple((tree.Column(one.name, alias),) for one in source.keys)
    return Relation(tuple(columns), keys, functions)


def joined(left: Relation, right: Relation, keys: tuple[tuple[tree.Expression, ...], ...]) -> Relation:
    return replace(left, columns=(*left.columns, *right.columns), keys=keys, sources=left.sources + right.sources)


def rewritten(expression: Any, change: Any) -> Any:
    """The tree with what `change` gives in place of nodes; it gives None for those that stay."""
    import dataclasses

    found = change(expression) if isinstance(expression, tree.Expression) else None
    if found is not None:
        return found
    if isinstance(expression, tuple):
        return tuple(rewritten(one, change) for one in expression)
    if not isinstance(expression, tree.Expression):
        return expression
    inner = {
        one.name: rewritten(getattr(expression, one.name), change)
        for one in dataclasses.fields(expression)
        if one.name != "at"
    }
    return replace(expression, **inner)


def calls_in(expression: Any, names: Any) -> list[tree.Call]:
    """Calls of these functions, outermost first."""
    found: list[tree.Call] = []

    def look(node: tree.Expression) -> tree.Expression | None:
        if isinstance(node, tree.Call) and node.name in names:
            found.append(node)
            return node
        return None

    rewritten(expression, look)
    return found


def columns_in(expression: Any, parameters: tuple[str, ...] = ()) -> list[tree.Column]:
    found: list[tree.Column] = []

    def look(node: tree.Expression) -> tree.Expression | None:
        if isinstance(node, tree.Lambda):
            found.extend(one for one in columns_in(node.body) if one.name not in node.parameters)
            return node
        if isinstance(node, tree.Column):
            found.append(node)
        return None

    rewritten(expression, look)
    return found
