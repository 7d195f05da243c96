"""SELECT ... FROM ... with its clauses."""

from __future__ import annotations

from barnabas.pipelines.sql.errors import SqlError, SqlSyntaxError
from barnabas.pipelines.sql.language import tree
from barnabas.pipelines.sql.language.cursor import RESERVED, Cursor
from barnabas.pipelines.sql.language.expressions import UNITS, parse_expression, parse_list
from barnabas.pipelines.sql.language.lexer import INTEGER, QUOTED, STRING, WORD

UNIT_MS = {
    "MILLISECOND": 1,
    "SECOND": 1000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": 86_400_000,
    "WEEK": 604_800_000,
    "MONTH": 2_592_000_000,
    "YEAR": 31_536_000_000,
}
# Words that follow a FROM and are names elsewhere.
CLAUSES = ("GRACE", "CROSS")
WINDOWS = ("TUMBLING", "HOPPING", "SESSION")


def parse_query(cursor: Cursor) -> tree.Query:
    cursor.expect("SELECT")
    items = [_item(cursor)]
    while cursor.take(","):
        items.append(_item(cursor))
    cursor.expect("FROM")
    source = _source(cursor)
    as_of = _as_of(cursor)
    joins: list[tree.Join] = []
    while (join := _join(cursor)) is not None:
        joins.append(join)
    window = _window(cursor) if cursor.take("WINDOW") else None
    where = parse_expression(cursor) if cursor.take("WHERE") else None
    group_by = _expressions(cursor) if cursor.take("GROUP", "BY") else ()
    partition_by = _expressions(cursor) if cursor.take("PARTITION", "BY") else ()
    having = parse_expression(cursor) if cursor.take("HAVING") else None
    emit = None
    if cursor.take("EMIT"):
        emit = cursor.take_any("CHANGES", "FINAL")
        if emit is None:
            raise cursor.unexpected("CHANGES", "FINAL")
    limit = cursor.integer("a number of rows") if cursor.take("LIMIT") else None
    if limit is not None and limit < 0:
        raise SqlError(f"LIMIT is a number of rows, not {limit}.")
    return tree.Query(
        tuple(items), source, tuple(joins), window, where, group_by, partition_by, having, emit, limit, as_of
    )


def _expressions(cursor: Cursor) -> tuple[tree.Expression, ...]:
    if cursor.sees("(") and _is_list(cursor):
        cursor.next()
        return parse_list(cursor, 0)
    found = [parse_expression(cursor)]
    while cursor.take(","):
        found.append(parse_expression(cursor))
    return tuple(found)


def _is_list(cursor: Cursor) -> bool:
    """Whether the parenthesis that opens here is around all of the clause: `GROUP BY (a, b)`."""
    depth, distance, commas = 0, 0, 0
    while True:
        token = cursor.ahead(distance)
        if token.kind == "end":
            return False
        depth += (token.text == "(") - (token.text == ")") if token.kind == "operator" else 0
        commas += token.text == "," and depth == 1 and token.kind == "operator"
        if depth == 0:
            return commas > 0
        distance += 1


def _item(cursor: Cursor) -> tree.SelectItem:
    at = cursor.at
    if cursor.take("*"):
        return tree.SelectItem(None, at=at)
    if cursor.ahead().text == "." and cursor.ahead(2).text == "*":
        source = cursor.name("the name of a source")
        cursor.expect(".", "*")
        return tree.SelectItem(None, source=source, at=at)
    if cursor.sees("FROM"):
        raise SqlSyntaxError("SELECT names no column: mismatched input 'FROM', expecting an expression or '*'.", *at)
    expression = parse_expression(cursor)
    if cursor.take("->", "*"):
        return tree.SelectItem(None, struct=expression, at=at)
    return tree.SelectItem(expression, _alias(cursor), at=at)


