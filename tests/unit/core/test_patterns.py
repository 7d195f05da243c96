"""Patterns match what Python's regular expressions match, and never take long."""

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
    ],
)
def test_what_people_write(pattern: str, text: str, matches: bool) -> None:
    assert Pattern(pattern).fullmatch(text) is matches


@pytest.mark.parametrize(
    "pattern", ["((", "*", "a**", "[b-a]", r"(a)\1", "(?=a)", "(?<!a)b", r"\bword", "x{1001}{50}", "(?P<n"]
)
def test_what_cannot_be_matched_is_refused_in_one_sentence(pattern: str) -> None:
    with pytest.raises(PatternError):
        Pattern(pattern)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(a|aa)+$", "a*a*a*a*a*a*a*b", "(.*)(.*)(.*)(.*)(.*)[^a]"])
def test_hostile_expressions_take_no_time(pattern: str) -> None:
    began = time.monotonic()
    Pattern(pattern).fullmatch("a" * 20_000)
    assert time.monotonic() - began < 1
