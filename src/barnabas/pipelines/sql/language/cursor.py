"""Where the parser is in the tokens, and the sentence when they go on wrongly."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.pipelines.sql.errors import SqlSyntaxError, nearest
from barnabas.pipelines.sql.language.lexer import (
    END,
    INTEGER,
    OPERATOR,
    QUOTED,
    STRING,
    WORD,
    Token,
    place_of,
    tokens_of,
)
from barnabas.pipelines.sql.types import SqlType

# Words that can't be names without quotes. All others of the language can.
RESERVED = frozenset(
    word
    for line in (
        "SELECT FROM AS ALL DISTINCT WHERE WITHIN GROUP BY HAVING WINDOW OR AND IN NOT EXISTS BETWEEN LIKE",
        "ESCAPE IS NULL TRUE FALSE INTEGER CASE WHEN THEN ELSE END JOIN FULL OUTER INNER LEFT RIGHT ON",
        "HOPPING TUMBLING WITH VALUES CREATE TABLE STREAM INSERT DELETE INTO DESCRIBE EXTENDED PRINT EXPLAIN",
        "ANALYZE LIST TERMINATE LOAD SHOW CAST DROP SET UNSET RUN ASSERT LIMIT EMIT PARTITION ADVANCE",
    )
    for word in line.split()
)


class Cursor:
    def __init__(self, source: str, types: Mapping[str, SqlType] | None = None) -> None:
        self.source = source
        self.tokens = tokens_of(source)
        self.index = 0
        self.types = types or {}  # CREATE TYPE's
        self.expected: list[str] = []  # what was looked for in vain at this token

    @property
    def token(self) -> Token:
        return self.tokens[self.index]

    def ahead(self, count: int = 1) -> Token:
        return self.tokens[min(self.index + count, len(self.tokens) - 1)]

    @property
    def at(self) -> tuple[int, int]:
        return place_of(self.source, self.token.start)

    def next(self) -> Token:
        token = self.token
        self.index = min(self.index + 1, len(self.tokens) - 1)
        self.expected = []
        return token

    def sees(self, *words: str) -> bool:
        """Whether these words or operators come next, all of them."""
        for distance, word in enumerate(words):
            token = self.ahead(distance)
            if token.kind not in (WORD, OPERATOR) or token.text != word:
                if distance == 0:
                    self.expected.append(word)
                return False
        return True

    def take(self, *words: str) -> bool:
        if not self.sees(*words):
            return False
        for _ in words:
            self.next()
        return True

    def take_any(self, *words: str) -> str | None:
        return next((word for word in words if self.take(word)), None)

    def expect(self, *words: str) -> None:
        for word in words:
            if not self.take(word):
                raise self.unexpected()

    def unexpected(self, *expected: str) -> SqlSyntaxError:
        wanted = list(dict.fromkeys(expected or self.expected))
        shown = ", ".join(repr(one) if one.isupper() or not one[0].isalpha() else one for one in wanted[:8])
        what = f"mismatched input {self.token.shown}" if self.token.kind != END else "unexpected end of statement"
        hint = nearest(self.token.text, [one for one in wanted if one.isalpha()]) if self.token.kind == WORD else ""
        return SqlSyntaxError(f"{what}, expecting {shown or 'something else'}.{hint}", *self.at)

    def name(self, what: str = "a name") -> str:
        token = self.token
        if token.kind == QUOTED and not token.text.strip():
            raise SqlSyntaxError(f"{what} can't be empty", *self.at)
        if token.kind == QUOTED or (token.kind == WORD and token.text not in RESERVED):
            return self.next().text
        if token.kind == WORD:
            raise SqlSyntaxError(f"{token.text} is a reserved word: quote it to use it as {what}", *self.at)
        raise self.unexpected(what)

    def string(self, what: str = "text in quotes") -> str:
        if self.token.kind != STRING:
            raise self.unexpected(what)
        return self.next().text

    def integer(self, what: str = "a whole number") -> int:
        negative = self.take("-")
        if self.token.kind != INTEGER:
            raise self.unexpected(what)
        value = int(self.next().text)
        return -value if negative else value