def _alias(cursor: Cursor) -> str | None:
    if cursor.take("AS"):
        return cursor.name("an alias")
    token = cursor.token
    if token.kind == QUOTED or (token.kind == WORD and token.text not in RESERVED and token.text not in CLAUSES):
        return cursor.next().text
    return None


def _source(cursor: Cursor) -> tree.Source:
    at = cursor.at
    if cursor.sees("("):
        raise SqlSyntaxError("Subqueries are not supported here: create a stream or table of it first.", *at)
    name = cursor.name("a stream or table")
    return tree.Source(name, (None if _sees_as_of(cursor) else _alias(cursor)) or name, at)


def _sees_as_of(cursor: Cursor) -> bool:
    """A time is behind it, or else OF is an alias."""
    return cursor.sees("AS", "OF") and cursor.ahead(2).kind in (STRING, INTEGER)


def _as_of(cursor: Cursor) -> int | str | None:
    if not _sees_as_of(cursor):
        return None
    cursor.take("AS", "OF")
    return cursor.string() if cursor.token.kind == STRING else cursor.integer()


def _join(cursor: Cursor) -> tree.Join | None:
    kind = _join_kind(cursor)
    if kind is None:
        return None
    source = _source(cursor)
    before_ms = after_ms = grace_ms = None
    if cursor.take("WITHIN"):
        if cursor.take("("):
            before_ms = duration(cursor)
            cursor.expect(",")
            after_ms = duration(cursor)
            cursor.expect(")")
        else:
            before_ms = after_ms = duration(cursor)
        if cursor.take("GRACE", "PERIOD"):
            grace_ms = duration(cursor)
    if not cursor.take("ON"):
        raise cursor.unexpected("ON")
    return tree.Join(kind, source, parse_expression(cursor), before_ms, after_ms, grace_ms)


def _join_kind(cursor: Cursor) -> str | None:
    if cursor.take("JOIN") or cursor.take("INNER", "JOIN"):
        return "INNER"
    for kind in ("LEFT", "RIGHT", "FULL"):
        if cursor.take(kind):
            cursor.take("OUTER")
            cursor.expect("JOIN")
            return "OUTER" if kind == "FULL" else kind
    if cursor.take("OUTER", "JOIN"):
        return "OUTER"
    return None


def duration(cursor: Cursor) -> int:
    """`5 MINUTES`, in milliseconds."""
    at, number = cursor.at, cursor.integer("a number")
    if number < 0:
        raise SqlSyntaxError("a time can't be negative", *at)
    if cursor.token.text not in UNITS:
        raise cursor.unexpected("SECONDS", "MINUTES", "HOURS", "DAYS", "MILLISECONDS", "WEEKS", "MONTHS", "YEARS")
    return number * UNIT_MS[UNITS[cursor.next().text]]


def _window(cursor: Cursor) -> tree.Window:
    if cursor.token.text not in WINDOWS and cursor.ahead().text in WINDOWS:
        cursor.name("the name of a window")
    kind = cursor.take_any(*WINDOWS)
    if kind is None:
        raise cursor.unexpected(*WINDOWS)
    at = cursor.at
    cursor.expect("(")
    size_ms = advance_ms = retention_ms = grace_ms = None
    if kind == "SESSION":
        size_ms = duration(cursor)
    else:
        cursor.expect("SIZE")
        size_ms = duration(cursor)
    while cursor.take(","):
        if kind == "HOPPING" and cursor.take("ADVANCE", "BY"):
            advance_ms = duration(cursor)
        elif cursor.take("RETENTION"):
            retention_ms = duration(cursor)
        elif cursor.take("GRACE", "PERIOD"):
            grace_ms = duration(cursor)
        else:
            raise cursor.unexpected()
    cursor.expect(")")
    if kind == "HOPPING" and advance_ms is None:
        raise SqlSyntaxError("a HOPPING window needs ADVANCE BY", *at)
    return tree.Window(kind, size_ms, advance_ms, retention_ms, grace_ms)
