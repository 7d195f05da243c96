"""Patterns match what Python's regular expressions match, and never take long. Beside RE2/J: tests/reference."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.patterns import Pattern, PatternError

PIECES = ["a", "b", "[ab]", "[^a]", ".", "(a|b)", "(ab)", "c", r"\d", r"\w", "(a*)", "(b|ab)"]
REPEATS = ["", "*", "+", "?", "{2}", "{1,3}", "*?", "{0,}"]


@given(
    st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(REPEATS)), max_size=5),
    st.text(alphabet="abc1", max_size=8),
)
def test_it_matches_as_python_does(pieces: list[tuple[str, str]], text: str) -> None:
    written = "".join(piece + repeat for piece, repeat in pieces)
    assert Pattern(written).fullmatch(text) == (re.fullmatch(written, text) is not None), written


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("^orders-.*$", "orders-1", True),
        ("^orders-.*$", "my-orders-1", False),
        ("a^b", "ab", False),
        ("(?i)ORDERS", "orders", True),
        ("", "", True),
        ("x|y|", "", True),
        (r"[a-z]+-\d{2,}", "tx-1", False),
        (r"[a-z]+-\d{2,}", "tx-12", True),
        (r"a\.b", "axb", False),
        ("[^-]+", "a-b", False),
        (r"\borders\b.*", "orders-1", True),
        (r"\Qa.b\E", "axb", False),
        ("[[:alpha:]]+", "orders", True),
        (r"\p{Greek}+", "λόγος", True),
        (".", "日", True),
        (r"\x{65e5}", "日", True),
    ],
)
def test_what_people_write(pattern: str, text: str, matches: bool) -> None:
    assert Pattern(pattern).fullmatch(text) is matches


@pytest.mark.parametrize("pattern", ["((", "*", "a**", "[b-a]", r"(a)\1", "(?=a)", "(?<!a)b", "x{1001}{50}", "(?P<n"])
def test_what_cannot_be_matched_is_refused_in_one_sentence(pattern: str) -> None:
    with pytest.raises(PatternError):
        Pattern(pattern)


HOSTILE = [
    "(a+)+b",
    "(a|a)*b",
    "(a|aa)+$",
    "a*a*a*a*a*a*a*b",
    "(.*)(.*)(.*)(.*)(.*)[^a]",
    "(.*a){1000}",
    "[ab]*a[ab]{900}",
    ".*(" + "|".join(["a.*b.*b.*a.*b.*a.*a"] * 500) + ")c",
    "(a|" * 400 + "b" + ")*" * 400,
]


@pytest.mark.parametrize("pattern", HOSTILE)
def test_hostile_expressions_take_no_time(pattern: str) -> None:
    began = time.monotonic()
    found = Pattern(pattern)
    for text in ("a" * 249, "ab" * 120, "".join("ab"[number * number % 7 % 2] for number in range(249))):
        found.fullmatch(text)
    assert time.monotonic() - began < 0.5


@pytest.mark.parametrize("pattern", HOSTILE[:5])
def test_a_long_text_takes_no_time(pattern: str) -> None:
    began = time.monotonic()
    Pattern(pattern).fullmatch("a" * 20_000)
    assert time.monotonic() - began < 0.5


TOO_LARGE = [
    r"\pL" * 3_000,
    "[" + r"\pL" * 3_000 + "]",
    "((((a{9}){9}){9}){9}){9}",
    "x" * 40_000,
    "(a" * 9_000 + ")" * 9_000,
    r"(\pL\PN){1000}",
    "[^é]{1000}",
]


@pytest.mark.parametrize("pattern", TOO_LARGE)
def test_what_would_take_long_is_refused_soon(pattern: str) -> None:
    began = time.monotonic()
    with pytest.raises(PatternError):
        Pattern(pattern)
    assert time.monotonic() - began < 0.5


def test_an_expression_of_10_kb_is_one() -> None:
    pattern = Pattern("|".join(f"orders-{number:03}" for number in range(920)))
    assert pattern.fullmatch("orders-007")
    assert not pattern.fullmatch("orders-7")
