"""Expressions against a plain model of Java's semantics, and functions against examples."""

from __future__ import annotations

import math
import pickle
import random
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from barnabas.pipelines.sql.compute.aggregates import AGGREGATES, TABLE_FUNCTIONS
from barnabas.pipelines.sql.compute.compiler import LAMBDA_FUNCTIONS, Compiler
from barnabas.pipelines.sql.compute.java import EvaluationError, double_text
from barnabas.pipelines.sql.compute.registry import all_functions
from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.language.cursor import Cursor
from barnabas.pipelines.sql.language.expressions import parse_expression
from tests.unit.pipelines.sql import java_model

RANDOM_EXPRESSIONS = 2000


def no_columns(column: Any) -> Any:
    raise AssertionError(f"there is no column {column.name}")


def evaluated(text: str) -> tuple[Any, str]:
    compiler = Compiler(no_columns)
    code = compiler.compile(parse_expression(Cursor(text)))
    function = pickle.loads(pickle.dumps(compiler.function(code.source)))
    return function(()), str(code.kind)


def value(text: str) -> Any:
    return evaluated(text)[0]


def column(text: str) -> Any:
    """What Java throws makes a column null."""
    try:
        return value(text)
    except EvaluationError:
        return None


def kind_name(kind: Any) -> str:
    return {"int": "INTEGER", "long": "BIGINT", "double": "DOUBLE"}.get(kind) or f"DECIMAL({kind[0]}, {kind[1]})"


def test_thousands_of_random_expressions_give_what_java_gives() -> None:
    random_ = random.Random(20)
    thrown = 0
    for number in range(RANDOM_EXPRESSIONS):
        state = random_.getstate()
        try:
            expected = java_model.expression(random_)
        except java_model.Throws:
            thrown += 1
            random_.setstate(state)
            assert column(text_of(random_)) is None
            continue
        found, kind = evaluated(expected.text)
        assert kind == kind_name(expected.kind), (number, expected.text)
        assert same(found, expected.value), (number, expected.text, found, expected.value)
    assert 0 < thrown < RANDOM_EXPRESSIONS / 3


def text_of(random_: random.Random, depth: int = 0) -> str:
    """The same walk as the model's, without its arithmetic."""
    if depth > 2 or random_.random() < 0.3:
        return java_model.literal(random_).text
    left, right = text_of(random_, depth + 1), text_of(random_, depth + 1)
    return f"({left} {random_.choice('+-*/%')} {right})"


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, float):
        return isinstance(found, float) and (
            found == expected
            or (math.isnan(found) and math.isnan(expected))
            or math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-6)
        )
    if isinstance(expected, Fraction):
        return isinstance(found, Decimal) and Fraction(found) == expected
    return found == expected and (found is None) == (expected is None)


def test_there_are_all_functions() -> None:
    scalar = {*all_functions(), *LAMBDA_FUNCTIONS}
    assert (len(scalar), len(AGGREGATES), len(TABLE_FUNCTIONS)) == (129, 18, 2)


