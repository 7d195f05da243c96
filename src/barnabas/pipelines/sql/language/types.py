"""Types as they are written: `MAP<STRING, ARRAY<DECIMAL(4, 2)>>`, `STRUCT<a INT>`, or the name of a CREATE TYPE."""

from __future__ import annotations

from barnabas.pipelines.sql.errors import SqlSyntaxError, nearest
from barnabas.pipelines.sql.language.cursor import Cursor
from barnabas.pipelines.sql.language.lexer import OPERATOR, QUOTED, WORD
from barnabas.pipelines.sql.types import ALIASES, PRIMITIVES, SqlType, array, decimal, map_of, struct


def parse_type(cursor: Cursor) -> SqlType:
    at = cursor.at
    token = cursor.token
    if token.kind not in (WORD, QUOTED):
        raise cursor.unexpected("a type")
    word = cursor.next().text
    name = ALIASES.get(word.upper(), word.upper())
    if token.kind == QUOTED or word in cursor.types:
        return _custom(cursor, word, at)
    kind = _parametrised(cursor, name)
    if kind is not None:
        return kind
    if name in PRIMITIVES:
        if name == "STRING" and cursor.take("("):  # VARCHAR(n): the length is not kept
            if not cursor.take("STRING"):
                cursor.integer("the greatest length")
            cursor.expect(")")
        return SqlType(name)
    return _custom(cursor, word, at)


def _parametrised(cursor: Cursor, name: str) -> SqlType | None:
    if name == "DECIMAL":
        cursor.expect("(")
        precision = cursor.integer("the precision")
        scale = cursor.integer("the scale") if cursor.take(",") else 0
        cursor.expect(")")
        return decimal(precision, scale)
    if name == "ARRAY":
        cursor.expect("<")
        element = parse_type(cursor)
        close_angle(cursor)
        return array(element)
    if name == "MAP":
        cursor.expect("<")
        key = parse_type(cursor)
        cursor.expect(",")
        value = parse_type(cursor)
        close_angle(cursor)
        return map_of(key, value)
    if name == "STRUCT":
        return _struct(cursor)
    return None


def _struct(cursor: Cursor) -> SqlType:
    if cursor.take("<>"):
        return struct()
    cursor.expect("<")
    fields: list[tuple[str, SqlType]] = []
    while not cursor.sees(">"):
        if fields:
            cursor.expect(",")
        token = cursor.token  # any word is the name of a field
        if token.kind not in (WORD, QUOTED):
            raise cursor.unexpected("the name of a field")
        cursor.next()
        fields.append((token.text, parse_type(cursor)))
    close_angle(cursor)
    return struct(*fields)


def close_angle(cursor: Cursor) -> None:
    """`>`; of `>=` behind a type only the first half."""
    token = cursor.token
    if token.kind == OPERATOR and token.text == ">=":
        cursor.tokens[cursor.index] = type(token)(OPERATOR, "=", token.start + 1, token.end)
        return
    cursor.expect(">")


def _custom(cursor: Cursor, name: str, at: tuple[int, int]) -> SqlType:
    if name not in cursor.types:
        known = [*PRIMITIVES, *ALIASES, "DECIMAL", "ARRAY", "MAP", "STRUCT", *cursor.types]
        raise SqlSyntaxError(f"Cannot resolve unknown type: {name}.{nearest(name, known)}", *at)
    return cursor.types[name]
