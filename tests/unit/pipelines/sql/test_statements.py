"""Statements to trees, and the sentences for what is none."""

from __future__ import annotations

import pytest

from barnabas.pipelines.sql.errors import SqlError, SqlSyntaxError
from barnabas.pipelines.sql.language import tree
from barnabas.pipelines.sql.language.statements import parse_statement, parse_statements, split_statements
from barnabas.pipelines.sql.types import INTEGER, STRING, array, decimal, map_of, struct


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("SELCT 1;", "line 1:1: mismatched input 'SELCT', expecting 'SELECT', 'CREATE', 'INSERT'"),
        ("select from x;", "line 1:8: SELECT names no column"),
        ("SELECT a\nFROM s\nWHERE ;", "line 3:7: unexpected end of statement, expecting an expression"),
        ("SELECT a FROM s EMIT;", "line 1:21: unexpected end of statement, expecting 'CHANGES', 'FINAL'."),
        ("SELECT 'a FROM s;", "line 1:8: this text has no closing quote"),
        ("SELECT a FROM s /* x", "line 1:17: this comment has no end"),
        ("CREATE STREAM s (a INTT) WITH (x='y');", "line 1:20: Cannot resolve unknown type: INTT. Did you mean 'INT'?"),
        ("SELECT a FROM (SELECT 1) EMIT CHANGES;", "line 1:15: Subqueries are not supported here"),
        ("SELECT a FROM s WINDOW HOPPING (SIZE 1 SECOND) GROUP BY a;", "line 1:32: a HOPPING window needs ADVANCE BY"),
        ("SELECT a FROM s LIMIT x;", "line 1:23: mismatched input 'X', expecting a number of rows."),
        ("DROP STREAM;", "line 1:12: unexpected end of statement, expecting a name."),
        ("CREATE STREAM select (a INT);", "line 1:15: SELECT is a reserved word: quote it to use it as the name"),
    ],
)
def test_what_is_no_statement_is_told_with_its_place(text: str, sentence: str) -> None:
    with pytest.raises(SqlSyntaxError) as refused:
        parse_statements(text)
    assert refused.value.message.startswith(sentence)


def test_nesting_without_end_is_refused_before_the_stack_is_full() -> None:
    for text in ("(" * 5000 + "1" + ")" * 5000, "NOT " * 5000 + "TRUE", "- " * 5000 + "1"):
        with pytest.raises(SqlSyntaxError, match="nested too deeply"):
            parse_statements(f"SELECT {text} FROM s;")


def test_names_are_upper_case_unless_they_are_quoted() -> None:
    statement = parse_statement('SELECT a, `b`, "c", key, type, 1st FROM my_stream AS m EMIT CHANGES;')
    assert isinstance(statement, tree.SelectStatement)
    names = [one.expression.name for one in statement.query.items if isinstance(one.expression, tree.Column)]
    assert names == ["A", "b", "c", "KEY", "TYPE", "1ST"]
    assert statement.query.source.alias == "M"


def test_columns_have_nested_types() -> None:
    text = "CREATE TABLE t (id INT PRIMARY KEY, m MAP<STRING, ARRAY<DECIMAL(4, 2)>>, s STRUCT<long INT, x VARCHAR>);"
    statement = parse_statement(text)
    assert isinstance(statement, tree.CreateSource)
    assert [one.kind for one in statement.columns] == [
        INTEGER,
        map_of(STRING, array(decimal(4, 2))),
        struct(("LONG", INTEGER), ("X", STRING)),
    ]
    assert [one.role for one in statement.columns] == ["PRIMARY KEY", "VALUE", "VALUE"]


def test_statements_are_split_outside_of_texts_and_comments() -> None:
    text = "SHOW STREAMS; -- a; b\nPRINT 'a;b'; /* ; */ SHOW TABLES"
    assert [one.strip() for one in split_statements(text)] == [
        "SHOW STREAMS",
        "-- a; b\nPRINT 'a;b'",
        "/* ; */ SHOW TABLES",
    ]


def test_variables_are_put_in_and_must_be_there() -> None:
    (_, shown) = parse_statements("DEFINE t = 'my-topic'; PRINT '${t}';")
    assert shown == tree.Print("my-topic")
    with pytest.raises(SqlError, match="Variable 'tt' is not defined"):
        parse_statements("DEFINE t = 'x'; PRINT '${tt}';")


def test_topics_are_printed_as_they_are_written() -> None:
    assert parse_statement("PRINT my-Topic.1 FROM BEGINNING INTERVAL 2 LIMIT 3;") == tree.Print(
        "my-Topic.1", True, 2, 3
    )


def test_as_of_is_a_time_and_of_is_a_name_elsewhere() -> None:
    def query(text: str) -> tree.Query:
        statement = parse_statement(text)
        assert isinstance(statement, tree.SelectStatement)
        return statement.query

    assert query("SELECT * FROM t AS OF 1000 WHERE v > 1 LIMIT 2;").as_of == 1000
    assert query("SELECT * FROM t AS OF '2026-01-01';").as_of == "2026-01-01"
    found = query("SELECT of.v FROM t AS of WHERE of.v > 1;")
    assert (found.as_of, found.source.alias) == (None, "OF")
