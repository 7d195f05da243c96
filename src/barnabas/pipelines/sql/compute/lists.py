"""Lists that a user writes, as IN's and those of arrays and maps: their parts are of one type.

Texts that are written out fit where a number or a truth is wanted, and what is written out fits where a text is.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.language import tree
from barnabas.pipelines.sql.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    NULL,
    STRING,
    SqlType,
    array,
    common,
    decimal,
    map_of,
    struct,
)

if TYPE_CHECKING:
    from barnabas.pipelines.sql.compute.compiler import Code, Compiler

TRUTHS = ("true", "yes", "false", "no")


def one_type(
    compiler: Compiler, nodes: Sequence[tree.Expression], codes: Sequence[Code], what: str
) -> tuple[list[Code], SqlType]:
    """All codes converted to the type that they have in common; the first one that is not null leads."""
    kind = NULL
    for node, code in zip(nodes, codes, strict=True):
        together = joined(compiler, kind, node, code.kind)
        if together is None:
            if what == "IN":
                raise SqlError(f"Cannot compare {kind} to {code.kind} with EQUAL.")
            raise SqlError(f"Cannot construct {what} with mismatching types ({kind} and {code.kind}).")
        kind = together
    return [type(one)(compiler.as_type(one, kind), kind, one.never_null) for one in codes], kind


def joined(compiler: Compiler, kind: SqlType, node: tree.Expression | None, given: SqlType) -> SqlType | None:
    """The type of a list so far together with one more part of it."""
    if kind == NULL:
        return given
    if isinstance(node, tree.Literal) and isinstance(node.value, str) and given == STRING:
        if kind.is_numeric:
            return _with_text(kind, node.value)
        if kind == BOOLEAN:
            return kind if is_truth(node.value) else None
    elif isinstance(node, tree.Literal) and kind == STRING and (given.is_numeric or given == BOOLEAN):
        return kind
    if isinstance(node, tree.ArrayOf) and kind.base == "ARRAY":
        element = _all(compiler, kind.element or NULL, node.elements)
        return None if element is None else array(element)
    if isinstance(node, tree.MapOf) and kind.base == "MAP":
        key = _all(compiler, kind.key or NULL, [one for one, _ in node.entries])
        value = _all(compiler, kind.element or NULL, [one for _, one in node.entries])
        return None if key is None or value is None else map_of(key, value)
    if isinstance(node, tree.StructOf) and kind.base == "STRUCT":
        return _struct(compiler, kind, node, given)
    return common(kind, given)


def _all(compiler: Compiler, kind: SqlType, nodes: Sequence[tree.Expression]) -> SqlType | None:
    found: SqlType | None = kind
    for one in nodes:
        found = None if found is None else joined(compiler, found, one, compiler.compile(one).kind)
    return found


def _struct(compiler: Compiler, kind: SqlType, node: tree.StructOf, given: SqlType) -> SqlType | None:
    written = dict(node.fields)
    found: list[tuple[str, SqlType]] = []
    for name in dict.fromkeys([*(name for name, _ in given.fields), *(name for name, _ in kind.fields)]):
        mine, theirs = kind.field(name), given.field(name)
        together = joined(compiler, mine or NULL, written.get(name), theirs) if theirs is not None else mine
        if together is None:
            return None
        found.append((name, together))
    return struct(*found)


def _with_text(kind: SqlType, text: str) -> SqlType | None:
    try:
        value = Decimal(text.strip())
    except InvalidOperation:
        return None
    if not value.is_finite():
        return None
    if "e" in text.lower():
        return DOUBLE
    if "." not in text:
        return common(kind, INTEGER if -(1 << 31) <= value < 1 << 31 else BIGINT)
    parts = value.as_tuple()
    scale = max(-int(parts.exponent), 0)
    return common(kind, decimal(max(len(parts.digits), scale, 1), scale))


def is_truth(text: str) -> bool:
    low = text.strip().lower()
    return bool(low) and any(one.startswith(low) for one in TRUTHS)