def test_every_function_says_what_it_does() -> None:
    assert [one.name for one in all_functions().values() if not one.description] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2147483647 + 1", -2147483648),
        ("-7 / 2", -3),
        ("-7 % 3", -1),
        ("7.0E0 / 0", math.inf),
        ("NOT (CAST(NULL AS INT) = 1)", True),
        ("1 IS DISTINCT FROM NULL", True),
        ("NULL IS NOT DISTINCT FROM NULL", True),
        ("'10%' LIKE '10!%' ESCAPE '!'", True),
        ("'abc' LIKE '_b%'", True),
        ("CASE 2 WHEN 1 THEN 'a' WHEN 2 THEN 'b' END", "b"),
        ("CASE WHEN FALSE THEN 1 END", None),
        ("CAST(1.0E10 AS STRING)", "1.0E10"),
        ("CAST(0.001E0 AS STRING)", "0.001"),
        ("CAST(1.5E0 AS INT)", 1),
        ("CAST(1E300 AS BIGINT)", 2**63 - 1),
        ("CAST('2020-02-03' AS TIMESTAMP)", 1580688000000),
        ("CAST(ARRAY[1, 2] AS STRING)", "[1, 2]"),
        ("CAST(2.345 AS DECIMAL(4, 2))", Decimal("2.35")),
        ("ARRAY[1, 2, 3][1]", 1),
        ("ARRAY[1, 2, 3][-1]", 3),
        ("ARRAY[1, 2, 3][9]", None),
        ("MAP('a' := 1)['b']", None),
        ("STRUCT(a := 1, b := 'x')->b", "x"),
        ("TRANSFORM(ARRAY[1, 2], x => x + 1)", [2, 3]),
        ("TRANSFORM(MAP('a' := 1), (k, v) => UCASE(k), (k, v) => v * 2)", {"A": 2}),
        ("FILTER(MAP('a' := 1, 'b' := 2), (k, v) => v > 1)", {"b": 2}),
        ("REDUCE(ARRAY[1, 2, 3], 10, (s, x) => s + x)", 16),
        ("TRANSFORM(ARRAY[ARRAY[1]], x => TRANSFORM(x, y => y + 1))", [[2]]),
        ("ABS(-5)", 5),
        ("ROUND(2.5E0)", 3),
        ("ROUND(-2.5E0)", -2),
        ("ROUND(12.345, 1)", Decimal("12.300")),
        ("TRUNC(-2.7E0)", -2),
        ("SIGN(-3.5)", -1),
        ("GREATEST(1, NULL, 3)", 3),
        ("LEAST('b', 'a')", "a"),
        ("LOG(2, 8)", 3.0),
        ("POWER(2, 10)", 1024.0),
        ("ARRAY_JOIN(ARRAY[1, NULL, 3], '-')", "1-null-3"),
        ("ARRAY_SORT(ARRAY[3, NULL, 1], 'DESC')", [3, 1, None]),
        ("ARRAY_EXCEPT(ARRAY[1, 2, 2, 3], ARRAY[3])", [1, 2]),
        ("GENERATE_SERIES(1, 7, 3)", [1, 4, 7]),
        ("SLICE(ARRAY[1, 2, 3, 4], 2, 3)", [2, 3]),
        ("ENTRIES(MAP('b' := 2, 'a' := 1), TRUE)", [{"K": "a", "V": 1}, {"K": "b", "V": 2}]),
        ("AS_MAP(ARRAY['a'], ARRAY[1])", {"a": 1}),
        ("CHR('\\u004b')", "K"),
        ("CONCAT('a', NULL, 'b')", "ab"),
        ("CONCAT_WS('-', 'a', NULL, 'b')", "a-b"),
        ("ENCODE('4f', 'hex', 'ascii')", "O"),
        ("INSTR('corporate floor', 'or', 3, 2)", 14),
        ("INSTR('corporate floor', 'or', -3, 2)", 2),
        ("LPAD('foo', 7, 'Bar')", "BarBfoo"),
        ("RPAD('foo', 2, 'x')", "fo"),
        ("MASK_KEEP_RIGHT('My Test $123', 4)", "Xx-Xxxx-$123"),
        ("REGEXP_EXTRACT('(\\w+) (\\w+)', 'hello world', 2)", "world"),
        ("REGEXP_REPLACE('a-b-c', '-', '+')", "a+b+c"),
        ("REGEXP_SPLIT_TO_ARRAY('aXbYc', '[XY]')", ["a", "b", "c"]),
        ("SPLIT('a,b', ',')", ["a", "b"]),
        ("SPLIT('ab', '')", ["a", "b"]),
        ("SPLIT_TO_MAP('apple:=green/cherry:=red', '/', ':=')", {"apple": "green", "cherry": "red"}),
        ("SUBSTRING('stream', 1, 4)", "stre"),
        ("SUBSTRING('stream', -3)", "eam"),
        ("LEN('abc')", 3),
        ("EXTRACTJSONFIELD('{\"a\": [{\"b\": 1.50}]}', '$.a[0].b')", "1.50"),
        ("EXTRACTJSONFIELD('{\"a b\": [7]}', '$[\"a b\"][0]')", "7"),
        (r"""EXTRACTJSONFIELD('{"a\"b": 7}', '$["a\"b"]')""", "7"),
        ("EXTRACTJSONFIELD('{\"a\": {\"0\": [5, 6]}}', '$[a][0].1')", "6"),
        ("JSON_ARRAY_CONTAINS('[1, 2]', 2)", True),
        ("JSON_CONCAT('{\"a\": 1}', '{\"b\": 2}')", '{"a":1,"b":2}'),
        ("JSON_ITEMS('[{\"a\": 1}, 2]')", ['{"a":1}', "2"]),
        ("IS_JSON_STRING('[1')", False),
        ("TO_JSON_STRING(STRUCT(a := 1.5, b := ARRAY['x']))", '{"A":1.5,"B":["x"]}'),
        ("INT_FROM_BYTES(TO_BYTES('0000002A', 'hex'))", 42),
        ("FROM_BYTES(TO_BYTES('hi', 'utf8'), 'base64')", "aGk="),
        ("FORMAT_TIMESTAMP(FROM_UNIXTIME(0), 'yyyy-MM-dd''T''HH:mm:ss.SSSX')", "1970-01-01T00:00:00.000Z"),
        ("FORMAT_TIMESTAMP(FROM_UNIXTIME(0), 'HH:mm', 'Europe/Zurich')", "01:00"),
        ("PARSE_TIMESTAMP('23/Feb/2021 14:05', 'dd/MMM/yyyy HH:mm')", 1614089100000),
        ("STRINGTOTIMESTAMP('2017-12-18', 'yyyy-MM-dd')", 1513555200000),
        ("TIMESTAMPADD(MONTHS, 1, CAST('2020-01-31' AS TIMESTAMP))", 1582934400000),
        ("FORMAT_DATE(DATEADD(DAYS, 1, CAST('2020-02-28' AS DATE)), 'dd.MM.yyyy')", "29.02.2020"),
        ("FORMAT_TIME(TIMEADD(HOURS, 2, CAST('23:30:00' AS TIME)), 'HH:mm')", "01:30"),
        ("CONVERT_TZ(FROM_UNIXTIME(0), 'UTC', '+05:30')", 19800000),
        ("URL_EXTRACT_PARAMETER('http://a.b/c?x=1&y=a%20b', 'y')", "a b"),
        ("URL_EXTRACT_PORT('http://a.b:80/c')", 80),
        ("URL_ENCODE_PARAM('a b&c')", "a+b%26c"),
        ("COALESCE(NULL, 2, 3)", 2),
        ("NULLIF(1, 1)", None),
        ("IFNULL(NULL, 'x')", "x"),
        ("GEO_DISTANCE(37.4439, -122.1663, 51.5257, -0.1122, 'MI') > 5300", True),
    ],
)
def test_an_expression_gives(text: str, expected: Any) -> None:
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("LENX('a')", "Can't find any functions with the name 'LENX'. Did you mean 'LEN'?"),
        ("1 + 'a'", "Unsupported arithmetic types. INTEGER + STRING"),
        ("1 = 'a'", "Cannot compare INTEGER to STRING with EQUAL."),
        ("ARRAY[1, 'a']", "Cannot construct an array with mismatching types (INTEGER and STRING)."),
        ("STRUCT(a := 1)->c", "Could not find field 'C' in STRUCT<`A` INTEGER>."),
        ("CAST(TRUE AS INT)", "Cast of BOOLEAN to INTEGER is not supported."),
        ("NOT 1", "NOT needs a BOOLEAN, not INTEGER."),
        ("x => 1", "A lambda (=>) is an argument of TRANSFORM, FILTER or REDUCE."),
        (
            "REDUCE(ARRAY[1], 0, x => x)",
            "A lambda has 1 parameters where 2 are given: REDUCE(array, state, (s, x) => ...).",
        ),
    ],
)
def test_a_wrong_expression_is_refused_in_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(SqlError) as refused:
        value(text)
    assert refused.value.message == sentence


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1e7, "1.0E7"),
        (123456.5, "123456.5"),
        (1e-4, "1.0E-4"),
        (math.nan, "NaN"),
        (100.0, "100.0"),
    ],
)
def test_a_double_has_javas_text(number: float, text: str) -> None:
    assert double_text(number) == text
