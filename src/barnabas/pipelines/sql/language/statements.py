"""Statements: `parse_statements(text)` gives a tree for each, with its own text.

What is not a statement is refused with line, column and what was expected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from barnabas.pipelines.sql.errors import SqlSyntaxError
from barnabas.pipelines.sql.language import tree
from barnabas.pipelines.sql.language.batches import is_batch
from barnabas.pipelines.sql.language.cursor import Cursor
from barnabas.pipelines.sql.language.expressions import parse_expression, parse_list
from barnabas.pipelines.sql.language.lexer import (
    DECIMAL,
    DOUBLE,
    END,
    INTEGER,
    OPERATOR,
    QUOTED,
    STRING,
    WORD,
    Token,
    tokens_of,
    with_variables,
)
from barnabas.pipelines.sql.language.queries import duration, parse_query
from barnabas.pipelines.sql.language.types import close_angle, parse_type
from barnabas.pipelines.sql.types import BYTES, SqlType

SHOWN = (
    "STREAMS",
    "TABLES",
    "TOPICS",
    "QUERIES",
    "FUNCTIONS",
    "PROPERTIES",
    "TYPES",
    "VARIABLES",
    "CONNECTORS",
)


def parse_statements(
    source: str, types: Mapping[str, SqlType] | None = None, variables: Mapping[str, str] | None = None
) -> list[tree.Statement]:
    """All statements of a text, each ended by a semicolon; the last one may do without."""
    return list(each_statement(source, dict(types or {}), dict(variables or {})))


def each_statement(source: str, types: dict[str, SqlType], variables: dict[str, str]) -> Iterator[tree.Statement]:
    """One by one. CREATE TYPE, DEFINE and UNDEFINE hold for those behind them."""
    for text in split_statements(source):
        statement = parse_statement(with_variables(text, variables), types)
        if isinstance(statement, tree.CreateType):
            types[statement.name] = statement.kind
        elif isinstance(statement, tree.Define):
            if statement.value is None:
                variables.pop(statement.name, None)
            else:
                variables[statement.name] = statement.value
        yield statement


def split_statements(source: str) -> list[str]:
    """Texts between semicolons. Lines and columns are kept: what stands before a statement is blank in its text."""
    tokens = tokens_with_variables(source)
    found: list[str] = []
    start = 0
    for token in tokens:
        if token.kind == END or (token.kind == "operator" and token.text == ";"):
            text = source[start : token.start]
            if any(start <= one.start < token.start for one in tokens):
                blank = "".join(letter if letter == "\n" else " " for letter in source[:start])
                found.append(blank + text)
            start = token.end
    return found


def tokens_with_variables(source: str) -> list[Token]:
    """Of a text whose variables may have no value yet: each stands for a name."""
    return tokens_of(source.replace("${", "__") if "${" in source else source)


def is_ended(source: str) -> bool:
    """Whether a text that is being typed ends with a semicolon, outside of quotes and comments, or can't go on."""
    try:
        tokens = tokens_with_variables(source)
    except SqlSyntaxError:
        unclosed = re.sub(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'", "", source, flags=re.DOTALL)
        return "'" not in unclosed and "/*" not in unclosed and source.rstrip().endswith(";")
    return len(tokens) > 1 and tokens[-2].kind == OPERATOR and tokens[-2].text == ";"


def parse_statement(source: str, types: Mapping[str, SqlType] | None = None) -> tree.Statement:
    cursor = Cursor(source, types)
    statement = _statement(cursor)
    cursor.take(";")
    if cursor.token.kind != END:
        raise cursor.unexpected(*cursor.expected, ";")
    return replace(statement, text=source.strip().rstrip(";") + ";")


def _statement(cursor: Cursor) -> tree.Statement:
    for word, parse in STARTS.items():
        if cursor.token.kind == WORD and cursor.token.text == word:
            return parse(cursor)
    raise cursor.unexpected(*(word for word in STARTS if word != "WITH"))


def _create(cursor: Cursor) -> tree.Statement:
    cursor.expect("CREATE")
    or_replace = cursor.take("OR", "REPLACE")
    if cursor.take("TYPE"):
        return _create_type(cursor)
    if cursor.take("FUNCTION"):
        return _create_function(cursor)
    if cursor.take("SINK", "CONNECTOR"):
        return _create_connector(cursor, source=False)
    if cursor.take("SOURCE", "CONNECTOR"):
        return _create_connector(cursor, source=True)
    read_only = cursor.take("SOURCE")
    kind = cursor.take_any("STREAM", "TABLE")
    if kind is None:
        raise cursor.unexpected()
    table = kind == "TABLE"
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    name = cursor.name("the name of a stream" if not table else "the name of a table")
    columns = _columns(cursor) if cursor.take("(") else ()
    properties = _properties(cursor)
    if not columns and cursor.take("AS"):
        return tree.CreateAs(table, name, parse_query(cursor), properties, or_replace, if_not_exists)
    return tree.CreateSource(table, name, columns, properties, or_replace, if_not_exists, read_only)


def _columns(cursor: Cursor) -> tuple[tree.ColumnDefinition, ...]:
    found: list[tree.ColumnDefinition] = []
    while not cursor.take(")"):
        if found:
            cursor.expect(",")
        found.append(_column(cursor))
    return tuple(found)


def _column(cursor: Cursor) -> tree.ColumnDefinition:
    name = cursor.name("a column")
    kind = parse_type(cursor)
    if cursor.take("PRIMARY", "KEY"):
        return tree.ColumnDefinition(name, kind, "PRIMARY KEY")
    if cursor.take("KEY"):
        return tree.ColumnDefinition(name, kind, "KEY")
    at = cursor.at
    if cursor.take("HEADERS"):
        return tree.ColumnDefinition(name, kind, "HEADERS")
    if cursor.take("HEADER"):
        cursor.expect("(")
        header = cursor.string("the key of a header")
        cursor.expect(")")
        if kind != BYTES:
            raise SqlSyntaxError(f"Column {name} of a HEADER must be of type BYTES, not {kind}.", *at)
        return tree.ColumnDefinition(name, kind, "HEADERS", header)
    return tree.ColumnDefinition(name, kind)


def _properties(cursor: Cursor) -> tree.Properties:
    if not cursor.take("WITH"):
        return {}
    cursor.expect("(")
    found: tree.Properties = {}
    while not cursor.take(")"):
        if found:
            cursor.expect(",")
        token = cursor.token
        if token.kind not in (WORD, QUOTED, STRING):
            raise cursor.unexpected("the name of a property")
        name = cursor.next().text
        cursor.expect("=")
        found[name if token.kind != WORD else name.upper()] = _value(cursor)
    return found


def _value(cursor: Cursor) -> Any:
    negative = cursor.take("-")
    token = cursor.token
    if token.kind == STRING:
        return cursor.next().text
    if token.kind == INTEGER:
        return int(cursor.next().text) * (-1 if negative else 1)
    if token.kind in (DECIMAL, DOUBLE):
        return float(cursor.next().text) * (-1 if negative else 1)
    if token.kind == WORD:
        word = cursor.next().text
        return {"TRUE": True, "FALSE": False, "NULL": None}.get(word, word)
    raise cursor.unexpected("a value")


def _create_type(cursor: Cursor) -> tree.Statement:
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    name = cursor.name("the name of a type")
    cursor.expect("AS")
    return tree.CreateType(name, parse_type(cursor), if_not_exists)


def _create_function(cursor: Cursor) -> tree.Statement:
    name = cursor.name("the name of a function")
    cursor.expect("(")
    kinds: list[SqlType] = []
    while not cursor.take(")"):
        if kinds:
            cursor.expect(",")
        if cursor.ahead().kind == WORD:  # a name before the type
            cursor.name("an argument")
        kinds.append(parse_type(cursor))
    cursor.expect("RETURNS")
    returns = parse_type(cursor)
    cursor.expect("AS")
    return tree.CreateFunction(name.upper(), tuple(kinds), returns, cursor.string("'module:function'"))


def _create_connector(cursor: Cursor, *, source: bool) -> tree.Statement:
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    name = _name_or_text(cursor, "the name of a connector")
    return tree.CreateConnector(name, source, _properties(cursor), if_not_exists)


def _insert(cursor: Cursor) -> tree.Statement:
    cursor.expect("INSERT", "INTO")
    target = cursor.name("a stream or table")
    properties = _properties(cursor)
    if cursor.sees("SELECT"):
        return tree.InsertSelect(target, parse_query(cursor), properties)
    names: list[str] = []
    if cursor.take("("):
        while not cursor.take(")"):
            if names:
                cursor.expect(",")
            names.append(cursor.name("a column"))
    cursor.expect("VALUES", "(")
    return tree.InsertValues(target, tuple(names), parse_list(cursor, 0))


def _drop(cursor: Cursor) -> tree.Statement:
    cursor.expect("DROP")
    kind = cursor.take_any("STREAM", "TABLE", "TYPE", "CONNECTOR")
    if kind is None:
        raise cursor.unexpected()
    if_exists = cursor.take("IF", "EXISTS")
    name = _name_or_text(cursor, "a name")
    if kind == "TYPE":
        return tree.DropType(name, if_exists)
    if kind == "CONNECTOR":
        return tree.DropConnector(name, if_exists)
    return tree.DropSource(kind == "TABLE", name, if_exists, cursor.take("DELETE", "TOPIC"))


def _alter(cursor: Cursor) -> tree.Statement:
    cursor.expect("ALTER")
    if cursor.take("SYSTEM"):
        name = cursor.string("the name of a property")
        cursor.expect("=")
        return tree.SetProperty(name, cursor.string(), system=True)
    kind = cursor.take_any("STREAM", "TABLE")
    if kind is None:
        raise cursor.unexpected()
    name = cursor.name("a name")
    columns: list[tree.ColumnDefinition] = []
    while not columns or cursor.take(","):
        cursor.expect("ADD")
        cursor.take("COLUMN")
        columns.append(tree.ColumnDefinition(cursor.name("a column"), parse_type(cursor)))
    return tree.AlterSource(kind == "TABLE", name, tuple(columns))


def _show(cursor: Cursor) -> tree.Statement:
    cursor.next()
    if cursor.take("CONNECTOR", "PLUGINS"):
        return tree.Show("CONNECTOR PLUGINS")
    everything = cursor.take("ALL")
    kind = cursor.take_any("SOURCE", "SINK") if not everything else None
    what = cursor.take_any(*SHOWN)
    if what is None:
        raise cursor.unexpected(*SHOWN)
    return tree.Show(what if kind is None else f"{kind} {what}", cursor.take("EXTENDED"), everything)


def _describe(cursor: Cursor) -> tree.Statement:
    cursor.expect("DESCRIBE")
    if cursor.take("FUNCTION"):
        return tree.Describe("FUNCTION", _name_or_text(cursor, "a function", reserved=True).upper())
    if cursor.take("CONNECTOR"):
        return tree.Describe("CONNECTOR", _name_or_text(cursor, "a connector"))
    if what := cursor.take_any("STREAMS", "TABLES"):
        return tree.Describe(what, "", cursor.take("EXTENDED"))
    early = cursor.take("EXTENDED")
    name = cursor.name("a stream or table")
    return tree.Describe("SOURCE", name, cursor.take("EXTENDED") or early)


def _explain(cursor: Cursor) -> tree.Statement:
    cursor.expect("EXPLAIN")
    cursor.take("ANALYZE")
    if cursor.token.text in ("SELECT", "CREATE", "INSERT") and cursor.token.kind == WORD:
        statement = _statement(cursor)
        last = None
        if cursor.take("ON"):
            cursor.expect("LAST")
            last = cursor.integer("a number of records")
        return tree.Explain(None, statement, last)
    return tree.Explain(cursor.name("the id of a query"), None)


def _print(cursor: Cursor) -> tree.Statement:
    cursor.expect("PRINT")
    start = cursor.token
    topic = _topic(cursor)
    from_beginning, interval, limit = False, 1, None
    while True:
        if cursor.take("FROM", "BEGINNING"):
            from_beginning = True
        elif cursor.take("INTERVAL") or cursor.take("SAMPLE"):
            interval = cursor.integer()
        elif cursor.take("LIMIT"):
            limit = cursor.integer()
        else:
            break
    if interval < 1 or (limit is not None and limit < 0):
        raise SqlSyntaxError(f"PRINT {start.text}: INTERVAL and LIMIT must be positive", *cursor.at)
    return tree.Print(topic, from_beginning, interval, limit)


def _topic(cursor: Cursor) -> str:
    """Topics are case-sensitive, and may have dots and dashes: as it is written."""
    token = cursor.token
    if token.kind in (QUOTED, STRING):
        return cursor.next().text
    if token.kind not in (WORD, INTEGER):
        raise cursor.unexpected("the name of a topic")
    end = cursor.next().end
    while cursor.token.start == end and cursor.token.kind != END and cursor.token.text != ";":
        end = cursor.next().end
    return cursor.source[token.start : end]


def _action(cursor: Cursor) -> tree.Statement:
    action = cursor.next().text
    cursor.take("QUERY")
    if cursor.take("ALL"):
        return tree.QueryAction(action, None)
    return tree.QueryAction(action, _name_or_text(cursor, "the id of a query"))


def _set(cursor: Cursor) -> tree.Statement:
    unset = cursor.next().text == "UNSET"
    name = cursor.string("the name of a property in quotes")
    if unset:
        return tree.SetProperty(name, None)
    cursor.expect("=")
    return tree.SetProperty(name, cursor.string("the value in quotes"))


def _define(cursor: Cursor) -> tree.Statement:
    undefine = cursor.next().text == "UNDEFINE"
    name = cursor.name("the name of a variable")
    if undefine:
        return tree.Define(name, None)
    cursor.expect("=")
    return tree.Define(name, cursor.string("the value in quotes"))


def _run(cursor: Cursor) -> tree.Statement:
    cursor.expect("RUN", "SCRIPT")
    return tree.RunScript(cursor.string("the path of a file"))


def _assert(cursor: Cursor) -> tree.Statement:
    cursor.expect("ASSERT")
    exists = not cursor.take("NOT", "EXISTS")
    what = cursor.take_any("TOPIC", "SCHEMA")
    if what is None:
        raise cursor.unexpected()
    properties: tree.Properties = {}
    if what == "TOPIC":
        properties["TOPIC"] = _topic(cursor)
        properties |= _properties(cursor)
    else:
        while key := cursor.take_any("SUBJECT", "ID"):
            properties[key] = cursor.integer() if key == "ID" else _topic(cursor)
    timeout_ms = duration(cursor) if cursor.take("TIMEOUT") else 1000
    return tree.Assert(what, properties, exists, timeout_ms)


def _select(cursor: Cursor) -> tree.Statement:
    if not cursor.sees("SELECT", "FROM") and is_batch(cursor.tokens[cursor.index :]):
        while cursor.token.kind != END and not cursor.sees(";"):
            cursor.next()
        return tree.BatchSelect()
    return tree.SelectStatement(parse_query(cursor))


def _name_or_text(cursor: Cursor, what: str, *, reserved: bool = False) -> str:
    if cursor.token.kind == STRING or (reserved and cursor.token.kind == WORD):
        return cursor.next().text
    return cursor.name(what)


STARTS: dict[str, Callable[[Cursor], tree.Statement]] = {
    "SELECT": _select,
    "WITH": _select,
    "CREATE": _create,
    "INSERT": _insert,
    "DROP": _drop,
    "ALTER": _alter,
    "SHOW": _show,
    "LIST": _show,
    "DESCRIBE": _describe,
    "EXPLAIN": _explain,
    "PRINT": _print,
    "TERMINATE": _action,
    "PAUSE": _action,
    "RESUME": _action,
    "SET": _set,
    "UNSET": _set,
    "DEFINE": _define,
    "UNDEFINE": _define,
    "RUN": _run,
    "ASSERT": _assert,
}

__all__ = ["close_angle", "each_statement", "parse_expression", "parse_statement", "parse_statements"]
