"""Text becomes values and values text, as Kafka reads and writes them."""

import math

import pytest

from barnabas.node.configuration.definition import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    SHORT,
    STRING,
    ConfigError,
    ConfigType,
    Definition,
    Value,
    at_least,
    between,
    between_or,
    double_text,
    each_of,
    one_of,
    one_of_any_case,
    parse_type,
    share_offset_reset,
    throttled_replicas,
    to_text,
)


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (INT, " 17 ", 17),
        (INT, "+5", 5),
        (INT, "-2147483648", -(2**31)),
        (LONG, "9223372036854775807", LONG_MAX),
        (SHORT, "-32768", -32768),
        (BOOLEAN, "TRUE", True),
        (BOOLEAN, " false", False),
        (DOUBLE, ".5", 0.5),
        (DOUBLE, "1e3", 1000.0),
        (DOUBLE, "2.5f", 2.5),
        (DOUBLE, "Infinity", math.inf),
        (LIST, "", ()),
        (LIST, "a , b,a", ("a", "b")),
        (LIST, "a,", ("a", "")),
        (STRING, " x y ", "x y"),
    ],
)
def test_text_becomes_a_value(type_: ConfigType, text: str, value: Value) -> None:
    assert parse_type("key", type_, text) == value


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (INT, ""),
        (INT, "1_000"),
        (INT, "0x10"),
        (INT, "1.5"),
        (INT, "2147483648"),
        (INT, "--5"),
        (LONG, "9223372036854775808"),
        (SHORT, "32768"),
        (BOOLEAN, "yes"),
        (DOUBLE, "nan"),
        (DOUBLE, "1_0.5"),
        (DOUBLE, ""),
        (DOUBLE, "inf"),
    ],
)
def test_other_text_is_refused_with_key_value_and_reason(type_: ConfigType, text: str) -> None:
    with pytest.raises(ConfigError, match=rf"^Invalid value {text} for configuration key: .+"):
        parse_type("key", type_, text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (0.0, "0.0"),
        (1e7, "1.0E7"),
        (9999999.0, "9999999.0"),
        (0.001, "0.001"),
        (0.00012, "1.2E-4"),
        (-12345678.9, "-1.23456789E7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
    ],
)
def test_doubles_are_written_as_java_writes_them(value: float, text: str) -> None:
    assert double_text(value) == text


def test_values_become_text() -> None:
    assert [to_text(value) for value in (None, True, False, 5, "x", (), ("a", "b"))] == [
        None,
        "true",
        "false",
        "5",
        "x",
        "",
        "a,b",
    ]


@pytest.mark.parametrize(
    ("definition", "text", "message"),
    [
        (
            Definition("k", INT, 1, "", at_least(1)),
            "0",
            "Invalid value 0 for configuration k: Value must be at least 1",
        ),
        (
            Definition("k", DOUBLE, 0.5, "", between(0, 1)),
            "2",
            "Invalid value 2.0 for configuration k: Value must be no more than 1",
        ),
        (
            Definition("k", INT, -1, "", between_or(1, 9, -1)),
            "0",
            "Invalid value 0 for configuration k: Value must be between 1 and 9 or equal to -1",
        ),
        (
            Definition("k", STRING, "a", "", one_of("a", "b")),
            "c",
            "Invalid value c for configuration k: String must be one of: a, b",
        ),
        (
            Definition("k", LIST, (), "", each_of("compact", "delete")),
            "delete,shred",
            "Invalid value shred for configuration k: String must be one of: compact, delete",
        ),
        (
            Definition("k", LIST, (), "", each_of("compact", "delete")),
            "delete,,compact",
            "Configuration 'k' values must not be empty.",
        ),
    ],
)
def test_a_value_outside_its_bounds_is_refused(definition: Definition, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        definition.parse(text)
    assert str(refusal.value) == message


def test_some_strings_count_in_any_case() -> None:
    check = one_of_any_case("UPGRADE", "DISABLED")
    check("k", "upgrade")
    with pytest.raises(ConfigError):
        check("k", "sometimes")


@pytest.mark.parametrize("value", [(), ("*",), ("0:1", "12:3")])
def test_throttled_replicas_are_pairs_or_all(value: tuple[str, ...]) -> None:
    throttled_replicas("k", value)


@pytest.mark.parametrize("value", [("x",), ("none",), ("0:1", "*"), ("0:",), ("-1:2",)])
def test_other_throttled_replicas_are_refused(value: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError):
        throttled_replicas("k", value)


@pytest.mark.parametrize("value", ["earliest", "latest", "by_duration:PT5S", "by_duration:P1DT2H3M4.5S"])
def test_a_share_group_begins_at_an_end_or_some_time_ago(value: str) -> None:
    share_offset_reset("k", value)


@pytest.mark.parametrize("value", ["", "none", "PT5S", "by_duration:", "by_duration:5", "by_duration:PT"])
def test_a_share_group_begins_nowhere_else(value: str) -> None:
    with pytest.raises(ConfigError):
        share_offset_reset("k", value)
