"""Regular expressions: what RE2/J accepts, refuses and matches, beside `core/patterns`.

A table of pieces, alone and with repetitions, and random sequences of them, all through one Java process.
BARNABAS_PATTERNS says how many random ones.
"""

import base64
import itertools
import os
import random
from pathlib import Path

import pytest

from barnabas.core.patterns import Pattern, PatternError
from tests.support import reference

FILTER = Path(__file__).parent / "java" / "Patterns.java"
RANDOM = int(os.environ.get("BARNABAS_PATTERNS", "1500"))
SEED = 7


def pieces(*lines: str) -> list[str]:
    return " ".join(lines).split()


LITERALS = [*pieces("a - . orders # é ß k s 😀"), " ", "\x00", "\u017f", "\u212a"]
CLASSES = pieces(r"\d \D \w \W \s \S \pL \PL \p{Lu} \p{Greek} \p{^Greek} \P{^L} \p{Foo} \pX \p \p{ \h \R \X \N")
ESCAPES = pieces(
    r"\. \- \_ \@ \é \a \f \n \t \v \r \e \c \cA \C \1 \8 \01 \012 \x41 \x4 \xg \x{61} \x{110000} \x{} \u0041 \k<a>",
    r"\b \B \A \z \Z \G \Q \E \Qa.b\E \Q{*\E \< \'",
)
SETS = pieces(
    r"[ab] [^a] [a-z0-9._-] []a] [^]a] [] [^] [a [b-a] [a-] [-a] [--a] [a-b-c] [\d-z] [a-\d] [\b] [\w.] [\Qa\E] [\pL]",
    r"[\p{Foo}] [^\pL] [[a]] [a&&b] [\x61-\x63] [a\]b] [\C] [\é] [[:alpha:]] [^[:digit:]] [[:^alpha:]] [[:word:]]",
    r"[[:foo:]] [:alpha:] [[=a=]] [[.a.]] [[:alpha:]-z] [a-[:digit:]] [k] [^k] [^\n]",
)
GROUPS = pieces(
    "(a) (?:a) (?P<n>a) (?<n>a) (?P<m>b) (?P<1a>a) (?P<é>a) (?P<>a) (?P<n (?P=n) (?P>n) (?'n'a) (?#c) (?=a) (?!a)",
    "(?<=a) (?<!a) (?>a) (?i:a) (?i)A (?-i)a (?s). (?m)^ (?U)a (?is-mU)a (?x)a (?u)a (?i-)a (?-)a (?) ( ) | (a|b) (a|)",
)
OTHERS = pieces(r"^ $ { } {1 {,2} {a} \ ] ((a)*)* (a{100}){10}")
PIECES = [*LITERALS, *CLASSES, *ESCAPES, *SETS, *GROUPS, *OTHERS]
REPEATS = pieces(
    "* + ? {2} {1,3} {2,} {0} {00} {01} {3,1} {1000} {1001} {1,1001} {99999999999} {1,99999999999} {1,2,3} {-1}",
    "*? {2}? ** *+ +* {2}{3} {2}*",
)
TEXTS = [
    *pieces("a A aa aaaaaa ab a.b b orders orders-1 k K s 1 - é ß ] [ { } {,2} a{ 😀 _ z Σ C Q"),
    *["", "\u212a", "\u017f", "\u03c3", "\n", "a\nb", "\\", " ", "\x07", "\x01"],
]


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def ours(written: str) -> str:
    try:
        pattern = Pattern(written)
    except PatternError as error:
        return str(error)
    return "".join(str(int(pattern.fullmatch(text))) for text in TEXTS)


def asked(expressions: list[str], texts: list[str]) -> list[str]:
    if reason := reference.available():
        pytest.skip(f"the reference is not available: {reason}")
    lines = [" ".join(map(encoded, [written, *texts])) for written in expressions]
    done = reference.run_tool(str(FILTER), input="".join(f"{line}\n" for line in lines))
    assert done.returncode == 0, done.stderr
    answers = [base64.b64decode(line).decode() for line in done.stdout.splitlines()]
    assert len(answers) == len(expressions)
    return answers


def random_expressions(count: int) -> list[str]:
    dice = random.Random(SEED)
    found = []
    for _ in range(count):
        pieces = dice.choices(PIECES, k=dice.randint(2, 4))
        found.append("".join(each + (dice.choice(REPEATS) if dice.random() < 0.3 else "") for each in pieces))
    return found


def is_bounded_here(written: str, said: str) -> bool:
    """What only we refuse: too large a program, or repetitions within repetitions."""
    return said == "the expression is too large" or ("invalid repeat count" in said and "{1000}" in written)


def test_what_re2j_accepts_refuses_and_matches() -> None:
    table = [*PIECES, *(piece + repeat for piece, repeat in itertools.product(PIECES, REPEATS))]
    expressions = [*table, *random_expressions(RANDOM)]
    answers = asked(expressions, TEXTS)
    different = []
    accepted = 0
    for written, answer in zip(expressions, answers, strict=True):
        said = ours(written)
        refused = answer.startswith("error parsing")
        accepted += not refused
        # Which of several mistakes is told may differ; what is accepted and what matches may not.
        agreed = said.startswith(("error", "the expression")) if refused else said == answer
        if not agreed and not is_bounded_here(written, said):
            different.append((written, answer, said))
    assert not different, different[:20]
    assert accepted > len(expressions) / 6


def test_a_mistake_is_told_in_re2js_words() -> None:
    mistakes = [
        "(",
        "[a",
        "a**",
        "*",
        r"\1",
        "(?=a)",
        "a{1001}",
        "[b-a]",
        r"\C",
        "(?P<n>a)(?P<n>b)",
        "a\\",
        "[[:foo:]]",
    ]
    assert [ours(written) for written in mistakes] == asked(mistakes, [])
