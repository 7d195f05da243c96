"""`SELECT ... FROM table WHERE key = value;`, the pull query that programs ask a thousand times.

What differs from one to the next is the value. The rest of the text is parsed and compiled once: a later text that has
the same shape takes the columns from here and its rows from the view.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from barnabas.pipelines.sql.language import tree
from barnabas.pipelines.sql.metastore import DataSource, Metastore
from barnabas.pipelines.sql.operators import Columns
from barnabas.pipelines.sql.plan import outputs
from barnabas.pipelines.sql.relations import relation_of
from barnabas.pipelines.sql.server.pulls import Rows, check_pull
from barnabas.pipelines.sql.server.views import Views
from barnabas.pipelines.sql.types import SqlType

SHAPE = re.compile(
    r"(?P<before>\s*SELECT\s[^;']+?\sFROM\s+\w+\s+WHERE\s+\w+\s*=\s*)(?:'(?P<text>[^']*)'|(?P<number>\d{1,18}))\s*;?\s*",
    re.IGNORECASE,
)
KEPT_MAX = 1000


@dataclass(frozen=True)
class Lookup:
    source: DataSource
    functions: int  # how many there were
    names: tuple[str, ...]
    kinds: list[SqlType]
    columns: Columns


class Lookups:
    def __init__(self, views: Views) -> None:
        self._views = views
        self._kept: dict[tuple[str, bool], Lookup] = {}

    def answer(self, metastore: Metastore, text: str) -> tuple[tuple[str, ...], list[SqlType], Rows] | None:
        """None if the text has another shape, or was not kept."""
        found = SHAPE.fullmatch(text)
        if found is None:
            return None
        lookup = self._kept.get((found["before"], found["text"] is not None))
        if lookup is None:
            return None
        if metastore.sources.get(lookup.source.name) is not lookup.source:
            return None
        if len(metastore.functions) != lookup.functions:
            return None
        key: Any = found["text"] if found["text"] is not None else int(found["number"])
        rows = self._views.of(lookup.source).get(key)
        return lookup.names, lookup.kinds, [lookup.columns(None, row) for row in rows]

    def keep(self, metastore: Metastore, query: tree.Query, text: str) -> None:
        """Of a pull query that was answered: for those that follow it."""
        found = SHAPE.fullmatch(text)
        if found is None or query.limit is not None or not isinstance(query.where, tree.Binary):
            return
        source = metastore.source(query.source.name)
        relation = relation_of(source, query.source.alias, metastore.functions)
        column, value = query.where.left, query.where.right
        wanted = ("STRING",) if found["text"] is not None else ("INTEGER", "BIGINT")
        if len(source.keys) != 1 or source.keys[0].kind.base not in wanted or query.where.operator != "=":
            return
        if not isinstance(value, tree.Literal) or not isinstance(column, tree.Column):
            return
        if relation.normal(column) not in relation.keys[0]:
            return
        check_pull(query)
        items = outputs.expanded(relation, query.items)
        each, whole, kinds = relation.compiled_all([one.expression for one in items])
        if len(self._kept) >= KEPT_MAX:
            self._kept.clear()
        names = tuple(one.name for one in items)
        lookup = Lookup(source, len(metastore.functions), names, kinds, Columns(whole, each))
        self._kept[found["before"], found["text"] is not None] = lookup
