"""Texts that fit a regular expression: letters, classes, groups, alternatives and repetitions."""

from __future__ import annotations

import functools
import random
import re
import string
from dataclasses import dataclass

from barnabas.cli.errors import UsageError

MORE = 8  # of what may be repeated without end
ANY = string.ascii_letters + string.digits
ESCAPED = {"d": string.digits, "w": ANY + "_", "s": " ", "D": string.ascii_letters, "W": "-", "S": ANY}
COUNTS = re.compile(r"\{(\d+)(?:(,)(\d*))?\}|[?*+]")
SIMPLE = {"?": (0, 1), "*": (0, MORE), "+": (1, MORE)}


@dataclass(frozen=True)
class Repeated:
    """Letters of which one is taken, or alternatives of a group."""

    letters: str
    group: tuple[Pieces, ...]
    least: int
    most: int

    def text(self, random_: random.Random) -> str:
        count = random_.randint(self.least, self.most)
        if self.group:
            return "".join(joined(random_.choice(self.group), random_) for _ in range(count))
        return "".join(random_.choice(self.letters) for _ in range(count))


Pieces = tuple[Repeated, ...]


def joined(sequence: Pieces, random_: random.Random) -> str:
    return "".join(one.text(random_) for one in sequence)


def text_of(pattern: str, random_: random.Random) -> str:
    return joined(random_.choice(parsed(pattern)), random_)


@functools.lru_cache(256)
def parsed(pattern: str) -> tuple[Pieces, ...]:
    reader = Reader(pattern)
    found = reader.alternatives()
    if reader.at < len(pattern):
        raise UsageError(f"regex {pattern}: ')' at {reader.at + 1} closes nothing.")
    return found


class Reader:
    def __init__(self, pattern: str) -> None:
        self.pattern, self.at = pattern, 0

    def alternatives(self) -> tuple[Pieces, ...]:
        found: list[Pieces] = []
        pieces: list[Repeated] = []
        while self.at < len(self.pattern) and self.pattern[self.at] != ")":
            if self.taken("|"):
                found.append(tuple(pieces))
                pieces = []
            elif self.pattern[self.at] in "^$":
                self.at += 1
            else:
                pieces.append(self.piece())
        return (*found, tuple(pieces))

    def taken(self, letter: str) -> bool:
        there = self.pattern.startswith(letter, self.at)
        self.at += there
        return there

    def piece(self) -> Repeated:
        letters = ""
        group: tuple[Pieces, ...] = ()
        if self.taken("("):
            if self.pattern.startswith("?:", self.at):
                self.at += 2
            group = self.alternatives()
            if not self.taken(")"):
                raise UsageError(f"regex {self.pattern}: a group has no end.")
        elif self.taken("["):
            letters = self.members()
        elif self.taken("."):
            letters = ANY
        else:
            letters = self.letter()
        return Repeated(letters, group, *self.counts())

    def escaped(self) -> str:
        letter = self.pattern[self.at : self.at + 1]
        self.at += 1
        return ESCAPED.get(letter, letter or "\\")

    def letter(self) -> str:
        if self.taken("\\"):
            return self.escaped()
        self.at += 1
        return self.pattern[self.at - 1]

    def members(self) -> str:
        without, found = self.taken("^"), ""
        while not self.taken("]"):
            if self.at >= len(self.pattern):
                raise UsageError(f"regex {self.pattern}: a class has no end.")
            first = self.letter()
            last = self.pattern[self.at + 1 : self.at + 2]
            if len(first) == 1 and self.pattern.startswith("-", self.at) and last not in ("", "]"):
                self.at += 1
                found += "".join(map(chr, range(ord(first), ord(self.letter()[0]) + 1)))
            else:
                found += first
        letters = "".join(one for one in ANY if one not in found) if without else found
        if not letters:
            raise UsageError(f"regex {self.pattern}: a class has no letters.")
        return letters

    def counts(self) -> tuple[int, int]:
        match = COUNTS.match(self.pattern, self.at)
        if match is None:
            return 1, 1
        self.at = match.end()
        if match[0] in SIMPLE:
            return SIMPLE[match[0]]
        least = int(match[1])
        most = least if match[2] is None else int(match[3]) if match[3] else least + MORE
        return least, max(least, most)
