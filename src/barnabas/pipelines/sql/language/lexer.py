"""Text to tokens. Words are upper case unless they are quoted; comments and blanks are left out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.pipelines.sql.errors import SqlError, SqlSyntaxError, nearest

WORD, QUOTED, STRING, INTEGER, DECIMAL, DOUBLE, OPERATOR, END = (
    "word",
    "quoted",
    "string",
    "integer",
    "decimal",
    "double",
    "operator",
    "end",
)

PATTERN = re.compile(
    r"""
    (?P<blank>\s+|--[^\n]*|/\*.*?\*/)
  | (?P<double>\d+(?:\.\d*)?[eE][+-]?\d+(?![A-Za-z0-9_])|\.\d+[eE][+-]?\d+)
  | (?P<decimal>\d+\.\d*(?![A-Za-z_])|\.\d+)
  | (?P<integer>\d+(?![A-Za-z0-9_]))
  | (?P<word>[A-Za-z0-9_@][A-Za-z0-9_@]*)
  | (?P<string>'(?:[^']|'')*')
  | (?P<quoted>"(?:[^"]|"")*"|`(?:[^`]|``)*`)
  | (?P<operator><>|!=|<=|>=|=>|->|:=|\|\||/(?!\*)|[-+*%<>=()\[\],;.:?{}])
    """,
    re.VERBOSE | re.DOTALL,
)
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class Token:
    """`text` of a word is upper case; `start` and `end` are its place in the source."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def shown(self) -> str:
        return "end of statement" if self.kind == END else f"'{self.text}'"


def tokens_of(source: str) -> list[Token]:
    found: list[Token] = []
    position = 0
    while position < len(source):
        match = PATTERN.match(source, position)
        if match is None:
            raise _unreadable(source, position)
        kind = match.lastgroup or ""
        if kind != "blank":
            found.append(Token(kind, _text(kind, match.group()), position, match.end()))
        position = match.end()
    found.append(Token(END, "", len(source), len(source)))
    return found


def _text(kind: str, given: str) -> str:
    if kind == WORD:
        return given.upper()
    if kind == STRING:
        return given[1:-1].replace("''", "'")
    if kind == QUOTED:
        quote = given[0]
        return given[1:-1].replace(quote * 2, quote)
    return given


def _unreadable(source: str, position: int) -> SqlSyntaxError:
    letter = source[position]
    line, column = place_of(source, position)
    what = {"'": "this text has no closing quote", '"': "this name has no closing quote"}.get(letter)
    if source.startswith("/*", position):
        what = "this comment has no end"
    return SqlSyntaxError(what or f"unexpected character '{letter}'", line, column)


def place_of(source: str, position: int) -> tuple[int, int]:
    """Line and column, from 1."""
    before = source[:position]
    return before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1


def with_variables(source: str, variables: Mapping[str, str]) -> str:
    """`${name}` replaced by what DEFINE gave it."""
    known = {name.upper(): value for name, value in variables.items()}

    def replaced(match: re.Match[str]) -> str:
        name = match.group(1)
        if name.upper() not in known:
            raise SqlError(f"Variable '{name}' is not defined.{nearest(name, list(known))}")
        return known[name.upper()]

    return VARIABLE.sub(replaced, source)
