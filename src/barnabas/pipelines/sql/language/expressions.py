"""Expressions, by descent: OR, AND, NOT, comparison, + -, * / %, sign, postfix (-> [] .), primary."""

from __future__ import annotations

import math
from decimal import Decimal

from barnabas.pipelines.sql.errors import SqlSyntaxError
from barnabas.pipelines.sql.language import tree
from barnabas.pipelines.sql.language.cursor import RESERVED, Cursor
from barnabas.pipelines.sql.language.lexer import DECIMAL, DOUBLE, INTEGER, OPERATOR, QUOTED, STRING, WORD
from barnabas.pipelines.sql.language.types import parse_type
from barnabas.pipelines.sql.types import BIGINT, BOOLEAN, NULL, UNIT, decimal
from barnabas.pipelines.sql.types import DOUBLE as DOUBLE_TYPE
from barnabas.pipelines.sql.types import INTEGER as INTEGER_TYPE
from barnabas.pipelines.sql.types import STRING as STRING_TYPE

COMPARISONS = ("=", "<>", "!=", "<", "<=", ">", ">=")
UNITS = {
    unit: single
    for single in ("MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "YEAR")
    for unit in (single, f"{single}S")
}
WITH_UNITS = ("TIMESTAMPADD", "TIMESTAMPSUB", "DATEADD", "DATESUB", "TIMEADD", "TIMESUB")
DEPTH_MAX = 50  # so that no text overflows the stack


def parse_expression(cursor: Cursor, depth: int = 0) -> tree.Expression:
    _check_depth(cursor, depth)
    at = cursor.at
    left = _conjunction(cursor, depth)
    while cursor.take("OR"):
        left = tree.Binary("OR", left, _conjunction(cursor, depth), at=at)
    return left


def _check_depth(cursor: Cursor, depth: int) -> None:
    if depth > DEPTH_MAX:
        raise SqlSyntaxError("the expression is nested too deeply", *cursor.at)


def _conjunction(cursor: Cursor, depth: int) -> tree.Expression:
    at = cursor.at
    left = _negation(cursor, depth)
    while cursor.take("AND"):
        left = tree.Binary("AND", left, _negation(cursor, depth), at=at)
    return left


def _negation(cursor: Cursor, depth: int) -> tree.Expression:
    _check_depth(cursor, depth)
    at = cursor.at
    if cursor.take("NOT"):
        return tree.Unary("NOT", _negation(cursor, depth + 1), at=at)
    return _predicate(cursor, depth)


def _predicate(cursor: Cursor, depth: int) -> tree.Expression:
    at = cursor.at
    left = _sum(cursor, depth)
    while True:
        operator = cursor.take_any(*COMPARISONS)
        if operator is not None:
            left = tree.Binary("<>" if operator == "!=" else operator, left, _sum(cursor, depth), at=at)
        elif cursor.take("IS"):
            left = _is(cursor, left, at, depth)
        else:
            found = _ranged(cursor, left, at, depth)
            if found is None:
                return left
            left = found


def _is(cursor: Cursor, left: tree.Expression, at: tree.Place, depth: int) -> tree.Expression:
    negated = cursor.take("NOT")
    if cursor.take("NULL"):
        return tree.IsNull(left, negated, at=at)
    if cursor.take("DISTINCT", "FROM"):
        operator = "IS NOT DISTINCT FROM" if negated else "IS DISTINCT FROM"
        return tree.Binary(operator, left, _sum(cursor, depth), at=at)
    raise cursor.unexpected("NULL", "DISTINCT FROM")


def _ranged(cursor: Cursor, left: tree.Expression, at: tree.Place, depth: int) -> tree.Expression | None:
    negated = cursor.sees("NOT") and cursor.ahead().text in ("BETWEEN", "IN", "LIKE")
    if negated:
        cursor.next()
    if cursor.take("BETWEEN"):
        low = _sum(cursor, depth)
        cursor.expect("AND")
        return tree.Between(left, low, _sum(cursor, depth), negated, at=at)
    if cursor.take("IN"):
        cursor.expect("(")
        return tree.InList(left, parse_list(cursor, depth), negated, at=at)
    if cursor.take("LIKE"):
        pattern = _sum(cursor, depth)
        escape = cursor.string() if cursor.take("ESCAPE") else None
        if escape is not None and len(escape) != 1:
            raise SqlSyntaxError(f"Expected single escape character but got: {escape}", *at)
        return tree.Like(left, pattern, escape, negated, at=at)
    return None


def _sum(cursor: Cursor, depth: int) -> tree.Expression:
    at = cursor.at
    left = _product(cursor, depth)
    while operator := cursor.take_any("+", "-", "||"):
        right = _product(cursor, depth)
        left = tree.Binary("+" if operator == "||" else operator, left, right, at=at)
    return left


def _product(cursor: Cursor, depth: int) -> tree.Expression:
    at = cursor.at
    left = _signed(cursor, depth)
    while operator := cursor.take_any("*", "/", "%"):
        left = tree.Binary(operator, left, _signed(cursor, depth), at=at)
    return left


def _signed(cursor: Cursor, depth: int) -> tree.Expression:
    _check_depth(cursor, depth)
    at = cursor.at
    if cursor.take("-"):
        if cursor.token.kind == INTEGER and cursor.token.text == "2147483648":
            cursor.next()
            return tree.Literal(-2147483648, INTEGER_TYPE, at=at)
        operand = _signed(cursor, depth + 1)
        if isinstance(operand, tree.Literal) and isinstance(operand.value, (int, float, Decimal)):
            negative = operand.value.copy_negate() if isinstance(operand.value, Decimal) else -operand.value
            return tree.Literal(negative, operand.kind, at=at)
        return tree.Unary("-", operand, at=at)
    if cursor.take("+"):
        return _signed(cursor, depth + 1)
    return _postfix(cursor, depth)


def _postfix(cursor: Cursor, depth: int) -> tree.Expression:
    at = cursor.at
    found = _primary(cursor, depth)
    while True:
        if cursor.sees("->") and cursor.ahead().text == "*":
            return found
        if cursor.take("->"):
            token = cursor.token
            if token.kind not in (WORD, QUOTED):
                raise cursor.unexpected("the name of a field")
            found = tree.Field(found, cursor.next().text, at=at)
        elif cursor.take("["):
            found = tree.Subscript(found, parse_expression(cursor, depth + 1), at=at)
            cursor.expect("]")
        elif cursor.take("AT", "TIME", "ZONE"):
            zone = tree.Literal(cursor.string("a time zone"), STRING_TYPE)
            found = tree.Call("CONVERT_TZ", (found, tree.Literal("UTC", STRING_TYPE), zone), at=at)
        else:
            return found


def _primary(cursor: Cursor, depth: int) -> tree.Expression:
    token, at = cursor.token, cursor.at
    if token.kind in (INTEGER, DECIMAL, DOUBLE, STRING):
        return _literal(cursor)
    if token.kind == OPERATOR:
        if token.text == "(":
            return _in_parentheses(cursor, depth)
        raise cursor.unexpected("an expression")
    if token.kind == WORD:
        special = _special(cursor, depth)
        if special is not None:
            return special
    if cursor.ahead().text == "(" and cursor.ahead().kind == OPERATOR and token.kind in (WORD, QUOTED):
        if token.kind == WORD and token.text in RESERVED and token.text not in ("LEFT", "RIGHT"):
            raise cursor.unexpected("an expression")
        cursor.next()
        return _call(cursor, token.text, at, depth)
    if cursor.ahead().text == "=>" and token.kind in (WORD, QUOTED):
        cursor.next()
        cursor.next()
        return tree.Lambda((token.text,), parse_expression(cursor, depth + 1), at=at)
    if token.kind not in (WORD, QUOTED) or (token.kind == WORD and token.text in RESERVED):
        raise cursor.unexpected("an expression")
    name = cursor.name("a column")
    if cursor.sees(".") and cursor.ahead().text != "*":
        cursor.next()
        return tree.Column(cursor.name("a column"), name, at=at)
    return tree.Column(name, at=at)


def _literal(cursor: Cursor) -> tree.Literal:
    at, token = cursor.at, cursor.next()
    if token.kind == STRING:
        return tree.Literal(token.text, STRING_TYPE, at=at)
    if token.kind == DOUBLE:
        number = float(token.text)
        if math.isinf(number):
            raise SqlSyntaxError(f"Number overflows DOUBLE: {token.text}", *at)
        return tree.Literal(number, DOUBLE_TYPE, at=at)
    if token.kind == DECIMAL:
        value = Decimal(token.text)
        _, digits, exponent = value.as_tuple()
        scale = -int(exponent)
        return tree.Literal(value, decimal(max(len(digits), scale, 1), scale), at=at)
    number = int(token.text)
    if number >= 1 << 63:
        raise SqlSyntaxError(f"Invalid numeric literal: {token.text}", *at)
    return tree.Literal(number, INTEGER_TYPE if number < 1 << 31 else BIGINT, at=at)


def _in_parentheses(cursor: Cursor, depth: int) -> tree.Expression:
    at = cursor.at
    if parameters := _lambda_parameters(cursor):
        return tree.Lambda(parameters, parse_expression(cursor, depth + 1), at=at)
    cursor.expect("(")
    found = parse_expression(cursor, depth + 1)
    cursor.expect(")")
    return found


def _lambda_parameters(cursor: Cursor) -> tuple[str, ...]:
    """`(a, b) =>`, or nothing taken."""
    names: list[str] = []
    distance = 1
    while cursor.ahead(distance).kind in (WORD, QUOTED):
        names.append(cursor.ahead(distance).text)
        if cursor.ahead(distance + 1).text == ")" and cursor.ahead(distance + 2).text == "=>":
            for _ in range(distance + 3):
                cursor.next()
            return tuple(names)
        if cursor.ahead(distance + 1).text != ",":
            return ()
        distance += 2
    return ()


def _special(cursor: Cursor, depth: int) -> tree.Expression | None:
    at, word = cursor.at, cursor.token.text
    if word in ("TRUE", "FALSE"):
        cursor.next()
        return tree.Literal(word == "TRUE", BOOLEAN, at=at)
    if word == "NULL":
        cursor.next()
        return tree.Literal(None, NULL, at=at)
    if word == "CASE":
        return _case(cursor, depth)
    if word == "CAST" and cursor.take("CAST", "("):
        operand = parse_expression(cursor, depth + 1)
        cursor.expect("AS")
        kind = parse_type(cursor)
        cursor.expect(")")
        return tree.Cast(operand, kind, at=at)
    if word == "ARRAY" and cursor.take("ARRAY", "["):
        return tree.ArrayOf(parse_list(cursor, depth, "]"), at=at)
    if word == "MAP" and cursor.take("MAP", "("):
        entries: list[tuple[tree.Expression, tree.Expression]] = []
        while not cursor.take(")"):
            if entries:
                cursor.expect(",")
            key = parse_expression(cursor, depth + 1)
            cursor.expect(":=")
            entries.append((key, parse_expression(cursor, depth + 1)))
        return tree.MapOf(tuple(entries), at=at)
    if word == "STRUCT" and cursor.take("STRUCT", "("):
        return _struct(cursor, at, depth)
    return None


def _struct(cursor: Cursor, at: tree.Place, depth: int) -> tree.StructOf:
    fields: list[tuple[str, tree.Expression]] = []
    while not cursor.take(")"):
        if fields:
            cursor.expect(",")
        if cursor.token.kind not in (WORD, QUOTED):
            raise cursor.unexpected("the name of a field")
        name = cursor.next().text
        cursor.expect(":=")
        fields.append((name, parse_expression(cursor, depth + 1)))
    return tree.StructOf(tuple(fields), at=at)


def _case(cursor: Cursor, depth: int) -> tree.Case:
    at = cursor.at
    cursor.expect("CASE")
    operand = None if cursor.sees("WHEN") else parse_expression(cursor, depth + 1)
    whens: list[tuple[tree.Expression, tree.Expression]] = []
    while cursor.take("WHEN"):
        condition = parse_expression(cursor, depth + 1)
        cursor.expect("THEN")
        whens.append((condition, parse_expression(cursor, depth + 1)))
    if not whens:
        raise cursor.unexpected("WHEN")
    default = parse_expression(cursor, depth + 1) if cursor.take("ELSE") else None
    cursor.expect("END")
    return tree.Case(operand, tuple(whens), default, at=at)


def _call(cursor: Cursor, name: str, at: tree.Place, depth: int) -> tree.Expression:
    cursor.expect("(")
    if name.upper() == "COUNT" and cursor.take("*", ")"):
        return tree.Call("COUNT", (), at=at)
    unit: list[tree.Expression] = []
    if name.upper() in WITH_UNITS and cursor.token.text in UNITS and cursor.ahead().text == ",":
        unit = [tree.Literal(UNITS[cursor.next().text], UNIT)]
        cursor.expect(",")
    return tree.Call(name.upper(), (*unit, *parse_list(cursor, depth)), at=at)


def parse_list(cursor: Cursor, depth: int, close: str = ")") -> tuple[tree.Expression, ...]:
    """Expressions up to the bracket, which is taken."""
    found: list[tree.Expression] = []
    if cursor.take(close):
        return ()
    while True:
        found.append(parse_expression(cursor, depth + 1))
        if cursor.take(close):
            return tuple(found)
        cursor.expect(",")
