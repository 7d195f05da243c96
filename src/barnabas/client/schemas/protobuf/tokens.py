"""The words, strings and signs of a .proto file."""

from __future__ import annotations

import re
from typing import NoReturn

from barnabas.client.schemas.errors import InvalidSchema
from barnabas.client.schemas.nesting import PROTOBUF_LEVELS_MAX

TOKEN = re.compile(
    r"""(?P<space>(?:\s+|//[^\n]*|/\*.*?\*/)+)
    |(?P<word>[A-Za-z0-9_.\-+]+)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<sign>[{}()\[\]<>=;:,/])""",
    re.VERBOSE | re.DOTALL,
)
ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|X[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", re.DOTALL)


class Tokens:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self.kind = ""
        self.text = ""
        self._start = 0
        self.next()

    def next(self) -> str:
        """Moves on; gives the token that was the current one."""
        current = self.text
        self._start = self._at
        while True:
            found = TOKEN.match(self._text, self._at)
            if found is None:
                if self._at < len(self._text):
                    self.fail(f"unexpected {self._text[self._at]!r}")
                self.kind, self.text = "end", ""
                return current
            self._start, self._at = self._at, found.end()
            if found.lastgroup != "space":
                self.kind, self.text = found.lastgroup or "", found[0]
                if self.kind == "sign":
                    self._nest(self.text)
                return current

    def _nest(self, sign: str) -> None:
        if sign in "{[":
            self._depth += 1
        elif sign in "}]":
            self._depth -= 1
        if self._depth > PROTOBUF_LEVELS_MAX:
            self.fail("it is nested too deeply")

    def take(self, text: str) -> bool:
        if self.text == text and self.kind != "string":
            self.next()
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.take(text):
            self.fail(f"expected '{text}'")

    def word(self) -> str:
        if self.kind != "word":
            self.fail("expected a word")
        return self.next()

    def string(self) -> str:
        """Strings that follow each other are one."""
        if self.kind != "string":
            self.fail("expected a string")
        parts = []
        while self.kind == "string":
            parts.append(ESCAPE.sub(_unescaped, self.next()[1:-1]))
        return "".join(parts)

    def integer(self) -> int:
        word = self.word()
        try:
            return int(word, 16 if word.lower().lstrip("-").startswith("0x") else 10)
        except ValueError:
            self.fail(f"expected an integer but was {word}")

    def fail(self, problem: str) -> NoReturn:
        line = self._text.count("\n", 0, self._start) + 1
        column = self._start - self._text.rfind("\n", 0, self._start)
        raise InvalidSchema(f"Could not parse Protobuf - Syntax error in {line}:{column}: {problem}")


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    if code[0] in "xX" and len(code) > 1:
        return chr(int(code[1:], 16))
    if code[0] in "01234567":
        return chr(int(code, 8) & 0xFF)
    return ESCAPES.get(code, code)
